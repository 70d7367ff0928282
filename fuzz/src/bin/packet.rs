#![no_main]

fuzz::target!("packet", fuzz::twin::packet);
