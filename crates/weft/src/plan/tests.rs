//! Properties of plans over random networks.
//!
//! A random network has true links. The status has paths of these links, and other paths that the plan must ignore.

use super::{Measurements, Occasion, Pace, PlanAnswer, PlanLink, PlanQuestion, scenario};
use crate::cli::GivenRate;
use crate::status::{Link, Path, PathHistory, Point, Sensed};
use proptest::prelude::*;
use weft_scenario::{Capacity, FlowDirection, QueueSize, Scenario};
use weft_units::Rate;
use weft_world::pair::{EngineSettings, PairOptions, run};

/// The data from which the node or the peer knows a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Evidence {
    Load,
    Trains,
    Earlier,
    Limit,
}

/// A link as it really is, and what else a status contains about it.
#[derive(Clone, Debug)]
struct TrueLink {
    name: String,
    rates: [u64; 2],
    rtt_us: u64,
    jitter_us: u64,
    loss: f64,
    standby: bool,
    evidence: Evidence,
    has_history: bool,
    /// True if the status contains a second, slower path, a path that is down, and a path over TCP.
    decoys: [bool; 3],
}

#[derive(Clone, Debug)]
struct TrueNetwork {
    links: Vec<TrueLink>,
    /// True if the node is the one with many links. Otherwise its peer is.
    is_site: bool,
    /// True if the plan gets the peer's status.
    has_far: bool,
    has_relay: bool,
}

/// A node's view of a random network.
struct KnownNetwork {
    links: Vec<Link>,
    paths: Vec<Path>,
    histories: Vec<PathHistory>,
    far: Vec<Path>,
}

fn evidence() -> impl Strategy<Value = Evidence> {
    prop::sample::select(vec![Evidence::Load, Evidence::Trains, Evidence::Earlier, Evidence::Limit])
}

fn true_link(most_bps: f64) -> impl Strategy<Value = TrueLink> {
    let rate = || (5e4f64.ln()..most_bps.ln()).prop_map(|log| log.exp() as u64);
    let loss = prop_oneof![Just(0.0), 1e-5..0.1f64];
    let names = prop_oneof!["[a-z]{2,5}[0-9]", "[A-Za-z0-9._@é-]{1,15}"];
    (names, [rate(), rate()], 200u64..800_000, 0u64..40_000, loss, any::<[bool; 2]>(), evidence(), any::<[bool; 3]>())
        .prop_map(|(name, rates, rtt_us, jitter_us, loss, [standby, has_history], evidence, decoys)| TrueLink {
            name,
            rates,
            rtt_us,
            jitter_us,
            loss,
            standby,
            evidence,
            has_history,
            decoys,
        })
}

fn network(most_bps: f64) -> impl Strategy<Value = TrueNetwork> {
    let links = prop::collection::vec(true_link(most_bps), 1..6);
    (links, any::<[bool; 3]>()).prop_map(|(mut links, [is_site, has_far, has_relay])| {
        let mut seen = std::collections::BTreeSet::new();
        links.retain(|link| link.name != "tcp" && seen.insert(link.name.clone()));
        // With one link at each end, the plan has the name of this node's link.
        let is_site = is_site || links.len() == 1;
        if !is_site {
            // This node has one link, whose limit would apply to all paths.
            links.iter_mut().filter(|link| link.evidence == Evidence::Limit).for_each(|l| l.evidence = Evidence::Load);
        }
        TrueNetwork { links, is_site, has_far, has_relay }
    })
}

fn path(id: usize, link: &str, remote_link: Option<&str>) -> Path {
    Path {
        id: id as u8,
        link: link.to_owned(),
        remote_link: remote_link.map(str::to_owned),
        remote: format!("192.0.2.{}:51900", id % 250),
        state: "good".to_owned(),
        cause: "it answers".to_owned(),
        in_bundle: true,
        standby: false,
        rtt_us: Some(9_000_000),
        rtt_min_us: None,
        queue_delay_us: 0,
        skew_us: 0,
        jitter_us: 0,
        loss: 0.0,
        capacity_bps: None,
        pacing_bps: 0,
        mode: "steady".to_owned(),
        delivery_bps: 0,
        sensed: None,
        weight: 1,
        mtu: 1_500,
        sent_datagrams: 0,
        sent_bytes: 0,
        received_datagrams: 0,
        received_bytes: 0,
        sending_bps: None,
        receiving_bps: None,
        lost_datagrams: 0,
    }
}

impl TrueLink {
    /// Returns the path of the link, and its history.
    fn path(&self, id: usize, is_site: bool) -> (Path, Option<PathHistory>) {
        let mut path = if is_site { path(id, &self.name, None) } else { path(id, "uplink", Some(&self.name)) };
        (path.in_bundle, path.standby) = (!self.standby, self.standby);
        (path.rtt_min_us, path.jitter_us, path.loss) = (Some(self.rtt_us), self.jitter_us, self.loss);
        let bps = self.rates[0];
        // With a history, the present rate may differ, and the plan must not use it.
        let now_bps = if self.has_history { bps / 5 } else { bps };
        match self.evidence {
            Evidence::Load => path.capacity_bps = Some(now_bps),
            Evidence::Trains => {
                let capacity_bps = Some(now_bps);
                path.sensed =
                    Some(Sensed { age_ms: 7_000, capacity_bps, available_bps: Some(1), loss: 0.5, queue_us: None });
            }
            Evidence::Earlier | Evidence::Limit => {}
        }
        let is_earlier = self.evidence == Evidence::Earlier;
        let point = |at: usize| Point {
            // The median of the values is the rate, and the mean of the losses is the loss.
            capacity_bps: (self.evidence != Evidence::Limit)
                .then(|| [bps as f64 / 7.0, bps as f64, bps as f64 * 3.0][at % 3]),
            loss: Some(self.loss * [0.5, 1.5][at % 2]),
            ..Point::default()
        };
        let history = (self.has_history || is_earlier).then(|| PathHistory {
            link: path.link.clone(),
            remote: path.remote.clone(),
            seconds: (0..30).map(point).collect(),
            minutes: Vec::new(),
        });
        (path, history)
    }

    /// Returns the other paths of the link that the status contains.
    fn others(&self, first_id: usize, is_site: bool) -> Vec<Path> {
        let [slower, down, tcp] = self.decoys;
        let end = |suffix: &str| format!("{}{suffix}", self.name);
        let other = |number: usize, suffix: &str| match is_site {
            true => path(first_id + number, &end(suffix), None),
            false => path(first_id + number, "uplink", Some(&end(suffix))),
        };
        let mut paths = Vec::new();
        let worse = |other: Path| Path {
            in_bundle: false,
            standby: self.standby,
            rtt_min_us: Some(1),
            capacity_bps: Some(self.rates[0] / 2),
            ..other
        };
        if slower {
            paths.push(worse(other(0, "")));
        }
        if down {
            let state = "down".to_owned();
            paths.push(Path { state, rtt_min_us: Some(1), capacity_bps: Some(u64::MAX / 2), ..other(1, "") });
        }
        if tcp {
            paths.push(worse(other(2, "/tcp")));
        }
        paths
    }
}

impl TrueNetwork {
    fn known(&self) -> KnownNetwork {
        let mut known = KnownNetwork { links: Vec::new(), paths: Vec::new(), histories: Vec::new(), far: Vec::new() };
        for (number, link) in self.links.iter().enumerate() {
            let (own, history) = link.path(number, self.is_site);
            known.links.extend((self.is_site && link.evidence == Evidence::Limit).then(|| Link {
                name: link.name.clone(),
                index: 1,
                mtu: 1_500,
                addresses: Vec::new(),
                max_rate_up_bps: Some(link.rates[0]),
                quota: None,
            }));
            if self.has_far {
                let far_link = own.remote_link.as_deref().unwrap_or("uplink");
                known.far.push(Path { capacity_bps: Some(link.rates[1]), ..path(number, far_link, None) });
            }
            let others = link.others(50 + 10 * number, self.is_site);
            // The path of the link stands between its other paths in the status, and the plan must find it.
            known.paths.extend(others.iter().take(1).cloned());
            known.paths.push(own);
            known.paths.extend(others.iter().skip(1).cloned());
            known.histories.extend(history);
        }
        if self.has_relay {
            known.paths.push(Path { rtt_min_us: Some(1), capacity_bps: Some(1 << 40), ..path(200, "via hub", None) });
        }
        known
    }

    fn measured(&self, given: &[GivenRate]) -> Result<Vec<PlanLink>, String> {
        let known = self.known();
        let KnownNetwork { links, paths, histories, far } = &known;
        Measurements { links, paths, histories, far }.links(given).map(|measured| measured.links)
    }

    /// Returns the true links in use without those of these names, in the order of the status.
    fn in_use(&self, gone: &[String]) -> Vec<&TrueLink> {
        let left: Vec<&TrueLink> = self.links.iter().filter(|link| !gone.contains(&link.name)).collect();
        let preferred: Vec<&TrueLink> = left.iter().copied().filter(|link| !link.standby).collect();
        if preferred.is_empty() { left } else { preferred }
    }

    /// Returns the rate from the peer that a plan must have.
    fn rate_from(&self, link: &TrueLink) -> u64 {
        if self.has_far { link.rates[1] } else { link.rates[0] }
    }
}

fn written(network: &TrueNetwork, question: &PlanQuestion) -> Result<Scenario, String> {
    let links = question.links(&network.measured(&[])?)?;
    let remarks = ["a \u{7f} remark\nof two lines".to_owned()];
    let pace = Pace::of(&[(PlanQuestion::AsItIs, network.measured(&[])?), (question.clone(), links.clone())]);
    let occasion = Occasion { peer: "a\"b\\ñ", unix_s: 1_800_000_000, remarks: &remarks, pace };
    let text = scenario(occasion, question, &links);
    Scenario::parse(&text, "plan.toml").map_err(|why| format!("{why}\n{text}"))
}

fn near(found: f64, truth: f64, share: f64, least: f64) -> bool {
    (found - truth).abs() <= truth * share + least
}

/// Checks the links of a scenario against the true ones.
fn same_links(network: &TrueNetwork, found: &Scenario, truth: &[&TrueLink]) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.links.len(), truth.len());
    for (found, truth) in found.links.iter().zip(truth) {
        for (direction, bps) in [(FlowDirection::Up, truth.rates[0]), (FlowDirection::Down, network.rate_from(truth))] {
            let spec = found.towards(direction);
            let Capacity::Rate(rate) = spec.capacity else { panic!("a trace") };
            prop_assert!(near(rate.bps() as f64, bps as f64, 1e-4, 1.0), "{} of {bps}", rate);
            prop_assert!(near(spec.delay.as_secs_f64(), truth.rtt_us as f64 / 2e6, 0.0, 1e-6), "{:?}", spec.delay);
            prop_assert!(near(spec.loss, truth.loss, 0.0, 1e-7), "{} of {}", spec.loss, truth.loss);
            let queue_s = match spec.queue {
                QueueSize::Bdp(factor) if factor >= 1.5 => factor * truth.rtt_us as f64 / 1e6,
                other => panic!("{other:?}"),
            };
            prop_assert!(queue_s >= 0.0199, "{queue_s} s");
            let jitter = spec.jitter.as_secs_f64();
            prop_assert!(near(jitter, truth.jitter_us as f64 * 3e-6, 0.0, 1e-6), "{jitter}");
        }
    }
    Ok(())
}

proptest! {
    /// Property: every scenario is one for the simulator, and has the true figures of the links in use.
    #[test]
    fn a_scenario_has_the_true_links(network in network(2e9), sites in 0u16..100) {
        let question = if sites == 0 { PlanQuestion::AsItIs } else { PlanQuestion::Sites(sites) };
        let scenario = written(&network, &question).unwrap();
        same_links(&network, &scenario, &network.in_use(&[]))?;
        prop_assert_eq!(scenario.vpns.len(), if sites == 0 { 0 } else { usize::from(sites) + 1 });
        prop_assert_eq!(scenario.flows.len(), 6 * (usize::from(sites) + 1));
    }

    /// Property: without some links the scenario has all others, and standby takes over. Without all there is none.
    #[test]
    fn links_are_removed(network in network(2e9), which in any::<[bool; 6]>()) {
        let links = network.links.iter().zip(which);
        let gone: Vec<String> = links.filter(|(_, goes)| *goes).map(|(link, _)| link.name.clone()).collect();
        let truth = network.in_use(&gone);
        match written(&network, &PlanQuestion::Without(gone.clone())) {
            Ok(scenario) => same_links(&network, &scenario, &truth)?,
            Err(why) => prop_assert!(truth.is_empty() && why.contains("keep one"), "{}", why),
        }
        prop_assert_eq!(truth.is_empty(), gone.len() == network.links.len());
    }

    /// Property: a question with another rate of a link changes that link and nothing else.
    #[test]
    fn a_rate_is_changed(network in network(2e9), at in any::<prop::sample::Index>(), rates in [1_000u64..1 << 33, 1_000..1 << 33]) {
        let link = network.links[at.index(network.links.len())].name.clone();
        let given = GivenRate { link: link.clone(), rates: rates.map(Rate::from_bps) };
        let before = network.measured(&[]).unwrap();
        let mut changed = before.clone();
        changed.iter_mut().filter(|of| of.name == link).for_each(|of| [of.to_peer_bps, of.from_peer_bps] = rates);
        let in_use = |links: Vec<PlanLink>| PlanQuestion::AsItIs.links(&links).unwrap();
        prop_assert_eq!(PlanQuestion::With(given.clone()).links(&before).unwrap(), in_use(changed.clone()));
        let figures = |links: Vec<PlanLink>| links.into_iter().map(|of| (of.to_peer_bps, of.from_peer_bps)).collect::<Vec<_>>();
        prop_assert_eq!(figures(network.measured(&[given]).unwrap()), figures(changed));
    }

    /// Property: a link without any evidence of its rate is named, with the option that gives the rate.
    #[test]
    fn an_unmeasured_link_is_refused(network in network(2e9), at in any::<prop::sample::Index>()) {
        let mut known = network.known();
        let name = network.links[at.index(network.links.len())].name.clone();
        let is_it = |path: &Path| [&Some(path.link.clone()), &path.remote_link].iter().any(|of| of.as_deref().is_some_and(|of| of.trim_end_matches("/tcp") == name));
        known.links.retain(|link| link.name != name);
        for path in known.paths.iter_mut().filter(|path| is_it(path)) {
            (path.capacity_bps, path.sensed) = (None, None);
            known.histories.retain(|history| history.remote != path.remote);
        }
        let KnownNetwork { links, paths, histories, far } = &known;
        let measurements = Measurements { links, paths, histories, far };
        let why = measurements.links(&[]).unwrap_err();
        prop_assert!(why.contains(&name) && why.contains("--rate"), "{}", why);
        let given = GivenRate { link: name, rates: [Rate::from_mbps(1); 2] };
        prop_assert_eq!(measurements.links(&[given]).unwrap().links.len(), network.links.len());
    }

    /// Property: any text is the rates of a link or gives an error, and never a panic.
    #[test]
    fn any_text_is_a_given_rate_or_an_error(text in ".{0,40}") {
        let _ = text.parse::<GivenRate>();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// Property: the simulator plays every scenario; a flow carries at most what the links carry, and a call crosses.
    #[test]
    fn a_scenario_plays(network in network(1e7)) {
        let scenario = written(&network, &PlanQuestion::AsItIs).unwrap();
        let traces = scenario.load_traces(None).unwrap();
        let options = PairOptions { threads: 1, ..PairOptions::default() };
        let result = run(&scenario, &traces, &options, &|_| Ok(EngineSettings::default()), &|_, _| ()).unwrap().result;
        let answer = PlanAnswer::read("?".to_owned(), serde_json::to_string(&result).unwrap().as_bytes()).unwrap();
        let in_use = network.in_use(&[]);
        let most = |rate: &dyn Fn(&TrueLink) -> u64| in_use.iter().map(|link| rate(link)).sum::<u64>() as f64;
        let (to, from) = (most(&|link| link.rates[0]), most(&|link| network.rate_from(link)));
        prop_assert!(answer.to_peer_bps.is_some_and(|bps| bps > 0.0 && bps <= to), "{:?} of {}", answer, to);
        prop_assert!(answer.from_peer_bps.is_some_and(|bps| bps > 0.0 && bps <= from), "{:?} of {}", answer, from);
        let least_ms = in_use.iter().map(|link| link.rtt_us).min().unwrap() as f64 / 1e3;
        prop_assert!(answer.call_ms_p95.is_some_and(|ms| ms >= least_ms), "{:?}, {} ms", answer, least_ms);
        prop_assert!(answer.loaded_call_ms_p95.is_some() && answer.longest_gap_ms.is_some_and(|ms| ms >= 20.0), "{:?}", answer);
    }
}

#[test]
fn unknown_links_are_refused_with_the_nearest_name() {
    let mut path = path(0, "satellite", None);
    (path.rtt_min_us, path.capacity_bps) = (Some(1), Some(1));
    let measurements = Measurements { links: &[], paths: &[path], histories: &[], far: &[] };
    let links = measurements.links(&[]).unwrap().links;
    let why = PlanQuestion::Without(vec!["satelite".to_owned()]).links(&links).unwrap_err();
    assert_eq!(why, "there is no link `satelite`; did you mean `satellite`?");
    let given: GivenRate = "x=1 Mbit/s".parse().unwrap();
    assert_eq!(measurements.links(&[given]).unwrap_err(), "there is no link `x`; known: satellite");
    let nothing = Measurements { links: &[], paths: &[], histories: &[], far: &[] };
    assert!(nothing.links(&[]).unwrap_err().contains("weft doctor"));
}

#[test]
fn rates_on_the_command_line() {
    let rates = |text: &str| text.parse::<GivenRate>().map(|given| (given.link, given.rates.map(Rate::bps)));
    assert_eq!(rates("lte=20 Mbit/s"), Ok(("lte".to_owned(), [20_000_000; 2])));
    assert_eq!(rates("a=b=1 kbit/s, 2 kbit/s"), Ok(("a=b".to_owned(), [1_000, 2_000])));
    for wrong in ["lte", "=1 Mbit/s", "lte=", "lte=0 bit/s", "lte=1 Mbit/s,", "lte=1", "lte=1 Mbit/s,2,3"] {
        assert!(rates(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_answer_is_the_mean_and_the_worst_of_its_sites() {
    let flow = |name: &str, figure: &str, value: f64| {
        let mut flow =
            serde_json::json!({ "name": name, "goodput_bps": null, "rtt_ms_p95": null, "longest_gap_ms": null });
        flow[figure] = value.into();
        flow
    };
    let flows = [
        flow("to-0", "goodput_bps", 1.0),
        flow("to-1", "goodput_bps", 3.0),
        flow("from-0", "goodput_bps", 5.0),
        flow("call-0", "rtt_ms_p95", 7.0),
        flow("call-1", "rtt_ms_p95", 6.0),
        flow("loaded", "rtt_ms_p95", 8.0),
        flow("voice-to-0", "longest_gap_ms", 20.0),
        flow("voice-from-1", "longest_gap_ms", 30.0),
    ];
    let result = serde_json::json!({ "variants": [{ "flows": flows }], "skipped": [] }).to_string();
    let answer = PlanAnswer::read("now".to_owned(), result.as_bytes()).unwrap();
    assert_eq!((answer.to_peer_bps, answer.from_peer_bps), (Some(2.0), Some(5.0)));
    assert_eq!(
        (answer.call_ms_p95, answer.loaded_call_ms_p95, answer.longest_gap_ms),
        (Some(7.0), Some(8.0), Some(30.0))
    );
    let skipped = br#"{ "variants": [], "skipped": [{ "name": "weft", "reason": "no time" }] }"#;
    assert!(PlanAnswer::read("now".to_owned(), skipped).unwrap_err().contains("no time"));
}
