//! A small UDP datagram every millisecond: the longest gap, one-way delays, losses. Both ends are threads of this process, so
//! they share a clock and one-way delays are exact.

use super::{FlowReport, Place};
use crate::LabError;
use crate::interrupt;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::{FlowDirection, FlowResult, Series, percentile};

/// Bytes of a probe: as small as voice.
const PAYLOAD: usize = 100;
/// How long after the last datagram was sent its arrival still counts.
const DRAIN: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_millis(100);

/// A probe that arrived; times from the beginning of the run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Arrival {
    pub sequence: u64,
    pub sent: Duration,
    pub received: Duration,
}

impl Arrival {
    fn one_way_ms(&self) -> f64 {
        self.received.saturating_sub(self.sent).as_secs_f64() * 1e3
    }
}

/// The arrivals so far, in the order of reception; events look at them while the flow runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals(Arc<Mutex<Vec<Arrival>>>);

impl Arrivals {
    fn push(&self, arrival: Arrival) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
    }

    pub fn all(&self) -> Vec<Arrival> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The least one-way delay among the last `count` arrivals.
    pub fn recent_one_way(&self, count: usize) -> Option<Duration> {
        let arrivals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.iter().rev().take(count).map(|a| a.received.saturating_sub(a.sent)).min()
    }
}

pub(super) fn run(place: &Place, arrivals: &Arrivals) -> Result<FlowReport, LabError> {
    let Place { world, lane, flow, port, schedule } = place;
    let (from, to, address) = match flow.direction {
        FlowDirection::Up => (&world.home, &world.hub, lane.hub),
        FlowDirection::Down => (&world.hub, &world.home, lane.home),
    };
    let receiver = to.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, *port)))??;
    receiver.set_read_timeout(Some(READ_TIMEOUT))?;
    let sender = from.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    sender.connect((address, *port))?;
    let over = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let reader = scope.spawn(|| receive(&receiver, schedule.epoch, &over, arrivals));
        let sent = send(&sender, place);
        let drained = interrupt::sleep_until(Instant::now() + DRAIN);
        over.store(true, Ordering::Relaxed);
        let _ = reader.join();
        drained.and(sent)
    })?;
    Ok(report(place, &arrivals.all(), sent))
}

/// Sends until the flow's stop; returns how many.
fn send(socket: &UdpSocket, place: &Place) -> Result<u64, LabError> {
    exact_timers();
    interrupt::sleep_until(place.starts_at())?;
    let mut payload = [0u8; PAYLOAD];
    let mut sequence = 0u64;
    let mut due = place.starts_at();
    while due < place.stops_at() {
        interrupt::check()?;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent_ns = place.schedule.epoch.elapsed().as_nanos() as u64;
        payload[..8].copy_from_slice(&sequence.to_be_bytes());
        payload[8..16].copy_from_slice(&sent_ns.to_be_bytes());
        // A full buffer or an unreachable way is a lost probe, as it would be for a user.
        let _ = socket.send(&payload);
        sequence += 1;
        due += place.flow.interval;
    }
    Ok(sequence)
}

fn receive(socket: &UdpSocket, epoch: Instant, over: &AtomicBool, arrivals: &Arrivals) {
    let mut payload = [0u8; PAYLOAD];
    while !over.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut payload) else { continue };
        let received = epoch.elapsed();
        if let Some((sequence, sent)) = decode(payload.get(..length).unwrap_or_default()) {
            arrivals.push(Arrival { sequence, sent, received });
        }
    }
}

fn decode(payload: &[u8]) -> Option<(u64, Duration)> {
    let (sequence, rest) = payload.split_first_chunk::<8>()?;
    let (sent_ns, _) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*sequence), Duration::from_nanos(u64::from_be_bytes(*sent_ns))))
}

/// Without this the kernel may wake the sender 50 µs late.
fn exact_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and concerns only the calling thread.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    debug_assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

fn report(place: &Place, arrivals: &[Arrival], sent: u64) -> FlowReport {
    let warmup = place.schedule.warmup.max(place.flow.start);
    let end = place.flow.stop;
    let counted: Vec<Arrival> = arrivals.iter().filter(|a| a.sent >= warmup).copied().collect();
    let expected = sent.saturating_sub(first_after(warmup, place));
    let mut sequences: Vec<u64> = counted.iter().map(|a| a.sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    let one_way = |share| percentile(counted.iter().map(Arrival::one_way_ms), share);
    let result = FlowResult {
        name: place.flow.name.clone(),
        longest_gap_ms: Some(longest_gap(arrivals, warmup, end).as_secs_f64() * 1e3),
        one_way_ms_p50: one_way(0.5),
        one_way_ms_p95: one_way(0.95),
        one_way_ms_p99: one_way(0.99),
        lost: Some(expected.saturating_sub(sequences.len() as u64) as f64),
        ..FlowResult::default()
    };
    let points = arrivals.iter().map(|a| (a.received.as_secs_f64(), a.one_way_ms())).collect();
    FlowReport { result, series: vec![Series { name: place.flow.name.clone(), unit: "ms", points }] }
}

fn first_after(warmup: Duration, place: &Place) -> u64 {
    let before = warmup.saturating_sub(place.flow.start).as_secs_f64();
    (before / place.flow.interval.as_secs_f64()).ceil() as u64
}

/// The longest time within `from..to` without an arrival; a gap that began earlier counts from its beginning.
pub(crate) fn longest_gap(arrivals: &[Arrival], from: Duration, to: Duration) -> Duration {
    let mut last = from;
    let mut longest = Duration::ZERO;
    for arrival in arrivals {
        if arrival.received > to {
            break;
        }
        if arrival.received > from {
            longest = longest.max(arrival.received.saturating_sub(last));
        }
        last = arrival.received;
    }
    longest.max(to.saturating_sub(last.max(from)))
}

/// The 95th percentile over time of the age of the newest arrival (the newest by sending time), in milliseconds.
pub(crate) fn newest_age_ms_p95(arrivals: &[Arrival], from: Duration, to: Duration) -> Option<f64> {
    const STEP: Duration = Duration::from_millis(1);
    let mut next = arrivals.iter().peekable();
    let mut newest: Option<Duration> = None;
    let mut ages = Vec::new();
    let mut now = from;
    while now < to {
        while let Some(arrival) = next.next_if(|a| a.received <= now) {
            newest = newest.max(Some(arrival.sent));
        }
        ages.push(now.saturating_sub(newest.unwrap_or_default()).as_secs_f64() * 1e3);
        now += STEP;
    }
    percentile(ages, 0.95)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn steady(delay_ms: u64, without: std::ops::Range<u64>) -> Vec<Arrival> {
        (0..1000)
            .filter(|n| !without.contains(n))
            .map(|n| Arrival { sequence: n, sent: ms(n), received: ms(n + delay_ms) })
            .collect()
    }

    #[test]
    fn a_gap_is_found_where_it_is() {
        let arrivals = steady(8, 300..350);
        assert_eq!(longest_gap(&arrivals, ms(100), ms(900)), ms(51));
        assert_eq!(longest_gap(&arrivals, ms(400), ms(900)), ms(1));
        assert_eq!(longest_gap(&arrivals, ms(900), ms(1200)), ms(193), "silence until the end is a gap");
    }

    #[test]
    fn the_newest_arrival_is_as_old_as_its_delay() {
        let p95 = newest_age_ms_p95(&steady(8, 0..0), ms(100), ms(900)).unwrap();
        assert!((8.0..=9.0).contains(&p95), "{p95}");
        let with_outage = newest_age_ms_p95(&steady(8, 300..400), ms(100), ms(900)).unwrap();
        assert!((65.0..=75.0).contains(&with_outage), "{with_outage}");
    }

    #[test]
    fn short_datagrams_are_no_probes() {
        assert_eq!(decode(&[0; 15]), None);
        assert_eq!(decode(&[0; 16]), Some((0, Duration::ZERO)));
    }
}
