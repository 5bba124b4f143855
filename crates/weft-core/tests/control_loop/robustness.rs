//! Under any losses, a loop keeps consistent counts, stays within its bounds, and continues.

use crate::accumulation::{law, paper};
use crate::network::{Faults, Flow, Link, Network};
use crate::{at, figure, ms};
use proptest::prelude::*;
use std::sync::Arc;
use weft_core::control_loop::accumulation::{AccumulationConfig, AccumulationMeasure};
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::control_loop::{ControlLoop, Credit, IntervalCount, LoopConfig, LoopEgress, LoopReport};
use weft_core::service::{Service, Share};
use weft_units::{Duration, Instant, Rate, Rng};

fn laws() -> [LoopConfig; 4] {
    let counted = AccumulationConfig { measure: AccumulationMeasure::Counted, ..paper(ms(40)) };
    [
        LoopConfig::AimdWindow(AimdConfig { packet_bytes: 1_000, ..AimdConfig::default() }),
        law(AccumulationConfig { startup: true, cap: Rate::from_mbps(1_000), ..paper(ms(40)) }),
        law(AccumulationConfig { startup: true, cap: Rate::from_mbps(1_000), ..counted }),
        LoopConfig::ExplicitRate(Arc::default()),
    ]
}

fn books_balance(network: &Network) -> Result<(), TestCaseError> {
    for end in &network.ends {
        let status = end.ingress.status();
        let outstanding = end.sent - end.received - end.lost;
        // The loop learns of an event after it happens, never before.
        prop_assert!(u64::from(status.in_flight_bytes) >= outstanding * 1_000, "{status:?}");
        prop_assert!(u64::from(status.lost_packets) <= end.lost, "{status:?}, lost {}", end.lost);
        prop_assert!(status.window_bytes >= 1, "{status:?}");
        prop_assert!(status.rate >= Rate::from_bps(8_000) && status.rate <= Rate::from_mbps(10_000), "{status:?}");
    }
    Ok(())
}

/// Returns a forged count. It often names the marker that started the intervals.
fn count(word: &[u32; 8]) -> Option<IntervalCount> {
    let intervals = if word[2].is_multiple_of(2) { word[6] % 64 } else { word[6] };
    (!word[0].is_multiple_of(4)).then_some(IntervalCount { restarted_by: word[3] % 4, intervals, bytes: word[1] })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn after_any_losses_of_data_markers_and_reports_it_goes_on(
        (data_loss, marker_loss, report_loss) in (0.0..0.5f64, 0.0..=1.0f64, 0.0..=1.0f64),
        drift_ppm in -150..150i64,
        buffer in 5..100usize,
        seed in any::<u64>(),
    ) {
        let faults = Faults { data_loss, marker_loss, report_loss, until: at(5.0), drift_ppm };
        for config in laws() {
            let flow = Flow { faults, ..Flow::greedy(config.clone(), &[0], ms(20)) };
            let mut network = Network::new(vec![Link::new(10.0, ms(10), buffer)], vec![flow.clone(), flow], seed);
            for second in 1..=5 {
                network.run_until(at(f64::from(second)));
                books_balance(&network)?;
            }
            network.run_until(at(10.0));
            network.reset();
            network.run_until(at(12.0));
            for flow in 0..2 {
                prop_assert!(network.rate(flow) > 0.05e6, "{:?} {:?}", network.rates(), network.ends[flow].ingress.status());
            }
            books_balance(&network)?;
        }
    }

    #[test]
    fn forged_reports_break_nothing(
        reports in prop::collection::vec((any::<[u32; 8]>(), any::<bool>(), 0..50u64), 1..200),
        service in 0..3u8,
    ) {
        let rate = Rate::from_mbps(3);
        let service = [Service::BestEffort, Service::Assured { rate, gamma: 0.98 }, Service::LeasedLine { rate }][usize::from(service)];
        for config in laws() {
            let mut this = ControlLoop::new(config, Share::new(1.0, service).unwrap());
            let (mut now, mut egress) = (Instant::ZERO, LoopEgress::default());
            let mut last = None;
            for (word, plausible, wait) in &reports {
                now += ms(*wait);
                while this.credit(now, 1_000) == Credit::Now {
                    egress.on_packet(1_000, false);
                    last = this.on_sent(now, 1_000, true).or(last);
                    if this.status().in_flight_bytes > 1 << 20 {
                        break;
                    }
                }
                let marker = if *plausible { last.unwrap_or_default() } else {
                    weft_core::control_loop::Marker { sequence: word[0], sent_at_us: word[1], packets: word[2], bytes: word[3], explained_us: word[1], is_pressing: *plausible, counting: None }
                };
                let [.., received_at_us, held_us, packets, bytes] = *word;
                this.on_report(now, &LoopReport { marker, received_at_us, held_us, packets, bytes, ce_packets: word[1], count: count(word) });
                if this.deadline().is_some_and(|deadline| deadline <= now) {
                    last = this.on_deadline(now).or(last);
                }
                let status = this.status();
                prop_assert!(status.rate > Rate::ZERO && status.window_bytes < 1 << 40, "{:?}", status);
                let next = this.deadline();
                prop_assert!(status.in_flight_bytes == 0 || next.is_some(), "nothing would wake it");
            }
        }
    }
}

#[test]
fn a_total_outage_stops_the_loop_and_it_comes_back() {
    for config in laws() {
        let faults = Faults { report_loss: 1.0, until: at(20.0), ..Faults::default() };
        let mut network = Network::new(
            vec![Link::new(10.0, ms(10), 100)],
            vec![Flow { faults, ..Flow::greedy(config.clone(), &[0], ms(20)) }],
            1,
        );
        network.run_until(at(20.0));
        let unreported = network.ends[0].sent;
        assert!(unreported < 600, "conservation: {unreported} packets without any report");
        network.run_until(at(40.0));
        network.reset();
        network.run_until(at(50.0));
        figure!(
            "after 20 s without reports: {unreported} packets sent; later {:.2} of 10 Mbit/s",
            network.rate(0) / 1e6
        );
        assert!(network.rate(0) > 4e6, "{}", network.rate(0));
    }
}

#[test]
fn a_longer_path_is_not_a_queue_for_ever() {
    let config = AccumulationConfig { startup: true, ..paper(ms(40)) };
    let mut network =
        Network::new(vec![Link::new(10.0, ms(10), 1_000)], vec![Flow::greedy(law(config), &[0], ms(20))], 1);
    network.run_until(at(20.0));
    network.links[0].delay = ms(40);
    network.run_until(at(40.0));
    network.reset();
    network.run_until(at(50.0));
    figure!(
        "path longer by 30 ms: {:.2} of 10 Mbit/s twenty seconds later, mean queue {:.1}",
        network.rate(0) / 1e6,
        network.links[0].mean_queue(network.now)
    );
    assert!(network.rate(0) > 9.5e6 && network.links[0].mean_queue(network.now) < 20.0);
}

/// The path becomes longer while the loop's rate is low.
///
/// The delay of the longer path looks like a queue, and at a low rate the loop drains little or nothing of it.
#[test]
fn a_loop_of_a_low_rate_finds_out_that_the_path_is_longer() {
    let mut rng = Rng::new(2_348);
    for seed in 0..40 {
        let (delay_ms, longer_ms) = (2 + rng.below(20), 20 + rng.below(250));
        let low = Rate::from_bps((16_000.0 * 60f64.powf(rng.unit())) as u64);
        let config = AccumulationConfig { initial: low, startup: rng.chance(0.5), ..AccumulationConfig::default() };
        let flow = Flow::greedy(law(config), &[0], ms(delay_ms));
        let mut network = Network::new(vec![Link::new(10.0, ms(delay_ms), 200)], vec![flow], seed);
        while network.ends[0].ingress.status().delivered == Rate::ZERO {
            network.run_until(network.now + ms(1));
        }
        network.links[0].delay = ms(delay_ms + longer_ms);
        network.run_until(network.now + ms(9_000));
        network.reset();
        network.run_until(network.now + ms(2_000));
        let rate = network.rate(0);
        figure!("{low}, {delay_ms} ms, later {longer_ms} ms more: {:.3} of 10 Mbit/s", rate / 1e6);
        assert!(rate > 1e6, "{rate} bit/s, before {low}; {delay_ms} ms became {longer_ms} ms longer");
    }
}

#[test]
fn clocks_that_drift_cost_little() {
    for drift_ppm in [-150, 150] {
        let config = AccumulationConfig { startup: true, ..paper(ms(40)) };
        let faults = Faults { drift_ppm, ..Faults::default() };
        let mut network = Network::new(
            vec![Link::new(50.0, ms(10), 1_000)],
            vec![Flow { faults, ..Flow::greedy(law(config), &[0], ms(20)) }; 2],
            1,
        );
        network.run_until(at(20.0));
        network.reset();
        network.run_until(at(60.0));
        figure!(
            "{drift_ppm} ppm: utilisation {:.3}, peak queue {}",
            network.links[0].utilisation(network.now),
            network.links[0].peak_packets
        );
        assert!(network.links[0].utilisation(network.now) > 0.95 && network.links[0].dropped == 0);
    }
}

#[test]
fn a_loop_is_small() {
    let bytes = size_of::<ControlLoop>();
    figure!(
        "state: ingress {bytes} bytes, egress {} bytes, marker {}, report {}",
        size_of::<LoopEgress>(),
        size_of::<weft_core::control_loop::Marker>(),
        size_of::<LoopReport>()
    );
    assert!(bytes <= 256 && size_of::<LoopEgress>() <= 24);
}

/// The egress's clock is set forward by one second. A queue that causes a delay of one second would increase the RTT.
#[test]
fn a_clock_that_is_set_is_no_queue() {
    let config = AccumulationConfig { cap: Rate::from_mbps(10), ..AccumulationConfig::default() };
    let mut ingress = ControlLoop::new(LoopConfig::Accumulation(Arc::new(config)), Share::default());
    let mut egress = LoopEgress::default();
    let mut now = Instant::ZERO;
    for turn in 0..4_000 {
        let set_forward = if turn > 2_000 { ms(1_000) } else { Duration::ZERO };
        while ingress.credit(now, 1_500) == Credit::Now {
            let marker = ingress.on_sent(now, 1_500, true);
            egress.on_packet(1_500, false);
            let report = marker.and_then(|marker| egress.on_marker(now + ms(10) + set_forward, marker));
            if let Some(report) = report {
                ingress.on_report(now + ms(20), &report);
            }
        }
        now += ms(1);
        let rate = ingress.status().rate;
        assert!(turn < 1_900 || rate > Rate::from_mbps(9), "turn {turn}: {rate}");
    }
}
