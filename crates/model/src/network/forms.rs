//! How single quantities of a description are written, and their bounds.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use units::{Bytes, Rate, Span};

use super::error::quoted;
use super::{Loss, Probability, QueueLimit, fibre, limits};

/// What stands for the absence of a rate, a queue or a mark.
pub(super) const NONE: &str = "none";

pub(super) fn rate(text: &str) -> Result<Option<Rate>, String> {
    if text == NONE {
        return Ok(None);
    }
    let rate: Rate = parse(text)?;
    if !limits::RATE.contains(&rate) {
        let (low, high) = limits::RATE.into_inner();
        return Err(format!("`{}` is out of bounds: write {low:#} to {high:#}", quoted(text)));
    }
    Ok(Some(rate))
}

pub(super) fn delay(text: &str) -> Result<Duration, String> {
    let delay = parse::<Span>(text)?.get();
    within(text, delay, limits::DELAY_MAX)
}

/// `7000 km` or `6600 mi`, as what light in fibre takes for it.
pub(super) fn distance(text: &str) -> Result<Duration, String> {
    let shown = quoted(text);
    let refused = || format!("`{shown}` is no distance: write for example `7000 km`, `6600 mi` or `great-circle`");
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| refused())?;
    let km = match unit.trim() {
        "km" => number,
        "mi" => number * fibre::KM_PER_MILE,
        _ => return Err(refused()),
    };
    distance_km(km).map_err(|_| {
        let most = limits::DELAY_MAX.as_nanos() as f64 / fibre::FIBRE_NS_PER_KM;
        format!(
            "`{shown}` is too far: the delay may be {:#} at most, that is {most:.0} km",
            Span::new(limits::DELAY_MAX)
        )
    })
}

pub(super) fn distance_km(km: f64) -> Result<Duration, String> {
    let delay = fibre::delay(km).filter(|delay| *delay <= limits::DELAY_MAX);
    delay.ok_or_else(|| format!("{km} km is no distance between places on Earth"))
}

/// `100 ms`, `2 MB` or `1000 packets`.
pub(super) fn queue(text: &str) -> Result<Option<QueueLimit>, String> {
    let shown = quoted(text);
    let text = text.trim();
    if text == NONE {
        return Ok(None);
    }
    let packets = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet"));
    let limit = if let Some(count) = packets {
        let count = count.trim().parse::<u32>().ok().filter(|count| *count <= limits::QUEUE_PACKETS_MAX);
        let most = limits::QUEUE_PACKETS_MAX;
        QueueLimit::Packets(count.ok_or_else(|| format!("`{shown}` is no queue: write 1 to {most} packets"))?)
    } else if text.ends_with('B') {
        QueueLimit::Bytes(within(text, parse(text)?, limits::QUEUE_BYTES_MAX)?)
    } else if let Ok(span) = text.parse::<Span>() {
        QueueLimit::Time(within(text, span.get(), limits::QUEUE_TIME_MAX)?)
    } else {
        return Err(format!("`{shown}` is no queue: write for example `100 ms`, `2 MB` or `1000 packets`"));
    };
    let nothing = match limit {
        QueueLimit::Bytes(bytes) => bytes.is_zero(),
        QueueLimit::Packets(packets) => packets == 0,
        QueueLimit::Time(time) => time.is_zero(),
    };
    if nothing { Err(format!("`{shown}` holds nothing: write more, or `{NONE}`")) } else { Ok(Some(limit)) }
}

pub(super) fn queue_text(limit: QueueLimit) -> String {
    match limit {
        QueueLimit::Bytes(bytes) => format!("{bytes:#}"),
        QueueLimit::Packets(1) => "1 packet".to_owned(),
        QueueLimit::Packets(packets) => format!("{packets} packets"),
        QueueLimit::Time(time) => format!("{:#}", Span::new(time)),
    }
}

/// A number from 0 to 1, or a percentage such as `0.01 %`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let number = match trimmed.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => trimmed.parse(),
    };
    let share = number.ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{}` is no share: write 0 to 1, or a percentage such as `0.01 %`", quoted(text)))
}

pub(super) fn probability(text: &str) -> Result<Probability, String> {
    let share = share(text)?;
    probable(share).ok_or_else(|| format!("`{}` is too small: a chance is 2.4e-10 at least, or 0", quoted(text)))
}

/// `None` if it is no chance, or would be rounded to never.
fn probable(share: f64) -> Option<Probability> {
    Probability::new(share).filter(|rounded| !rounded.is_zero() || share == 0.0)
}

pub(super) fn high_water_ppm(text: &str) -> Result<u32, String> {
    let ppm = (share(text)? * 1e6).round() as u32;
    if ppm == 0 { Err(format!("`{}` leaves nothing to fill: write for example `80 %`", quoted(text))) } else { Ok(ppm) }
}

pub(super) fn high_water_text(ppm: u32) -> String {
    format!("{} %", f64::from(ppm) / 1e4)
}

pub(super) fn random_loss(text: &str) -> Result<Loss, String> {
    let probability = probability(text)?;
    Ok(if probability.is_zero() { Loss::None } else { Loss::Random(probability) })
}

/// A loss of `mean` in the long run, in bursts of `burst` packets in the mean, in which everything is lost.
pub(super) fn mean_bursts(mean: f64, burst: f64) -> Result<Loss, String> {
    if !(burst.is_finite() && burst >= 1.0) {
        return Err(format!("a burst of {burst} packets is none: write 1 or more"));
    }
    let to_good = 1.0 / burst;
    let to_bad = mean * to_good / (1.0 - mean);
    bursts(to_bad, to_good, 0.0, 1.0)
        .map_err(|_| format!("a mean of {mean} in bursts of {burst} cannot be: write a mean above 0 and below 1"))
}

pub(super) fn bursts(to_bad: f64, to_good: f64, in_good: f64, in_bad: f64) -> Result<Loss, String> {
    let chance = |key: &str, share: f64| probable(share).ok_or_else(|| format!("`{key}` = {share} is no chance"));
    let (to_bad, to_good) = (chance("to_bad", to_bad)?, chance("to_good", to_good)?);
    let (in_good, in_bad) = (chance("in_good", in_good)?, chance("in_bad", in_bad)?);
    if to_bad.is_zero() || to_good.is_zero() {
        return Err("bursts never begin or never end: write `to_bad` and `to_good` above 0".to_owned());
    }
    Ok(Loss::Bursts { to_bad, to_good, in_good, in_bad })
}

/// As a TOML value.
pub(super) fn loss_text(loss: Loss) -> String {
    match loss {
        Loss::None => "0".to_owned(),
        Loss::Random(probability) => probability_text(probability),
        Loss::Bursts { to_bad, to_good, in_good, in_bad } => {
            let mut text = "{ bursts = { ".to_owned();
            let keys = [("to_bad", to_bad), ("to_good", to_good), ("in_good", in_good), ("in_bad", in_bad)];
            for (at, (key, value)) in keys.into_iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                write!(text, "{comma}{key} = {}", probability_text(value)).expect("a string takes everything");
            }
            text + " } }"
        }
    }
}

/// The shortest number that reads back the same.
pub(super) fn probability_text(probability: Probability) -> String {
    let exact = probability.as_f64();
    let shorter = (1..=9).map(|digits| format!("{exact:.digits$e}")).find(|text| {
        let read = text.parse().ok().and_then(Probability::new);
        read == Some(probability)
    });
    let number = shorter.and_then(|text| text.parse::<f64>().ok()).unwrap_or(exact);
    format!("{number:?}")
}

pub(super) fn span_text(span: Duration) -> String {
    format!("{:#}", Span::new(span))
}

fn parse<T: FromStr<Err = units::ParseError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: units::ParseError| error.to_string())
}

/// Whether `value` is at most `most`.
fn within<T: PartialOrd + Copy + Shown>(text: &str, value: T, most: T) -> Result<T, String> {
    if value <= most {
        return Ok(value);
    }
    Err(format!("`{}` is too much: write at most {}", quoted(text), most.shown()))
}

/// What has an exact text form.
trait Shown {
    fn shown(&self) -> String;
}

impl Shown for Duration {
    fn shown(&self) -> String {
        span_text(*self)
    }
}

impl Shown for Bytes {
    fn shown(&self) -> String {
        format!("{self:#}")
    }
}
