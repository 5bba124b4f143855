//! Flow state of the running node, and transit: packets that it forwards from peer to peer.

use crate::config::Config;
use weft_engine::{Engine, Outside};
use weft_session::Certificate;
use weft_units::Instant;

/// Configures the classes, rules and users of flows.
///
/// # Errors
/// Returns the faults in the rules as text. The checks of the configuration find them earlier.
pub fn set(engine: &mut Engine, now: Instant, config: &Config, own: Option<&Certificate>) -> Result<(), String> {
    let own_name = own.map_or("", |own| own.claims().name.as_str());
    engine.set_flows(now, config.engine_flows(own_name)).map_err(|faults| {
        let texts =
            faults.iter().map(|fault| format!("the [[rule]] `{}` cannot be used: {}", fault.name, fault.problem));
        texts.collect::<Vec<_>>().join("; ")
    })
}

/// Configures the forwarding of packets from peer to peer (transit), and next hops toward prefixes beside their owners.
///
/// `outside` are the networks of this machine: packets to them are passed to the kernel.
pub fn set_transit(engine: &mut Engine, now: Instant, config: &Config, outside: &Outside) {
    let local = outside.networks.clone();
    engine.set_transit(now, config.engine_transit(local));
    engine.set_alternates(now, &config.engine_alternates());
}
