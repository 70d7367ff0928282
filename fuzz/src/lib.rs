//! Fuzz targets of the wire formats, the protocol's state machines and the files that are read; `scripts/fuzz` builds and runs them.
//!
//! Each program in `src/bin` runs one function of a module here on the inputs of libFuzzer.

mod input;
pub mod machines;
pub mod seeds;
pub mod store;
pub mod text;
pub mod twin;
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
