//! Sends a small UDP datagram in each interval of the flow.
//!
//! Measures the longest gap, one-way delays and losses. Sender and receiver are threads of this process. They
//! share a clock, so one-way delays are exact.

use super::{FlowEndpoints, FlowReport};
use crate::LabError;
use crate::interrupt;
use crate::net::NetNamespace;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::measure::{PROBE_PAYLOAD_BYTES, ProbeArrival, probe_result};
use weft_scenario::{FlowDirection, Series};

/// Time after the last datagram was sent during which arrivals are still included.
const DRAIN: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_millis(100);

/// The arrivals so far, in the order of reception. Events read them while the flow runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeArrivals(Arc<Mutex<Vec<ProbeArrival>>>);

impl ProbeArrivals {
    fn push(&self, arrival: ProbeArrival) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
    }

    pub fn all(&self) -> Vec<ProbeArrival> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the arrivals from `from` on, and the last arrival before it.
    ///
    /// Times count from the start of the run.
    pub fn since(&self, from: Duration) -> Vec<ProbeArrival> {
        let arrivals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let later = arrivals.iter().rev().take_while(|arrival| arrival.received >= from).count();
        arrivals.get(arrivals.len().saturating_sub(later + 1)..).unwrap_or_default().to_vec()
    }

    /// Returns when the last arrived probe was sent, since the start of the run, or `None` if none arrived.
    pub fn last_sent(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last().map(|arrival| arrival.sent)
    }

    /// Returns the least one-way delay among the last `count` arrivals, or `None` if no probe arrived.
    pub fn recent_one_way(&self, count: usize) -> Option<Duration> {
        let arrivals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.iter().rev().take(count).map(|a| a.received.saturating_sub(a.sent)).min()
    }
}

/// The nodes and address of a stream of probes.
pub(crate) struct ProbeEndpoints<'a> {
    pub from: &'a NetNamespace,
    pub to: &'a NetNamespace,
    /// The address of the receiving node.
    pub address: Ipv4Addr,
    /// The stream's own UDP port.
    pub port: u16,
    /// The address that the sender uses, or `None` for any address of its node.
    pub host: Option<Ipv4Addr>,
}

impl ProbeEndpoints<'_> {
    /// Opens the sender's and the receiver's socket.
    ///
    /// The sender's socket is not connected, because there may be no route yet.
    fn sockets(&self) -> Result<[UdpSocket; 2], LabError> {
        let receiver = self.to.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, self.port)))??;
        receiver.set_read_timeout(Some(READ_TIMEOUT))?;
        let sender = self.from.run(|| UdpSocket::bind((self.host.unwrap_or(Ipv4Addr::UNSPECIFIED), 0)))??;
        Ok([sender, receiver])
    }

    /// Sends probes from `starts_at` until `is_over` returns true for the time of the next probe.
    ///
    /// Returns the number of probes.
    fn send(
        &self,
        socket: &UdpSocket,
        epoch: Instant,
        starts_at: Instant,
        interval: Duration,
        is_over: impl Fn(Instant) -> bool,
    ) -> Result<u64, LabError> {
        exact_timers();
        interrupt::sleep_until(starts_at)?;
        let mut payload = [0u8; PROBE_PAYLOAD_BYTES];
        let mut sequence = 0u64;
        let mut due = starts_at;
        while !is_over(due) {
            interrupt::check()?;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let sent_ns = epoch.elapsed().as_nanos() as u64;
            payload[..8].copy_from_slice(&sequence.to_be_bytes());
            payload[8..16].copy_from_slice(&sent_ns.to_be_bytes());
            // A datagram that meets a full buffer or an unreachable destination is treated as a lost probe.
            let _ = socket.send_to(&payload, (self.address, self.port));
            sequence += 1;
            due += interval;
        }
        Ok(sequence)
    }
}

pub(super) fn run(place: &FlowEndpoints, arrivals: &ProbeArrivals) -> Result<FlowReport, LabError> {
    let FlowEndpoints { world, flow, port, schedule, .. } = place;
    let (from, to, address) = match flow.direction {
        FlowDirection::Up => (&world.home, &world.hub, place.hub()),
        FlowDirection::Down => (&world.hub, &world.home, place.home()),
    };
    let way = ProbeEndpoints { from, to, address, port: *port, host: place.host() };
    let [sender, receiver] = way.sockets()?;
    let over = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let reader = scope.spawn(|| receive(&receiver, schedule.epoch, &over, arrivals));
        let stops_at = place.stops_at();
        let sent = way.send(&sender, schedule.epoch, place.starts_at(), flow.interval, |due| due >= stops_at);
        let drained = interrupt::sleep_until(Instant::now() + DRAIN);
        over.store(true, Ordering::Relaxed);
        let _ = reader.join();
        drained.and(sent)
    })?;
    Ok(report(place, &arrivals.all(), sent))
}

/// Sends a probe each `interval` while `work` runs.
///
/// `work` gets the arrivals. Their times are those since `epoch`.
pub(crate) fn while_probing<R>(
    way: &ProbeEndpoints,
    epoch: Instant,
    interval: Duration,
    work: impl FnOnce(&ProbeArrivals) -> Result<R, LabError>,
) -> Result<R, LabError> {
    let [sender, receiver] = way.sockets()?;
    let (arrivals, over) = (ProbeArrivals::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| receive(&receiver, epoch, &over, &arrivals));
        scope.spawn(|| way.send(&sender, epoch, Instant::now(), interval, |_| over.load(Ordering::Relaxed)));
        let done = work(&arrivals);
        over.store(true, Ordering::Relaxed);
        done
    })
}

fn receive(socket: &UdpSocket, epoch: Instant, over: &AtomicBool, arrivals: &ProbeArrivals) {
    let mut payload = [0u8; PROBE_PAYLOAD_BYTES];
    while !over.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut payload) else { continue };
        let received = epoch.elapsed();
        if let Some((sequence, sent)) = decode(payload.get(..length).unwrap_or_default()) {
            arrivals.push(ProbeArrival { sequence, sent, received });
        }
    }
}

fn decode(payload: &[u8]) -> Option<(u64, Duration)> {
    let (sequence, rest) = payload.split_first_chunk::<8>()?;
    let (sent_ns, _) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*sequence), Duration::from_nanos(u64::from_be_bytes(*sent_ns))))
}

/// Sets the least timer slack. Otherwise the kernel may wake the sender 50 µs late.
pub(crate) fn exact_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and affects only the calling thread.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    debug_assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

fn report(place: &FlowEndpoints, arrivals: &[ProbeArrival], sent: u64) -> FlowReport {
    let result = probe_result(place.flow, place.schedule.warmup, arrivals, sent);
    let points = arrivals.iter().map(|a| (a.received.as_secs_f64(), a.one_way_ms())).collect();
    FlowReport { result, series: vec![Series { name: place.flow.name.clone(), unit: "ms", points }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_returned_with_the_previous_count() {
        let at = |ms| ProbeArrival { sequence: ms, sent: Duration::ZERO, received: Duration::from_millis(ms) };
        let arrivals = ProbeArrivals::default();
        assert!(arrivals.since(Duration::ZERO).is_empty());
        (1..=4).for_each(|ms| arrivals.push(at(ms)));
        assert_eq!(arrivals.since(Duration::from_millis(3)), [at(2), at(3), at(4)]);
        assert_eq!(arrivals.since(Duration::ZERO).len(), 4);
    }

    #[test]
    fn short_datagrams_are_no_probes() {
        assert_eq!(decode(&[0; 15]), None);
        assert_eq!(decode(&[0; 16]), Some((0, Duration::ZERO)));
    }
}
