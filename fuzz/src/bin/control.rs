#![no_main]

fuzz::target!("control", fuzz::wire::control);
