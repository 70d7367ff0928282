use super::*;

/// A path with a drop-tail queue, and streams that each send up to a quarter more than the most they had in ten round trips. Steps of a
/// round trip; rates in bytes a second.
struct Model {
    bound: Bound,
    readings: Vec<Reading>,
    had: Vec<VecDeque<u64>>,
    parts: Vec<Option<u64>>,
    capacity: u64,
    queue_max: f64,
    queue: f64,
    at: Duration,
    sent: f64,
    lost: f64,
    carried: f64,
}

const RTT: Duration = Duration::from_millis(100);
const MSS: u32 = 1_000;

impl Model {
    fn new(streams: u16, capacity: u64, each: u64) -> Model {
        let reading =
            |stream| Reading { stream, mss_bytes: MSS, rtt_us: 100_000, min_rtt_us: 100_000, ..Reading::default() };
        let mut model = Model {
            bound: Bound::default(),
            readings: (0..streams).map(reading).collect(),
            had: vec![VecDeque::from([each]); usize::from(streams)],
            parts: vec![None; usize::from(streams)],
            capacity,
            queue_max: capacity as f64 / 10.0,
            queue: 0.0,
            at: Duration::ZERO,
            sent: 0.0,
            lost: 0.0,
            carried: 0.0,
        };
        model.bound.look(model.at, &model.readings);
        model
    }

    /// Ends the count of what was sent and lost.
    fn count_anew(&mut self) {
        (self.sent, self.lost, self.carried) = (0.0, 0.0, 0.0);
    }

    fn lost_share(&self) -> f64 {
        self.lost / self.sent
    }

    /// A round trip; with `bounded` the streams keep to what the bound says.
    fn round(&mut self, bounded: bool) {
        let wishes: Vec<u64> = self.had.iter().map(|had| had.iter().copied().max().unwrap_or(0) * 5 / 4).collect();
        let rates: Vec<u64> = wishes
            .iter()
            .zip(&self.parts)
            .map(|(&wish, part)| if bounded { wish.min(part.unwrap_or(u64::MAX)) } else { wish })
            .collect();
        let offered = rates.iter().sum::<u64>() as f64 / 10.0;
        let room = self.capacity as f64 / 10.0 + self.queue_max - self.queue;
        let lost = (offered - room).max(0.0);
        let carried = (self.queue + offered - lost).min(self.capacity as f64 / 10.0);
        self.queue += offered - lost - carried;
        self.at += RTT;
        self.sent += offered;
        self.lost += lost;
        self.carried += carried;
        let rtt_us = 100_000 + (self.queue / self.capacity as f64 * 1e6) as u32;
        for ((reading, rate), (wish, had)) in self.readings.iter_mut().zip(&rates).zip(wishes.iter().zip(&mut self.had))
        {
            let part = *rate as f64 / 10.0 / offered.max(1.0);
            let segments = |bytes: f64| (bytes * part / f64::from(MSS)).round() as u32;
            reading.sent += segments(offered);
            reading.resent += segments(lost);
            reading.delivered += segments(carried);
            reading.rtt_us = rtt_us;
            reading.is_held = rate < wish;
            had.push_back((carried * part * 10.0) as u64);
            if had.len() > 10 {
                had.pop_front();
            }
        }
        for (stream, part) in self.bound.look(self.at, &self.readings) {
            self.parts[usize::from(stream)] = part;
        }
    }

    fn rounds(&mut self, rounds: u32, bounded: bool) {
        (0..rounds).for_each(|_| self.round(bounded));
    }
}

/// A stream over a full queue, of whose segments so many in a thousand were lost in each of `n` round trips.
fn over_a_queue(n: u32, lost: u32) -> Reading {
    let (sent, resent, delivered) = (1000 * n, lost * n, (1000 - lost) * n);
    Reading { sent, resent, delivered, mss_bytes: MSS, rtt_us: 200_000, min_rtt_us: 100_000, ..Reading::default() }
}

#[test]
fn streams_that_fill_a_queue_are_held_to_what_the_path_carries() {
    for capacity in [12_500_000, 125_000_000, 1_250_000_000] {
        let mut model = Model::new(16, capacity, capacity / 12);
        model.bound.begin();
        model.rounds(20, true);
        model.count_anew();
        model.rounds(600, true);
        assert!(model.lost_share() < 0.005, "{}", model.lost_share());
        assert!(model.carried > 0.999 * 60.0 * capacity as f64, "the path stays full: {}", model.carried);
        // The model's streams without it, or the test would say nothing.
        let mut free = Model::new(16, capacity, capacity / 12);
        free.rounds(600, false);
        assert!(free.lost_share() > 0.05, "{}", free.lost_share());
    }
}

#[test]
fn a_path_that_losses_had_held_back_is_found_in_a_second() {
    // What was delivered before was a twentieth of what there is.
    let mut model = Model::new(8, 125_000_000, 125_000_000 / 8 / 20);
    model.rounds(10, false);
    model.had.iter_mut().for_each(|had| *had = VecDeque::from([125_000_000 / 8 / 20]));
    model.bound = Bound::default();
    model.readings.iter_mut().for_each(|reading| *reading = Reading { rtt_us: 100_000, ..*reading });
    model.queue = 0.0;
    model.rounds(5, false);
    model.bound.begin();
    model.rounds(25, true);
    model.count_anew();
    model.rounds(10, true);
    assert!(model.carried > 0.99 * 125_000_000.0, "{}", model.carried);
}

#[test]
fn what_becomes_free_is_taken() {
    let mut model = Model::new(8, 50_000_000, 50_000_000 / 8);
    model.bound.begin();
    model.rounds(100, true);
    // Three times as much.
    (model.capacity, model.queue_max) = (150_000_000, 15_000_000.0);
    model.rounds(30, true);
    model.count_anew();
    model.rounds(10, true);
    assert!(model.carried > 0.95 * 150_000_000.0, "{}", model.carried);
}

#[test]
fn nothing_is_said_before_the_begin_and_few_losses_hold_nobody() {
    let mut model = Model::new(4, 12_500_000, 1_000_000);
    model.rounds(100, false);
    assert!(model.parts.iter().all(Option::is_none), "it only learns");
    let mut bound = Bound { phase: Phase::Free, ..Bound::default() };
    // One in a hundred, over a queue.
    for n in 0..50_u32 {
        let reading = over_a_queue(n, 10);
        assert_eq!(bound.look(RTT * n, &[reading]), []);
    }
}

#[test]
fn streams_begin_with_what_a_full_path_carried_and_else_as_bbr_does() {
    let reading = |n: u32, rtt_us| Reading {
        sent: 1000 * n,
        delivered: 1000 * n,
        mss_bytes: MSS,
        rtt_us,
        min_rtt_us: 100_000,
        ..Reading::default()
    };
    let mut bound = Bound::default();
    (0..5).for_each(|n| drop(bound.look(RTT * n, &[reading(n, 150_000)])));
    bound.begin();
    let held =
        |bound: &mut Bound, n, rtt_us| bound.look(RTT * n, &[reading(n, rtt_us)]).first().and_then(|part| part.1);
    let rate = held(&mut bound, 5, 101_000).unwrap();
    assert!((10_200_000..10_300_000).contains(&rate), "{rate}");
    let mut bound = Bound::default();
    (0..5).for_each(|n| drop(bound.look(RTT * n, &[reading(n, 101_000)])));
    bound.begin();
    assert_eq!(held(&mut bound, 5, 101_000), None, "no queue was seen");
    let rate = held(&mut bound, 6, 150_000).unwrap();
    assert!((10_200_000..10_300_000).contains(&rate), "{rate}");
    bound.free();
    assert_eq!(held(&mut bound, 7, 150_000), None, "something else holds them");
}

/// Streams that go over to BBR send what their windows hold at once: a queue that is gone two looks later says nothing of what the path carries.
#[test]
fn a_queue_that_does_not_last_is_a_burst() {
    // Looks: segments delivered in it, and whether there is a queue.
    let held = |looks: &[(u32, bool)]| {
        let mut bound = Bound::default();
        let (mut all, mut parts) = (0, None);
        for (n, &(delivered, is_queued)) in looks.iter().enumerate() {
            all += delivered;
            let rtt_us = if is_queued { 150_000 } else { 101_000 };
            let (sent, mss_bytes, min_rtt_us) = (all, MSS, 100_000);
            let reading = Reading { sent, delivered: all, mss_bytes, rtt_us, min_rtt_us, ..Reading::default() };
            if let Some((_, part)) = bound.look(RTT * n as u32, &[reading]).first() {
                parts = *part;
            }
            if n == 1 {
                bound.begin();
            }
        }
        parts
    };
    let begin = [(500, false), (500, false)];
    let after = |looks: &[(u32, bool)]| held(&[&begin, looks].concat());
    let near = |rate: u64| rate * 101 / 100..rate * 104 / 100;
    assert!(near(5_000_000).contains(&after(&[(500, true)]).unwrap()));
    assert_eq!(after(&[(500, true), (900, false)]), None, "as BBR does");
    let full = after(&[(500, true), (900, false), (1000, true), (1000, true)]).unwrap();
    assert!(near(10_000_000).contains(&full), "{full}");
    assert_eq!(after(&[(500, true), (900, true), (700, false)]), None);
    let full = after(&[(500, true), (900, false), (1000, true), (900, false)]).unwrap();
    assert!(near(10_000_000).contains(&full), "the second one is a queue: {full}");
    let full = after(&[(500, true), (900, true), (1000, true), (900, false)]).unwrap();
    assert!(near(10_000_000).contains(&full), "a queue that lasted was one: {full}");
}

#[test]
fn a_loss_that_goes_on_is_answered_once() {
    let mut bound = Bound { phase: Phase::Free, ..Bound::default() };
    let mut parts = Vec::new();
    // Others keep the queue full: a tenth is lost, whatever is sent.
    for n in 0..50_u32 {
        let reading = over_a_queue(n, 100);
        parts.extend(bound.look(RTT * n, &[reading]).into_iter().filter_map(|(_, part)| part));
    }
    assert_eq!(parts.len(), 49);
    assert_eq!(parts[0], 8_550_000, "95 % of what is delivered");
    assert!(parts.windows(2).all(|two| two[0] < two[1]), "{parts:?}");
}

#[test]
fn a_look_in_which_the_other_end_stood_still_takes_no_more_than_half() {
    for capacity in [12_500_000, 125_000_000, 1_250_000_000] {
        let mut model = Model::new(16, capacity, capacity / 12);
        model.bound.begin();
        model.rounds(100, true);
        // What is sent again after it, before anything is acknowledged.
        model.at += RTT;
        for reading in &mut model.readings {
            (reading.sent, reading.resent, reading.rtt_us) = (reading.sent + 50, reading.resent + 50, 200_000);
        }
        for (stream, part) in model.bound.look(model.at, &model.readings) {
            model.parts[usize::from(stream)] = part;
        }
        let Phase::Held { rate, .. } = model.bound.phase else { panic!("{:?}", model.bound.phase) };
        assert!(rate >= capacity * 49 / 100, "{rate} of {capacity}");
        model.queue = 0.0;
        model.rounds(20, true);
        model.count_anew();
        model.rounds(10, true);
        assert!(model.carried > 0.99 * capacity as f64, "{} of {capacity}", model.carried);
    }
}

#[test]
fn a_path_that_has_become_much_narrower_is_found_in_some_seconds() {
    let mut model = Model::new(16, 125_000_000, 125_000_000 / 12);
    model.bound.begin();
    model.rounds(100, true);
    (model.capacity, model.queue_max) = (12_500_000, 1_250_000.0);
    model.rounds(60, true);
    model.count_anew();
    model.rounds(200, true);
    assert!(model.lost_share() < 0.01, "{}", model.lost_share());
    assert!(model.carried > 0.95 * 20.0 * 12_500_000.0, "{}", model.carried);
}

#[test]
fn of_streams_that_have_nothing_to_send_nothing_is_said() {
    let mut model = Model::new(16, 125_000_000, 125_000_000 / 12);
    model.bound.begin();
    model.rounds(100, true);
    let before = model.parts.clone();
    // Some packets, whose acknowledgements wait for more of them.
    for _ in 0..200 {
        model.at += RTT;
        for reading in &mut model.readings {
            (reading.sent, reading.delivered) = (reading.sent + 2, reading.delivered + 2);
            reading.rtt_us = 140_000;
        }
        assert_eq!(model.bound.look(model.at, &model.readings), []);
    }
    model.rounds(3, true);
    let sum = |parts: &[Option<u64>]| parts.iter().flatten().sum::<u64>();
    assert!(sum(&model.parts) >= sum(&before) * 95 / 100, "{} of {}", sum(&model.parts), sum(&before));
}

#[test]
fn a_part_is_never_zero_and_the_parts_are_no_more_than_the_whole() {
    let readings: Vec<_> =
        (0..5).map(|stream| Reading { stream, is_held: stream % 2 == 0, ..Reading::default() }).collect();
    for rate in [0, 3, 1_000, 1_000_000_007] {
        let parts = allot(rate, &readings, &[0, 1_000, 0, 500, 7]);
        assert!(parts.iter().all(|(_, part)| part.is_some_and(|part| part > 0)));
        assert!(parts.iter().filter_map(|(_, part)| *part).sum::<u64>() <= rate + 5);
    }
}

#[test]
fn counters_that_wrap_and_streams_that_come_and_go_are_no_traffic() {
    let mut bound = Bound { phase: Phase::Free, ..Bound::default() };
    let reading = |stream, sent, delivered| Reading {
        stream,
        sent,
        delivered,
        mss_bytes: MSS,
        rtt_us: 100_000,
        min_rtt_us: 100_000,
        ..Reading::default()
    };
    bound.look(RTT, &[reading(1, u32::MAX - 9, u32::MAX - 4), reading(2, 1_000_000, 1_000_000)]);
    bound.look(2 * RTT, &[reading(1, 290, 295), reading(3, 5_000_000, 5_000_000)]);
    assert_eq!(bound.delivered.back(), Some(&(300 * u64::from(MSS) * 10)));
}
