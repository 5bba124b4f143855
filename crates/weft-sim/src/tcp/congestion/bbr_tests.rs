//! Tests BBR over a bottleneck with a constant rate and delay and an unlimited buffer.

use super::*;
use crate::tcp::congestion::testing::{MSS, acked, now};
use std::collections::VecDeque;

/// A segment that is not acknowledged yet, with the sender's state when it was sent.
struct SegmentInFlight {
    acked_at: Instant,
    sent_at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
}

/// One BBR sender with endless data, alone on a path.
struct BbrPath {
    bbr: Bbr,
    rate: Rate,
    rtt: Duration,
    now: Instant,
    next_send: Instant,
    bottleneck_free: Instant,
    flight: VecDeque<SegmentInFlight>,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Time, state, pacing gain and RTT after each acknowledgment.
    log: Vec<(Instant, BbrState, f64, Duration)>,
}

impl BbrPath {
    fn new(rate: Rate, rtt: Duration, seed: u64) -> BbrPath {
        BbrPath {
            bbr: Bbr::new(seed, MSS as u32, 10 * MSS),
            rate,
            rtt,
            now: Instant::ZERO,
            next_send: Instant::ZERO,
            bottleneck_free: Instant::ZERO,
            flight: VecDeque::new(),
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent_at: Instant::ZERO,
            log: Vec::new(),
        }
    }

    fn run_until(&mut self, end: Instant) {
        while self.now < end {
            let may_send = (self.flight.len() as u64 + 1) * MSS <= self.bbr.cwnd_bytes();
            let ack = self.flight.front().map_or(Instant::FAR_FUTURE, |sent| sent.acked_at);
            let send = if may_send { self.next_send.max(self.now) } else { Instant::FAR_FUTURE };
            self.now = send.min(ack);
            if send <= ack { self.send() } else { self.acknowledge() }
        }
    }

    fn send(&mut self) {
        if self.flight.is_empty() {
            self.first_sent_at = self.now;
            self.delivered_at = self.now;
        }
        self.bottleneck_free = self.bottleneck_free.max(self.now) + self.rate.time_for(MSS);
        self.flight.push_back(SegmentInFlight {
            acked_at: self.bottleneck_free + self.rtt,
            sent_at: self.now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
        });
        self.next_send = self.now + self.bbr.pacing_rate.time_for(MSS);
    }

    fn acknowledge(&mut self) {
        let Some(sent) = self.flight.pop_front() else { return };
        self.delivered += MSS;
        self.delivered_at = self.now;
        self.first_sent_at = sent.sent_at;
        let interval = (sent.sent_at - sent.first_sent_at).max(self.now - sent.delivered_at);
        let rtt = self.now - sent.sent_at;
        self.bbr.on_ack(&AckEvent {
            flight_bytes: self.flight.len() as u64 * MSS,
            rtt: Some(rtt),
            srtt: Some(rtt),
            delivery: Some(RateSample {
                rate: Rate::from_bytes_over(self.delivered - sent.delivered, interval),
                app_limited: false,
                delivered: self.delivered,
                prior_delivered: sent.delivered,
                interval,
            }),
            ..acked(MSS, self.now)
        });
        self.log.push((self.now, self.bbr.state, self.bbr.pacing_gain(), rtt));
    }

    /// Returns the states and pacing gains in the order of their occurrence, without successive repetitions.
    fn steps(&self) -> Vec<(BbrState, f64)> {
        let mut steps: Vec<_> = self.log.iter().map(|(_, state, gain, _)| (*state, *gain)).collect();
        steps.dedup();
        steps
    }
}

fn seconds(n: u64) -> Instant {
    Instant::from_millis(1000 * n)
}

const RATE: Rate = Rate::from_mbps(20);
const PROPAGATION: Duration = Duration::from_millis(50);

#[test]
fn it_finds_rate_and_delay_and_keeps_the_queue_short() {
    let mut path = BbrPath::new(RATE, PROPAGATION, 1);
    path.run_until(seconds(5));
    let before = path.delivered;
    path.run_until(seconds(9));
    let goodput = Rate::from_bytes_over(path.delivered - before, Duration::from_secs(4));
    assert!(goodput.bps() as f64 > 0.97 * RATE.bps() as f64, "{goodput}");
    let estimate = path.bbr.bandwidth.get().bps() as f64 / RATE.bps() as f64;
    assert!((0.99..1.02).contains(&estimate), "{estimate}");
    let rtt = path.bbr.min_rtt.unwrap();
    assert!(rtt >= PROPAGATION && rtt < PROPAGATION + Duration::from_millis(2), "{rtt:?}");
    let settled: Vec<_> = path.log.iter().filter(|(at, ..)| *at > seconds(5)).map(|(.., rtt)| *rtt).collect();
    let mean = settled.iter().sum::<Duration>() / settled.len() as u32;
    assert!(mean < PROPAGATION * 12 / 10, "{mean:?}");
    assert!(settled.iter().max() < Some(&(PROPAGATION * 3 / 2)), "{:?}", settled.iter().max());
}

#[test]
fn startup_drains_what_it_queued_and_then_cycles() {
    let mut path = BbrPath::new(RATE, PROPAGATION, 2);
    path.run_until(seconds(4));
    let steps = path.steps();
    assert_eq!(steps[0], (BbrState::Startup, HIGH_GAIN));
    assert_eq!(steps[1], (BbrState::Drain, 1.0 / HIGH_GAIN));
    assert!(steps[2..].iter().all(|(state, _)| *state == BbrState::ProbeBw));
    // Successive phases with the same gain are one step in `steps`. A cycle thus has three steps: 5/4, 3/4, 1.
    let gains: Vec<f64> = steps[2..].iter().map(|(_, gain)| *gain).collect();
    let up = gains.iter().position(|g| *g == 1.25).unwrap();
    for cycle in gains[up..].chunks_exact(3) {
        assert_eq!(cycle, [1.25, 0.75, 1.0]);
    }
    let ups = gains.iter().filter(|g| **g == 1.25).count();
    assert!((6..=10).contains(&ups), "{ups} cycles of 8 round trips in 4 s");
}

#[test]
fn startup_fills_the_pipe_in_a_logarithm_of_rounds() {
    let mut path = BbrPath::new(Rate::from_mbps(200), PROPAGATION, 3);
    path.run_until(seconds(2));
    let left = path.log.iter().find(|(_, state, ..)| *state != BbrState::Startup).unwrap().0;
    // The window doubles in each round. From 10 segments to 1250 takes 7 rounds. BBR needs 3 more rounds to detect that
    // the rate no longer grows. In these rounds the queue makes each RTT up to 2.9 round-trip times longer.
    assert!(left < Instant::from_millis(50 * (7 + 3 * 3 + 3)), "{left:?}");
}

#[test]
fn the_gain_cycle_never_begins_by_draining_and_depends_on_the_seed() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let mut bbr = Bbr::new(seed, MSS as u32, 10 * MSS);
        bbr.enter_probe_bw(now());
        seen.insert(bbr.cycle_index);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn every_ten_seconds_it_drains_the_pipe_for_200_ms() {
    let mut path = BbrPath::new(RATE, PROPAGATION, 4);
    // The queue keeps every RTT above the propagation delay, so the minimum RTT is not measured again.
    path.run_until(seconds(9));
    path.bbr.min_rtt = Some(PROPAGATION);
    path.run_until(seconds(25));
    let mut probes: Vec<Instant> = Vec::new();
    for pair in path.log.windows(2) {
        if pair[0].1 != BbrState::ProbeRtt && pair[1].1 == BbrState::ProbeRtt {
            probes.push(pair[1].0);
        }
    }
    assert!(!probes.is_empty() && probes.len() <= 2, "{probes:?}");
    let probing = path
        .log
        .iter()
        .filter(|(at, state, ..)| *state == BbrState::ProbeRtt && *at < probes[0] + Duration::from_secs(5));
    let (first, last) = (probes[0], probing.map(|(at, ..)| *at).max().unwrap());
    let lasted = last - first;
    assert!(lasted >= PROBE_RTT_DURATION && lasted < Duration::from_millis(450), "{lasted:?}");
    assert_eq!(path.bbr.state, BbrState::ProbeBw);
}

#[test]
fn a_slower_path_is_noticed_within_ten_rounds_of_the_queue_it_makes() {
    let mut path = BbrPath::new(RATE, PROPAGATION, 5);
    path.run_until(seconds(3));
    path.rate = Rate::from_mbps(5);
    path.run_until(seconds(9));
    let estimate = path.bbr.bandwidth.get().bps() as f64 / path.rate.bps() as f64;
    assert!((0.99..1.05).contains(&estimate), "{estimate}");
}

#[test]
fn recovery_conserves_packets_for_a_round_and_then_restores_the_window() {
    let mut path = BbrPath::new(RATE, PROPAGATION, 6);
    path.run_until(seconds(3));
    let bbr = &mut path.bbr;
    let before = bbr.cwnd_bytes();
    bbr.on_congestion(path.now, before);
    let flight = 80 * MSS;
    let lossy = AckEvent { lost_bytes: 3 * MSS, flight_bytes: flight, in_recovery: true, ..acked(MSS, path.now) };
    bbr.on_ack(&lossy);
    assert_eq!(bbr.cwnd_bytes(), flight + MSS);
    bbr.on_ack(&AckEvent { lost_bytes: 0, flight_bytes: flight - 5 * MSS, ..lossy });
    assert_eq!(bbr.cwnd_bytes(), flight + MSS, "what is in flight and delivered is less");
    bbr.on_recovery_exit(path.now);
    assert_eq!(bbr.cwnd_bytes(), before);
}

#[test]
fn a_timeout_begins_from_one_segment_and_a_spurious_one_is_undone() {
    let mut path = BbrPath::new(RATE, PROPAGATION, 7);
    path.run_until(seconds(3));
    let before = path.bbr.cwnd_bytes();
    path.bbr.on_timeout(path.now, before);
    assert_eq!(path.bbr.cwnd_bytes(), MSS);
    path.bbr.on_spurious();
    assert_eq!(path.bbr.cwnd_bytes(), before);
}

#[test]
fn a_mark_changes_nothing_and_a_restart_paces_at_the_measured_rate() {
    let mut path = BbrPath::new(RATE, PROPAGATION, 8);
    path.run_until(seconds(3));
    let before = path.bbr.cwnd_bytes();
    path.bbr.on_ecn(path.now, before);
    path.bbr.on_restart(path.now, Duration::from_secs(5), Duration::from_secs(1));
    assert_eq!(path.bbr.cwnd_bytes(), before);
    assert_eq!(path.bbr.pacing_rate(), Some(path.bbr.bandwidth.get()));
}
