//! Functions that the tests of the congestion control algorithms share.

use super::{AckEvent, Law};
use std::time::Duration;
use weft_units::Instant;

pub(super) const MSS: u64 = 1000;
pub(super) const RTT: Duration = Duration::from_millis(100);

/// Returns an arbitrary time after the start.
pub(super) fn now() -> Instant {
    Instant::from_millis(1000)
}

/// Returns an acknowledgment of `bytes` at `now` on a path with [`RTT`], without any other event.
pub(super) fn acked(bytes: u64, now: Instant) -> AckEvent {
    AckEvent {
        now,
        acked_bytes: bytes,
        lost_bytes: 0,
        flight_bytes: 100 * MSS,
        srtt: Some(RTT),
        rtt: Some(RTT),
        min_rtt: Some(RTT),
        delivery: None,
        app_limited: false,
        in_recovery: false,
    }
}

/// Acknowledges one window in pieces of `ack_bytes`.
///
/// The acknowledgments are evenly spaced over the [`RTT`] that begins at `start`. It returns the window afterwards.
pub(super) fn per_round(law: &mut impl Law, ack_bytes: u64, start: Instant) -> u64 {
    let window = law.cwnd_bytes();
    let acks = window.div_ceil(ack_bytes);
    for n in 0..acks {
        let bytes = ack_bytes.min(window - n * ack_bytes);
        let now = start + RTT * (n as u32) / (acks as u32);
        law.on_ack(&AckEvent { flight_bytes: window - bytes, ..acked(bytes, now) });
    }
    law.cwnd_bytes()
}
