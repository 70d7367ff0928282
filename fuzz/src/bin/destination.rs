#![no_main]

fuzz::target!("destination", fuzz::machines::destination);
