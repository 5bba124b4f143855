//! Rules of access in the running node.

use super::signalling;
use crate::config::Config;
use crate::status::AllowStatus;
use weft_engine::{AccessTotals, DeniedPacket, Engine};
use weft_session::Certificate;
use weft_units::Instant;

/// Configures the rules of access. `own` is this node's certificate, which states its name and groups.
///
/// # Errors
/// Returns the fault of the rules as text. The checks of the configuration find it earlier.
pub fn set(engine: &mut Engine, config: &Config, own: Option<&Certificate>) -> Result<(), String> {
    engine.set_access(config.engine_access(own).map_err(|fault| fault.to_string())?);
    Ok(())
}

/// Returns the counters of packets that the rules of access have dropped. `None` if there are no rules.
pub fn shown(engine: &Engine, now: Instant) -> Option<AllowStatus> {
    let AccessTotals { rules, flows, drops, last } = engine.access_totals(now)?;
    let last_denied = last.map(|packet| {
        let peer = engine.peer_name(packet.peer).unwrap_or_default();
        [denied(&packet), format!("from peer {peer}")].join(", ")
    });
    Some(AllowStatus {
        rules,
        flows,
        denied_packets: drops.no_rule,
        denied_fragments: drops.fragments,
        hidden_ports: drops.short_fragments,
        last_denied,
    })
}

/// Returns the text about a dropped packet, for the log and the status.
pub fn denied(packet: &DeniedPacket) -> String {
    format!("the [[allow]] rules dropped a packet of the flow {}: {}", signalling::flow(&packet.key), packet.why.text())
}
