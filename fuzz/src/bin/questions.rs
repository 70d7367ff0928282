#![no_main]

fuzz::target!("questions", fuzz::text::questions);
