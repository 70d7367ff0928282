//! Volumes: when so many bits can have been sent at the earliest.
//!
//! Three ways, each at least as early as the one before: at one rate over one path, at the rate that the path has free at each
//! moment, and over all paths at once. The first two are exact over the paths that are given (over all paths of a graph they are
//! NP-hard: Lin and Wu, "Complexity analysis and algorithm design for advance bandwidth scheduling in dedicated networks",
//! 2013); the third over all paths. Finishes are the first nanosecond at which it is all sent.

mod flow;
mod groups;

use std::num::NonZeroU64;

use units::{Bytes, Moment, Window};

use crate::book::Part;
use crate::calendar::CAPACITY_MAX;
use crate::graph::EdgeId;
use crate::slots::{Ends, Slots};
use flow::Flow;
use groups::Groups;

const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// Paths that the questions over one path look at, unless told otherwise.
pub const CANDIDATES: usize = 8;

/// Bits to send, in b/s × ns (10⁻⁹ bits), so that a rate for a time is exact. Above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Volume(u128);

impl Volume {
    /// So many bytes of packets; `None` for nothing.
    #[must_use]
    pub fn of_bytes(bytes: Bytes) -> Option<Volume> {
        Some(Volume(u128::from(bytes.get()) * 8 * NANOS_PER_SECOND)).filter(|volume| volume.0 > 0)
    }

    /// What a rate carries in a time.
    #[must_use]
    pub fn of_rate(rate: NonZeroU64, nanos: NonZeroU64) -> Volume {
        Volume(u128::from(rate.get()) * u128::from(nanos.get()))
    }

    /// In b/s × ns.
    #[must_use]
    pub fn get(self) -> u128 {
        self.0
    }

    /// How long it takes at a rate, in ns, rounded up; `None` if that is longer than any window.
    fn nanos_at(self, rate: u64) -> Option<u64> {
        u64::try_from(self.0.checked_add(u128::from(rate).checked_sub(1)?)? / u128::from(rate)).ok()
    }
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Where from and to.
    pub ends: Ends,
    /// How much.
    pub volume: Volume,
    /// The highest rate that the sender, the receiver or a mark allows.
    pub most: NonZeroU64,
    /// From when on and until when.
    pub within: Window,
}

/// How it is sent over one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnPath {
    /// Which of the paths that were given: the first of those that finish first.
    pub candidate: usize,
    /// When all is sent.
    pub finish: Moment,
    /// At which rates, in order.
    pub parts: Vec<Part>,
}

/// How it is sent over all paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverPaths {
    /// When all is sent.
    pub finish: Moment,
    /// At which rates over which paths, in order of time; those of one window add up.
    pub parts: Vec<Part>,
}

/// Why a volume is not split over paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSplit {
    /// It does not finish within the window.
    #[error("it does not finish in time, over all paths together")]
    NotInTime,
    /// Several of the edges draw on one resource that is not at one node: what flows over both is not a flow problem any more.
    #[error("`{resource}` limits links at several nodes together: ask for one path")]
    Shared {
        /// The resource.
        resource: String,
    },
}

impl Slots<'_> {
    /// The first paths between two nodes, at most `count`.
    #[must_use]
    pub fn candidates(&self, ends: Ends, count: usize) -> Vec<Vec<EdgeId>> {
        let towards = self.paths().towards(ends.to());
        towards.k_shortest(ends.from()).take(count).map(|path| path.edges).collect()
    }

    /// The earliest finish at one rate over one of the candidates; `None` if none is in time.
    #[must_use]
    pub fn volume_at_fixed_rate(&self, ask: &Ask, candidates: &[Vec<EdgeId>]) -> Option<OnPath> {
        let found = candidates.iter().enumerate().filter_map(|(candidate, path)| {
            let (window, rate) = earliest_box(&self.snapshot().profile(path, ask.within), ask)?;
            Some(OnPath { candidate, finish: window.end(), parts: vec![Part { path: path.clone(), window, rate }] })
        });
        // Of several the first is kept.
        found.min_by_key(|found| found.finish)
    }

    /// The earliest finish at whatever rate is free at each moment over one of the candidates; `None` if none is in time.
    #[must_use]
    pub fn volume_at_variable_rate(&self, ask: &Ask, candidates: &[Vec<EdgeId>]) -> Option<OnPath> {
        let found = candidates.iter().enumerate().filter_map(|(candidate, path)| {
            let mut left = ask.volume.0;
            let mut parts = Vec::new();
            for (piece, free) in self.snapshot().profile(path, ask.within) {
                let rate = free.min(ask.most.get());
                let Some(window) = sent(&mut left, piece, rate) else { continue };
                parts.push(Part { path: path.clone(), window, rate });
                if left == 0 {
                    return Some(OnPath { candidate, finish: window.end(), parts });
                }
            }
            None
        });
        found.min_by_key(|found| found.finish)
    }

    /// The earliest finish over all paths at once: the greatest flow from each change of a calendar to the next.
    ///
    /// # Errors
    /// If that is not in time, or it cannot be asked.
    pub fn volume_over_paths(&self, ask: &Ask) -> Result<OverPaths, NoSplit> {
        let snapshot = self.snapshot();
        let graph = snapshot.graph();
        let edges: Vec<EdgeId> = (0..graph.edges().len()).filter(|edge| ask.ends.may_use(graph, *edge)).collect();
        let name = |resource: usize| snapshot.resources()[resource].name().to_owned();
        let groups = Groups::of(snapshot, &edges).map_err(|shared| NoSplit::Shared { resource: name(shared) })?;
        let most = ask.most.get().min(CAPACITY_MAX);
        let mut left = ask.volume.0;
        let mut parts: Vec<Part> = Vec::new();
        let mut rest = Some(ask.within);
        // A turn for each piece of time in which no calendar changes.
        while let Some(now) = rest {
            let change = edges.iter().filter_map(|edge| snapshot.change_after(*edge, now.start())).min();
            let piece = change.and_then(|change| now.until(change)).unwrap_or(now);
            let instant = Window::lasting(piece.start(), 1).expect("a piece has a first moment");
            let free = |edge: EdgeId| snapshot.free(edge, instant);
            let free_of = |resource: usize| snapshot.resources()[resource].calendar().free(instant);
            let flow = Flow::greatest(graph, ask.ends, (&edges, &groups), free, free_of, most);
            if let Some(window) = sent(&mut left, piece, flow.rate()) {
                parts.extend(flow.into_paths(graph).into_iter().map(|(path, rate)| Part { path, window, rate }));
                if left == 0 {
                    return Ok(OverPaths { finish: window.end(), parts });
                }
            }
            rest = now.from(piece.end());
        }
        Err(NoSplit::NotInTime)
    }
}

/// The part of a piece in which a rate sends what is left, or all of it; `None` if it sends nothing.
fn sent(left: &mut u128, piece: Window, rate: u64) -> Option<Window> {
    if rate == 0 {
        return None;
    }
    let all = u128::from(rate) * u128::from(piece.nanos());
    if all < *left {
        *left -= all;
        return Some(piece);
    }
    let nanos = Volume(*left).nanos_at(rate).expect("it is no longer than the piece");
    *left = 0;
    Window::lasting(piece.start(), nanos)
}

/// The window that ends first of those in which one rate, free for all of it, sends a volume.
///
/// The rate can be taken as the least that is free within the window, or the most that is asked: any less takes longer. So the
/// boxes that matter begin where the free rate rises to theirs; those that are open at a moment are a stack with rates from low
/// to high.
fn earliest_box(profile: &[(Window, u64)], ask: &Ask) -> Option<(Window, u64)> {
    /// A box that goes on, and the one of it and those below that finishes first.
    struct Open {
        rate: u64,
        start: Moment,
        best: Option<(Window, u64)>,
    }
    let mut open: Vec<Open> = Vec::new();
    for (piece, free) in profile {
        let rate = (*free).min(ask.most.get());
        let mut start = piece.start();
        while let Some(higher) = open.pop_if(|top| top.rate >= rate) {
            start = higher.start;
        }
        if rate > 0 {
            let window = ask.volume.nanos_at(rate).and_then(|nanos| Window::lasting(start, nanos));
            let below = open.last().and_then(|below| below.best);
            let best =
                below.into_iter().chain(window.map(|window| (window, rate))).min_by_key(|(window, _)| window.end());
            open.push(Open { rate, start, best });
        }
        // What finishes within this piece was not finished before, and what begins later finishes later.
        if let Some(found) = open.last().and_then(|top| top.best).filter(|(window, _)| window.end() <= piece.end()) {
            return Some(found);
        }
    }
    None
}
