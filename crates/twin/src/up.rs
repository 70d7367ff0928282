//! Bringing a twin up: namespaces, devices, the emulator, addresses and routes.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use model::network::Network;
use sim::link::check_queue;
use sys::netlink::rule::{self, Rule};
use sys::netlink::{Change, Netlink};
use sys::netns::Namespace;

use crate::control::{self, Ask};
use crate::down::down;
use crate::ip::ip;
use crate::netem;
use crate::place::{Driver, Place, Record};
use crate::plan::Plan;

/// What the emulator says on its standard output when its devices are there.
pub const READY: &str = "ready";

/// A twin that has come up.
#[derive(Debug)]
pub struct Up {
    /// What it is on this machine.
    pub plan: Plan,
    /// The emulator, unless netem carries the packets. Who lives on waits for it after `down`; of others it becomes an orphan,
    /// for whom process 1 waits.
    pub emulator: Option<Child>,
}

/// Brings a twin up. `program` is this program: it is started once more as the emulator.
///
/// # Errors
/// When the twin is there already, or something it needs cannot be had; nothing is left behind then.
pub fn up(place: &Place, network: &Network, record: &Record, program: &Path) -> Result<Up> {
    if sys::process::euid() != 0 {
        bail!("a twin needs root: it makes network namespaces and devices");
    }
    let plan = Plan::new(network, place.name())?;
    if record.driver == Driver::Own {
        check_queues(network)?;
    }
    place.make()?;
    let mut emulator = None;
    let built = build(place, network, record, &plan, program, &mut emulator);
    if let Err(error) = built {
        down(place).context("what was begun could not be removed")?;
        if let Some(mut emulator) = emulator {
            emulator.wait()?;
        }
        return Err(error);
    }
    Ok(Up { plan, emulator })
}

/// Whether the emulator can hold what the network lets wait.
fn check_queues(network: &Network) -> Result<()> {
    let mut ways = network.links.iter().flat_map(|link| [(link, &link.forward), (link, &link.backward)]);
    ways.try_for_each(|(link, direction)| {
        check_queue(direction).map_err(|why| {
            anyhow!(
                "link `{}`: {why}; make the queue shorter, or bring the twin up with a smaller `--scale`",
                link.name
            )
        })
    })
}

fn build(
    place: &Place,
    network: &Network,
    record: &Record,
    plan: &Plan,
    program: &Path,
    emulator: &mut Option<Child>,
) -> Result<()> {
    place.write(network, record)?;
    fs::write(place.file("hosts"), plan.etc_hosts())?;
    for node in &plan.nodes {
        let namespace = Namespace::create(&node.namespace)
            .with_context(|| format!("cannot make the network namespace {}", node.namespace))?;
        let sysctls = node.sysctls.clone();
        namespace
            .run(move || {
                sysctls.iter().try_for_each(|(name, value)| {
                    fs::write(Path::new("/proc/sys").join(name), value)
                        .map_err(|error| std::io::Error::new(error.kind(), format!("{name}: {error}")))
                })
            })
            .with_context(|| format!("cannot set up {}", node.namespace))?;
    }
    let own = record.driver == Driver::Own;
    for link in plan.links.iter().filter(|link| !(own && link.emulated)) {
        let [a, b] = &link.ends;
        let (a_device, b_device) = (&a.device, &b.device);
        let (a, b) = (&plan.nodes[a.node].namespace, &plan.nodes[b.node].namespace);
        ip(None, &format!("link add {a_device} netns {a} type veth peer name {b_device} netns {b}\n"))?;
    }
    if own {
        *emulator = Some(start_emulator(place, program)?);
    }
    for node in &plan.nodes {
        ip(Some(&node.namespace), &node.commands.join("\n"))?;
        add_rules(&node.namespace, &node.rules)?;
    }
    if own { control::ask(place, &Ask::Begin).map(drop) } else { netem::apply(network, plan) }
}

/// Makes rules in a namespace, and looks whether they are there as they were meant: a kernel leaves out what it does not know.
fn add_rules(namespace: &str, rules: &[Rule]) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    let wanted = rules.to_vec();
    let made = Namespace::named(namespace)?.run(move || {
        let mut kernel = Netlink::open()?;
        for rule in &wanted {
            let made = kernel.change(rule::RTM_NEWRULE, Change::Create, &rule.encode());
            made.map_err(|refused| std::io::Error::other(format!("{}: {refused}", refused.source)))?;
        }
        let all = kernel.dump(rule::RTM_GETRULE, &[0; rule::HEADER_BYTES]);
        let all = all.map_err(|refused| refused.source)?;
        let there: Vec<Rule> = all.iter().filter_map(Rule::decode).collect();
        Ok(wanted.iter().all(|rule| there.contains(rule)))
    });
    match made.with_context(|| format!("cannot make rules in {namespace}"))? {
        true => Ok(()),
        false => bail!(
            "this kernel cannot route by what paths of this network carry: DSCP needs Linux 6.13, flow labels 6.14; \
             take `dscp` and `flow_label` out of its paths"
        ),
    }
}

fn start_emulator(place: &Place, program: &Path) -> Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(place.file("log"))?;
    let mut child = Command::new(program)
        .args(["twin", "emulate", place.name()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        // It lives on when the shell that brought it up is gone.
        .process_group(0)
        .current_dir("/")
        // What it says last is shown if it does not start.
        .env("RUST_BACKTRACE", "0")
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut said = String::new();
    BufReader::new(child.stdout.take().expect("it was piped")).read_line(&mut said)?;
    if said.trim_end() != READY {
        child.wait()?;
        let log = fs::read_to_string(place.file("log")).unwrap_or_default();
        let last = log.lines().rfind(|line| !line.is_empty() && !line.starts_with("note: "));
        bail!("the emulator did not start: {}", last.unwrap_or("it said nothing"));
    }
    Ok(child)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_the_emulator_would_cut_is_refused_until_it_is_scaled() {
        let text = "name = \"x\"\nhosts = [\"a\", \"b\"]\n[[link]]\nname = \"ab\"\nends = [\"a\", \"b\"]\n\
                    rate = \"400 Gb/s\"\nqueue = \"100 ms\"\n";
        let network = Network::from_toml(text, "x.toml").unwrap();
        let why = check_queues(&network).unwrap_err().to_string();
        assert!(why.starts_with("link `ab`: a queue of 100ms at 400 Gb/s (5 GB) is more"), "{why}");
        check_queues(&network.scaled("1/100".parse().unwrap())).unwrap();
    }
}
