//! The lab's scenarios in virtual time.

use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::queue::QueueKind;
use weft_core::service::Service;
use weft_engine::{Entry, Policy, Schedule};
use weft_scenario::{RunResult, Scenario, VariantResult};
use weft_units::{Rate, Rng};
use weft_world::Observers;
use weft_world::pair::{EngineSettings, PairOptions, VpnSettings, run};

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
fn captures_and_traces_are_the_same_on_any_number_of_threads() {
    let text = format!("{LINKS}{BULK}").replace("duration = \"6 s\"", "duration = \"3 s\"");
    let directory = std::env::temp_dir().join(format!("weft-pair-{}", std::process::id()));
    let observers = Observers { captured: vec!["b".into()], traced: Some("iperf3".into()), ..Observers::default() };
    let record = |threads: usize| {
        let out = directory.join(threads.to_string());
        std::fs::create_dir_all(&out).unwrap();
        simulate(
            &text,
            &PairOptions { threads, looks: Some((observers.clone(), out.clone())), ..PairOptions::default() },
        );
        let stems = ["weft-1", "weft-2", "link-b-1", "weft-b-2"];
        let files = stems.iter().flat_map(|stem| ["pcapng", "tcp.csv"].map(|ending| format!("t-{stem}.{ending}")));
        files
            .map(|name| std::fs::read(out.join(&name)).unwrap_or_else(|why| panic!("{name}: {why}")))
            .collect::<Vec<_>>()
    };
    let alone = record(1);
    assert!(alone.iter().all(|file| file.len() > 10_000));
    assert_ne!(alone[0], alone[2], "two seeds, two captures");
    assert_eq!(alone, record(3));
    std::fs::remove_dir_all(&directory).unwrap();
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

const VPNS: &str = "
name = \"t\"
duration = \"12 s\"
warmup = \"8 s\"
variants = [\"each-link\", \"weft\"]
policy = { leasable = \"6 Mbit/s\" }
[[link]]
name = \"a\"
rate = \"10 Mbit/s\"
delay = \"10 ms\"
[[vpn]]
name = \"blue\"
[[vpn]]
name = \"green\"
[[flow]]
name = \"tcp\"
app = \"iperf3\"
vpn = \"blue\"
[[flow]]
name = \"flood\"
app = \"cbr\"
vpn = \"green\"
rate = \"15 Mbit/s\"
";

/// Returns two VPNs with this control algorithm, or without loops. Each has a queue of 100 packets.
fn with_vpns(control: Option<LoopConfig>) -> EngineSettings {
    let entry = Entry { queue: QueueKind::DropTail, limit_packets: 100, control, ..Entry::default() };
    let vpn =
        |name: &str| VpnSettings { name: name.into(), weight: 1, service: Service::BestEffort, entry: entry.clone() };
    let policy = Policy { leasable: Some(Rate::from_mbps(6)), ..Policy::default() };
    EngineSettings { policy, vpns: vec![vpn("blue"), vpn("green")], ..EngineSettings::default() }
}

#[test]
fn a_flood_stays_in_its_vpn_and_shares_change_while_it_runs() {
    let shares = |events: &str, control: Option<LoopConfig>| {
        let scenario = Scenario::parse(&format!("{VPNS}{events}"), "t").unwrap();
        let settings = |_: &weft_scenario::Variant| Ok(with_vpns(control.clone()));
        let result =
            run(&scenario, &scenario.load_traces(None).unwrap(), &PairOptions::default(), &settings, &|_, _| ());
        let result = result.unwrap().result;
        let plain = variant(&result, "link:a");
        assert!(plain.vpns[0].share < 0.1 && plain.vpn_fairness.unwrap() < 0.6, "one network: {:?}", plain.vpns);
        let weft = variant(&result, "weft").clone();
        let link = weft.links.iter().find(|link| link.direction == "up").unwrap();
        assert!(link.utilisation > 0.95 && link.dropped == 0.0, "{link:?}");
        assert!(link.queue_packets_max.unwrap() < 40.0 && link.queue_packets_mean.unwrap() > 0.9, "{link:?}");
        assert!(weft.vpns[1].dropped > 500.0, "what the flood has too much waits nowhere: {:?}", weft.vpns);
        weft
    };
    let windows = shares("", Some(LoopConfig::AimdWindow(AimdConfig::default())));
    assert!((windows.vpns[0].share - 0.5).abs() < 0.06 && windows.vpn_fairness.unwrap() > 0.98, "{:?}", windows.vpns);
    assert!(windows.vpns[0].window_bytes.is_some_and(|window| window > 0.0), "{:?}", windows.vpns);
    let heavier = shares("[[event]]\nat = \"4 s\"\nvpn = \"blue\"\nweight = 3\n", None);
    assert!((heavier.vpns[0].share - 0.75).abs() < 0.05 && heavier.vpns[0].weight == 3.0, "{:?}", heavier.vpns);
    assert_eq!(heavier.vpns[0].rate_bps, None, "there is no loop");
    let leased = "[[event]]\nat = \"2 s\"\nvpn = \"blue\"\nleased = \"6 Mbit/s\"\n";
    let line = shares(leased, None);
    assert!((line.vpns[0].share - 0.8).abs() < 0.05, "6 and half of 4: {:?}", line.vpns);
    let over = shares(&format!("{leased}for = \"3 s\"\n"), None);
    assert!((over.vpns[0].share - 0.5).abs() < 0.05, "as it was before: {:?}", over.vpns);
}

#[test]
fn each_vpn_may_have_two_nodes_of_its_own_over_the_same_links() {
    let text = VPNS.replace("\"each-link\", \"weft\"", "\"weft-each-vpn\"");
    let scenario = Scenario::parse(&text, "t").unwrap();
    let settings = |_: &weft_scenario::Variant| Ok(with_vpns(Some(LoopConfig::AimdWindow(AimdConfig::default()))));
    let result = run(&scenario, &scenario.load_traces(None).unwrap(), &PairOptions::default(), &settings, &|_, _| ());
    let result = result.unwrap().result;
    let weft = variant(&result, "weft-each-vpn");
    assert!(weft.vpns.iter().all(|vpn| vpn.goodput_bps > 0.5e6 && vpn.window_bytes.is_some()), "{:?}", weft.vpns);
    assert!(weft.links[0].utilisation > 0.9, "{:?}", weft.links);
}

#[test]
fn missing_parts_are_reported() {
    let scenario = Scenario::parse(&format!("{LINKS}{BULK}congestion = \"vegas\"\n"), "t").unwrap();
    let traces = scenario.load_traces(None).unwrap();
    let default = |_: &weft_scenario::Variant| Ok(EngineSettings::default());
    let result = run(&scenario, &traces, &PairOptions::default(), &default, &|_, _| ()).unwrap().result;
    assert!(result.skipped.iter().all(|skipped| skipped.reason.contains("`vegas`")) && result.variants.is_empty());
    let options = PairOptions { variants: vec!["wefd".into()], ..PairOptions::default() };
    let error = run(&scenario, &traces, &options, &default, &|_, _| ()).unwrap_err();
    assert!(error.contains("did you mean `weft`?"), "{error}");
    let looking = |observers| PairOptions { looks: Some((observers, ".".into())), ..PairOptions::default() };
    let no_link = looking(Observers { captured: vec!["c".into()], ..Observers::default() });
    assert!(run(&scenario, &traces, &no_link, &default, &|_, _| ()).unwrap_err().contains("there is no link `c`"));
    let long = Scenario::parse(&LINKS.replace("duration = \"6 s\"", "duration = \"20000 s\""), "t").unwrap();
    let error = run(&long, &traces, &PairOptions::default(), &default, &|_, _| ()).unwrap_err();
    assert!(error.contains("lasts 5.6 hours; simulated time ends after 4.9"), "{error}");
    let no_flow = looking(Observers { traced: Some("ftp".into()), ..Observers::default() });
    assert!(run(&scenario, &traces, &no_flow, &default, &|_, _| ()).unwrap_err().contains("there is no flow `ftp`"));
}

#[test]
fn the_receive_buffer_bounds_goodput() {
    let text = format!("{LINKS}{BULK}")
        .replace("variants = [\"each-link\", \"best-link\", \"weft\", \"weft-each-link\"]\n", "");
    let text =
        format!("{text}[[variant]]\nname = \"narrow\"\nkind = \"link\"\ntcp = {{ receive-buffer = \"10 kB\" }}\n");
    let result = simulate(&text, &PairOptions { repeat: Some(1), ..PairOptions::default() });
    let mbps = variant(&result, "narrow").goodput_bps / 1e6;
    // The buffer lets whole segments of 10 kB pass in every round trip of 10 ms.
    assert!((5.0..8.0).contains(&mbps), "{mbps}");
}

const TRANSFERS: &str = "
name = \"t\"
duration = \"6 s\"
[grid]
size = [\"100 kB\", \"1 MB\"]
[[link]]
name = \"line\"
rate = \"100 Mbit/s\"
delay = \"100 ms\"
[[flow]]
name = \"transfers\"
app = \"transfer\"
[[variant]]
name = \"granted\"
kind = \"link\"
tcp = { congestion = \"weft_er\", pacing = \"98 Mbit/s\" }
[[variant]]
name = \"granted, 8 MB\"
kind = \"link\"
tcp = { congestion = \"weft_er\", pacing = \"98 Mbit/s\", receive-buffer = \"8 MB\" }
[[variant]]
name = \"proxied\"
weft = { proxy = [{}] }
";

#[test]
fn a_grid_of_transfers_is_timed_from_connect_to_last_byte() {
    let cells = Scenario::parse(TRANSFERS, "t").unwrap().cells();
    let results = cells.iter().map(|cell| {
        let traces = cell.load_traces(None).unwrap();
        run(cell, &traces, &PairOptions::default(), &|_| Ok(EngineSettings::default()), &|_, _| ()).unwrap().result
    });
    let results: Vec<RunResult> = results.collect();
    let ms = |cell: usize, name: &str| {
        cells[cell].flows[0].size_bytes as f64 * 8e3 / variant(&results[cell], name).goodput_bps
    };
    // A transfer takes two and a half round trips: connect, the window of a SYN, and the delivery of the rest.
    //
    // With a receive buffer that grows, a transfer takes two round trips more.
    assert!((500.0..510.0).contains(&ms(0, "granted")), "{}", ms(0, "granted"));
    assert!((575.0..590.0).contains(&ms(1, "granted, 8 MB")), "{}", ms(1, "granted, 8 MB"));
    assert!((890.0..940.0).contains(&ms(1, "granted")), "{}", ms(1, "granted"));
    for result in &results {
        assert_eq!(result.skipped.len(), 1);
        assert_eq!((&*result.skipped[0].name, &*result.skipped[0].reason), ("proxied", "the simulator has no proxies"));
    }
}

const FOLLOWED: &str = "
name = \"t\"
duration = \"10 s\"
warmup = \"2 s\"
[[link]]
name = \"a\"
rate = \"20 Mbit/s\"
delay = \"5 ms\"
[[link]]
name = \"b\"
rate = \"10 Mbit/s\"
delay = \"5 ms\"
[[flow]]
name = \"bulk\"
app = \"iperf3\"
congestion = \"weft_er\"
[[event]]
at = \"5 s\"
link = \"a\"
rate = \"10 Mbit/s\"
[[variant]]
name = \"weft\"
";

#[test]
fn an_explicit_rate_and_measured_weights_follow_the_paths() {
    let scenario = Scenario::parse(FOLLOWED, "t").unwrap();
    let policy = Policy { schedule: Schedule::WeightedRoundRobin, ..Policy::default() };
    let settings = |_: &_| Ok(EngineSettings { policy: policy.clone(), ..EngineSettings::default() });
    let traces = scenario.load_traces(None).unwrap();
    let played = run(&scenario, &traces, &PairOptions::default(), &settings, &|_, _| ()).unwrap();
    let goodput = played.series["weft"][0].series[0].averaged(1.0);
    let mean = |from: f64, to: f64| {
        let within: Vec<f64> = goodput.iter().filter(|(at, _)| *at > from && *at <= to).map(|(_, bps)| *bps).collect();
        within.iter().sum::<f64>() / within.len() as f64 / 1e6
    };
    assert!(mean(2.0, 5.0) > 0.85 * 30.0, "{goodput:?}");
    assert!((0.8 * 20.0..20.0).contains(&mean(7.0, 10.0)), "{goodput:?}");
}

/// Checks that a sender at the rate of the paths uses the whole capacity of paths that lose packets from the start.
///
/// One path has a queue that appears and disappears while its rate doubles. The other path has such a long delay that
/// TCP without an explicit rate begins with AIMD.
#[test]
fn a_sender_at_the_granted_rate_fills_a_lossy_path() {
    for (delay_ms, loss, least_mbps) in [(5, 2, 70.0), (100, 5, 60.0)] {
        let text = format!(
            "name = \"t\"\nduration = \"5 s\"\nwarmup = \"3 s\"\n[[link]]\nname = \"a\"\nrate = \"100 Mbit/s\"\ndelay = \"{delay_ms} ms\"\n\
             loss = \"{loss} %\"\nqueue = \"1 BDP\"\n[[flow]]\napp = \"iperf3\"\ncongestion = \"weft_er\"\n[[variant]]\nname = \"weft\"\n"
        );
        let seeds = if std::env::var_os("WEFT_CHECK").is_some() { 12 } else { 4 };
        for seed in 1..=seeds {
            let result = simulate(&text, &PairOptions { seed: Some(seed), ..PairOptions::default() });
            let mbps = variant(&result, "weft").goodput_bps / 1e6;
            assert!(mbps > least_mbps, "{delay_ms} ms, {loss} %, seed {seed}: {mbps} Mbit/s");
        }
    }
}

#[test]
fn impaired_links_have_the_same_bound_for_all_and_the_same_result_each_time() {
    let impaired = LINKS.replace(
        "loss = \"0.2 %\"",
        "jitter = { kind = \"grants\", limit = \"8 ms\" }\nswing = { low = \"2 Mbit/s\", high = \"10 Mbit/s\", every = \"1 s\", shape = \"square\" }\n\
         outage = { every = \"3 s\", for = \"200 ms\", hold = true }\naqm = \"fq-codel\"",
    );
    let once = || simulate(&format!("{impaired}{BULK}"), &PairOptions { repeat: Some(1), ..PairOptions::default() });
    let result = once();
    assert!(result.skipped.is_empty(), "{:?}", result.skipped);
    // The bound is 20 Mbit/s plus alternately 2 and 10 Mbit/s, minus the outages.
    assert!((24.0..26.5).contains(&(result.bound_bps / 1e6)), "{}", result.bound_bps);
    for found in &result.variants {
        assert!(found.goodput_bps > 2e6 && found.efficiency < 1.0, "{}: {}", found.name, found.efficiency);
    }
    assert_eq!(format!("{result:?}"), format!("{:?}", once()));
}

#[test]
fn a_session_survives_a_nat_that_rebinds() {
    let text = LINKS.replace("delay = \"5 ms\"", "delay = \"5 ms\"\nrebind = { every = \"1 s\" }");
    let options = PairOptions { repeat: Some(1), variants: vec!["weft-each-link".into()], ..PairOptions::default() };
    let mbps = |text: &str| variant(&simulate(&format!("{text}{BULK}"), &options), "weft:a").goodput_bps / 1e6;
    let (steady, rebound) = (mbps(LINKS), mbps(&text));
    assert!(rebound > 0.5 * steady, "{rebound} of {steady}");
    assert_ne!(rebound, steady);
}

#[test]
fn as_many_links_as_a_site_may_have_are_bundled() {
    for links in [1, 8, 9, 12] {
        let link = |n| format!("[[link]]\nname = \"l{n}\"\nrate = \"5 Mbit/s\"\ndelay = \"{} ms\"\n", 5 + 2 * n);
        let links_text: String = (0..links).map(link).collect();
        let text =
            format!("name = \"t\"\nduration = \"8 s\"\nwarmup = \"4 s\"\nvariants = [\"weft\"]\n{links_text}{BULK}");
        let result = simulate(&text, &PairOptions { repeat: Some(1), ..PairOptions::default() });
        assert!(result.skipped.is_empty(), "{links} links: {:?}", result.skipped);
        let mbps = variant(&result, "weft").goodput_bps / 1e6;
        assert!(mbps > 4.0 * f64::from(links), "{links} links of 5 Mbit/s: {mbps} Mbit/s");
    }
}

/// Checks that the capacity of a link is used whose queue is shorter than the bursts that a sender sends.
#[test]
fn a_queue_of_a_few_packets_is_enough() {
    let mut rng = Rng::new(1);
    let mut least = 1.0f64;
    for _ in 0..4 {
        let (rate, delay_us, packets) = (60 + rng.below(240), 500 + rng.below(2_500), 3 + rng.below(4));
        let text = format!(
            "name = \"t\"\nduration = \"8 s\"\nwarmup = \"3 s\"\nvariants = [\"weft\"]\n\
             [[link]]\nname = \"a\"\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay_us} us\"\nqueue = \"{} kB\"\n{BULK}",
            packets * 3 / 2,
        );
        let result = simulate(&text, &PairOptions { repeat: Some(1), ..PairOptions::default() });
        let share = variant(&result, "weft").goodput_bps / (rate as f64 * 1e6);
        println!("{rate} Mbit/s, {delay_us} us, a queue of {packets} packets: {share:.2}");
        least = least.min(share);
    }
    assert!(least > 0.7, "{least}");
}

/// Checks that a download uses half of a line whose uplink is policed to a few dozen kbit/s.
///
/// Acknowledgments and reports get lost on the uplink. A request to send them again would need the same uplink.
#[test]
fn a_line_with_hardly_any_uplink_carries_data() {
    let mut rng = Rng::new(1);
    for _ in 0..8 {
        let (down, up, police) = (500 + rng.below(1_000), 100 + rng.below(100), 0.2 + 0.2 * rng.unit());
        let policed =
            |rate: u64| format!("{{ rate = \"{} kbit/s\", bucket = \"3 kB\" }}", (rate as f64 * police) as u64);
        let text = format!(
            "name = \"t\"\nduration = \"14 s\"\nwarmup = \"6 s\"\nvariants = [\"each-link\", \"weft\"]\n\
             [[link]]\nname = \"a\"\ndelay = \"{} ms\"\nqueue = \"9 kB\"\n\
             down = {{ rate = \"{down} kbit/s\", policer = {} }}\nup = {{ rate = \"{up} kbit/s\", policer = {} }}\n\
             [[flow]]\napp = \"iperf3\"\ndirection = \"down\"\n[[flow]]\napp = \"ping\"\n",
            1 + rng.below(10),
            policed(down),
            policed(up),
        );
        let result = simulate(&text, &PairOptions { repeat: Some(1), ..PairOptions::default() });
        let [plain, weft] = ["link:a", "weft"].map(|name| variant(&result, name).goodput_bps);
        println!("{down}/{up} kbit/s, policed to {police:.2}: {:.2} of plain", weft / plain);
        assert!(weft >= 0.5 * plain, "{weft} bit/s, {plain} without weft");
    }
}

/// Checks that a download behind a narrow, full uplink never stands still.
///
/// Each segment that arrived twice causes a D-SACK. Many D-SACKs would delay the acknowledgments of new data.
#[test]
fn a_download_behind_a_narrow_full_uplink_never_stands_still() {
    let mut rng = Rng::new(1);
    for _ in 0..6 {
        let (down, up, delay) = (8 + rng.below(8), 100 + rng.below(100), 20 + rng.below(20));
        let text = format!(
            "name = \"t\"\nduration = \"30 s\"\nwarmup = \"20 s\"\nvariants = [\"weft\"]\n\
             [[link]]\nname = \"a\"\nrate = \"{down} Mbit/s\"\ndelay = \"{delay} ms\"\njitter = \"{} ms\"\n\
             queue = \"2.2 BDP\"\nup = {{ rate = \"{up} kbit/s\" }}\n\
             [[flow]]\napp = \"iperf3\"\ndirection = \"down\"\n[[flow]]\napp = \"iperf3\"\nname = \"back\"\n\
             [[flow]]\napp = \"ping\"\n",
            delay * 4 / 5,
        );
        for seed in 0..2 {
            let options = PairOptions { repeat: Some(1), seed: Some(seed), ..PairOptions::default() };
            let share = variant(&simulate(&text, &options), "weft").goodput_bps / (down as f64 * 1e6);
            println!("{down} Mbit/s down, {up} kbit/s up, {delay} ms, seed {seed}: {share:.2}");
            assert!(share > 0.45, "{share}");
        }
    }
}

/// Checks that a path that loses a fifth to a third of all packets carries TCP.
///
/// Retransmissions are lost as well. Each unit that is given up halves the TCP sender's rate.
#[test]
fn a_path_that_loses_much_carries_tcp() {
    let mut rng = Rng::new(1);
    for _ in 0..6 {
        let (rate, delay, loss) = (5 + rng.below(30), 3 + rng.below(8), 20 + rng.below(14));
        let text = format!(
            "name = \"t\"\nduration = \"10 s\"\nwarmup = \"4 s\"\nvariants = [\"weft\"]\n\
             [[link]]\nname = \"a\"\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay} ms\"\nloss = \"{loss} %\"\n{BULK}",
        );
        let result = simulate(&text, &PairOptions { repeat: Some(1), ..PairOptions::default() });
        let share = variant(&result, "weft").goodput_bps / (rate as f64 * 1e6 * (1.0 - loss as f64 / 100.0));
        println!("{rate} Mbit/s, {delay} ms, {loss} %: {share:.2}");
        assert!(share > 0.5, "{rate} Mbit/s, {delay} ms, {loss} %: {share}");
    }
}
