#![no_main]

fuzz::target!("plan", fuzz::text::plan);
