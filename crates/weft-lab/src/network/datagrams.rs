//! UDP sources that do not react to losses or delays, and their sinks.
//!
//! Source and sink are threads of this process and use one clock, so one-way delays need no clock comparison.

use super::traffic::{FlowSetting, LOOK};
use crate::LabError;
use crate::apps::probe::exact_timers;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::Traffic;
use weft_sim::source::{ParetoBursts, Pattern};

/// Length of IPv4 and UDP headers, in bytes.
const HEADERS_LEN: u32 = 28;
const STAMP_LEN: usize = 8;
/// Length of a packet of a flow with `app = "probe"`, in IP bytes. The simulator's probes have the same length.
const PROBE_BYTES: u32 = 40;
/// Time for which a source waits after its last datagram before it ends.
const DRAIN: Duration = Duration::from_secs(1);

pub(super) fn receive(place: &FlowSetting<'_>, ready: &SyncSender<()>) -> Result<(), LabError> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, place.port))?;
    socket.set_read_timeout(Some(LOOK))?;
    let _ = ready.send(());
    let mut buffer = [0; 65_536];
    while !place.is_over() {
        let Ok(read) = socket.recv(&mut buffer) else { continue };
        let stamp = buffer.first_chunk::<STAMP_LEN>().map(|stamp| Duration::from_nanos(u64::from_be_bytes(*stamp)));
        let one_way = stamp.map(|sent| place.epoch.elapsed().saturating_sub(sent));
        place.sink.came(read as u64 + u64::from(HEADERS_LEN), one_way);
    }
    Ok(())
}

pub(super) fn send(place: &FlowSetting<'_>) -> Result<(), LabError> {
    let Some((mut pattern, bytes)) = pattern(&place.flow.traffic) else { return Ok(()) };
    exact_timers();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut payload = vec![0; (bytes.saturating_sub(HEADERS_LEN) as usize).max(STAMP_LEN)];
    let (mut rng, mut due) = (place.rng.split(2), Instant::now());
    while place.left().is_some() {
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            thread::sleep(wait.min(LOOK));
            continue;
        }
        let stamp = place.epoch.elapsed().as_nanos() as u64;
        payload.get_mut(..STAMP_LEN).into_iter().for_each(|head| head.copy_from_slice(&stamp.to_be_bytes()));
        // A datagram that meets a full buffer or an unreachable destination is treated as lost.
        let _ = socket.send_to(&payload, (place.address, place.port));
        due += pattern.next(&mut rng);
    }
    thread::sleep(if place.is_over() { Duration::ZERO } else { DRAIN });
    Ok(())
}

/// Returns when the packets of a flow leave, and their length in IP bytes. Returns `None` for other traffic than UDP.
fn pattern(traffic: &Traffic) -> Option<(Pattern, u32)> {
    Some(match *traffic {
        Traffic::Pareto { packet_bytes, peak, on, off, shape } => {
            (Pattern::Pareto(ParetoBursts::new(peak, packet_bytes, on, off, shape)), packet_bytes)
        }
        Traffic::Poisson { packet_bytes, rate } => (Pattern::poisson(rate, packet_bytes), packet_bytes),
        Traffic::Cbr { packet_bytes, rate } => (Pattern::constant(rate, packet_bytes), packet_bytes),
        Traffic::Voip { packet_bytes, interval } => (Pattern::Even { interval }, packet_bytes),
        Traffic::Probe { interval } => (Pattern::Even { interval }, PROBE_BYTES),
        _ => return None,
    })
}
