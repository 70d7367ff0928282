//! What the kernel makes of a pacing rate.
//!
//! It charges payload only, or with `fq` whole frames; it is late by its timers' granularity. The error
//! is the median of what was asked to what was sent, over streams that pacing alone held back at one
//! tick and at the next. A median, since a stream can run dry between two ticks unseen.

use std::collections::VecDeque;
use std::time::Duration;

use super::MILLION;

/// Largest correction. Under `fq` the kernel charges 14 bytes of Ethernet and the headers with the
/// payload: 4.6 % at MTU 1500 over IPv4, 6.0 % over IPv6; lateness of timers is the rest.
const ERROR_PPM_MAX: i64 = 80_000;
/// Measurements that the median is taken of: a second or more.
const MEASURES_MAX: usize = 15;
/// Shortest time of a measurement.
const LENGTH_MIN: Duration = Duration::from_millis(45);
/// Steps of pacing in a measurement at least: one more or less is then an error of 1.6 %.
const STEPS_MIN: u128 = 64;

/// The error of the kernel's pacing.
#[derive(Debug)]
pub(super) struct Kernel {
    running: Sample,
    measures_ppm: VecDeque<i64>,
}

/// Streams that only pacing held back, over some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) length: Duration,
    /// Bits on the wire that pacing, as it was set, stood for.
    pub(super) asked_bits: u128,
    /// Bits that were sent.
    pub(super) sent_bits: u128,
    /// Bits of one step of pacing of each stream.
    pub(super) step_bits: u128,
}

/// Another stream over the same time.
impl std::ops::AddAssign for Sample {
    fn add_assign(&mut self, other: Sample) {
        self.length = self.length.max(other.length);
        self.asked_bits += other.asked_bits;
        self.sent_bits += other.sent_bits;
        self.step_bits += other.step_bits;
    }
}

impl Kernel {
    /// Begins with a guess: no error.
    pub(super) fn new() -> Kernel {
        let mut measures_ppm = VecDeque::with_capacity(MEASURES_MAX);
        measures_ppm.push_back(0);
        Kernel { running: Sample::default(), measures_ppm }
    }

    /// What to add to pacing, in parts per million.
    pub(super) fn error_ppm(&self) -> i64 {
        let mut sorted: Vec<i64> = self.measures_ppm.iter().copied().collect();
        sorted.sort_unstable();
        (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2
    }

    /// Forgets a measurement that has begun.
    pub(super) fn restart(&mut self) {
        self.running = Sample::default();
    }

    pub(super) fn observe(&mut self, sample: Sample) {
        let step_bits = self.running.step_bits.max(sample.step_bits);
        let length = self.running.length + sample.length;
        self.running += sample;
        (self.running.length, self.running.step_bits) = (length, step_bits);
        if length < LENGTH_MIN || self.running.asked_bits < step_bits * STEPS_MIN {
            return;
        }
        let ratio_ppm = (self.running.asked_bits * MILLION as u128).checked_div(self.running.sent_bits);
        let error_ppm = ratio_ppm.and_then(|ppm| i64::try_from(ppm).ok()).unwrap_or(i64::MAX) - MILLION;
        self.restart();
        if self.measures_ppm.len() == MEASURES_MAX {
            self.measures_ppm.pop_front();
        }
        self.measures_ppm.push_back(error_ppm.clamp(-ERROR_PPM_MAX, ERROR_PPM_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(asked_bits: u128, sent_bits: u128) -> Sample {
        Sample { length: Duration::from_millis(50), asked_bits, sent_bits, step_bits: 1_000 }
    }

    #[test]
    fn learns_what_the_kernel_holds_back() {
        let mut kernel = Kernel::new();
        for _ in 0..3 {
            kernel.observe(sample(1_046_000, 1_000_000));
        }
        assert_eq!(kernel.error_ppm(), 46_000);
    }

    #[test]
    fn a_stream_that_runs_dry_now_and_then_is_no_error() {
        let mut kernel = Kernel::new();
        for i in 0..60 {
            kernel.observe(sample(1_000_000, if i % 3 == 0 { 600_000 } else { 999_000 }));
        }
        assert_eq!(kernel.error_ppm(), 1_001);
    }

    #[test]
    fn few_steps_are_gathered_until_they_tell() {
        let mut kernel = Kernel::new();
        for _ in 0..6 {
            kernel.observe(sample(10_000, 1));
        }
        assert_eq!(kernel.measures_ppm, [0], "60 steps");
        for _ in 0..100 {
            kernel.observe(sample(10_000, 13_000));
        }
        assert_eq!(kernel.error_ppm(), -ERROR_PPM_MAX, "bounded");
    }

    #[test]
    fn nothing_sent_is_bounded_too() {
        let mut kernel = Kernel::new();
        for _ in 0..3 {
            kernel.observe(sample(u64::MAX.into(), 0));
        }
        assert_eq!(kernel.error_ppm(), ERROR_PPM_MAX);
    }
}
