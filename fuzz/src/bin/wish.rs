#![no_main]

fuzz::target!("wish", fuzz::text::wish);
