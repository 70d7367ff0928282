#![no_main]

fuzz::target!("request", fuzz::text::request);
