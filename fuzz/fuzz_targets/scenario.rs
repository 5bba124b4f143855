//! Scenario and sweep files, as people write them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_scenario::{Scenario, Sweep};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Scenario::parse(text, "fuzz.toml") {
        Ok(scenario) => assert!(!scenario.links.is_empty(), "a scenario without a link"),
        Err(why) => assert!(why.to_string().starts_with("fuzz.toml:"), "no place in: {why}"),
    }
    if let Ok(sweep) = Sweep::parse(text, "fuzz.toml") {
        sweep.scenario(1);
    }
});
