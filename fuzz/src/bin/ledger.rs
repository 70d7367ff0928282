#![no_main]

fuzz::target!("ledger", fuzz::store::ledger);
