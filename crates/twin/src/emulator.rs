//! The emulator: a TUN device at each end of a link, a machine for each direction, a thread for each core.

mod lane;
mod outlet;
mod pace;
mod rehearsal;
mod ring;
mod store;
mod unread;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use model::network::Direction;
use sim::link::Link;
use sys::netns::Namespace;
use sys::poll::Waker;
use sys::tun::Tun;

use lane::{Command, Half, Lane};
pub use lane::{Told, Unplanned};
use outlet::Outlet;
use unread::Unread;

/// How long a lane may take to answer: it looks at its commands after each few packets.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Commands waiting for a thread; who commands waits for room.
const COMMANDS_MAX: usize = 64;
/// Odd, so that no two directions share a seed.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A link to be emulated.
pub struct Wire {
    /// Its two ends: a namespace, and the name of the device there.
    pub ends: [(Namespace, String); 2],
    /// From the one end to the other, and back.
    pub directions: [Direction; 2],
}

/// An emulator that has its devices and does not carry packets yet.
pub struct Prepared {
    lanes: Vec<Vec<Half>>,
    places: Vec<[Place; 2]>,
    unread: Vec<[Unread; 2]>,
}

/// Where a direction is: the lane, and its place there.
type Place = (usize, usize);

/// A running emulator. Links are named by their place in what it was prepared for.
pub struct Emulator {
    lanes: Vec<Handle>,
    places: Vec<[Place; 2]>,
    /// Of the devices where each direction is read.
    unread: Vec<[Unread; 2]>,
    /// Why the threads do not run with real-time priority, if they do not.
    pub ordinary: Option<String>,
}

struct Handle {
    commands: SyncSender<Command>,
    waker: Waker,
    thread: JoinHandle<std::io::Result<()>>,
}

/// The seed of a direction (0: from the one end to the other, 1: back) of the emulated link `link`, in a twin of this `seed`:
/// the same link machine elsewhere loses the same packets.
#[must_use]
pub const fn seed_of(seed: u64, link: usize, way: usize) -> u64 {
    seed.wrapping_add(((2 * link + way) as u64).wrapping_mul(SEED_STEP))
}

impl Prepared {
    /// Makes the devices of all links. All that is random follows from `seed`.
    ///
    /// # Errors
    /// When a namespace is not there or a device cannot be made.
    pub fn new(wires: Vec<Wire>, seed: u64) -> Result<Prepared> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut lanes: Vec<Vec<Half>> = (0..cores.min(2 * wires.len()).max(1)).map(|_| Vec::new()).collect();
        let (mut places, mut unread) = (Vec::with_capacity(wires.len()), Vec::with_capacity(wires.len()));
        for (n, Wire { ends: [one, other], directions: [there, back] }) in wires.into_iter().enumerate() {
            let [(one, of_one), (other, of_other)] = [device(one)?, device(other)?];
            let mut place = |way: usize, from: &Arc<Tun>, to: &Arc<Tun>, direction: &Direction| {
                // The two ways of a link go to two threads, so that one link can use two cores.
                let lane = (n + way) % lanes.len();
                let link = Link::new(direction, seed_of(seed, n, way));
                lanes[lane].push(Half { from: Arc::clone(from), to: Outlet::new(Arc::clone(to)), link });
                (lane, lanes[lane].len() - 1)
            };
            places.push([place(0, &one, &other, &there), place(1, &other, &one, &back)]);
            unread.push([of_one, of_other]);
        }
        Ok(Prepared { lanes, places, unread })
    }

    /// Begins to carry packets: all devices should be up by now.
    ///
    /// # Errors
    /// When a thread cannot be made, or a device is gone.
    pub fn start(mut self) -> Result<Emulator> {
        self.unread.iter_mut().flatten().try_for_each(Unread::restart)?;
        let begin = sys::clock::monotonic();
        let (report, reports) = sync_channel(self.lanes.len());
        let lanes = self.lanes.into_iter().enumerate();
        let lanes =
            lanes.map(|(n, halves)| Handle::start(n, halves, begin, report.clone())).collect::<Result<Vec<_>>>()?;
        drop(report);
        let ordinary = reports.iter().find_map(|refused: Option<String>| refused);
        Ok(Emulator { lanes, places: self.places, unread: self.unread, ordinary })
    }
}

impl Emulator {
    fn send(&self, link: usize, way: usize, command: impl FnOnce(usize) -> Command) -> Result<()> {
        let (lane, half) = self.places[link][way];
        let lane = &self.lanes[lane];
        lane.commands.send(command(half)).map_err(|_| anyhow!("the emulator's thread has ended"))?;
        lane.waker.wake();
        Ok(())
    }

    /// Changes a direction (0: from the one end to the other, 1: back) of a link from the next segment on.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn set(&self, link: usize, way: usize, direction: Direction) -> Result<()> {
        self.send(link, way, |half| Command::Set(half, Box::new(direction)))
    }

    /// Loses the next `count` packets of a direction.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn drop_next(&self, link: usize, way: usize, count: u32) -> Result<()> {
        self.send(link, way, |half| Command::Drop(half, count))
    }

    /// Cuts a direction, or heals it.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn set_up(&self, link: usize, way: usize, up: bool) -> Result<()> {
        self.send(link, way, |half| if up { Command::Heal(half) } else { Command::Cut(half) })
    }

    /// What happened in a direction so far.
    ///
    /// # Errors
    /// When the thread has ended or does not answer.
    pub fn tell(&self, link: usize, way: usize) -> Result<Told> {
        let (reply, told): (_, Receiver<Told>) = sync_channel(1);
        self.send(link, way, |half| Command::Tell(half, reply))?;
        let mut told = told.recv_timeout(ANSWER_MAX).context("the emulator's thread does not answer")?;
        told.unplanned.tx_dropped = self.unread[link][way].count();
        Ok(told)
    }

    /// Ends all threads; the devices are gone then.
    ///
    /// # Errors
    /// What ended a thread early.
    pub fn stop(self) -> Result<()> {
        for lane in &self.lanes {
            // One that has ended needs no command.
            let _ = lane.commands.send(Command::Stop);
            lane.waker.wake();
        }
        for lane in self.lanes {
            lane.thread.join().map_err(|_| anyhow!("a thread of the emulator panicked"))??;
        }
        Ok(())
    }
}

fn device((namespace, name): (Namespace, String)) -> Result<(Arc<Tun>, Unread)> {
    let make = || {
        let device = name.clone();
        let tun = namespace.run(move || Tun::create(&device))?;
        Ok::<_, std::io::Error>((Arc::new(tun), Unread::new(&namespace, &name)?))
    };
    make().with_context(|| format!("cannot make the device {name} in {}", namespace.name()))
}

impl Handle {
    fn start(n: usize, halves: Vec<Half>, begin: Duration, report: SyncSender<Option<String>>) -> Result<Handle> {
        let waker = Waker::new()?;
        let (commands, queue) = sync_channel(COMMANDS_MAX);
        let lane = Lane::new(halves, waker.clone(), queue, begin)?;
        let run = move || {
            // Packets that are due leave before anybody else runs; without the right to that they are late.
            let refused = sys::cpu::set_real_time().and_then(|()| sys::cpu::set_exact_sleep()).err();
            let _ = report.send(refused.map(|error| error.to_string()));
            drop(report);
            lane.run()
        };
        let thread = thread::Builder::new().name(format!("lh-twin-{n}")).spawn(run)?;
        Ok(Handle { commands, waker, thread })
    }
}
