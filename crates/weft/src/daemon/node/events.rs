//! Processing of the engine's events: logs, routes, and stored state.

use super::*;

impl Node {
    /// Processes an event of the engine.
    pub fn on_event(&mut self, event: Event) {
        match event {
            Event::Established { peer, fresh } => {
                let how = if fresh { "established" } else { "established again" };
                self.tell_of(peer, format_args!("session {how}"));
                self.stamps_news.want();
            }
            Event::Lost { peer, cause } => {
                self.tell_of(peer, format_args!("session lost: {cause}"));
            }
            Event::StampRefused { peer, refused, by_peer } => {
                self.log.error(stamps::refused(&self.peer_name(peer), &refused, by_peer));
            }
            Event::TurnedAway(stranger) => {
                self.log.error(why::turned_away(&stranger, &why::own(&self.identity, &self.links)));
            }
            Event::KeyShared { peer, is_own } => self.log.error(stamps::shared(&self.peer_name(peer), is_own)),
            Event::Path { peer, path, link, remote, state, cause } => {
                let link = self.engine.route_name(link).unwrap_or_else(|| self.links.name(link)).to_owned();
                let remote = view::remote(&remote);
                if !self.tell_of(peer, format_args!("path {path} ({link} → {remote}) {state}: {cause}")) {
                    return;
                }
                let (peer, state, cause) = (self.peer_name(peer), state.to_string(), cause.to_owned());
                let change = PathChange { number: 0, peer, path: path.0, link, remote, state, cause };
                self.platform.on_change(self.clock.now(), change);
            }
            Event::NotTried { peer, pairs } => {
                self.tell_of(peer, format_args!("{pairs}"));
            }
            Event::LabelClash { peer, owner } => {
                let (peer, owner) = (self.peer_name(peer), self.peer_name(owner));
                self.log.error(view::label_clash(&peer, &owner));
            }
            Event::Joined { peer } => {
                self.log.info(format_args!("peer {}: {}", self.peer_name(peer), trust::joined(&self.engine, peer)));
                self.routes_news.want();
            }
            Event::Left { name, cause } => {
                self.log.info(format_args!("peer {name} removed: {cause}"));
                self.routes_news.want();
            }
            Event::Refused { name, public_key, why } => {
                self.log.error(format_args!("peer {name} ({public_key}) refused: {why}"));
                self.refused.add_certified(self.clock.now(), &name, &why);
            }
            Event::Unmet { public_key, why } => self.log.error(format_args!("contact {public_key} not reached: {why}")),
            Event::ClaimRefused { holder, why } => self.log.error(overlay::refused(&holder, why)),
            Event::Conflict(conflict) => self.log.error(overlay::conflict(&conflict)),
            Event::Call(call) => self.platform.on_event(call),
            Event::Revoked(revocation) => {
                trust::log_revoked(&revocation, &self.identity.public_key(), self.log);
                self.has_news = true;
            }
            Event::InnerMtu(mtu) => self.set_mtu(mtu),
            Event::ReorderingMetric(metric) => match self.devices.set_reordering(metric) {
                Ok(()) => self.log.debug(format_args!("routes: reordering metric {metric:?}")),
                Err(why) => self.log.error(format_args!("route: {why}")),
            },
            Event::Granted(grant) => {
                let now = self.clock.now();
                self.log.debug(signal::granted(&grant, now));
                if let Some(keeper) = &self.tcp_er {
                    keeper.granted(&grant.flow, grant.bytes_per_second, grant.ends.since(now));
                }
            }
            Event::Withdrawn(flow) => {
                self.log.debug(signal::withdrawn(&flow));
                if let Some(keeper) = &self.tcp_er {
                    keeper.withdrawn(&flow);
                }
            }
            Event::DrillOver { of } => self.log.info(format_args!("drill: {of} is restored")),
            Event::Pong { path, rtt, id, .. } => self.pings.answered(id, path, rtt),
        }
    }

    /// Logs a line about a peer; returns false if the peer had too many lines lately.
    fn tell_of(&mut self, peer: PeerId, what: std::fmt::Arguments<'_>) -> bool {
        let Some(omitted) = self.allowances.take(self.clock.now(), peer) else { return false };
        let name = self.peer_name(peer);
        if omitted > 0 {
            self.log.info(format_args!("peer {name}: {omitted} log lines omitted: the peer changes too often"));
        }
        self.log.info(format_args!("peer {name}: {what}"));
        true
    }

    /// Returns the name of a peer.
    ///
    /// The engine's peer ids survive a reload, the order in the configuration does not.
    fn peer_name(&self, peer: PeerId) -> String {
        self.engine.peer_name(peer).unwrap_or_default().to_owned()
    }
}
