//! The emulator's process: it owns the devices, and answers on the control socket.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, Error, Result, anyhow, bail};
use model::network::Direction;
use model::scenario::Way;
use sim::link::check_queue;
use sys::netns::Namespace;

use crate::control::{self, ANSWER_MAX, Answer, Ask, LinkState};
use crate::emulator::{Emulator, Prepared, Wire};
use crate::links::changed;
use crate::place::Place;
use crate::plan::Plan;
use crate::stats::Stats;
use crate::up::READY;

struct Daemon {
    stage: Stage,
    /// For each link of the network: its place in the emulator, if it is there.
    emulated: Vec<Option<usize>>,
    /// Those of the emulator.
    links: Vec<Link>,
}

/// A link as it is now.
struct Link {
    directions: [Direction; 2],
    mtu: u32,
    up: bool,
}

enum Stage {
    /// Until its devices are up, what they send (IPv6 does so by itself) would find others down.
    Waiting(Option<Prepared>),
    Running(Emulator),
}

/// Emulates the links of a twin until it is told to stop. Says [`READY`] on standard output once there are its devices; it
/// carries packets from [`Ask::Begin`] on.
///
/// # Errors
/// When the twin is not there, has its emulator already, or its devices cannot be made.
pub fn run(place: &Place) -> Result<()> {
    let mut lock = place.lock()?;
    lock.set_len(0)?;
    write!(lock, "{}", std::process::id())?;
    let (network, record) = place.read()?;
    let plan = Plan::new(&network, place.name())?;
    let (mut emulated, mut wires, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for (link, planned) in network.links.iter().zip(&plan.links) {
        emulated.push(planned.emulated.then_some(wires.len()));
        if planned.emulated {
            let end = |n: usize| -> Result<(Namespace, String)> {
                let end = &planned.ends[n];
                Ok((Namespace::named(&plan.nodes[end.node].namespace)?, end.device.clone()))
            };
            let directions = [link.forward.clone(), link.backward.clone()];
            wires.push(Wire { ends: [end(0)?, end(1)?], directions: directions.clone() });
            links.push(Link { directions, mtu: link.mtu, up: true });
        }
    }
    let stage = Stage::Waiting(Some(Prepared::new(wires, record.seed)?));
    let listener = UnixListener::bind(place.file("control")).context("cannot listen on the control socket")?;
    println!("{READY}");
    Daemon { stage, emulated, links }.serve(&listener)
}

impl Daemon {
    /// One question after the other: an answer takes microseconds.
    fn serve(mut self, listener: &UnixListener) -> Result<()> {
        loop {
            let (mut socket, _) = listener.accept().context("the control socket")?;
            match self.answer(&mut socket) {
                Ok(true) => {}
                Ok(false) => break,
                // Who asked has gone, or asked something odd.
                Err(error) => tracing::debug!(%error, "a question"),
            }
        }
        match self.stage {
            Stage::Waiting(_) => Ok(()),
            Stage::Running(emulator) => emulator.stop(),
        }
    }

    fn emulator(&self) -> Result<&Emulator> {
        match &self.stage {
            Stage::Running(emulator) => Ok(emulator),
            Stage::Waiting(_) => bail!("the twin is not up yet"),
        }
    }

    fn begin(&mut self) -> Result<()> {
        let Stage::Waiting(prepared) = &mut self.stage else { bail!("the twin is up already") };
        let emulator = prepared.take().context("the emulator did not start")?.start()?;
        if let Some(why) = &emulator.ordinary {
            tracing::warn!(
                "the emulator has no real-time priority ({why}): packets may be late when the cores are busy"
            );
        }
        self.stage = Stage::Running(emulator);
        Ok(())
    }

    /// Whether to go on.
    fn answer(&mut self, socket: &mut UnixStream) -> Result<bool> {
        socket.set_read_timeout(Some(ANSWER_MAX))?;
        socket.set_write_timeout(Some(ANSWER_MAX))?;
        let ask: Ask = control::read(socket)?;
        let stop = ask == Ask::Stop;
        let answer = self.obey(ask).unwrap_or_else(|error| Answer::Refused { why: error.to_string() });
        // The end is not answered before it has come: the socket closes with the process.
        if stop { Ok(false) } else { control::write(socket, &answer).map(|()| true) }
    }

    fn obey(&mut self, ask: Ask) -> Result<Answer> {
        match ask {
            Ask::Begin => self.begin()?,
            Ask::Links => {
                let links = self.emulated.iter().map(|link| link.map(|n| self.state(n)).transpose());
                return Ok(Answer::Links { links: links.collect::<Result<_>>()? });
            }
            Ask::Change { link, way, changes } => {
                let n = self.place(link)?;
                let now = &self.links[n];
                let changed = changed(&now.directions, way, &changes, now.mtu)?;
                changed.iter().try_for_each(check_queue).map_err(Error::msg)?;
                for way in Way::of(way).into_iter().map(Way::index) {
                    self.emulator()?.set(n, way, changed[way].clone())?;
                }
                self.links[n].directions = changed;
            }
            Ask::Drop { link, counts } => {
                let n = self.place(link)?;
                for (way, count) in counts.into_iter().enumerate().filter(|&(_, count)| count > 0) {
                    self.emulator()?.drop_next(n, way, count)?;
                }
            }
            Ask::Up { link, up } => {
                let n = self.place(link)?;
                for way in 0..2 {
                    self.emulator()?.set_up(n, way, up)?;
                }
                self.links[n].up = up;
            }
            Ask::Stop => {}
        }
        Ok(Answer::Done)
    }

    fn place(&self, link: usize) -> Result<usize> {
        let found = self.emulated.get(link).copied().flatten();
        found.ok_or_else(|| {
            anyhow!("this link is not emulated: it has neither rate nor delay in the network description")
        })
    }

    fn state(&self, n: usize) -> Result<LinkState> {
        let Link { directions, up, .. } = &self.links[n];
        let emulator = self.emulator()?;
        let stats = [Stats::of(&emulator.tell(n, 0)?), Stats::of(&emulator.tell(n, 1)?)];
        Ok(LinkState { up: *up, directions: directions.clone(), stats })
    }
}
