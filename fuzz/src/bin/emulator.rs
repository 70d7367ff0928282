#![no_main]

fuzz::target!("emulator", fuzz::twin::emulator);
