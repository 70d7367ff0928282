#![no_main]

fuzz::target!("journal", fuzz::wire::journal);
