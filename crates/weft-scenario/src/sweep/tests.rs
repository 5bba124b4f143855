use super::*;
use crate::VariantResult;

const SWEEP: &str = r#"
name = "s"
seeds = [1, 2, 3]
links = [2, 4]
rate = ["1 Mbit/s", "100 Mbit/s"]
delay = ["1 ms", "200 ms"]
loss = ["0 %", "3 %"]
duration = "20 s"
warmup = "5 s"
least = { of-best-link-through-weft = 0.98, of-best-link = 0.93 }
"#;

#[test]
fn a_seed_always_gives_the_same_mix_within_the_ranges() {
    let sweep = Sweep::parse(SWEEP, "s.toml").unwrap();
    assert_eq!(sweep.scenario(7), sweep.scenario(7));
    assert_ne!(sweep.scenario(7).links, sweep.scenario(8).links);
    for seed in 0..200 {
        let links = sweep.scenario(seed).links;
        assert!((2..=4).contains(&links.len()));
        for link in links {
            let crate::Capacity::Rate(rate) = link.up.capacity else { panic!("a constant rate is drawn") };
            assert!((Rate::from_bps(999_999)..=Rate::from_mbps(100)).contains(&rate), "{rate}");
            assert!((Duration::from_millis(1)..=Duration::from_millis(200)).contains(&link.up.delay));
            assert!((0.0..=0.03).contains(&link.up.loss));
        }
    }
}

#[test]
fn the_shipped_sweep_draws_the_same_rates_on_every_machine() {
    let text = include_str!("../../../../scenarios/sweeps/never-slower.toml");
    let sweep = Sweep::parse(text, "never-slower.toml").unwrap();
    let links = sweep.seeds.iter().flat_map(|seed| sweep.scenario(*seed).links);
    let digest = links.fold(0_u64, |digest, link| {
        let crate::Capacity::Rate(rate) = link.up.capacity else { panic!("a constant rate is drawn") };
        digest.wrapping_mul(31).wrapping_add(rate.bps())
    });
    // This digest is that of the 90 rates with which the published results of this sweep were measured.
    assert_eq!(digest, 0xf384_7b27_4f85_7359);
}

/// Returns the result of a run in which weft's goodput over all links is `bonded`, and that of the best link is 1.
fn ran(scenario: &Scenario, bonded: f64) -> RunResult {
    let variant = |name: &str, goodput_bps| VariantResult {
        name: name.into(),
        goodput_bps,
        efficiency: goodput_bps,
        link: None,
        note: None,
        setup_ms: None,
        prediction: None,
        flows: Vec::new(),
        links: Vec::new(),
        vpn_fairness: None,
        vpns: Vec::new(),
        host_fairness: None,
        hosts: Vec::new(),
        ports: Vec::new(),
        events: Vec::new(),
        disturbances: Vec::new(),
        runs: Vec::new(),
    };
    RunResult {
        schema: crate::SCHEMA,
        scenario: scenario.name.clone(),
        world: "sim".into(),
        seed: 1,
        duration_s: 1.0,
        warmup_s: 0.0,
        repeats: scenario.repeats,
        bound_bps: 1.0,
        variants: vec![variant("weft", bonded), variant("weft:link0", 1.0), variant("link:link0", 1.0)],
        skipped: Vec::new(),
    }
}

#[test]
fn a_mix_undecided_after_one_run_is_judged_by_all_runs() {
    let text = SWEEP.replace("least", "repeats = 3\nclear-by = \"20 %\"\nleast");
    let sweep = Sweep::parse(&text, "s.toml").unwrap();
    for (first, later, runs, pass) in [
        (1.2, 0.5, vec![1], true),
        (1.1, 1.0, vec![1, 3], true),
        (1.1, 0.9, vec![1, 3], false),
        (0.1, 1.0, vec![1, 3], true),
    ] {
        let mut made = Vec::new();
        let mix = sweep.examine(1, |scenario| {
            made.push(scenario.repeats);
            Ok::<_, ()>(ran(scenario, if scenario.repeats == 1 { first } else { later }))
        });
        assert_eq!((made, mix.unwrap().pass), (runs, pass), "{first}, then {later}");
    }
}

#[test]
fn an_empty_range_is_refused_at_its_place() {
    let error = Sweep::parse(&SWEEP.replace("[2, 4]", "[4, 2]"), "s.toml").unwrap_err();
    assert_eq!((error.line, error.column), (4, 9));
    assert!(error.message.contains("[least, most]"));
}

#[test]
fn a_drawn_sweep_has_no_ranges_and_may_give_its_seeds_as_a_range() {
    let text = "name = \"s\"\nseeds = { from = 5, count = 3 }\ndraw = \"one-link\"\nleast = { of-bbr = 0.9 }\n";
    let sweep = Sweep::parse(text, "s.toml").unwrap();
    assert_eq!((sweep.seeds.as_slice(), &sweep.source), (&[5, 6, 7][..], &MixSource::OneLink));
    assert_eq!(sweep.least, Least { of_bbr: Some(0.9), ..Least::default() });
    assert_eq!(sweep.scenario(5).links, draw_mix(5, true).links);
    let error = Sweep::parse(&text.replace("least", "links = [1, 2]\nleast"), "s.toml").unwrap_err();
    assert_eq!((error.line, error.column), (4, 9), "{error}");
    let error = Sweep::parse(&text.replace("draw = \"one-link\"\n", ""), "s.toml").unwrap_err();
    assert!(error.message.contains("a sweep needs `links`"), "{error}");
    assert!(Sweep::parse(&text.replace("count = 3", "count = 0"), "s.toml").is_err());
}
