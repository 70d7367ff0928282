//! A packet simulator in virtual time: nodes of the caller's, joined by the very links that the emulator runs.
//!
//! What happens at the same time happens in the order in which it was decided, so a seed replays a run exactly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use model::network::Direction;

use crate::link::{Admission, Counters, Departure, Fate, Link, Output, Shape};
use crate::random::Random;

/// A packet: its sizes, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<B> {
    /// Its sizes.
    pub shape: Shape,
    /// What it says; of no size.
    pub body: B,
}

/// Segments of a packet that reach a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival<B> {
    /// The link they came by.
    pub link: LinkId,
    /// The whole packet.
    pub packet: Packet<B>,
    /// The first segment of it that is here.
    pub first: u16,
    /// How many are.
    pub count: u16,
    /// What befell them.
    pub fate: Fate,
}

/// What a node does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<B> {
    /// Sends a packet by the link that was the `port`-th to be joined to this node as its `from`, from 0. The node is then
    /// asked again.
    Send {
        /// Which link.
        port: usize,
        /// What is sent.
        packet: Packet<B>,
    },
    /// Wants to be asked at this time (nanoseconds), or when something arrives.
    Wait(u64),
    /// Has nothing to do until something arrives.
    Idle,
}

/// Something at an end of links.
pub trait Node {
    /// What its packets say.
    type Body: Clone;

    /// Takes in what arrives at `now`, if anything, and says what it does next. Until it does not send, it is asked again,
    /// without an arrival.
    fn process(&mut self, arrival: Option<Arrival<Self::Body>>, now: u64) -> Action<Self::Body>;
}

/// Names a node of a [`Simulator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(usize);

/// Names a link of a [`Simulator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(usize);

/// The nodes, the links, and what is going to happen.
#[derive(Clone, Debug)]
pub struct Simulator<N: Node> {
    now: u64,
    seeds: Random,
    nodes: Vec<Place<N>>,
    links: Vec<Line<N::Body>>,
    agenda: Agenda,
    /// Events since the last call of [`Simulator::run_until`].
    events: u64,
}

/// A node and its surroundings.
#[derive(Clone, Debug)]
struct Place<N> {
    node: N,
    /// Links away from it.
    ports: Vec<LinkId>,
    alarm: Alarm,
}

/// A link and what is on it.
#[derive(Clone, Debug)]
struct Line<B> {
    link: Link,
    to: NodeId,
    packets: Packets<B>,
    alarm: Alarm,
}

impl<N: Node> Simulator<N> {
    /// An empty network at time 0. `seed` is all the chance there is.
    #[must_use]
    pub fn new(seed: u64) -> Simulator<N> {
        Simulator {
            now: 0,
            seeds: Random::new(seed),
            nodes: Vec::new(),
            links: Vec::new(),
            agenda: Agenda::default(),
            events: 0,
        }
    }

    /// Adds a node. It is asked for the first time as soon as the simulation goes on.
    pub fn add_node(&mut self, node: N) -> NodeId {
        let id = NodeId(self.nodes.len());
        let mut place = Place { node, ports: Vec::new(), alarm: Alarm::default() };
        self.agenda.set(&mut place.alarm, Some(self.now), Who::Node(id));
        self.nodes.push(place);
        id
    }

    /// Adds a link in one direction. It is the next port of `from`.
    ///
    /// # Panics
    ///
    /// If one of the nodes is not of this simulator.
    pub fn add_link(&mut self, from: NodeId, to: NodeId, direction: &Direction) -> LinkId {
        assert!(to.0 < self.nodes.len(), "a link leads to a node");
        let id = LinkId(self.links.len());
        let link = Link::new(direction, self.seeds.next_u64());
        self.links.push(Line { link, to, packets: Packets::default(), alarm: Alarm::default() });
        self.nodes[from.0].ports.push(id);
        id
    }

    /// The time, nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// A node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &N {
        &self.nodes[id.0].node
    }

    /// What a link has counted up to now.
    #[must_use]
    pub fn counters(&self, id: LinkId) -> Counters {
        self.links[id.0].link.counters(self.now)
    }

    /// Changes a link now.
    pub fn set(&mut self, id: LinkId, direction: &Direction) {
        self.links[id.0].link.set(self.now, direction);
        self.wake_link(id);
    }

    /// Cuts a link now.
    pub fn cut(&mut self, id: LinkId) {
        self.links[id.0].link.cut(self.now);
        self.wake_link(id);
    }

    /// Heals a link now.
    pub fn heal(&mut self, id: LinkId) {
        self.links[id.0].link.heal(self.now);
        self.wake_link(id);
    }

    /// Lets everything happen up to `end`, and that too.
    ///
    /// # Errors
    ///
    /// If more than `most_events` (packets sent, arrivals, and times at which somebody is asked) would happen. The time is then
    /// that of the first that did not; it cannot go on.
    ///
    /// # Panics
    ///
    /// If a node sends by a port that it does not have, or if a link does not keep its word (every segment accounted for, none
    /// late).
    pub fn run_until(&mut self, end: u64, most_events: u64) -> Result<(), TooManyEvents> {
        self.events = 0;
        while let Some((time, who)) = self.agenda.next(end) {
            self.now = time;
            match who {
                Who::Node(id) if self.nodes[id.0].alarm.rings(time) => self.ask(id, None, most_events)?,
                Who::Link(id) if self.links[id.0].alarm.rings(time) => self.deliver(id, most_events)?,
                // It was put off, or moved forward and has rung already.
                Who::Node(_) | Who::Link(_) => {}
            }
        }
        self.now = self.now.max(end);
        self.links.iter_mut().for_each(|line| line.settle(self.now));
        Ok(())
    }

    /// Asks a node until it waits.
    fn ask(&mut self, id: NodeId, mut arrival: Option<Arrival<N::Body>>, most: u64) -> Result<(), TooManyEvents> {
        loop {
            self.count_event(most)?;
            let place = &mut self.nodes[id.0];
            match place.node.process(arrival.take(), self.now) {
                Action::Send { port, packet } => {
                    let link = place.ports[port];
                    self.links[link.0].send(self.now, packet);
                    self.wake_link(link);
                }
                Action::Wait(time) => {
                    self.agenda.set(&mut place.alarm, Some(time.max(self.now)), Who::Node(id));
                    return Ok(());
                }
                Action::Idle => {
                    self.agenda.set(&mut place.alarm, None, Who::Node(id));
                    return Ok(());
                }
            }
        }
    }

    /// Hands over what a link gives.
    fn deliver(&mut self, id: LinkId, most: u64) -> Result<(), TooManyEvents> {
        self.count_event(most)?;
        while let Some(output) = self.links[id.0].link.poll(self.now) {
            let line = &mut self.links[id.0];
            match output {
                Output::Forget(key) => line.packets.forget(key),
                Output::Departure(Departure { key, first, count, fate, last, .. }) => {
                    let (to, packet) = (line.to, line.packets.get(key, last));
                    self.ask(to, Some(Arrival { link: id, packet, first, count, fate }), most)?;
                }
            }
        }
        self.wake_link(id);
        Ok(())
    }

    fn wake_link(&mut self, id: LinkId) {
        let line = &mut self.links[id.0];
        self.agenda.set(&mut line.alarm, line.link.poll_timeout(), Who::Link(id));
    }

    fn count_event(&mut self, most: u64) -> Result<(), TooManyEvents> {
        if self.events >= most {
            return Err(TooManyEvents { events: self.events, now: self.now });
        }
        self.events += 1;
        Ok(())
    }
}

impl<B: Clone> Line<B> {
    fn send(&mut self, now: u64, packet: Packet<B>) {
        let shape = packet.shape;
        let key = self.packets.insert(packet);
        if self.link.handle_packet(now, key, shape) == Admission::Dropped {
            self.packets.forget(key);
        }
    }

    /// Brings the link to `now`, when all that is due has been delivered, and checks its books.
    fn settle(&mut self, now: u64) {
        while let Some(output) = self.link.poll(now) {
            let Output::Forget(key) = output else { panic!("a link has told too late when to look: {output:?}") };
            self.packets.forget(key);
        }
        if let Err(unbalanced) = self.link.counters(now).check() {
            panic!("a link has lost count: {unbalanced}");
        }
    }
}

/// The packets on a link, by key. The link bounds how many there are.
#[derive(Clone, Debug)]
struct Packets<B> {
    slots: Vec<Option<Packet<B>>>,
    free: Vec<u64>,
}

impl<B> Default for Packets<B> {
    fn default() -> Packets<B> {
        Packets { slots: Vec::new(), free: Vec::new() }
    }
}

impl<B: Clone> Packets<B> {
    fn insert(&mut self, packet: Packet<B>) -> u64 {
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = Some(packet);
            return key;
        }
        self.slots.push(Some(packet));
        self.slots.len() as u64 - 1
    }

    fn get(&mut self, key: u64, last: bool) -> Packet<B> {
        let slot = &mut self.slots[key as usize];
        let packet = if last { slot.take() } else { slot.clone() };
        if last {
            self.free.push(key);
        }
        packet.expect("a link names packets that it keeps")
    }

    fn forget(&mut self, key: u64) {
        self.slots[key as usize] = None;
        self.free.push(key);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Node(NodeId),
    Link(LinkId),
}

/// The time at which somebody wants to be asked.
#[derive(Clone, Debug, Default)]
struct Alarm(Option<u64>);

impl Alarm {
    /// Whether it is set to `time`; if so it is off now.
    fn rings(&mut self, time: u64) -> bool {
        self.0.take_if(|set| *set == time).is_some()
    }
}

/// All alarms by time, then by the order in which they were set. One that was set anew stays until its old time comes, and is
/// then ignored; nobody sets more alarms than there are events.
#[derive(Clone, Debug, Default)]
struct Agenda {
    alarms: BinaryHeap<Reverse<(u64, u64, Who)>>,
    number: u64,
}

impl Agenda {
    fn set(&mut self, alarm: &mut Alarm, time: Option<u64>, who: Who) {
        if alarm.0 == time {
            return;
        }
        alarm.0 = time;
        if let Some(time) = time {
            self.alarms.push(Reverse((time, self.number, who)));
            self.number += 1;
        }
    }

    /// What comes next, if it comes by `end`.
    fn next(&mut self, end: u64) -> Option<(u64, Who)> {
        self.alarms.peek().filter(|Reverse((time, ..))| *time <= end)?;
        self.alarms.pop().map(|Reverse((time, _, who))| (time, who))
    }
}

/// A simulation went on for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyEvents {
    /// How many there were.
    pub events: u64,
    /// When it was stopped, nanoseconds.
    pub now: u64,
}

impl fmt::Display for TooManyEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the simulation had not ended after {} events, at {} ns", self.events, self.now)
    }
}

impl std::error::Error for TooManyEvents {}
