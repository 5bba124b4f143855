//! Loop markers that leave without a unit.

use weft_core::control_loop::Marker;
use weft_units::{Instant, VpnId};
use weft_wire::loop_data::OfRun;

/// A marker that travels without a unit, in a control frame.
#[derive(Clone, Copy, Debug)]
pub struct LoneMarker {
    pub vpn: VpnId,
    pub marker: OfRun<Marker>,
    /// TOS of the unit that the marker follows.
    pub tos: u8,
    /// Time at which the marker was queued.
    pub since: Instant,
}
