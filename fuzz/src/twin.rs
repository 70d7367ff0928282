//! A network on this machine: packets as devices give them, and what is asked of the emulator.

use model::network::Network;
use sim::link::Fate;
use twin::control::{Answer, Ask};
use twin::packet::{Cut, Joined, Malformed, Vnet, cut, shape};

use crate::input::Input;

/// A packet, behind what befalls it: whatever it is, all of its segments are as long as it, each is a packet again, and those that can be joined are one.
pub fn packet(data: &[u8]) {
    let mut input = Input(data);
    let [first, count] = [(); 2].map(|()| u16::from_le_bytes(input.array()));
    let bit = u32::from_le_bytes(input.array());
    let packet = input.0;
    for fate in [Fate::Whole, Fate::Marked, Fate::Corrupt(bit)] {
        if let Ok(written) = written(packet, first, count, fate) {
            assert!(written.len() <= packet.len());
            assert!(shape(&written).is_ok());
        }
    }
    let Ok(of) = shape(packet) else { return };
    assert_eq!((of.header + of.payload) as usize, packet.len() - Vnet::LEN);
    let segments = of.segments();
    assert_eq!(u32::from(segments), of.payload.div_ceil(of.segment).max(1));
    assert_eq!(written(packet, 0, segments, Fate::Whole).as_deref(), Ok(packet));
    assert!(written(packet, segments, 1, Fate::Whole).is_err());
    let mut payload = 0;
    for segment in 0..segments {
        let one = written(packet, segment, 1, Fate::Marked).expect("it has this segment");
        payload += one.len() - Vnet::LEN - of.header as usize;
        assert_eq!(shape(&one).map(|shape| shape.segments()), Ok(1));
    }
    assert_eq!(payload, of.payload as usize);
    joined(packet, segments);
}

/// What is joined of its segments has as many.
fn joined(packet: &[u8], segments: u16) {
    let mut joined = Joined::default();
    for segment in 0..segments {
        let one = written(packet, segment, 1, Fate::Whole).expect("it has this segment");
        if !joined.push(&one) {
            break;
        }
    }
    let count = joined.count();
    if count > 0 {
        assert_eq!(shape(joined.take()).map(|shape| usize::from(shape.segments())), Ok(count));
    }
}

/// The packet that is written for some segments of another.
fn written(packet: &[u8], first: u16, count: u16, fate: Fate) -> Result<Vec<u8>, Malformed> {
    cut(packet, first, count, fate, &mut Vec::new()).map(|Cut { head, payload }| [head, payload].concat())
}

/// A line to or from an emulator; and what a change makes of a link can be described.
pub fn emulator(data: &[u8]) {
    if let Ok(answer) = serde_json::from_slice::<Answer>(data) {
        assert_eq!(again(&answer), answer);
    }
    let Ok(ask) = serde_json::from_slice::<Ask>(data) else { return };
    assert_eq!(again(&ask), ask);
    let Ask::Change { changes, .. } = ask else { return };
    let mut network = Network::from_toml(include_str!("../../topologies/pair.toml"), "pair").expect("it comes along");
    let link = &mut network.links[0];
    let Ok(changed) = link.forward.changed(&changes, link.mtu) else { return };
    link.forward = changed;
    assert_eq!(Network::from_toml(&network.to_toml(), "changed"), Ok(network));
}

fn again<T: serde::Serialize + serde::de::DeserializeOwned>(message: &T) -> T {
    let line = serde_json::to_vec(message).expect("messages are plain fields");
    serde_json::from_slice(&line).expect("what was written can be read")
}
