//! The configuration file: every text is either accepted, or rejected with a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use weft_config::config::{Report, Severity, parse};

fuzz_target!(|text: &str| {
    let report = Report::new("weft.toml", text);
    let config = parse(&report, Path::new("/nowhere"));
    assert!(config.is_some() || report.count(Severity::Error) > 0, "refused without a reason");
    let findings = report.count(Severity::Error) + report.count(Severity::Warning);
    let said = report.to_string();
    assert!(said.matches("weft.toml:").count() >= findings, "each with its place: {said}");
});
