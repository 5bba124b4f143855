//! Bundles of links that are hard to use together, outages, a policer, and many links.
//!
//! The time of a link in the table is its round-trip time. Each direction has half of this time. A call is a flow
//! with a small datagram every 20 ms in the direction of the bulk flow, which is down.

use crate::check::{Bound, Check};
use crate::judge::{greatest, least, ratio};
use crate::play::{best_bps, flow, for_each, goodput_bps, idle, play, variant};
use crate::topic::Context;
use serde_json::{Value, json};
use weft_scenario::{PACKET_BYTES, RunResult, RunSeries, Scenario};

const BULK: &str = "[[flow]]\nname = \"bulk\"\napp = \"iperf3\"\ncongestion = \"cubic\"\ndirection = \"down\"\n";
const CALL: &str = "[[flow]]\nname = \"call\"\napp = \"probe\"\ninterval = \"20 ms\"\ndirection = \"down\"\n";

/// Least goodput of weft over all links, relative to that of the best link through weft.
const LEAST_OF_WEFT: f64 = 0.98;
/// Least goodput of weft over all links, relative to that of the best link without weft.
const LEAST_OF_PLAIN: f64 = 0.95;
/// Time that the bundle may add to the call's p95 over the best link alone through weft, in ms.
const CALL_ADDED_MS: f64 = 20.0;
/// Time after a cut within which a link must carry packets again, in addition to its round trip, in ms.
const RETURN_MS: f64 = 100.0;
/// Largest age of a delivered packet, in ms.
const OLDEST_MS: f64 = 1_000.0;
/// Percentage of its packets that a sender may lose at a policer.
///
/// Tuned: plain CUBIC loses less than a tenth of this.
const POLICED_PERCENT: f64 = 10.0;

/// A condition on a line.
#[derive(Clone, Copy)]
enum Ask {
    /// Goodput relative to that of the best link alone, through weft and without it.
    BestLink,
    /// The call's p95 is at most that over the best link alone through weft, plus [`CALL_ADDED_MS`].
    ///
    /// The bulk flow is the same in both runs.
    Call,
    /// Least ratio of the goodput to the bound.
    Efficiency(f64),
    /// Longest gap of the call, in ms.
    Gap(f64),
    /// After each cut of this length the call continues within [`RETURN_MS`] plus this round trip.
    Return { silence_ms: f64, rtt_ms: f64 },
    /// No packet is older than [`OLDEST_MS`].
    Age,
    /// The policer drops at most [`POLICED_PERCENT`] of the packets.
    Policed,
    /// All paths are ready when the run begins.
    Ready,
}

/// The links, flows and conditions of one line of the table.
struct Line {
    name: &'static str,
    /// Keys of each `[[link]]`.
    links: Vec<&'static str>,
    flows: Vec<&'static str>,
    events: &'static str,
    /// Length of the warm-up, in seconds.
    warmup: u32,
    duration: u32,
    asks: Vec<Ask>,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            name: "",
            links: Vec::new(),
            flows: vec![BULK, CALL],
            events: "",
            warmup: 10,
            duration: 40,
            asks: vec![Ask::BestLink, Ask::Call],
        }
    }
}

/// Runs and judges all lines.
pub fn run(context: &Context) -> Vec<Check> {
    let judged = for_each(context, "bundles", &lines(), judge);
    judged.into_iter().flatten().collect()
}

fn lines() -> Vec<Line> {
    let mut lines = unequal();
    lines.extend(changing());
    lines.extend(silent());
    lines.extend(numerous());
    lines
}

fn unequal() -> Vec<Line> {
    vec![
        Line {
            name: "40 Mbit/s 200 ms 5 % beside 1.2 Mbit/s 7 ms 2 %",
            links: vec![
                "rate = \"40 Mbit/s\"\ndelay = \"100 ms\"\nloss = \"5 %\"",
                "rate = \"1.2 Mbit/s\"\ndelay = \"3.5 ms\"\nloss = \"2 %\"",
            ],
            warmup: 20,
            asks: vec![Ask::BestLink],
            ..Line::default()
        },
        Line {
            name: "LTE trace 12 Mbit/s beside 100 kbit/s",
            links: vec![
                "trace = \"lte-down@12 Mbit/s\"\nup = { trace = \"lte-up@12 Mbit/s\" }\ndelay = \"20 ms\"\nqueue = \"250 packets\"",
                "rate = \"100 kbit/s\"\ndelay = \"20 ms\"\nqueue = \"20 packets\"",
            ],
            ..Line::default()
        },
        Line {
            name: "LTE traces of 20 and 1 Mbit/s",
            links: vec![
                "trace = \"good-down@20 Mbit/s\"\nup = { trace = \"good-up@20 Mbit/s\" }\ndelay = \"20 ms\"\nqueue = \"250 packets\"",
                "trace = \"poor-down@1 Mbit/s\"\nup = { trace = \"poor-up@1 Mbit/s\" }\ndelay = \"20 ms\"\nqueue = \"250 packets\"",
            ],
            ..Line::default()
        },
        Line {
            name: "50 Mbit/s 5 ms beside 100 Mbit/s 350 ms",
            links: vec![
                "rate = \"50 Mbit/s\"\ndelay = \"2.5 ms\"\nqueue = \"1.5 BDP\"",
                "rate = \"100 Mbit/s\"\ndelay = \"175 ms\"\nqueue = \"1.5 BDP\"",
            ],
            warmup: 20,
            ..Line::default()
        },
    ]
}

fn changing() -> Vec<Line> {
    vec![
        Line {
            name: "swing 1 to 60 Mbit/s 20 ms beside DSL 16 Mbit/s 26 ms",
            links: vec![
                "rate = \"60 Mbit/s\"\ndelay = \"10 ms\"\n\
                 swing = { low = \"1 Mbit/s\", high = \"60 Mbit/s\", every = \"3 s\", shape = \"square\" }",
                "rate = \"16 Mbit/s\"\ndelay = \"13 ms\"",
            ],
            ..Line::default()
        },
        Line {
            name: "step from 20 to 90 ms beside 35 ms, no load",
            links: vec!["rate = \"50 Mbit/s\"\ndelay = \"10 ms\"", "rate = \"50 Mbit/s\"\ndelay = \"17.5 ms\""],
            flows: vec![CALL],
            events: "[[event]]\nat = \"10 s\"\nlink = \"link0\"\ndelay = \"45 ms\"\n",
            duration: 30,
            asks: vec![Ask::Call],
            ..Line::default()
        },
        Line {
            name: "40 Mbit/s 25 ms silent 3 s of 15 beside 5 Mbit/s 15 ms",
            links: vec![
                "rate = \"40 Mbit/s\"\ndelay = \"12.5 ms\"\noutage = { every = \"15 s\", for = \"3 s\" }",
                "rate = \"5 Mbit/s\"\ndelay = \"7.5 ms\"",
            ],
            warmup: 15,
            duration: 75,
            // A cut may stop traffic for 50 ms. The call's interval of 20 ms and one round trip of 25 ms are added.
            asks: vec![Ask::BestLink, Ask::Efficiency(0.85), Ask::Gap(50.0 + 20.0 + 25.0)],
            ..Line::default()
        },
        Line {
            name: "policer 20 Mbit/s, bucket 3 MB, link 100 Mbit/s",
            links: vec![
                "rate = \"100 Mbit/s\"\ndelay = \"10 ms\"\npolicer = { rate = \"20 Mbit/s\", bucket = \"3 MB\" }",
            ],
            flows: vec![BULK],
            asks: vec![Ask::BestLink, Ask::Policed],
            ..Line::default()
        },
    ]
}

fn silent() -> Vec<Line> {
    let links = vec!["rate = \"20 Mbit/s\"\ndelay = \"10 ms\"", "rate = \"10 Mbit/s\"\ndelay = \"20 ms\""];
    let second = "[[event]]\nat = \"10 s\"\nlink = \"link0\"\ncut = \"both\"\nfor = \"1 s\"\nevery = \"7 s\"\nrepeat = 4\n\
                  [[event]]\nat = \"10 s\"\nlink = \"link1\"\ncut = \"both\"\nfor = \"1 s\"\nevery = \"7 s\"\nrepeat = 4\n";
    let five = "[[event]]\nat = \"10 s\"\nlink = \"link0\"\ncut = \"both\"\nfor = \"5 s\"\n\
                [[event]]\nat = \"10 s\"\nlink = \"link1\"\ncut = \"both\"\nfor = \"5 s\"\n";
    let back = |silence_ms| Ask::Return { silence_ms, rtt_ms: 20.0 };
    let line = |name, flows, events, asks| Line { name, links: links.clone(), flows, events, asks, ..Line::default() };
    vec![
        line("two links silent for 1 s at once, a call", vec![CALL], second, vec![back(1_000.0)]),
        line("two links silent for 1 s at once, a call beside bulk", vec![BULK, CALL], second, vec![back(1_000.0)]),
        line("all links silent for 5 s, a call", vec![CALL], five, vec![back(5_000.0), Ask::Age]),
        line("all links silent for 5 s, a call beside bulk", vec![BULK, CALL], five, vec![back(5_000.0), Ask::Age]),
    ]
}

/// Returns lines with many links. Each link has its own address at the far end.
///
/// In the simulator each address is reachable over each link.
fn numerous() -> Vec<Line> {
    let many = |name, count| Line {
        name,
        links: vec!["rate = \"5 Mbit/s\"\ndelay = \"10 ms\""; count],
        flows: vec![BULK],
        duration: 20,
        asks: vec![Ask::Ready, Ask::Efficiency(0.85)],
        ..Line::default()
    };
    vec![many("nine links with far addresses", 9), many("twelve links with far addresses", 12)]
}

impl Line {
    fn scenario(&self) -> String {
        let compares = self.asks.iter().any(|ask| matches!(ask, Ask::BestLink | Ask::Call));
        let variants = if compares { "\"each-link\", \"weft-each-link\", \"weft\"" } else { "\"weft\"" };
        let link = |(number, keys): (usize, &&str)| format!("[[link]]\nname = \"link{number}\"\n{keys}\n");
        format!(
            "name = \"verify\"\nduration = \"{} s\"\nwarmup = \"{} s\"\nrepeats = 1\nvariants = [{variants}]\n{}{}{}",
            self.duration,
            self.warmup,
            self.links.iter().enumerate().map(link).collect::<String>(),
            self.flows.concat(),
            self.events
        )
    }

    fn check(&self, what: &str, figure: Option<f64>, bound: Bound, unit: &'static str) -> Check {
        Check::new(format!("{}: {what}", self.name), figure, bound, unit)
    }
}

/// The results of a line's runs.
struct Played {
    result: RunResult,
    /// The result of each link alone, without a bulk flow and without weft.
    idle: RunResult,
    /// The time series of weft's run.
    series: Vec<RunSeries>,
}

fn judge(line: &Line) -> Vec<Check> {
    match play_line(line) {
        Ok(played) => line.asks.iter().flat_map(|ask| ask.judge(line, &played)).collect(),
        Err(why) => vec![Check::skipped(line.name, Bound::AtLeast(LEAST_OF_PLAIN), "of best link", why)],
    }
}

fn play_line(line: &Line) -> Result<Played, String> {
    let scenario = Scenario::parse(&line.scenario(), line.name).map_err(|why| why.to_string())?;
    let mut run = play(&scenario, None)?;
    let alone = play(&idle(&scenario), None)?;
    Ok(Played { result: run.result, idle: alone.result, series: run.series.remove("weft").unwrap_or_default() })
}

impl Ask {
    fn judge(self, line: &Line, played: &Played) -> Vec<Check> {
        let result = &played.result;
        let weft = variant(result, "weft");
        let one = match self {
            Ask::BestLink => return best_link_checks(line, result),
            Ask::Call => call_check(line, played),
            Ask::Efficiency(least) => {
                let figure = weft.map(|weft| weft.efficiency);
                line.check("efficiency", figure, Bound::AtLeast(least), "of capacity")
            }
            Ask::Gap(most) => {
                let figure = weft.and_then(|weft| flow(weft, "call")?.longest_gap_ms);
                line.check("longest gap of the call", figure, Bound::AtMost(most), "ms")
            }
            Ask::Return { silence_ms, rtt_ms } => {
                let figure = worst_gap_ms(result).map(|gap| gap - silence_ms);
                line.check("call back after", figure, Bound::AtMost(RETURN_MS + rtt_ms), "ms")
            }
            Ask::Age => {
                line.check("oldest packet delivered", oldest_ms(&played.series), Bound::AtMost(OLDEST_MS), "ms")
            }
            Ask::Policed => {
                let plain: Value = json!({ "without_weft_percent": lost_percent(result, "link:link0") });
                line.check("packets lost", lost_percent(result, "weft"), Bound::AtMost(POLICED_PERCENT), "%")
                    .with(plain)
            }
            Ask::Ready => {
                // A variant that was not ready in time is listed as skipped.
                let figure = if weft.is_some() { line.links.len() } else { 0 } as f64;
                line.check("links ready", Some(figure), Bound::AtLeast(line.links.len() as f64), "links")
            }
        };
        vec![one]
    }
}

fn best_link_checks(line: &Line, result: &RunResult) -> Vec<Check> {
    let of = |prefix, least, what| {
        let figure = ratio(goodput_bps(result, "weft"), best_bps(result, prefix));
        line.check(what, figure, Bound::AtLeast(least), "of best link")
    };
    vec![
        of("weft:", LEAST_OF_WEFT, "goodput, links through weft"),
        of("link:", LEAST_OF_PLAIN, "goodput, links without"),
    ]
}

/// Returns a check of the call's delay, compared with the delay over the best link alone.
///
/// The best link alone carries the same bulk flow. On a link whose rate falls, the packets in flight of the bulk flow
/// build a queue that no sender can avoid.
fn call_check(line: &Line, played: &Played) -> Check {
    let figure = variant(&played.result, "weft").and_then(|weft| flow(weft, "call")?.one_way_ms_p95);
    let alone = best_call_ms_p95(&played.result, "weft:");
    let idle = best_call_ms_p95(&played.idle, "link:");
    let bound = Bound::AtMost(alone.map_or(0.0, |alone| alone + CALL_ADDED_MS));
    let detail = json!({ "best_link_through_weft_ms": alone, "best_idle_link_ms": idle });
    line.check("call p95, one way", figure, bound, "ms").with(detail)
}

/// Returns the p95 of the call over the best link, in ms.
///
/// It compares the variants whose names begin with `prefix`.
fn best_call_ms_p95(result: &RunResult, prefix: &str) -> Option<f64> {
    let each = result.variants.iter().filter(|variant| variant.name.starts_with(prefix));
    least(each.filter_map(|link| flow(link, "call")?.one_way_ms_p95))
}

/// Returns the longest gap of the call after a cut, in ms.
fn worst_gap_ms(result: &RunResult) -> Option<f64> {
    let events = variant(result, "weft")?.runs.iter().flat_map(|run| &run.events);
    greatest(events.filter_map(|event| event.gap_ms))
}

/// Returns the age of the oldest delivered packet of the call, in ms.
fn oldest_ms(series: &[RunSeries]) -> Option<f64> {
    let calls = series.iter().flat_map(|run| &run.series).filter(|series| series.name == "call");
    greatest(calls.flat_map(|call| call.points.iter().map(|(_, one_way_ms)| *one_way_ms)))
}

/// Returns the percentage of packets that a variant lost on the first link, downward.
///
/// Delivered bytes are converted to a number of full packets.
fn lost_percent(result: &RunResult, name: &str) -> Option<f64> {
    let link = variant(result, name)?.links.iter().find(|link| link.direction == "down")?;
    let passed = link.sent_bytes / PACKET_BYTES as f64;
    Some(100.0 * link.lost / (passed + link.lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_scenario::{EventResult, FlowResult, LinkResult, SCHEMA, Series, VariantResult, VariantRun};

    fn result(variants: Vec<VariantResult>) -> RunResult {
        RunResult {
            schema: SCHEMA,
            scenario: "t".into(),
            world: "sim".into(),
            seed: 1,
            duration_s: 1.0,
            warmup_s: 0.0,
            repeats: 1,
            bound_bps: 1.0,
            variants,
            skipped: Vec::new(),
        }
    }

    fn of_run(name: &str, run: VariantRun) -> VariantResult {
        VariantResult::from_runs(name, None, vec![run])
    }

    #[test]
    fn every_line_is_a_scenario() {
        for line in lines() {
            let scenario = Scenario::parse(&line.scenario(), line.name).unwrap();
            assert_eq!(scenario.links.len(), line.links.len());
            let is_of_call = |ask: &Ask| matches!(ask, Ask::Call | Ask::Gap(_) | Ask::Return { .. } | Ask::Age);
            let needs_call = line.asks.iter().any(is_of_call);
            assert!(!needs_call || scenario.flows.iter().any(|flow| flow.name == "call"), "{}", line.name);
        }
    }

    #[test]
    fn a_call_is_compared_with_the_best_link() {
        let link = |name, one_way_ms_p95| {
            let call = FlowResult { name: "call".into(), one_way_ms_p95, ..FlowResult::default() };
            of_run(name, VariantRun { flows: vec![call], ..VariantRun::default() })
        };
        let all = result(vec![link("weft:a", Some(45.0)), link("weft:b", Some(17.5)), link("link:b", Some(12.0))]);
        assert_eq!(best_call_ms_p95(&all, "weft:"), Some(17.5));
        assert_eq!(best_call_ms_p95(&result(vec![link("weft:a", None)]), "weft:"), None);
    }

    #[test]
    fn a_call_may_take_20_ms_more_than_over_the_best_link() {
        let link = |name, ms| {
            let call = FlowResult { name: "call".into(), one_way_ms_p95: Some(ms), ..FlowResult::default() };
            of_run(name, VariantRun { flows: vec![call], ..VariantRun::default() })
        };
        let verdict = |weft_ms| {
            let all = result(vec![link("weft:a", 17.5), link("weft", weft_ms)]);
            call_check(&Line::default(), &Played { result: all, idle: result(Vec::new()), series: Vec::new() }).is_ok()
        };
        assert!(verdict(37.5) && !verdict(37.6));
    }

    #[test]
    fn the_worst_gap_of_all_cuts_counts() {
        let cut = |gap_ms| EventResult { gap_ms: Some(gap_ms), ..EventResult::default() };
        let run = VariantRun { events: vec![cut(0.0), cut(1_650.0), cut(1_040.0)], ..VariantRun::default() };
        assert_eq!(worst_gap_ms(&result(vec![of_run("weft", run)])), Some(1_650.0));
    }

    #[test]
    fn the_oldest_packet_of_the_call_is_found() {
        let series = |name: &str, points| Series { name: name.into(), unit: "ms", points };
        let call = series("call", vec![(1.0, 20.0), (2.0, 4_000.0), (3.0, 30.0)]);
        let run = RunSeries { goodput_bps: 0.0, series: vec![series("bulk", vec![(1.0, 9e6)]), call] };
        assert_eq!(oldest_ms(&[run]), Some(4_000.0));
    }

    #[test]
    fn lost_packets_are_a_share_of_all_that_were_sent() {
        let link = |direction: &str, sent_bytes, lost| LinkResult {
            direction: direction.into(),
            sent_bytes,
            lost,
            ..LinkResult::default()
        };
        let links = vec![link("up", 100.0, 0.0), link("down", 1_500.0 * 300.0, 100.0)];
        let run = VariantRun { links, ..VariantRun::default() };
        assert_eq!(lost_percent(&result(vec![of_run("weft", run)]), "weft"), Some(25.0));
    }
}
