//! The parameters of a VPN's loop in the configuration: accepted input, and the messages about bad input.
#![allow(missing_docs)]

use weft_config::config::{Report, Severity, parse};

/// Parses a file whose VPN has a loop with these keys.
fn parsed(keys: &str) -> Report {
    let peer = "[[peer]]\nname = \"hub\"\npublic-key = \"8kYnFlnT0RtNq5oXcSbUqIhwkqQ5aJk0q2Yb0vXzq0M=\"";
    let report = Report::new(
        "weft.toml",
        format!(
            "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n{peer}\n\
             prefixes = [\"10.9.0.2/32\"]\n[[vpn]]\nid = 7\nname = \"blue\"\nmembers = {{ hub = [] }}\n[vpn.loop]\n{keys}\n"
        ),
    );
    let _ = parse(&report, std::path::Path::new("/nowhere"));
    report
}

/// Asserts that these keys are refused with all these words.
#[track_caller]
fn refuses(keys: &str, words: &[&str]) {
    let report = parsed(keys);
    let text = report.to_string();
    assert_eq!(report.count(Severity::Error), 1, "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
}

#[test]
fn a_loop_has_parameters_of_its_law() {
    for keys in [
        "law = \"accumulation\"",
        "law = \"accumulation\"\naccumulation = \"counted\"\nincrease = 1\nbeta = 0.9\ntau = \"54 ms\"\n\
         interval = \"27 ms\"\nhigh = 3\nlow = 1.5\nhold = 0.2\nburst = 1000\nstartup = false",
        "law = \"aimd-window\"\nincrease = 0.5\ndecrease = 0.9\nmarker-every = 8\nstartup = false",
        "law = \"i2vfc\"",
        "law = \"i2vfc\"\nweight-by = \"increase\"\nsteering = \"off\"\nloss-events = \"shared\"",
        "law = \"explicit-rate\"",
        "law = \"none\"",
    ] {
        let report = parsed(keys);
        assert_eq!(report.count(Severity::Error), 0, "{keys}: {report}");
    }
}

#[test]
fn loop_parameters_out_of_bounds_are_refused_with_their_place() {
    // The table stands in line 14, its algorithm in line 15.
    for (law, line, expected) in [
        (
            "accumulation",
            "accumulation = \"count\"",
            ["16:16: error: `accumulation` cannot be `count`", "did you mean `counted`?"],
        ),
        (
            "accumulation",
            "increase = 0",
            ["16:12: error: `increase` must be a number above 0 and at most 100", "increase = 1"],
        ),
        (
            "accumulation",
            "beta = 1.0",
            ["16:8: error: `beta` must be a number above 0 and at most 0.999", "beta = 0.95"],
        ),
        ("accumulation", "beta = \"x\"", ["16:8: error: `beta` must be a number", "for example beta = 0.95"]),
        (
            "accumulation",
            "tau = \"0 ms\"",
            ["16:7: error: `tau` cannot be `0 ms`: the time `tau` of a loop must be from 1 ms to 60 s", "\"54 ms\""],
        ),
        ("accumulation", "interval = \"61 s\"", ["16:12: error: `interval` cannot be `61 s`", "\"54 ms\""]),
        ("accumulation", "high = -2.0", ["16:8: error: `high` must be a number above 0", "for example high = 2"]),
        ("accumulation", "low = 2.5", ["16:1: error: `low` = 2.5 must be below `high` = ", "high = 2.0 and low = 1.5"]),
        ("accumulation", "hold = 1.5", ["16:1: error: `hold` = 1.5 must be below `increase` = 1", "hold = 0.2"]),
        ("accumulation", "burst = 39", ["16:9: error: `burst` must be a whole number from 40 to 65535", ""]),
        (
            "accumulation",
            "decrease = 0.1",
            ["16:1: error: unknown key `decrease` in [vpn.loop]", "keys that [vpn.loop] may have"],
        ),
        (
            "aimd-window",
            "decrease = 0.91",
            ["16:12: error: `decrease` must be a number above 0 and at most 0.9", "decrease = 0.1"],
        ),
        ("aimd-window", "marker-every = 0", ["16:16: error: `marker-every` must be a whole number from 1 to 255", ""]),
        (
            "i2vfc",
            "loss-events = \"all\"",
            ["16:15: error: `loss-events` cannot be `all`: write one of own, shared", ""],
        ),
        (
            "i2vfc",
            "weight-by = \"c\"",
            ["16:13: error: `weight-by` cannot be `c`: write one of increase, decrease", ""],
        ),
        (
            "i2vfc",
            "steering = \"on\"",
            ["16:12: error: `steering` cannot be `on`: write one of off, rule, closed-loop", ""],
        ),
        ("aimd-window", "bta = 0.9", ["16:1: error: unknown key `bta` in [vpn.loop]", "keys that [vpn.loop] may have"]),
        ("acumulation", "beta = 0.9", ["15:7: error: `law` cannot be `acumulation`", "did you mean `accumulation`?"]),
    ] {
        refuses(&format!("law = \"{law}\"\n{line}"), &expected);
    }
    refuses("beta = 0.9", &["14:", "[vpn.loop] needs `law`"]);
}
