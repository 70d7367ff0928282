//! Fuzz targets of the wire formats and the protocol's state machines; `scripts/fuzz` builds and runs them.
//!
//! Each program in `src/bin` runs one function of [`wire`] or [`machines`] on the inputs of libFuzzer.

mod input;
pub mod machines;
pub mod seeds;
pub mod wire;

#[doc(hidden)]
pub use libfuzzer_sys;

/// A program that fuzzes one function. It first puts the seeds of that name into the corpus it is given.
#[macro_export]
macro_rules! target {
    ($name:literal, $run:path) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::seeds::plant($name), |data: &[u8]| $run(data));
    };
}
