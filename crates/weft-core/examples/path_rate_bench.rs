//! Prints the behaviour of the path rate controller on a set of modelled links.
//!
//! Usage: `cargo run --release --example path_rate_bench [only=NAME] [duration=SECONDS] [step=SECONDS] [TRACE…]`.
//! `only` selects scenarios by a part of their name. `duration` changes their length. `step` adds a time series.
//! Traces are in the Mahimahi format.

#[path = "../tests/path_rate/bench/mod.rs"]
mod bench;

use bench::{Capacity, Link};
use weft_units::{Duration, Rate};

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn row(name: &str, link: &Link, from: f64, step: Option<f64>) {
    let run = link.run();
    let (from, to) = (s(from), link.duration);
    let window = (link.rtt * 2).max(s(0.1));
    let start = run.settled_after(Duration::ZERO, window, 0.9, Duration::MAX);
    let peak = run.queue(1.0, Duration::ZERO, from);
    println!(
        "{name:<34} util {:6.3}  queue p50 {:7.2} p95 {:7.2} ms  drop {:6.3} %  start {:6.0} ms, peak queue {:6.1} ms  {:?} cap {}",
        run.utilisation(from, to),
        ms(run.queue(0.5, from, to)),
        ms(run.queue(0.95, from, to)),
        run.dropped(from, to) * 100.0,
        start.map_or(f64::NAN, ms),
        ms(peak),
        run.control.phase(),
        run.control.capacity().unwrap_or(Rate::ZERO),
    );
    if let Some(step) = step {
        series(link, &run, step);
    }
}

fn series(link: &Link, run: &bench::Run, step: f64) {
    let mut t = 0.0;
    while s(t) < link.duration {
        let span = (s(t), s(t + step));
        let rate = run.rates.iter().rev().find(|r| r.0.as_nanos() < span.1.as_nanos() as u64);
        println!(
            "  {t:6.2} util {:6.3} queue {:7.2} … {:7.2} ms drop {:5.2} % rate {} {:?}",
            run.utilisation(span.0, span.1),
            ms(run.queue(0.05, span.0, span.1)),
            ms(run.queue(0.95, span.0, span.1)),
            run.dropped(span.0, span.1) * 100.0,
            rate.map_or(Rate::ZERO, |r| r.1),
            rate.map(|r| r.2),
        );
        t += step;
    }
}

fn main() {
    let mut traces = Vec::new();
    let (mut only, mut step, mut duration) = (String::new(), None, None);
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("only", name)) => only = name.to_string(),
            Some(("step", seconds)) => step = seconds.parse().ok(),
            Some(("duration", seconds)) => duration = seconds.parse().ok().map(s),
            _ => traces.push(argument),
        }
    }
    let show = |name: &str, link: &Link, from: f64| {
        if name.contains(&only) {
            let link = Link { duration: duration.unwrap_or(link.duration), ..link.clone() };
            row(name, &link, from, step);
        }
    };
    for (mbps, rtt) in [
        (1.0, 20),
        (1.0, 100),
        (5.0, 40),
        (20.0, 600),
        (10.0, 2),
        (50.0, 10),
        (100.0, 50),
        (100.0, 400),
        (300.0, 20),
        (1000.0, 2),
        (1000.0, 40),
    ] {
        let mut link = Link::fixed(mbps, rtt);
        link.duration = if mbps > 500.0 { s(6.0) } else { s(20.0) };
        let from = if mbps > 500.0 { 2.0 } else { 3.0f64.max(0.012 * rtt as f64) };
        show(&format!("fixed {mbps} Mbit/s {rtt} ms"), &link, from);
    }
    for (mbps, rtt, loss) in
        [(5.0, 40, 0.005), (50.0, 10, 0.005), (50.0, 40, 0.03), (100.0, 100, 0.01), (1.0, 100, 0.03), (300.0, 20, 0.03)]
    {
        let link = Link { loss, ..Link::fixed(mbps, rtt) };
        show(&format!("loss {} % {mbps} Mbit/s {rtt} ms", loss * 100.0), &link, 3.0);
    }
    for (mbps, rtt, jitter, reorders) in
        [(20.0, 40, 5, false), (20.0, 40, 5, true), (50.0, 60, 20, false), (50.0, 60, 20, true), (5.0, 30, 10, true)]
    {
        let link = Link { jitter: Duration::from_millis(jitter), reorders, ..Link::fixed(mbps, rtt) };
        show(
            &format!("jitter {jitter} ms {mbps} Mbit/s {rtt} ms {}", if reorders { "reordering" } else { "in order" }),
            &link,
            3.0,
        );
    }
    for (mbps, rtt, packets) in [(50.0, 40, 4), (100.0, 20, 10), (10.0, 100, 2)] {
        for loss in [0.0, 0.01] {
            let link = Link { queue_bytes: packets * 1500, loss, ..Link::fixed(mbps, rtt) };
            show(&format!("buffer {packets} packets {mbps} Mbit/s {rtt} ms {} %", loss * 100.0), &link, 4.0);
        }
    }
    for (name, factors) in [("x2", [1.0, 2.0]), ("/2", [1.0, 0.5]), ("/5", [1.0, 0.2]), ("x5", [1.0, 5.0])] {
        for rtt in [10, 50, 200] {
            let mut link = Link::fixed(40.0, rtt);
            link.capacity = Capacity::Steps(
                factors
                    .iter()
                    .enumerate()
                    .map(|(i, f)| (s(i as f64 * 8.0), Rate::from_bps((40e6 * f) as u64)))
                    .collect(),
            );
            let title = format!("step {name} 40 Mbit/s {rtt} ms");
            if title.contains(&only) {
                let run = link.run();
                let window = (link.rtt).max(s(0.05));
                let settled = run.settled_after(s(8.0), window, 0.95, link.rtt / 20 + s(0.004));
                println!("{title}: settled after {:.0} ms", settled.map_or(f64::NAN, ms));
                row(&title, &link, 11.0, step);
            }
        }
    }
    for (mbps, rtt) in [(20.0, 40), (50.0, 20), (10.0, 100)] {
        let link = Link { rival: Some(s(10.0)..=s(40.0)), duration: s(60.0), ..Link::fixed(mbps, rtt) };
        let title = format!("rival 10…40 s, {mbps} Mbit/s {rtt} ms");
        if title.contains(&only) {
            row(&title, &link, 45.0, step);
            let run = link.run();
            println!(
                "  share while it lasts: {:.3} first half, {:.3} second",
                run.utilisation(s(12.0), s(25.0)),
                run.utilisation(s(25.0), s(40.0))
            );
        }
    }
    for seed in [1, 2] {
        let capacity = Capacity::Trace(bench::radio_trace(seed));
        let link = Link { capacity, queue_bytes: 2_000_000, duration: s(55.0), ..Link::fixed(10.0, 40) };
        show(&format!("radio walk {seed}"), &link, 3.0);
    }
    for path in traces {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let times: Vec<u64> = text.lines().filter_map(|l| l.trim().parse().ok()).collect();
        let link = Link {
            capacity: Capacity::Trace(times),
            queue_bytes: 2_000_000,
            duration: s(120.0),
            ..Link::fixed(10.0, 40)
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        show(name, &link, 3.0);
    }
}
