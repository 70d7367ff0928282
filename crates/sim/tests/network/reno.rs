//! A flow that behaves as TCP Reno does: slow start, additive increase, halving, and a timeout.
//!
//! Every transmission has a number of its own and every acknowledgement names it, so that three later ones acknowledged mean
//! a loss, as with SACK. Windows are counted in segments, sequence numbers too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::network::Direction;
use sim::link::Shape;
use sim::net::{Action, Arrival, LinkId, Node, NodeId, Packet, Simulator};

/// As with a path MTU of 1500 and headers of 40 bytes.
pub(crate) const MSS: u32 = 1460;
const HEADER: u32 = 40;

const INITIAL_WINDOW: u64 = 10;
const LOSS_THRESHOLD: u64 = 3;
const LEAST_TIMEOUT: u64 = 200_000_000;

/// What a packet says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    transmission: u64,
    sequence: u64,
    sent: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Reno {
    Sender(Sender),
    Receiver(Receiver),
}

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    window: u64,
    /// As with a window that the receiver offers.
    most_window: u64,
    threshold: u64,
    /// Segments acknowledged since the window last grew.
    acknowledged: u64,
    /// By transmission: sequence number.
    outstanding: BTreeMap<u64, u64>,
    lost: VecDeque<u64>,
    next_sequence: u64,
    next_transmission: u64,
    /// Losses of earlier transmissions belong to the halving that was.
    recovery: u64,
    smoothed_rtt: u64,
    /// When something was last sent into an idle path, acknowledged or given up.
    progress: u64,
    pub(crate) halvings: u64,
    pub(crate) timeouts: u64,
    /// When the window had last come to its most.
    pub(crate) full_at: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// All before this has come.
    pub(crate) in_order: u64,
    early: BTreeSet<u64>,
    replies: VecDeque<Segment>,
}

impl Sender {
    fn new(most_window: u64) -> Sender {
        Sender {
            window: INITIAL_WINDOW.min(most_window),
            most_window,
            threshold: u64::MAX,
            acknowledged: 0,
            outstanding: BTreeMap::new(),
            lost: VecDeque::new(),
            next_sequence: 0,
            next_transmission: 0,
            recovery: 0,
            smoothed_rtt: 0,
            progress: 0,
            halvings: 0,
            timeouts: 0,
            full_at: None,
        }
    }

    fn handle_acknowledgement(&mut self, of: Segment, now: u64) {
        if self.outstanding.remove(&of.transmission).is_none() {
            return;
        }
        self.progress = now;
        let rtt = now - of.sent;
        self.smoothed_rtt = if self.smoothed_rtt == 0 { rtt } else { (7 * self.smoothed_rtt + rtt) / 8 };
        if of.transmission >= self.recovery {
            self.grow(now);
        }
        let later = self.outstanding.split_off(&(of.transmission + 1).saturating_sub(LOSS_THRESHOLD));
        let lost = std::mem::replace(&mut self.outstanding, later);
        if lost.keys().any(|transmission| *transmission >= self.recovery) {
            self.halve();
            self.halvings += 1;
        }
        self.lost.extend(lost.into_values());
    }

    fn grow(&mut self, now: u64) {
        self.acknowledged += 1;
        let enough = if self.window < self.threshold { 1 } else { self.window };
        if self.acknowledged >= enough && self.window < self.most_window {
            self.window += 1;
            self.acknowledged = 0;
            self.full_at = (self.window == self.most_window).then_some(now);
        }
    }

    fn halve(&mut self) {
        self.threshold = (self.window / 2).max(2);
        self.window = self.threshold;
        self.acknowledged = 0;
        self.recovery = self.next_transmission;
        self.full_at = None;
    }

    fn timeout(&self) -> u64 {
        self.progress + (2 * self.smoothed_rtt).max(LEAST_TIMEOUT)
    }

    fn poll(&mut self, now: u64) -> Action<Segment> {
        if !self.outstanding.is_empty() && now >= self.timeout() {
            self.timeouts += 1;
            self.halve();
            self.window = 1;
            self.progress = now;
            self.lost.extend(std::mem::take(&mut self.outstanding).into_values());
        }
        if self.outstanding.len() as u64 >= self.window {
            return Action::Wait(self.timeout());
        }
        if self.outstanding.is_empty() {
            self.progress = now;
        }
        let sequence = self.lost.pop_front().unwrap_or_else(|| {
            self.next_sequence += 1;
            self.next_sequence - 1
        });
        let segment = Segment { transmission: self.next_transmission, sequence, sent: now };
        self.next_transmission += 1;
        self.outstanding.insert(segment.transmission, sequence);
        Action::Send { port: 0, packet: Packet { shape: Shape::single(HEADER, MSS), body: segment } }
    }
}

impl Receiver {
    fn handle_segment(&mut self, segment: Segment) {
        if segment.sequence >= self.in_order {
            self.early.insert(segment.sequence);
        }
        while self.early.remove(&self.in_order) {
            self.in_order += 1;
        }
        self.replies.push_back(segment);
    }

    fn poll(&mut self) -> Action<Segment> {
        let shape = Shape::single(HEADER, 0);
        let reply = |segment| Action::Send { port: 0, packet: Packet { shape, body: segment } };
        self.replies.pop_front().map_or(Action::Idle, reply)
    }
}

impl Node for Reno {
    type Body = Segment;

    fn process(&mut self, arrival: Option<Arrival<Segment>>, now: u64) -> Action<Segment> {
        let segment = arrival.map(|arrival| arrival.packet.body);
        match self {
            Reno::Sender(sender) => {
                segment.into_iter().for_each(|segment| sender.handle_acknowledgement(segment, now));
                sender.poll(now)
            }
            Reno::Receiver(receiver) => {
                segment.into_iter().for_each(|segment| receiver.handle_segment(segment));
                receiver.poll()
            }
        }
    }
}

/// A flow over a link each way.
pub(crate) struct Flow {
    pub(crate) simulator: Simulator<Reno>,
    sender: NodeId,
    receiver: NodeId,
    pub(crate) link: LinkId,
}

impl Flow {
    pub(crate) fn new(seed: u64, there: &Direction, back: &Direction, most_window: u64) -> Flow {
        let mut simulator = Simulator::new(seed);
        let sender = simulator.add_node(Reno::Sender(Sender::new(most_window)));
        let receiver = simulator.add_node(Reno::Receiver(Receiver::default()));
        let link = simulator.add_link(sender, receiver, there);
        simulator.add_link(receiver, sender, back);
        Flow { simulator, sender, receiver, link }
    }

    pub(crate) fn run_until(&mut self, end: u64) {
        self.simulator.run_until(end, crate::MOST_EVENTS).expect("it ends");
    }

    pub(crate) fn sender(&self) -> &Sender {
        match self.simulator.node(self.sender) {
            Reno::Sender(sender) => sender,
            Reno::Receiver(_) => panic!("the sender sends"),
        }
    }

    /// Segments that have come, with all before them.
    pub(crate) fn delivered(&self) -> u64 {
        match self.simulator.node(self.receiver) {
            Reno::Receiver(receiver) => receiver.in_order,
            Reno::Sender(_) => panic!("the receiver receives"),
        }
    }
}
