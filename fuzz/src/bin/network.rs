#![no_main]

fuzz::target!("network", fuzz::text::network);
