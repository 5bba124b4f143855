//! The lab's scenarios in virtual time.

use weft_scenario::{RunResult, Scenario, VariantResult};
use weft_world::pair::{EngineSettings, PairOptions, run};

const LINKS: &str = "
name = \"t\"
duration = \"6 s\"
warmup = \"2 s\"
repeats = 2
variants = [\"each-link\", \"best-link\", \"weft\", \"weft-each-link\"]
[[link]]
name = \"a\"
rate = \"20 Mbit/s\"
delay = \"5 ms\"
[[link]]
name = \"b\"
rate = \"10 Mbit/s\"
delay = \"15 ms\"
loss = \"0.2 %\"
";
const BULK: &str = "[[flow]]\napp = \"iperf3\"\n";

fn simulate(text: &str, options: &PairOptions) -> RunResult {
    let scenario = Scenario::parse(text, "t").unwrap();
    let traces = scenario.load_traces(None).unwrap();
    run(&scenario, &traces, options, &|_| Ok(EngineSettings::default()), &|_, _| ()).unwrap().result
}

fn variant<'a>(result: &'a RunResult, name: &str) -> &'a VariantResult {
    result.variants.iter().find(|variant| variant.name == name).unwrap()
}

#[test]
fn engines_bundle_links_and_alone_they_cost_little() {
    let result = simulate(&format!("{LINKS}{BULK}"), &PairOptions { repeat: Some(1), ..PairOptions::default() });
    let mbps = |name: &str| variant(&result, name).goodput_bps / 1e6;
    assert!(result.skipped.is_empty(), "{:?}", result.skipped);
    assert!((18.5..19.31).contains(&mbps("link:a")), "{}", mbps("link:a"));
    assert_eq!(mbps("best-link"), mbps("link:a"));
    assert!((17.5..19.1).contains(&mbps("weft:a")), "{}", mbps("weft:a"));
    assert!((26.0..28.9).contains(&mbps("weft")), "{}", mbps("weft"));
}

#[test]
fn same_seed_same_result_on_any_number_of_threads() {
    let text = format!("{LINKS}{BULK}[[flow]]\napp = \"probe\"\n[[flow]]\napp = \"ping\"\n");
    let on = |threads| format!("{:?}", simulate(&text, &PairOptions { threads, ..PairOptions::default() }));
    let once = on(1);
    assert_eq!(once, on(1));
    assert_eq!(once, on(3));
    let other = simulate(&text, &PairOptions { seed: Some(99), ..PairOptions::default() });
    assert_ne!(once, format!("{other:?}"));
}

#[test]
fn a_silent_cut_is_felt_briefly_and_judged() {
    let text = format!(
        "{}[[flow]]\napp = \"probe\"\n{BULK}[[event]]\nat = \"3 s\"\nlink = {{ carrying = \"probe\" }}\ncut = \"up\"\nfor = \"1 s\"\n",
        LINKS.replace("duration = \"6 s\"", "duration = \"8 s\"")
    );
    let options =
        PairOptions { variants: vec!["weft".into(), "each-link".into()], repeat: Some(1), ..PairOptions::default() };
    let result = simulate(&text, &options);
    let event = |name: &str| variant(&result, name).runs[0].events[0].clone();
    let weft = event("weft");
    assert_eq!((weft.link.as_deref(), weft.at_s), (Some("a"), 3.0));
    assert!(weft.gap_ms.unwrap() < 300.0, "{weft:?}");
    assert!(weft.demoted_s.unwrap() < 0.3, "{weft:?}");
    assert!(weft.share_back_s.unwrap() < 3.0, "{weft:?}");
    let plain = event("link:a");
    assert!(plain.gap_ms.unwrap() >= 1000.0 && plain.demoted_s.is_none(), "{plain:?}");
}

#[test]
fn what_is_not_there_is_said() {
    let scenario = Scenario::parse(&format!("{LINKS}{BULK}congestion = \"vegas\"\n"), "t").unwrap();
    let traces = scenario.load_traces(None).unwrap();
    let default = |_: &weft_scenario::Variant| Ok(EngineSettings::default());
    let result = run(&scenario, &traces, &PairOptions::default(), &default, &|_, _| ()).unwrap().result;
    assert!(result.skipped.iter().all(|skipped| skipped.reason.contains("`vegas`")) && result.variants.is_empty());
    let options = PairOptions { variants: vec!["wefd".into()], ..PairOptions::default() };
    let error = run(&scenario, &traces, &options, &default, &|_, _| ()).unwrap_err();
    assert!(error.contains("did you mean `weft`?"), "{error}");
}
