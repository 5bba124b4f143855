//! From the engine's record of a flow to the exported records of its two directions.

use weft_engine::{Engine, FlowKey};
use weft_flows::ipfix::{EndReason, ExportRecord, ExportVerdict, RecordDirection};
use weft_flows::router::FlowVerdict;
use weft_flows::table::{FlowEnd, FlowRecord};
use weft_units::{Instant, PeerId};

/// Returns the records of the directions that had packets since the last report.
///
/// `unix_ms` converts a time to milliseconds since 1970. Both directions have the start and end of the whole flow.
pub fn records(
    engine: &Engine,
    record: &FlowRecord,
    unix_ms: impl Fn(Instant) -> u64,
) -> impl Iterator<Item = ExportRecord> {
    let [near, far] = engine.flow_peers(record);
    let verdict = engine.flow_router().map(|router| router.verdict(record)).unwrap_or_default();
    let reverse = FlowKey { flow_label: record.reverse_label, ..record.key.reversed() };
    let (start_ms, end_ms) = (unix_ms(record.start), unix_ms(record.last_used));
    let of_side = |(side, key, from, to): (usize, FlowKey, Option<PeerId>, Option<PeerId>)| {
        let (delta, total) = (record.delta[side], record.total[side]);
        ExportRecord {
            key,
            dscp: record.dscp,
            vpn: record.vpn,
            ingress_interface: interface(from),
            egress_interface: interface(to),
            direction: if to.is_some() { RecordDirection::Ingress } else { RecordDirection::Egress },
            end_reason: reason(record.end),
            start_ms,
            end_ms,
            total_bytes: total.bytes,
            total_packets: total.packets,
            bytes: delta.bytes,
            packets: delta.packets,
            asked: record.asked,
            granted: record.granted.guaranteed,
            achieved: record.achieved[side],
            class: record.granted.class,
            precedence: record.granted.precedence,
            is_on_alternate: record.path.is_some_and(|seen| seen.is_alternate),
            verdict: exported(verdict),
            path: record.path.map_or(0, |seen| u32::from(seen.path.0) + 1),
        }
    };
    let sides = [(0, record.key, near, far), (1, reverse, far, near)].map(of_side);
    sides.into_iter().filter(|of| of.packets > 0)
}

/// Returns the interface number in a record: 0 for the hosts behind this node, or a peer's number plus one.
fn interface(peer: Option<PeerId>) -> u32 {
    peer.map_or(0, |peer| u32::from(peer.0) + 1)
}

fn reason(end: Option<FlowEnd>) -> EndReason {
    match end {
        Some(FlowEnd::Idle) => EndReason::Idle,
        Some(FlowEnd::Active) | None => EndReason::Active,
        Some(FlowEnd::Seen) => EndReason::Ended,
        Some(FlowEnd::Forced) => EndReason::Forced,
        Some(FlowEnd::Evicted) => EndReason::LackOfResources,
    }
}

fn exported(verdict: FlowVerdict) -> ExportVerdict {
    match verdict {
        FlowVerdict::NothingAsked => ExportVerdict::NothingAsked,
        FlowVerdict::Granted => ExportVerdict::Granted,
        FlowVerdict::Waits => ExportVerdict::Reduced,
        FlowVerdict::Preempted | FlowVerdict::CapacityLost => ExportVerdict::Preempted,
        FlowVerdict::Refused => ExportVerdict::Refused,
    }
}
