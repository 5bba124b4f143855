//! Copies a path's state, for status output and metrics.

use crate::api::{PathSnapshot, SensedSnapshot};
use crate::path::Path;
use core::time::Duration;
use weft_core::control::Phase;
use weft_units::Instant;

impl Path {
    pub fn snapshot(&self, now: Instant) -> PathSnapshot {
        let known = self.rtt().is_known();
        PathSnapshot {
            id: self.id,
            link: self.link,
            link_name: self.link_name.clone(),
            remote: self.remote,
            remote_link: self.remote_link.clone(),
            standby: self.spare,
            active: self.active,
            state: self.health.state(),
            cause: self.health.cause(),
            in_bundle: false,
            rtt: known.then(|| self.rtt().smoothed()),
            rtt_min: known.then(|| self.rtt().min()),
            queue_delay: self.delay().queue(),
            skew: Duration::ZERO,
            jitter: self.rate.noise(),
            loss: self.loss().fraction(),
            capacity: self.rate.capacity(),
            pacing: self.rate.pacing_rate(now),
            mode: phase_name(self.rate.phase()),
            delivery: self.delivery,
            packet_share: self.packet_share(),
            sensed: self.sensing.known().map(|(at, estimate)| SensedSnapshot {
                age: now - *at,
                capacity: estimate.capacity,
                available: estimate.available,
                loss: estimate.loss,
                queue: estimate.queue,
            }),
            weight: self.weight,
            mtu: self.mtu.current(),
            mtu_is_settled: self.mtu.is_settled(),
            sent_datagrams: self.totals.sent_datagrams,
            sent_bytes: self.totals.sent_bytes,
            received_datagrams: self.totals.received_datagrams,
            received_bytes: self.totals.received_bytes,
            lost_datagrams: self.totals.lost_datagrams,
        }
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Startup => "startup",
        Phase::Steady => "steady",
        Phase::Probe => "probe",
        Phase::Plateau => "plateau",
        Phase::Drain => "drain",
        Phase::Compete => "compete",
    }
}
