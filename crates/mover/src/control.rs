//! What a session decides about itself: how fast, over how many streams, with what buffers, what held
//! it back, and when to give up.
//!
//! | module | decides | asked |
//! |---|---|---|
//! | [`pace`] | what each stream may send, so that the session holds its set point | every 50 to 100 ms |
//! | [`polite`] | how fast it may go and be in nobody's way | every 10 ms |
//! | [`tuner`] | how many streams to use | once a second |
//! | [`attribution`] | what limited the last second | once a second |
//! | [`buffers`] | the size of a stream's send buffer, how much of it may wait to be sent | when a stream opens; five times a second |
//! | [`congestion`] | whether losses are the path's own, and another congestion control better | five times a second |
//! | [`doubt`] | whether what looked like the path's own losses is a queue that others hold | before that |
//! | [`bound`] | what streams of BBR may send together | each round trip |
//! | [`turns`] | which stream of BBR begins again | each round trip |
//! | [`stall`] | which streams are on a dead path | five times a second |
//! | [`tail`] | which streams hold up the end | five times a second |
//! | [`read_ahead`] | how much that was read may wait for the streams | before each read |
//! | [`retry`] | whether and when to connect again | after a lost connection |
//!
//! ```text
//!   tcp_info ─┬─▶ Pacer ──▶ SO_MAX_PACING_RATE per stream, allowance for the senders
//!             └─▶ attribute ──▶ Limit ─┬─▶ progress, summary, metrics
//!   telemetry ──▶     │                └─▶ StreamTuner ──▶ streams to open or end
//! ```
//!
//! All of it is pure: the time since the session began comes in as `now`, randomness as a number, what
//! the kernel says as counters; what is to be done comes out. Shares are integers, per mille
//! ([`PerMille`](attribution::PerMille)) or parts per million, so that the same inputs give the same
//! decision everywhere.

pub mod attribution;
pub mod bound;
pub mod buffers;
pub mod congestion;
pub mod doubt;
pub mod pace;
pub mod polite;
pub mod read_ahead;
pub mod retry;
pub mod stall;
pub mod tail;
pub mod tuner;
pub mod turns;
