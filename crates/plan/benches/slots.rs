//! How long calendars and slot questions take: a JSON object for `bench/plan`, which prints it.
//!
//! One calendar with 10⁵ bookings that overlap 1 to 50 deep, called 10⁶ times, nine of ten for the least within a window, the
//! rest to take or to give back; and 40 questions for all slots in a network of 504 directed links with 2,500 bookings. Times
//! are of single calls, with what reading the clock takes. The seed is fixed: every run asks the same.

use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use plan::book::{Book, Holder, Take};
use plan::calendar::Calendar;
use plan::graph::{Edge, Graph};
use plan::slots::{Ends, Slots};
use units::{Moment, Window};

const BOOKINGS: usize = 100_000;
const CALLS: usize = 1_000_000;
/// Bookings that overlap at most, b/s of each, and so what there is of the resource.
const DEEPEST: usize = 50;
const RATE: u64 = 8_000_000_000;

fn main() {
    let mut rng = Rng(7);
    let [queries, updates, first] = calendar(&mut rng);
    let rounds = network(&mut rng);
    println!("{{\"query\":{queries},\"update\":{updates},\"first\":{first},\"all_slots\":{rounds}}}");
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn window(&mut self, first: u64, longest: u64) -> Window {
        let start = first.cast_signed();
        Window::lasting(start, 1 + self.below(longest)).expect("it is short")
    }
}

/// Of queries, of updates, and of the first update after a snapshot.
fn calendar(rng: &mut Rng) -> [String; 3] {
    /// Between the begins of two bookings, on average, ns: ten minutes.
    const BETWEEN: u64 = 600_000_000_000;
    let all = BOOKINGS as u64 * BETWEEN;
    let mut calendar = Calendar::new(RATE * DEEPEST as u64);
    // So long that 25 overlap on average; where 50 do another place is found.
    let booking = |rng: &mut Rng, calendar: &Calendar| {
        loop {
            let first = rng.below(all);
            let window = rng.window(first, 50 * BETWEEN);
            if calendar.fits(window, RATE) {
                return window;
            }
        }
    };
    let mut booked: Vec<Window> = Vec::with_capacity(BOOKINGS);
    while booked.len() < BOOKINGS {
        let window = booking(rng, &calendar);
        calendar.take(window, RATE).expect("it fits");
        booked.push(window);
    }
    let (mut queries, mut updates) = (Vec::with_capacity(CALLS), Vec::with_capacity(CALLS));
    for call in 0..CALLS {
        match call % 20 {
            0 => {
                let window = booked.swap_remove(rng.below(booked.len() as u64) as usize);
                updates.push(timed(|| calendar.give_back(window, RATE).expect("it was taken")));
            }
            10 => {
                let window = booking(rng, &calendar);
                updates.push(timed(|| calendar.take(window, RATE).expect("it fits")));
                booked.push(window);
            }
            _ => {
                let first = rng.below(all);
                // From minutes to half of all time.
                let longest = 1 << (33 + rng.below(23));
                let window = rng.window(first, longest);
                queries.push(timed(|| {
                    black_box(calendar.free(black_box(window)));
                }));
            }
        }
    }
    let snapshot = calendar.clone();
    let window = booking(rng, &calendar);
    let first = timed(|| calendar.take(window, RATE).expect("it fits"));
    drop(snapshot);
    [queries, updates, vec![first]].map(histogram)
}

/// Of rounds of 40 questions.
fn network(rng: &mut Rng) -> String {
    const NODES: usize = 80;
    const LINKS: usize = 252;
    const HOUR: u64 = 3_600_000_000_000;
    const DAYS: u64 = 7 * 24;
    let mut graph = Graph::default();
    for node in 0..NODES {
        graph.add_node(&format!("n{node:02}"), true);
    }
    for link in 0..LINKS {
        // A ring, so that all are connected, and chords.
        let from = link % NODES;
        let to =
            if link < NODES { (from + 1) % NODES } else { (from + 1 + rng.below(NODES as u64 - 1) as usize) % NODES };
        let capacity = [100_000_000_000, 300_000_000_000, 400_000_000_000][rng.below(3) as usize];
        let way = |from, to| Edge {
            name: format!("l{link} {from}-{to}"),
            from,
            to,
            cost: 1,
            delay: 0,
            capacity,
            risks: vec![],
        };
        graph.add_link(way(from, to), way(to, from));
    }
    let mut book = Book::new(graph);
    for _ in 0..2_500 {
        let resource = rng.below(2 * LINKS as u64) as usize;
        let first = rng.below(DAYS * HOUR);
        let take = Take { resource, window: rng.window(first, 24 * HOUR), rate: (1 + rng.below(30)) * 10_000_000_000 };
        let holder = Holder { name: "n".to_owned(), class: "c".to_owned() };
        book.impose(holder, vec![take], Moment::MIN).expect("it is small");
    }
    let slots = Slots::of(book.view());
    let within = Window::new(0, (DAYS * HOUR).cast_signed()).expect("a week");
    let questions: Vec<(Ends, NonZeroU64, NonZeroU64)> = (0..40)
        .map(|_| {
            let from = rng.below(NODES as u64) as usize;
            let to = (from + 1 + rng.below(NODES as u64 - 1) as usize) % NODES;
            let rate = NonZeroU64::new((1 + rng.below(20)) * 10_000_000_000).expect("above 0");
            (
                Ends::new(from, to).expect("they are two"),
                rate,
                NonZeroU64::new((1 + rng.below(24)) * HOUR).expect("above 0"),
            )
        })
        .collect();
    let mut rounds = Vec::new();
    for _ in 0..20 {
        rounds.push(timed(|| {
            questions.iter().for_each(|(ends, rate, nanos)| drop(black_box(slots.all(*ends, *rate, *nanos, within))));
        }));
    }
    histogram(rounds)
}

fn timed(what: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    what();
    begin.elapsed()
}

/// How many there are, and the times in ns that half of them, 99 %, 99.9 % and all do not exceed.
fn histogram(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |per_mille: usize| times[(times.len() * per_mille / 1000).min(times.len() - 1)].as_nanos();
    let (count, p50, p99, p999, most) = (times.len(), at(500), at(990), at(999), at(1000));
    format!("{{\"count\":{count},\"p50\":{p50},\"p99\":{p99},\"p999\":{p999},\"most\":{most}}}")
}
