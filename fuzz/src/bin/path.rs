#![no_main]

fuzz::target!("path", fuzz::wire::path);
