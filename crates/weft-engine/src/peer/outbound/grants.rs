//! The controller of the rate that this node grants on the paths toward a peer to loops that follow granted rates.

use weft_core::control_loop::explicit_rate::{GrantConfig, LoopLink};
use weft_core::explicit_rate::pi::PiConfig;
use weft_units::Instant;

/// Target queue on the paths, as a fraction of their capacity times the control interval (q*/Cτ).
///
/// A standing queue keeps the paths busy, which the rate estimate needs. The target is below the queue that the
/// scheduler leaves on the paths.
pub const QUEUE: f64 = 0.05;

/// Largest grant to a single VPN, as a multiple of the paths' estimated capacity.
///
/// It is above 1, so that the VPN can fill the paths and reveal more capacity.
pub const MOST: f64 = 1.25;

/// The rate controller over all paths, and the number of bytes sent to the peer when the controller last ran.
pub struct Grants {
    pub link: LoopLink,
    pub sent_bytes: u64,
}

impl Grants {
    pub fn new(now: Instant, sent_bytes: u64) -> Grants {
        let default = GrantConfig::default();
        let pi = PiConfig { utilization: 1.0, queue: QUEUE, ..default.pi };
        Grants { link: LoopLink::new(GrantConfig { pi, most: MOST }, now), sent_bytes }
    }
}
