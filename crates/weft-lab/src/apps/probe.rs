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
use weft_scenario::measure::{Arrival, PROBE_PAYLOAD_BYTES, probe_result};
use weft_scenario::{FlowDirection, Series};

/// How long after the last datagram was sent its arrival still counts.
const DRAIN: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_millis(100);

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
    let Place { world, flow, port, schedule, .. } = place;
    let (from, to, address) = match flow.direction {
        FlowDirection::Up => (&world.home, &world.hub, place.hub()),
        FlowDirection::Down => (&world.hub, &world.home, place.home()),
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
    let mut payload = [0u8; PROBE_PAYLOAD_BYTES];
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
    let mut payload = [0u8; PROBE_PAYLOAD_BYTES];
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
    let result = probe_result(place.flow, place.schedule.warmup, arrivals, sent);
    let points = arrivals.iter().map(|a| (a.received.as_secs_f64(), a.one_way_ms())).collect();
    FlowReport { result, series: vec![Series { name: place.flow.name.clone(), unit: "ms", points }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_datagrams_are_no_probes() {
        assert_eq!(decode(&[0; 15]), None);
        assert_eq!(decode(&[0; 16]), Some((0, Duration::ZERO)));
    }
}
