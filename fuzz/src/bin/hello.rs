#![no_main]

fuzz::target!("hello", fuzz::wire::hello);
