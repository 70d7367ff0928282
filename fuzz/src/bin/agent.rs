#![no_main]

fuzz::target!("agent", fuzz::text::agent);
