#![no_main]

fuzz::target!("source", fuzz::machines::source);
