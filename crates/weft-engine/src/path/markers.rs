//! Loop markers that leave without a unit, in a control datagram.

use weft_core::control_loop::Marker;
use weft_units::{Instant, VpnId};
use weft_wire::loop_data::OfRun;

/// A loop marker that leaves in a frame of a control datagram, because no unit carries it.
#[derive(Clone, Copy, Debug)]
pub struct LoneMarker {
    pub vpn: VpnId,
    pub marker: OfRun<Marker>,
    /// TOS of the unit behind which the marker leaves. The marker's datagram has the same TOS.
    pub tos: u8,
    /// Time at which the marker was queued.
    pub since: Instant,
}
