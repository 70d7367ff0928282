#![no_main]

fuzz::target!("replay", fuzz::wire::replay);
