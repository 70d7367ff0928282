#![no_main]

fuzz::target!("record", fuzz::wire::record);
