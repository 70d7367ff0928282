#![no_main]

fuzz::target!("instance", fuzz::wire::instance);
