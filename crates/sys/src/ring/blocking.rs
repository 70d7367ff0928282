//! The backend without io_uring: each operation is one system call, made when asked for.

use std::collections::VecDeque;
use std::io;

use super::{Direction, Op};
use crate::file::{read_at_with, write_at};

pub(super) struct Blocking {
    queued: VecDeque<u32>,
    done: VecDeque<(u32, io::Result<usize>)>,
}

impl Blocking {
    pub(super) fn new(capacity: usize) -> Blocking {
        Blocking { queued: VecDeque::with_capacity(capacity), done: VecDeque::with_capacity(capacity) }
    }

    pub(super) fn push(&mut self, slot: u32) {
        self.queued.push_back(slot);
    }

    /// Performs operations until `min` are done; returns how many are.
    pub(super) fn perform(&mut self, min: usize, slots: &mut [Option<Op>]) -> usize {
        while self.done.len() < min {
            let Some(slot) = self.queued.pop_front() else {
                break;
            };
            let result = match slots[slot as usize].as_mut() {
                Some(op) => run(op),
                None => unreachable!("a queued slot holds an operation"),
            };
            self.done.push_back((slot, result));
        }
        self.done.len()
    }

    pub(super) fn next(&mut self, slots: &mut [Option<Op>]) -> Option<(u32, io::Result<usize>)> {
        self.perform(1, slots);
        self.done.pop_front()
    }
}

fn run(op: &mut Op) -> io::Result<usize> {
    let bytes = &mut op.buf[op.range.clone()];
    match op.direction {
        Direction::Read(cache) => read_at_with(&op.file, bytes, op.offset, cache),
        Direction::Write => write_at(&op.file, bytes, op.offset),
    }
}
