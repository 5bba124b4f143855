//! The loops of the ingress that send at the rates which the nodes on their route grant.

use super::vpn::TurnState;
use super::{Ingress, VpnNo};
use crate::control_loop::explicit_rate::{Ask, LoopGrant};
use crate::service::Share;
use weft_units::Instant;

impl<T> Ingress<T> {
    /// Returns the request of a VPN's loop to the nodes on its route, or `None` if the loop needs no grants.
    pub fn ask(&self, vpn: VpnNo) -> Option<Ask> {
        let slot = self.vpns.get(vpn.0 as usize)?.slot;
        self.awake.get(slot as usize)?.control.as_ref()?.ask()
    }

    /// Passes the grant of the nodes on the route to a VPN's loop.
    pub fn on_grant(&mut self, now: Instant, vpn: VpnNo, grant: LoopGrant) {
        self.with_loop(now, vpn, |control| control.on_grant(now, grant));
    }

    /// Returns the requests of all loops that need grants, of the VPNs that have a queue.
    pub fn asks(&self) -> impl Iterator<Item = Ask> {
        self.awake.iter().filter_map(|this| this.control.as_ref()?.ask())
    }

    /// Returns the shares of the VPNs that have packets in their queue, whether they have a loop or not.
    pub fn waiting(&self) -> impl Iterator<Item = Share> {
        let waiting = self.awake.iter().filter(|this| this.place != TurnState::Empty);
        waiting.filter_map(|this| Some(self.vpns.get(this.vpn.0 as usize)?.share))
    }

    /// Passes the same grant to all loops that obey grants.
    pub fn grant_all(&mut self, now: Instant, grant: LoopGrant) {
        for slot in 0..self.awake.len() {
            if let Some(this) = self.awake.get(slot)
                && this.control.as_ref().is_some_and(|control| control.ask().is_some())
            {
                self.on_grant(now, this.vpn, grant);
            }
        }
    }
}
