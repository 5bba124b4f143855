//! Draws a random mix of links and flows as a scenario.

use super::{LinkClass, draw_link, even, log_even};
use crate::{App, Capacity, DirectionSpec, Flow, FlowDirection, Link, PACKET_BYTES, Scenario, Variant, VariantKind};
use std::time::Duration;
use weft_units::{Rate, Rng};

/// Minimum length of the part of a run after the warm-up.
const WINDOW: Duration = Duration::from_secs(12);
/// Minimum and maximum length of the warm-up.
const WARMUP: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(30)];
/// Minimum length of the warm-up, in round trips of the link with the longest round-trip time.
///
/// Tuned: CUBIC completes slow start and its first recovery in that time.
const WARMUP_ROUND_TRIPS: u32 = 50;
/// Minimum length of the warm-up, in the time that the slowest link takes for one full packet.
const WARMUP_PACKETS: u32 = 500;
/// Maximum total down rate of all links of a mix, in Mbit/s.
///
/// With this rate a run takes at most half a minute of one processor.
const TOTAL_MBPS: f64 = 600.0;

/// Draws the mix with this seed: one link, or 2 to 12 links that weft bonds, and flows over them.
pub fn draw_mix(seed: u64, one_link: bool) -> Scenario {
    let mut rng = Rng::new(seed).split(if one_link { 1 } else { 2 });
    let count = if one_link { 1 } else { log_even(&mut rng, 2.0, 13.0) as u64 };
    let mut links: Vec<Link> = (0..count)
        .map(|number| {
            let class = LinkClass::draw(&mut rng);
            draw_link(&mut rng, format!("link{number}"), class)
        })
        .collect();
    limit_total(&mut links);
    let (warmup, window) = lengths(&links);
    let duration = warmup + window;
    let flows = draw_flows(&mut rng, duration);
    let plain_bbr = || {
        let mut variant = Variant { name: "bbr".into(), ..Variant::plain(VariantKind::Link) };
        variant.tcp.congestion = Some("bbr".into());
        variant
    };
    let variants = match one_link {
        true => vec![Variant::plain(VariantKind::EachLink), plain_bbr(), Variant::plain(VariantKind::Weft)],
        false => [VariantKind::EachLink, VariantKind::WeftEachLink, VariantKind::Weft].map(Variant::plain).into(),
    };
    Scenario {
        name: format!("{}-{seed}", if one_link { "one-link" } else { "bundle" }),
        description: "A random mix of links.".into(),
        nodes: ["home".into(), "hub".into()],
        duration,
        warmup,
        repeats: 1,
        seed,
        links,
        vpns: Vec::new(),
        leasable: None,
        hosts: Vec::new(),
        flows,
        events: Vec::new(),
        variants,
        grid: None,
    }
}

/// Draws the TCP bulk flows of a mix, and adds one ping.
///
/// Most mixes have one bulk flow, and most bulk flows send in the down direction.
fn draw_flows(rng: &mut Rng, duration: Duration) -> Vec<Flow> {
    let count = match even(rng, 0.0, 1.0) {
        p if p < 0.65 => 1,
        p if p < 0.85 => 2 + rng.below(4),
        _ => log_even(rng, 6.0, 101.0) as u64,
    };
    let (main, back) = match even(rng, 0.0, 1.0) {
        p if p < 0.65 => (FlowDirection::Down, None),
        p if p < 0.85 => (FlowDirection::Up, None),
        _ => (FlowDirection::Down, Some(FlowDirection::Up)),
    };
    let bulk = |word: &str, direction| {
        let word = word.to_owned();
        (0..count)
            .map(move |number| Flow { direction, ..Flow::plain(format!("{word}-{number}"), App::Iperf3, duration) })
    };
    let mut flows: Vec<Flow> = bulk("bulk", main).collect();
    flows.extend(back.into_iter().flat_map(|direction| bulk("back", direction)));
    flows.push(Flow { direction: main, ..Flow::plain("ping", App::Ping, duration) });
    flows
}

/// Scales all rates down if the links together would carry more than [`TOTAL_MBPS`].
fn limit_total(links: &mut [Link]) {
    let total: f64 = links.iter().map(|link| mbps(&link.down)).sum();
    let factor = TOTAL_MBPS / total;
    if factor >= 1.0 {
        return;
    }
    for direction in links.iter_mut().flat_map(|link| [&mut link.up, &mut link.down]) {
        if let Capacity::Rate(rate) = &mut direction.capacity {
            *rate = rate.scaled(factor);
        }
        if let Some(swing) = &mut direction.impairments.swing {
            (swing.low, swing.high) = (swing.low.scaled(factor), swing.high.scaled(factor));
        }
        if let Some(policer) = &mut direction.impairments.policer {
            policer.rate = policer.rate.scaled(factor);
        }
    }
}

/// Returns the constant rate of a direction, or the mean rate of the trace that is generated for it.
fn rate(direction: &DirectionSpec) -> Rate {
    match &direction.capacity {
        Capacity::Rate(rate) => *rate,
        Capacity::Trace(name) => crate::load_traces::synthetic_rate(name),
    }
}

fn mbps(direction: &DirectionSpec) -> f64 {
    rate(direction).bps() as f64 / 1e6
}

/// Returns the length of the warm-up, and the length of the measured part of the run.
///
/// They suffice for the mix's slow links, long round trips and rare outages.
fn lengths(links: &[Link]) -> (Duration, Duration) {
    let (mut warmup, mut window) = (WARMUP[0], WINDOW);
    for link in links {
        let slowest = rate(&link.up).min(rate(&link.down)).time_for(PACKET_BYTES);
        warmup = warmup.max(link.base_rtt() * WARMUP_ROUND_TRIPS).max(slowest * WARMUP_PACKETS);
        let impairments = &link.down.impairments;
        let periods =
            [impairments.outage.map(|outage| outage.every), impairments.handover.map(|handover| handover.every)];
        for every in periods.into_iter().flatten() {
            window = window.max(every.mul_f64(1.5));
        }
    }
    (warmup.min(WARMUP[1]), window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_always_gives_the_same_mix_and_all_classes_come() {
        let mut classes = BTreeSet::new();
        for seed in 1..=600 {
            let one = draw_mix(seed, true);
            assert_eq!(one, draw_mix(seed, true));
            assert_eq!(one.links.len(), 1);
            let label = one.links[0].class.clone().unwrap();
            classes.insert(label.split('+').next().unwrap().to_owned());
            let bundle = draw_mix(seed, false);
            assert!((2..=12).contains(&bundle.links.len()));
            assert!(bundle.variants.iter().any(|variant| variant.kind == VariantKind::WeftEachLink));
            assert!(bundle.warmup >= WARMUP[0] && bundle.duration - bundle.warmup >= WINDOW);
        }
        assert_eq!(classes.len(), LinkClass::ALL.len(), "{classes:?}");
    }

    #[test]
    fn links_are_within_their_ranges_and_half_lose_nothing() {
        let mut lossless = 0;
        for seed in 1..=1_000 {
            let scenario = draw_mix(seed, true);
            let link = &scenario.links[0];
            assert!((0.499..=500.0).contains(&mbps(&link.down)) && (0.127..=500.0).contains(&mbps(&link.up)));
            assert!((1.0..=300.01).contains(&(link.base_rtt().as_secs_f64() * 1e3)));
            assert!(link.down.loss <= 0.1 && link.down.jitter <= Duration::from_millis(50));
            lossless += usize::from(link.down.loss == 0.0 && link.down.impairments.burst_loss.is_none());
            assert!((1..=201).contains(&scenario.flows.len()));
        }
        assert!((430..=570).contains(&lossless), "{lossless}");
    }
}
