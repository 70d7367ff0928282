#![no_main]

fuzz::target!("paths", fuzz::text::paths);
