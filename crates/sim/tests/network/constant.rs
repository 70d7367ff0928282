//! A sender at a constant rate, and a sink that writes down what comes.

use sim::link::Shape;
use sim::net::{Action, Arrival, LinkId, Node, NodeId, Packet, Simulator};

use model::network::Direction;

/// When the packet was sent, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) sent: u64,
    pub(crate) number: u64,
}

/// A segment as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) stamp: Stamp,
    pub(crate) index: u16,
    pub(crate) at: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Constant {
    Sender { shape: Shape, interval: u64, packets: u64, next: Stamp },
    Sink(Vec<Received>),
}

impl Constant {
    /// Sends `packets` packets, one every `interval` ns from 0 on.
    pub(crate) fn sender(shape: Shape, interval: u64, packets: u64) -> Constant {
        Constant::Sender { shape, interval, packets, next: Stamp { sent: 0, number: 0 } }
    }

    pub(crate) fn received(&self) -> &[Received] {
        match self {
            Constant::Sink(received) => received,
            Constant::Sender { .. } => panic!("a sender receives nothing"),
        }
    }
}

impl Node for Constant {
    type Body = Stamp;

    fn process(&mut self, arrival: Option<Arrival<Stamp>>, now: u64) -> Action<Stamp> {
        match self {
            Constant::Sender { packets, next, .. } if next.number == *packets => Action::Idle,
            Constant::Sender { next, .. } if next.sent > now => Action::Wait(next.sent),
            Constant::Sender { shape, interval, next, .. } => {
                let packet = Packet { shape: *shape, body: *next };
                *next = Stamp { sent: next.sent + *interval, number: next.number + 1 };
                Action::Send { port: 0, packet }
            }
            Constant::Sink(received) => {
                if let Some(Arrival { packet, first, count, .. }) = arrival {
                    let segments = first..first + count;
                    received.extend(segments.map(|index| Received { stamp: packet.body, index, at: now }));
                }
                Action::Idle
            }
        }
    }
}

/// A sender, a link, a sink.
pub(crate) struct Pair {
    pub(crate) simulator: Simulator<Constant>,
    pub(crate) link: LinkId,
    pub(crate) sink: NodeId,
}

impl Pair {
    pub(crate) fn new(seed: u64, direction: &Direction, sender: Constant) -> Pair {
        let mut simulator = Simulator::new(seed);
        let from = simulator.add_node(sender);
        let sink = simulator.add_node(Constant::Sink(Vec::new()));
        let link = simulator.add_link(from, sink, direction);
        Pair { simulator, link, sink }
    }

    pub(crate) fn run_until(&mut self, end: u64) {
        self.simulator.run_until(end, crate::MOST_EVENTS).expect("it ends");
    }

    pub(crate) fn received(&self) -> &[Received] {
        self.simulator.node(self.sink).received()
    }
}
