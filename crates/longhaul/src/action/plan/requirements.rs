//! `plan requirements`.

use anyhow::Result;
use model::requirements::Requirements;
use plan::requirements::{Needs, yearly};
use serde_json::{Value, json};
use units::{Bytes, Goodput, Span};

use super::table::{table, wrapped};
use crate::args::plan::RequirementsArgs;
use crate::exit::usage;
use crate::output::{COLUMNS_MAX, print};

pub(super) fn run(args: &RequirementsArgs) -> Result<()> {
    let requirements = match &args.file {
        None => Requirements::hl_lhc(),
        Some(file) => {
            let text = super::read(file)?;
            Requirements::from_toml(&text, &file.to_string_lossy()).map_err(|error| usage(error.to_string()))?
        }
    };
    let needs = Needs::of(&requirements).map_err(|error| usage(format!("{}: {error}", requirements.name)))?;
    if args.json { print(format!("{}\n", object(&requirements, &needs))) } else { print(text(&requirements, &needs)) }
}

fn object(requirements: &Requirements, needs: &Needs) -> Value {
    let bps = |goodput: Option<Goodput>| goodput.map(Goodput::bps);
    let experiments = requirements.experiments.iter().map(|experiment| {
        json!({
            "name": experiment.name,
            "volume_bytes": experiment.taken.map(|(volume, _)| volume.get()),
            "time_s": experiment.taken.map(|(_, time)| time.as_secs_f64()),
            "mean_bps": bps(experiment.mean().or(experiment.rate)),
            "prompt_bps": bps(experiment.prompt),
            "sum_bps": experiment.sum().bps(),
        })
    });
    let factors = requirements.factors.iter().zip(&needs.products).map(|(factor, product)| {
        json!({ "name": factor.name, "times": factor.times.as_f64(), "gives": factor.gives, "bps": product.bps() })
    });
    let targets = requirements.targets.iter().zip(&needs.targets).map(|(target, goodput)| {
        let share = f64::from(target.share_ppm) / 1e6;
        json!({ "name": target.name, "share": share, "bps": goodput.bps(), "bytes_per_s": goodput.bps() / 8 })
    });
    let growth = requirements
        .growth
        .map(|growth| json!({ "times": growth.times.as_f64(), "years": growth.years, "per_year": yearly(growth) }));
    json!({
        "name": requirements.name,
        "experiments": experiments.collect::<Vec<_>>(),
        "sum_bps": needs.sum.bps(),
        "factors": factors.collect::<Vec<_>>(),
        "targets": targets.collect::<Vec<_>>(),
        "growth": growth,
        "left_out": requirements.left_out,
    })
}

/// For people.
fn text(requirements: &Requirements, needs: &Needs) -> String {
    let heading = match &requirements.about {
        Some(about) => format!("{}: {about}", requirements.name),
        None => requirements.name.clone(),
    };
    let mut text = wrapped(heading.split(' '), "", COLUMNS_MAX);
    text += "\n\n";
    let head = ["experiment", "volume", "in", "mean Gb/s", "prompt Gb/s", "sum Gb/s"].map(str::to_owned);
    let shown = |goodput: Option<Goodput>| goodput.map(gbps).unwrap_or_default();
    let mut rows = vec![head];
    rows.extend(requirements.experiments.iter().map(|experiment| {
        let taken = experiment.taken.map(|(volume, time)| (Bytes::to_string(&volume), Span::new(time).to_string()));
        let (volume, time) = taken.unwrap_or_default();
        let mean = shown(experiment.mean().or(experiment.rate));
        [experiment.name.clone(), volume, time, mean, shown(experiment.prompt), gbps(experiment.sum())]
    }));
    let mut below = |what: String, goodput: Goodput| {
        rows.push([what, String::new(), String::new(), String::new(), String::new(), gbps(goodput)]);
    };
    below("all".to_owned(), needs.sum);
    for (factor, product) in requirements.factors.iter().zip(&needs.products) {
        let gives = factor.gives.as_ref().map(|gives| format!(": {gives}")).unwrap_or_default();
        below(format!("× {} for {}{gives}", factor.times.as_f64(), factor.name), *product);
    }
    for line in table(&rows, [false, true, true, true, true, true]) {
        text += &format!("{line}\n");
    }
    let mut notes = Vec::new();
    for (target, goodput) in requirements.targets.iter().zip(&needs.targets) {
        let percent = f64::from(target.share_ppm) / 1e4;
        let bytes = Bytes::new(goodput.bps() / 8);
        let factor = target.after.checked_sub(1).map(|last| &requirements.factors[last]);
        let of = factor.map_or("the sum", |factor| factor.gives.as_ref().unwrap_or(&factor.name));
        notes.push(format!("{}: {percent} % of {of}, {} Gb/s = {bytes}/s", target.name, gbps(*goodput)));
    }
    if let Some(growth) = requirements.growth {
        let percent = (yearly(growth) * 100.0).round();
        notes.push(format!("growth: {} × in {} years is {percent} % a year", growth.times.as_f64(), growth.years));
    }
    if !requirements.left_out.is_empty() {
        notes.push(format!("left out: {}", requirements.left_out.join(", ")));
    }
    notes.push("all rates are of file bytes: headers add 0.6 % at MTU 9000, 3.6 % at 1500".to_owned());
    text.push('\n');
    for note in notes {
        text += &format!("{}\n", wrapped(note.split(' '), "", COLUMNS_MAX));
    }
    text
}

/// In Gb/s, with commas and as many decimals as there are, at most three.
fn gbps(goodput: Goodput) -> String {
    let thousandths = goodput.bps() / 1_000_000;
    let whole = (thousandths / 1000).to_string();
    let mut text = String::new();
    for (n, digit) in whole.chars().enumerate() {
        if n > 0 && (whole.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let decimals = format!(".{:03}", thousandths % 1000);
    text + decimals.trim_end_matches('0').trim_end_matches('.')
}

#[test]
fn gigabits_have_commas_and_decimals() {
    let shown = [0, 1, 400, 4_800, 1_234_567].map(|n| gbps(Goodput::gbps(n)));
    assert_eq!(shown, ["0", "1", "400", "4,800", "1,234,567"]);
    assert_eq!([2_500, 1, 1_010].map(|n| gbps(Goodput::mbps(n))), ["2.5", "0.001", "1.01"]);
}
