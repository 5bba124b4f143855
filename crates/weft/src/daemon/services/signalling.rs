//! Texts about in-band signalling, for log and status.

use crate::status::{Signal, SignalFlow, SignalPeer};
use std::fmt::{self, Display};
use weft_engine::{Engine, FlowKey, Grant, SignalStatus, SignalTotals, Snapshot};
use weft_units::{Instant, PeerId, Rate};

/// Formats a flow, for example `tcp 10.9.0.1:40000 → 10.9.0.2:5201`.
struct FlowText<'a>(&'a FlowKey);

impl Display for FlowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowKey { src, dst, src_port, dst_port, protocol, .. } = self.0;
        match protocol {
            6 => f.write_str("tcp")?,
            17 => f.write_str("udp")?,
            1 | 58 => f.write_str("icmp")?,
            other => write!(f, "ip/{other}")?,
        }
        write!(f, " {src}:{src_port} → {dst}:{dst_port}")
    }
}

/// Returns protocol, addresses and ports as text.
pub fn flow(key: &FlowKey) -> String {
    FlowText(key).to_string()
}

/// Returns the log line for a grant.
pub fn granted(grant: &Grant, now: Instant) -> String {
    let (rate, ends) = (Rate::from_bps(grant.bytes_per_second.saturating_mul(8)), grant.ends - now);
    format!(
        "granted by the nodes on the route: this node may send flow {} at {rate} for the next {} ms",
        FlowText(&grant.flow),
        ends.as_millis()
    )
}

/// Returns the log line for the end of a grant.
pub fn withdrawn(flow: &FlowKey) -> String {
    format!("the granted rate of flow {} has ended: the flow continues without a granted rate", FlowText(flow))
}

/// Returns the state of signalling, or `None` if it is off.
pub fn status(engine: &Engine, snapshot: &Snapshot, now: Instant) -> Option<Signal> {
    let SignalStatus { totals, flows, shown, peers } = engine.signal_status(now)?;
    let name =
        |peer: PeerId| snapshot.peers.get(usize::from(peer.0)).map_or_else(String::new, |peer| peer.name.clone());
    let SignalTotals { asked, granted, refused, given_up, forged, .. } = totals;
    let SignalTotals { quick_start_granted, quick_start_refused, quick_start_answered, .. } = totals;
    let flow = |flow: weft_engine::SignalFlow| SignalFlow {
        flow: FlowText(&flow.flow).to_string(),
        peer: name(flow.peer),
        rule: flow.rule,
        rate_bps: flow.grant.map(|(rate, _)| rate.bps()),
        ends_in_ms: flow.grant.map(|(_, ends)| u64::try_from(ends.as_millis()).unwrap_or(u64::MAX)),
    };
    let peer = |peer: weft_engine::SignalPeer| SignalPeer {
        name: name(peer.peer),
        capacity_bps: peer.capacity.bps(),
        granted_bps: peer.granted.bps(),
        guaranteed_bps: peer.guaranteed.bps(),
    };
    Some(Signal {
        asked,
        granted,
        refused,
        given_up,
        forged_tags: forged,
        quick_start_granted,
        quick_start_refused,
        quick_start_answered,
        flow_count: flows,
        flows: shown.into_iter().map(flow).collect(),
        peers: peers.into_iter().map(peer).filter(|peer| !peer.name.is_empty()).collect(),
    })
}
