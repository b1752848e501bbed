#![no_main]

#[path = "../drivers/mod.rs"]
#[allow(dead_code)]
mod drivers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drivers::allocation::run(bytes));
