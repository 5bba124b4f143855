//! Copies a peer's state, for status output and metrics.

use super::Peer;
use crate::api::{AddressPairs, FlowSnapshot, PathSnapshot, PeerSnapshot};
use crate::path::Path;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use weft_units::Instant;
use weft_wire::ip::FlowKey;

/// Maximum number of flows that a snapshot lists for each peer.
pub const FLOWS_SHOWN: usize = 64;

impl Peer {
    pub fn snapshot(&self, now: Instant) -> PeerSnapshot {
        let totals = &self.totals;
        let origin = self.paths.iter().find_map(|p| p.delay().baseline_us());
        let relative = |p: &Path| p.delay().baseline_us().zip(origin).map(|(d, o)| i64::from(d.wrapping_sub(o) as i32));
        let least = self.paths.iter().filter(|p| p.active).filter_map(relative).min().unwrap_or(0);
        PeerSnapshot {
            name: self.config.name.clone(),
            public_key: self.config.public_key.to_string(),
            certified_until_unix_s: None,
            established_for: self.session.established_at.map(|at| now - at),
            last_heard: self.session.heard_at.map(|at| now - at),
            schedule: self.config.policy.schedule,
            paths: (self.paths.iter().enumerate())
                .filter(|(_, path)| !path.is_gone())
                .map(|(i, p)| PathSnapshot {
                    skew: Duration::from_micros(relative(p).map_or(0, |d| u64::try_from(d - least).unwrap_or(0))),
                    in_bundle: p.is_usable() && self.dispatch.scheduler.carries_bulk(i),
                    ..p.snapshot(now)
                })
                .collect(),
            address_pairs: AddressPairs::default(),
            received_packets: totals.received_packets,
            received_bytes: totals.received_bytes,
            sent_units: totals.sent_units,
            sent_bytes: totals.sent_bytes,
            repeated_units: totals.repeated_units,
            abandoned_units: totals.abandoned_units,
            queue_drops: totals.queue_drops,
            replaced_acks: totals.replaced_acks,
            queue_bytes: self.backlog_bytes(),
            waiting_for_vpns: self.ingress.openings.waiting(),
            unserved_datagrams: totals.unserved_datagrams,
            duplicate_units: totals.duplicate_units,
            broken_parts: self.inbound.broken_parts(),
            held_units: self.inbound.held_units(),
            units_in_flight: self.recovery.units.len(),
            hold: self.inbound.hold_asked,
            flows: self
                .ingress
                .flows
                .iter()
                .take(FLOWS_SHOWN)
                .map(|(id, f)| FlowSnapshot {
                    id,
                    vpn: f.key.vpn,
                    key: describe(&f.key.key),
                    packets: f.packets,
                    bytes: f.bytes,
                    idle: now - f.last_used,
                })
                .collect(),
            reaches: Vec::new(),
        }
    }
}

fn describe(key: &FlowKey) -> String {
    let protocol = match key.protocol {
        weft_wire::ip::protocol::TCP => "tcp".to_string(),
        weft_wire::ip::protocol::UDP => "udp".to_string(),
        weft_wire::ip::protocol::ICMP | weft_wire::ip::protocol::ICMPV6 => "icmp".to_string(),
        other => format!("ip/{other}"),
    };
    format!("{protocol} {}:{} → {}:{}", key.src, key.src_port, key.dst, key.dst_port)
}
