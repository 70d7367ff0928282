#![no_main]

fuzz::target!("hosts", fuzz::text::hosts);
