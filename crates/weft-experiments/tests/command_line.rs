//! The command line of `weft-lab`: refused scenarios and options.

mod common;

use common::{Scenario, stderr, weft_lab};

#[test]
fn a_scenario_that_names_an_unknown_link_is_refused() {
    let demo = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/demo.toml")).unwrap();
    let text = format!("{}\n[[event]]\nat = \"1 s\"\nlink = \"nolink\"\ncut = \"both\"\n", demo.trim_end());
    let line = text.lines().count() - 1;
    let scenario = Scenario::new(&text);
    let out = weft_lab(&["run", scenario.file()]);
    let message = stderr(&out);
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.contains(&format!("{}:{line}:8: ", scenario.file())) && message.contains("nolink"), "{message}");
}

#[test]
fn an_option_of_the_other_world_is_a_usage_error_that_names_it() {
    for (arguments, option) in [
        (&["sweep", "--world", "lab", "--shard", "0/2"][..], "--shard"),
        (&["sweep", "--world", "lab", "--threads", "2"], "--threads"),
        (&["sweep", "--variant", "weft"], "--variant"),
        (&["sweep", "--traces", "."], "--traces"),
        (&["sweep", "--repeat", "2"], "--repeat"),
    ] {
        let out = weft_lab(arguments);
        let message = stderr(&out);
        assert_eq!(out.status.code(), Some(2), "{message}");
        assert!(message.contains(&format!("{option} has no effect with --world")), "{message}");
    }
}
