//! Compares one and two flows over a bottleneck with ns-2's results for the same cases.
//!
//! ns-2's results are in `baselines/ns2/results.csv`.
//!
//! `cargo run --release -p weft-world --example ns2_cases [CASE [TCP]]` with CASE `single` or `two-flows`,
//! TCP `newreno` …

use std::collections::BTreeMap;
use std::fmt::Write;
use weft_scenario::{NetworkScenario, Traces};
use weft_world::network::run;

type Parameters = BTreeMap<String, String>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (case, tcp) = (arguments.next(), arguments.next());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../baselines/ns2/results.csv");
    let text = std::fs::read_to_string(file).expect("ns-2's results");
    // ns-2's goodputs for each set of parameters without the seed: one list for each seed, with a value for
    // each flow.
    let mut cases: BTreeMap<(String, String), Vec<Vec<f64>>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, parameters, goodput, ..] = fields[..] else { continue };
        let wanted = |what: &Option<String>, is: bool| what.is_none() || is;
        if !(name == "single" || name == "two-flows")
            || !wanted(&case, case.as_deref() == Some(name))
            || !wanted(&tcp, tcp.as_ref().is_some_and(|tcp| parameters.contains(&format!("tcp={tcp} "))))
            || parameters.contains("tcp=cubic ")
        {
            continue;
        }
        let without_seed: Vec<&str> = parameters.split(' ').filter(|p| !p.starts_with("seed=")).collect();
        let goodputs = goodput.split(';').map(|bps| bps.parse().expect("a goodput")).collect();
        cases.entry((name.into(), without_seed.join(" "))).or_default().push(goodputs);
    }
    let (mut within, mut all) = (0, 0);
    for ((_, parameters), theirs) in cases {
        let read: Parameters = parameters.split(' ').filter_map(|p| p.split_once('=')).map(owned).collect();
        let ours: Vec<Vec<f64>> = (1..=theirs.len() as u64).map(|seed| goodputs(&read, seed)).collect();
        let mean = |runs: &[Vec<f64>], flow: usize| runs.iter().map(|run| run[flow]).sum::<f64>() / runs.len() as f64;
        let mut line = format!("{parameters:90}");
        for flow in 0..theirs[0].len() {
            let (ns2, weft) = (mean(&theirs, flow), mean(&ours, flow));
            let ratio = weft / ns2;
            write!(line, "  {:8.3} {:8.3} {ratio:5.2}", ns2 / 1e6, weft / 1e6).expect("a string");
            all += 1;
            within += u32::from((0.9..=1.1).contains(&ratio));
        }
        println!("{line}");
    }
    println!("{within} of {all} within 10 %; Mbit/s: ns-2, here, ratio");
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.into(), value.into())
}

fn goodputs(parameters: &Parameters, seed: u64) -> Vec<f64> {
    let get = |name: &str| parameters.get(name).map_or("0", String::as_str);
    let number = |name: &str| get(name).parse::<f64>().expect("a number");
    let (recovery, congestion) = match get("tcp") {
        "newreno" => ("new-reno", "reno"),
        "sack" => ("sack", "reno"),
        // TCP-Linux detects the loss of a retransmission, as RACK does and RFC 6675 does not.
        "bic" => ("rack", "bic"),
        _ => ("rack", "cubic"),
    };
    let header = format!(
        "name = \"case\"\nduration = \"{} s\"\nwarmup = \"{} s\"\n[tcp]\nmss = \"1460 B\"\nwindow = 100000\n\
         initial-window = 2\nrecovery = \"{recovery}\"\ncongestion = \"{congestion}\"\nadaptive-reordering = false\n\
         delayed-ack = \"none\"\n",
        get("duration"),
        get("warmup"),
    );
    let nodes = |names: &[&str]| names.iter().map(|n| format!("[[node]]\nname = \"{n}\"\n")).collect::<String>();
    let bottleneck = |delay_ms: f64| {
        format!(
            "[[link]]\nname = \"bottleneck\"\nbetween = [\"r\", \"d\"]\nrate = \"{} Mbit/s\"\ndelay = \"{delay_ms} ms\"\n\
             up = {{ queue = \"{} packets\", loss = \"{} %\" }}\ndown = {{ queue = \"100000 packets\" }}\n",
            get("rate_mbps"),
            get("buffer"),
            number("loss") * 100.0,
        )
    };
    let access = |from: &str, delay_ms: f64| {
        format!(
            "[[link]]\nname = \"{from}-r\"\nbetween = [\"{from}\", \"r\"]\nrate = \"1000 Mbit/s\"\ndelay = \"{delay_ms} ms\"\n\
             jitter = \"{} ms\"\nqueue = \"100000 packets\"\n",
            number("overhead") * 1e3,
        )
    };
    let flow = |from: &str| {
        format!("[[flow]]\nname = \"{from}\"\napp = \"ftp\"\nfrom = \"{from}\"\nto = \"d\"\nspread = \"100 ms\"\n")
    };
    let text = match parameters.contains_key("rtt_ms") {
        true => {
            [header, nodes(&["s", "r", "d"]), access("s", 0.0), bottleneck(number("rtt_ms") / 2.0), flow("s")].concat()
        }
        false => {
            let shared_ms = 1.0;
            let delay = |name| number(name) / 2.0 - shared_ms;
            [
                header,
                nodes(&["a", "b", "r", "d"]),
                access("a", delay("rtt_a_ms")),
                access("b", delay("rtt_b_ms")),
                bottleneck(shared_ms),
                flow("a"),
                flow("b"),
            ]
            .concat()
        }
    };
    let network = NetworkScenario::parse(&text, "case").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let result = run(&network, &network.variants[0], seed, &Traces::new()).expect("a network that can be built");
    result.run.flows.iter().filter_map(|flow| flow.goodput_bps).collect()
}
