#![no_main]

fuzz::target!("relay", fuzz::text::relay);
