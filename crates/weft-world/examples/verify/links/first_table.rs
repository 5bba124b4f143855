//! One link with jitter, fades, loss or traffic in both directions, with and without weft.
//!
//! The flow is an unmodified CUBIC flow. The time of a link in the table is its round-trip time. Each direction has
//! half of this time.

use crate::check::{Bound, Check};
use crate::judge::ratio;
use crate::play::{flow, for_each, goodput_bps, play, variant};
use crate::topic::Context;
use weft_scenario::{RunResult, Scenario};

/// The goodput with which weft's goodput is compared.
#[derive(Clone, Copy)]
enum Against {
    /// The same flow without weft.
    Plain,
    /// The capacity of the link.
    Capacity,
    /// The same flow without weft, for each of two flows in opposite directions.
    PlainBothWays,
}

/// One line of the table: a link, and the goodput that weft must reach on it.
struct Line {
    name: String,
    /// Keys of the scenario's `[[link]]`.
    link: String,
    against: Against,
    least: f64,
}

/// Times of a run, in seconds.
struct Times {
    warmup: u32,
    duration: u32,
}

/// Runs and judges all lines.
pub fn run(context: &Context) -> Vec<Check> {
    let lines = lines();
    let judged = for_each(context, "links", &lines, |line| judge(line, context));
    judged.into_iter().flatten().collect()
}

fn lines() -> Vec<Line> {
    let mut lines = vec![jitter(110, 22, 12, 6)];
    for mbps in [50, 300] {
        lines.extend([5, 8, 12, 20, 30].map(|jitter_ms| jitter(mbps, 25, jitter_ms, 3)));
    }
    lines.push(Line {
        name: "self-made LTE trace, 12 Mbit/s, 40 ms".into(),
        link: "trace = \"lte-down@12 Mbit/s\"\nup = { trace = \"lte-up@12 Mbit/s\" }\ndelay = \"20 ms\"\nqueue = \"250 packets\"".into(),
        against: Against::Plain,
        least: 0.95,
    });
    for loss in ["0.1 %", "1 %"] {
        lines.extend([25, 100, 200].map(|rtt_ms| lossy(loss, rtt_ms, 0.93)));
    }
    lines.extend([(25, 0.85), (100, 0.80), (200, 0.80)].map(|(rtt_ms, least)| lossy("5 %", rtt_ms, least)));
    lines.push(Line {
        name: "100/5 Mbit/s, 10 ms, both ways at once".into(),
        link: "rate = \"100 Mbit/s\"\nup = { rate = \"5 Mbit/s\" }\ndelay = \"5 ms\"".into(),
        against: Against::PlainBothWays,
        least: 0.95,
    });
    lines
}

fn jitter(mbps: u32, rtt_ms: u32, jitter_ms: u32, queue_bdp: u32) -> Line {
    Line {
        name: format!("{mbps} Mbit/s, {rtt_ms} ms, jitter {jitter_ms} ms, queue {queue_bdp} BDP"),
        link: format!(
            "rate = \"{mbps} Mbit/s\"\ndelay = \"{} ms\"\njitter = \"{jitter_ms} ms\"\nqueue = \"{queue_bdp} BDP\"",
            f64::from(rtt_ms) / 2.0
        ),
        against: Against::Plain,
        least: 0.95,
    }
}

fn lossy(loss: &str, rtt_ms: u32, least: f64) -> Line {
    Line {
        name: format!("50 Mbit/s, {rtt_ms} ms, loss {loss}"),
        link: format!("rate = \"50 Mbit/s\"\ndelay = \"{} ms\"\nloss = \"{loss}\"", f64::from(rtt_ms) / 2.0),
        against: Against::Capacity,
        least,
    }
}

impl Line {
    /// Returns the times of a run.
    ///
    /// Lines compared with the capacity have a warm-up of 20 s and are then measured for 20 s. A short run measures
    /// the other lines for less time.
    fn times(&self, full: bool) -> Times {
        match (self.against, full) {
            (Against::Capacity, _) => Times { warmup: 20, duration: 40 },
            (_, true) => Times { warmup: 20, duration: 60 },
            (_, false) => Times { warmup: 10, duration: 25 },
        }
    }

    fn scenario(&self, times: &Times) -> String {
        let bulk = |name: &str, direction: &str| {
            format!(
                "[[flow]]\nname = \"{name}\"\napp = \"iperf3\"\ncongestion = \"cubic\"\ndirection = \"{direction}\"\n"
            )
        };
        let (variants, back) = match self.against {
            Against::Plain => ("\"each-link\", \"weft\"", String::new()),
            Against::Capacity => ("\"weft\"", String::new()),
            Against::PlainBothWays => ("\"each-link\", \"weft\"", bulk("upload", "up")),
        };
        format!(
            "name = \"verify\"\nduration = \"{} s\"\nwarmup = \"{} s\"\nrepeats = 1\n\
             variants = [{variants}]\n[[link]]\nname = \"link\"\n{}\n{}{back}",
            times.duration,
            times.warmup,
            self.link,
            bulk("download", "down")
        )
    }
}

fn judge(line: &Line, context: &Context) -> Vec<Check> {
    let bound = Bound::AtLeast(line.least);
    let played = Scenario::parse(&line.scenario(&line.times(context.full)), &line.name).map_err(|why| why.to_string());
    let result = match played.and_then(|scenario| play(&scenario, None)) {
        Ok(played) => played.result,
        Err(why) => return vec![Check::skipped(line.name.clone(), bound, "of CUBIC", why)],
    };
    match line.against {
        Against::Capacity => {
            let figure = variant(&result, "weft").map(|weft| weft.efficiency);
            vec![Check::new(line.name.clone(), figure, bound, "of capacity")]
        }
        Against::Plain => {
            let figure = ratio(goodput_bps(&result, "weft"), goodput_bps(&result, "link:link"));
            vec![Check::new(line.name.clone(), figure, bound, "of CUBIC")]
        }
        Against::PlainBothWays => {
            let one = |name| Check::new(format!("{}: {name}", line.name), of_flow(&result, name), bound, "of CUBIC");
            vec![one("download"), one("upload")]
        }
    }
}

/// Returns the goodput of one flow through weft divided by its goodput without weft.
fn of_flow(result: &RunResult, name: &str) -> Option<f64> {
    let bps = |carrier| flow(variant(result, carrier)?, name)?.goodput_bps;
    ratio(bps("weft"), bps("link:link"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_scenario() {
        for line in lines() {
            let scenario = Scenario::parse(&line.scenario(&line.times(false)), "line").unwrap();
            assert_eq!(scenario.links.len(), 1, "{}", line.name);
            assert!(scenario.duration > scenario.warmup);
        }
        assert_eq!(lines().len(), 22);
    }

    #[test]
    fn times_of_links_are_round_trips() {
        let line = jitter(110, 25, 12, 6);
        let scenario = Scenario::parse(&line.scenario(&line.times(false)), "line").unwrap();
        assert_eq!(scenario.links[0].base_rtt().as_millis(), 25);
        assert_eq!(scenario.links[0].down.jitter.as_millis(), 12);
    }
}
