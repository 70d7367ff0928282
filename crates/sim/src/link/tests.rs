//! The machine against numbers worked out by hand, and against itself.
