use std::net::TcpListener;

use super::*;

const FREE: About = About { has_set_point: false, ends_soon: false };
const STREAMS: u16 = 8;

/// A path with streams over loopback, of which the tests say what their sockets show.
struct Plant {
    path: LossyPath,
    ours: Vec<TcpStream>,
    _theirs: Vec<TcpStream>,
}

impl Plant {
    fn new() -> Plant {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pair = |_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0);
        let (ours, theirs) = (0..STREAMS).map(pair).unzip();
        Plant { path: LossyPath::default(), ours, _theirs: theirs }
    }

    /// A look after so many milliseconds at streams that have lost so much and have this least round trip, ms, and no queue; whether it was time
    /// for one, and the path turned out to be lossy.
    fn look(&mut self, ms: u64, lost: u32, min_rtt_ms: u32, about: About) -> (bool, bool) {
        let now = Duration::from_millis(ms);
        let min_rtt_us = 1000 * min_rtt_ms;
        let info = TcpInfo {
            total_retrans: lost,
            rtt_us: min_rtt_us + 500,
            min_rtt_us,
            snd_mss: 1448,
            pacing_rate: 8_000_000,
            ..TcpInfo::default()
        };
        let streams: Vec<_> = (0..).zip(&self.ours).map(|(id, socket)| (id, socket, info)).collect();
        let is_due = self.path.losses_are_due(now);
        (is_due, self.path.look(now, &streams, about).is_some())
    }

    /// What the kernel holds the streams to, bytes/s.
    fn held(&self) -> Vec<u64> {
        let rate = |socket: &TcpStream| sys::socket::tcp_info(socket.as_fd()).unwrap().max_pacing_rate;
        self.ours.iter().map(rate).collect()
    }
}

#[test]
fn streams_stand_aside_for_one_round_trip_and_go_over_after_two() {
    let mut plant = Plant::new();
    assert_eq!(plant.look(0, 1, 100, FREE), (true, false));
    assert_eq!(plant.held(), [1_000_000; STREAMS as usize], "an eighth");
    assert_eq!(plant.look(50, 2, 100, FREE), (false, false));
    assert_eq!(plant.look(99, 2, 100, FREE), (true, false));
    assert_eq!(plant.held(), [u64::MAX; STREAMS as usize], "they go on");
    assert_eq!(plant.look(150, 3, 100, FREE), (false, false), "what they sent last is not there yet");
    assert_eq!(plant.look(199, 4, 100, FREE), (true, true));
    assert_eq!(plant.look(400, 9, 100, FREE), (false, false), "once");
}

#[test]
fn a_least_round_trip_that_falls_meanwhile_was_a_queue() {
    let mut plant = Plant::new();
    assert_eq!(plant.look(0, 1, 100, FREE), (true, false));
    assert_eq!(plant.look(100, 2, 90, FREE), (true, false));
    assert_eq!(plant.look(200, 3, 60, FREE), (true, false));
    assert_eq!(plant.look(300, 4, 60, FREE), (true, false), "which explains what is lost in the next moment");
    assert_eq!(plant.held(), [u64::MAX; STREAMS as usize]);
}

#[test]
fn a_least_round_trip_that_fell_before_counts_too() {
    // 38, 33 and 32 ms: from the second to the third it is too little to tell.
    for (first_ms, is_lossy) in [(38, false), (33, true)] {
        let mut plant = Plant::new();
        assert_eq!(plant.look(0, 0, first_ms, FREE), (true, false));
        assert_eq!(plant.look(50, 1, 33, FREE), (true, false));
        assert_eq!(plant.look(100, 2, 33, FREE), (true, false));
        assert_eq!(plant.look(150, 3, 32, FREE), (true, is_lossy), "{first_ms}");
    }
}

#[test]
fn a_set_point_needs_no_standing_aside_and_an_end_that_is_near_no_going_over() {
    let mut plant = Plant::new();
    assert_eq!(plant.look(0, 1, 100, About { ends_soon: true, ..FREE }), (true, false));
    assert_eq!(plant.look(100, 2, 100, About { has_set_point: true, ..FREE }), (true, true));
    assert_eq!(plant.held(), [u64::MAX; STREAMS as usize]);
}
