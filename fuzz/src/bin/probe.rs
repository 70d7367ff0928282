#![no_main]

fuzz::target!("probe", fuzz::wire::probe);
