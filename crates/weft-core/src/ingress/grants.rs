//! Loops that go by what the nodes on their way grant.

use super::vpn::Place;
use super::{Ingress, VpnNo};
use crate::control_loop::explicit_rate::{Ask, Grant};
use crate::service::Share;
use weft_units::Instant;

impl<T> Ingress<T> {
    /// What a VPN's loop tells the nodes on its way, if it goes by what they grant.
    pub fn ask(&self, vpn: VpnNo) -> Option<Ask> {
        let slot = self.vpns.get(vpn.0 as usize)?.slot;
        self.awake.get(slot as usize)?.control.as_ref()?.ask()
    }

    /// What the nodes on the way grant a VPN's loop.
    pub fn on_grant(&mut self, now: Instant, vpn: VpnNo, grant: Grant) {
        self.with_loop(now, vpn, |control| control.on_grant(now, grant));
    }

    /// What those VPNs ask that go by grants and have a queue at present.
    pub fn asks(&self) -> impl Iterator<Item = Ask> {
        self.awake.iter().filter_map(|this| this.control.as_ref()?.ask())
    }

    /// The shares of the VPNs that have packets, by a loop or not.
    pub fn waiting(&self) -> impl Iterator<Item = Share> {
        let waiting = self.awake.iter().filter(|this| this.place != Place::Empty);
        waiting.filter_map(|this| Some(self.vpns.get(this.vpn.0 as usize)?.share))
    }

    /// Grants all loops that ask the same.
    pub fn grant_all(&mut self, now: Instant, grant: Grant) {
        for slot in 0..self.awake.len() {
            if let Some(this) = self.awake.get(slot)
                && this.control.as_ref().is_some_and(|control| control.ask().is_some())
            {
                self.on_grant(now, this.vpn, grant);
            }
        }
    }
}
