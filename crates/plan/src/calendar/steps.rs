//! A step function of time, in blocks.
//!
//! An array of blocks, each with up to [`BLOCK_MAX`] pieces and, beside them in arrays of their own, what it has least and most
//! and what is still to be added to all of it. A query reads the pieces of two blocks and one number of each block between; an
//! update copies at most two blocks and touches three numbers of each between. At 2·10⁵ pieces that is some 1,000 numbers in a
//! row, which costs less than the cache misses of a tree, and it is easier to see that it is right. Blocks are shared between
//! copies until one of them changes.

use std::sync::Arc;

use units::{Moment, Window};

/// Pieces of one block; a block that has more is cut in two.
const BLOCK_MAX: usize = 256;
/// A block that has fewer pieces is joined to its neighbour, if both fit.
const BLOCK_MIN: usize = BLOCK_MAX / 4;

/// Which values are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Below(i64),
    AtLeast(i64),
}

impl Wanted {
    fn is(self, value: i64) -> bool {
        match self {
            Wanted::Below(limit) => value < limit,
            Wanted::AtLeast(limit) => value >= limit,
        }
    }

    fn may_be_within(self, low: i64, high: i64) -> bool {
        match self {
            Wanted::Below(_) => self.is(low),
            Wanted::AtLeast(_) => self.is(high),
        }
    }
}

/// A step function from all moments to integers. No two pieces that touch have one value.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    /// When each block begins; the first begins before all time. All five have an entry per block.
    first: Vec<Moment>,
    /// Added to every value of the block.
    add: Vec<i64>,
    /// The least and the greatest value of the block, with `add`.
    low: Vec<i64>,
    high: Vec<i64>,
    blocks: Vec<Arc<Block>>,
}

#[derive(Clone, Debug)]
struct Block {
    /// When each piece begins; it lasts until the next, in this block or the one after.
    starts: Vec<Moment>,
    values: Vec<i64>,
}

/// A piece by its block and its place in it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct At {
    block: usize,
    piece: usize,
}

impl Steps {
    /// The same value at all times.
    pub(super) fn constant(value: i64) -> Steps {
        let block = Block { starts: vec![i64::MIN], values: vec![value] };
        Steps {
            first: vec![i64::MIN],
            add: vec![0],
            low: vec![value],
            high: vec![value],
            blocks: vec![Arc::new(block)],
        }
    }

    /// The value at a moment.
    pub(super) fn at(&self, moment: Moment) -> i64 {
        self.value(self.locate(moment))
    }

    /// The least value within a window.
    pub(super) fn min(&self, window: Window) -> i64 {
        self.fold(window, &self.low, i64::MAX, i64::min)
    }

    /// The greatest value within a window.
    pub(super) fn max(&self, window: Window) -> i64 {
        self.fold(window, &self.high, i64::MIN, i64::max)
    }

    /// The first moment from `from` on with a value that is wanted.
    pub(super) fn next(&self, from: Moment, wanted: Wanted) -> Option<Moment> {
        let At { block, piece } = self.locate(from);
        let within = |block: usize, skip: usize| {
            let values = &self.blocks[block].values[skip..];
            values
                .iter()
                .position(|value| wanted.is(value + self.add[block]))
                .map(|found| At { block, piece: skip + found })
        };
        let later = |block: usize| wanted.may_be_within(self.low[block], self.high[block]);
        let found = within(block, piece).or_else(|| {
            let block = (block + 1..self.blocks.len()).find(|block| later(*block))?;
            within(block, 0)
        });
        found.map(|at| self.start(at).max(from))
    }

    /// The end of the last stretch before `to` with values that are wanted; `to` if it goes on there.
    pub(super) fn last(&self, to: Moment, wanted: Wanted) -> Option<Moment> {
        let At { block, piece } = self.locate(to - 1);
        let within = |block: usize, pieces: usize| {
            let values = &self.blocks[block].values[..pieces];
            values.iter().rposition(|value| wanted.is(value + self.add[block])).map(|piece| At { block, piece })
        };
        let earlier = |block: usize| wanted.may_be_within(self.low[block], self.high[block]);
        let found = within(block, piece + 1).or_else(|| {
            let block = (0..block).rev().find(|block| earlier(*block))?;
            within(block, self.blocks[block].starts.len())
        });
        found.map(|at| self.end(at).min(to))
    }

    /// When the piece at a moment ends; `None` if it never does.
    pub(super) fn change_after(&self, moment: Moment) -> Option<Moment> {
        let end = self.end(self.locate(moment));
        (end != i64::MAX).then_some(end)
    }

    /// The pieces within a window, in order, cut to it.
    pub(super) fn pieces(&self, window: Window) -> impl Iterator<Item = (Window, i64)> {
        let mut at = Some(self.locate(window.start()));
        std::iter::from_fn(move || {
            let here = at?;
            let piece = Window::new(self.start(here).max(window.start()), self.end(here).min(window.end()))?;
            at = self.after(here);
            Some((piece, self.value(here)))
        })
    }

    /// Adds to all values within a window. The caller keeps values from overflowing.
    pub(super) fn add(&mut self, window: Window, delta: i64) {
        if delta == 0 {
            return;
        }
        self.split(window.start());
        self.split(window.end());
        let (from, to) = (self.locate(window.start()), self.locate(window.end()));
        if from.block == to.block {
            self.add_within(from.block, from.piece..to.piece, delta);
        } else {
            // A part of the first block, or all of it; all of those between; a part of the last, or nothing.
            let whole = from.block + usize::from(from.piece > 0);
            if whole > from.block {
                self.add_within(from.block, from.piece..self.blocks[from.block].starts.len(), delta);
            }
            for numbers in [&mut self.add, &mut self.low, &mut self.high] {
                numbers[whole..to.block].iter_mut().for_each(|number| *number += delta);
            }
            self.add_within(to.block, 0..to.piece, delta);
        }
        self.join(window.end());
        self.join(window.start());
    }

    fn add_within(&mut self, block: usize, pieces: std::ops::Range<usize>, delta: i64) {
        if pieces.is_empty() {
            return;
        }
        Arc::make_mut(&mut self.blocks[block]).values[pieces].iter_mut().for_each(|value| *value += delta);
        self.measure(block);
    }

    /// Makes a piece begin at a moment.
    fn split(&mut self, moment: Moment) {
        let at = self.locate(moment);
        if self.start(at) == moment {
            return;
        }
        let block = Arc::make_mut(&mut self.blocks[at.block]);
        block.starts.insert(at.piece + 1, moment);
        block.values.insert(at.piece + 1, block.values[at.piece]);
        if block.starts.len() > BLOCK_MAX {
            let half = block.starts.len() / 2;
            let later = Block { starts: block.starts.split_off(half), values: block.values.split_off(half) };
            self.first.insert(at.block + 1, later.starts[0]);
            self.add.insert(at.block + 1, self.add[at.block]);
            self.low.insert(at.block + 1, 0);
            self.high.insert(at.block + 1, 0);
            self.blocks.insert(at.block + 1, Arc::new(later));
            self.measure(at.block);
            self.measure(at.block + 1);
        }
    }

    /// Joins the piece that begins at a moment to the one before, if both have one value.
    fn join(&mut self, moment: Moment) {
        let at = self.locate(moment);
        if self.before(at).is_none_or(|before| self.value(before) != self.value(at)) {
            return;
        }
        let block = Arc::make_mut(&mut self.blocks[at.block]);
        block.starts.remove(at.piece);
        block.values.remove(at.piece);
        if block.starts.is_empty() {
            self.drop_block(at.block);
            return;
        }
        self.first[at.block] = block.starts[0];
        self.measure(at.block);
        if self.blocks[at.block].starts.len() < BLOCK_MIN {
            // The first block has none before it: it takes in the second.
            self.absorb_next(at.block.saturating_sub(1));
        }
    }

    /// Takes the block after into this one, if both fit.
    fn absorb_next(&mut self, block: usize) {
        let Some(next) = self.blocks.get(block + 1) else { return };
        if self.blocks[block].starts.len() + next.starts.len() > BLOCK_MAX {
            return;
        }
        let shift = self.add[block + 1] - self.add[block];
        let next = Arc::clone(next);
        let this = Arc::make_mut(&mut self.blocks[block]);
        this.starts.extend_from_slice(&next.starts);
        this.values.extend(next.values.iter().map(|value| value + shift));
        self.drop_block(block + 1);
        self.measure(block);
    }

    fn drop_block(&mut self, block: usize) {
        self.first.remove(block);
        self.add.remove(block);
        self.low.remove(block);
        self.high.remove(block);
        self.blocks.remove(block);
    }

    /// Finds the least and the greatest value of a block again.
    fn measure(&mut self, block: usize) {
        let values = &self.blocks[block].values;
        self.low[block] = extreme(values, i64::MAX, i64::min) + self.add[block];
        self.high[block] = extreme(values, i64::MIN, i64::max) + self.add[block];
    }

    /// The extreme value within a window; `none` is what no value is beyond.
    fn fold(&self, window: Window, of_blocks: &[i64], none: i64, pick: impl Fn(i64, i64) -> i64 + Copy) -> i64 {
        let (from, to) = (self.locate(window.start()), self.locate(window.end() - 1));
        let part = |block: usize, pieces: std::ops::Range<usize>| {
            extreme(&self.blocks[block].values[pieces], none, pick) + self.add[block]
        };
        if from.block == to.block {
            return part(from.block, from.piece..to.piece + 1);
        }
        let first = part(from.block, from.piece..self.blocks[from.block].values.len());
        let last = part(to.block, 0..to.piece + 1);
        pick(pick(first, last), extreme(&of_blocks[from.block + 1..to.block], none, pick))
    }

    fn locate(&self, moment: Moment) -> At {
        // The first block and its first piece begin before all time, so there always is one at or before.
        let block = self.first.partition_point(|first| *first <= moment) - 1;
        let piece = self.blocks[block].starts.partition_point(|start| *start <= moment) - 1;
        At { block, piece }
    }

    fn value(&self, at: At) -> i64 {
        self.blocks[at.block].values[at.piece] + self.add[at.block]
    }

    fn start(&self, at: At) -> Moment {
        self.blocks[at.block].starts[at.piece]
    }

    fn end(&self, at: At) -> Moment {
        self.after(at).map_or(i64::MAX, |after| self.start(after))
    }

    fn after(&self, at: At) -> Option<At> {
        if at.piece + 1 < self.blocks[at.block].starts.len() {
            return Some(At { piece: at.piece + 1, ..at });
        }
        (at.block + 1 < self.blocks.len()).then_some(At { block: at.block + 1, piece: 0 })
    }

    fn before(&self, at: At) -> Option<At> {
        if at.piece > 0 {
            return Some(At { piece: at.piece - 1, ..at });
        }
        let block = at.block.checked_sub(1)?;
        Some(At { block, piece: self.blocks[block].starts.len() - 1 })
    }
}

/// The extreme of values. Eight at a time, none of which waits for another.
fn extreme(values: &[i64], none: i64, pick: impl Fn(i64, i64) -> i64) -> i64 {
    let (eights, rest) = values.as_chunks::<8>();
    let mut lanes = [none; 8];
    for eight in eights {
        lanes.iter_mut().zip(eight).for_each(|(lane, value)| *lane = pick(*lane, *value));
    }
    lanes.iter().chain(rest).fold(none, |extreme, value| pick(extreme, *value))
}

/// Two functions are equal if they have equal values at all times, however their pieces are in blocks.
impl PartialEq for Steps {
    fn eq(&self, other: &Steps) -> bool {
        self.at(i64::MIN) == other.at(i64::MIN) && self.pieces(Window::ALWAYS).eq(other.pieces(Window::ALWAYS))
    }
}

impl Eq for Steps {}
