//! Processing of the engine's events: logs, routes, and stored state.

use super::*;
use std::fmt;

impl DaemonNode {
    /// Processes an event of the engine.
    pub fn on_event(&mut self, event: Event) {
        match event {
            Event::Established { peer, fresh } => {
                let how = if fresh { "established" } else { "established again" };
                self.log_of(peer, format_args!("session {how}"));
                self.fallback.look_again(self.clock.now());
                self.tell_watched();
                self.stamp_write.want();
            }
            Event::Lost { peer, cause } => {
                self.log_of(peer, format_args!("session lost: {cause}"));
                self.fallback.look_again(self.clock.now());
                self.tell_watched();
            }
            Event::StampRefused { peer, refused, by_peer } => {
                self.log.error(stamps::refused(&self.peer_name(peer), &refused, by_peer));
            }
            Event::TurnedAway(stranger) => {
                self.log.error(why::turned_away(&stranger, &why::own(&self.identity, &self.links)));
            }
            Event::KeyShared { peer, is_own } => self.log.error(stamps::shared(&self.peer_name(peer), is_own)),
            Event::Path { peer, path, link, remote, state, cause } => {
                self.tell_watched();
                self.fallback.look_again(self.clock.now());
                let link = self.link_name(link);
                let remote = view::remote(&remote);
                let (name, state, cause) = (self.peer_name(peer), state.to_string(), cause.to_owned());
                let change = PathChange { number: 0, peer: name, path: path.0, link, remote, state, cause };
                let DaemonNode { platform, allowances, log, clock, .. } = self;
                on_path(platform, &mut PeerLog { allowances, log: *log, now: clock.now() }, peer, change);
            }
            Event::NotTried { peer, pairs } => {
                self.log_of(peer, format_args!("{pairs}"));
            }
            Event::LabelClash { peer, owner } => {
                let (peer, owner) = (self.peer_name(peer), self.peer_name(owner));
                self.log.error(view::label_clash(&peer, &owner));
            }
            Event::Joined { peer } => {
                self.log.info(trust::joined(&self.engine, peer, &self.peer_name(peer)));
                self.route_update.want();
                self.refresh_routing();
            }
            Event::Denied { packet, more } => {
                let others = if more > 0 { format!(" ({more} others)") } else { String::new() };
                self.log_of(packet.peer, format_args!("{}{others}", allow::denied(&packet)));
            }
            Event::Left { name, cause } => {
                self.log.info(format_args!("peer {name} removed: {cause}"));
                self.route_update.want();
                self.refresh_routing();
            }
            Event::Refused { name, public_key, why } => {
                self.log.error(format_args!("peer {name} (public key {public_key}) is refused: {why}"));
                self.refused.add_certified(self.clock.now(), &name, &why);
            }
            Event::Unmet { public_key, why } => {
                self.log.error(format_args!("contact with public key {public_key} not reached: {why}"));
            }
            Event::ClaimRefused { holder, why } => self.log.error(overlay::refused(&holder, why)),
            Event::Conflict(conflict) => self.log.error(overlay::conflict(&conflict)),
            Event::Call(call) => self.platform.on_event(call),
            Event::Revoked(revocation) => {
                trust::log_revoked(&revocation, &self.identity.public_key(), self.log);
                self.has_unsaved_revocations = true;
            }
            Event::InnerMtu(mtu) => self.set_mtu(mtu),
            Event::ReorderingMetric(metric) => match self.devices.set_reordering(metric) {
                Ok(()) => self.log.debug(format_args!("the TCP reordering metric of the routes is now {metric:?}")),
                Err(why) => {
                    self.log.error(format_args!("cannot set the TCP reordering metric of the tunnel's routes: {why}"));
                }
            },
            Event::Granted(grant) => {
                let now = self.clock.now();
                self.log.debug(signalling::granted(&grant, now));
                if let Some(keeper) = &self.tcp_er {
                    keeper.granted(&grant.flow, grant.bytes_per_second, grant.ends.since(now));
                }
            }
            Event::Withdrawn(flow) => {
                self.log.debug(signalling::withdrawn(&flow));
                if let Some(keeper) = &self.tcp_er {
                    keeper.withdrawn(&flow);
                }
            }
            Event::DrillOver { of } => self.log.info(format_args!("drill: the cut of {of} has ended")),
            Event::Pong { path, rtt, id, .. } => self.pings.answered(id, path, rtt),
        }
    }

    /// Logs a line about a peer, unless the peer's allowance of log lines is used up.
    fn log_of(&mut self, peer: PeerId, what: fmt::Arguments<'_>) {
        let name = self.peer_name(peer);
        PeerLog { allowances: &mut self.allowances, log: self.log, now: self.clock.now() }.write(peer, &name, what);
    }

    /// Returns the name of a peer.
    ///
    /// The engine's peer ids survive a reload, the order in the configuration does not.
    fn peer_name(&self, peer: PeerId) -> String {
        self.engine.peer_name(peer).unwrap_or_default().to_owned()
    }
}

/// The log, with an allowance of lines for each peer.
struct PeerLog<'a> {
    allowances: &'a mut Allowances,
    log: Log,
    now: Instant,
}

impl PeerLog<'_> {
    /// Logs a line about a peer, unless the peer's allowance of log lines is used up.
    fn write(&mut self, peer: PeerId, name: &str, what: fmt::Arguments<'_>) {
        let Some(omitted) = self.allowances.take(self.now, peer) else { return };
        if omitted > 0 {
            self.log.info(format_args!(
                "peer {name}: {omitted} log lines about the peer were omitted, because its state changed too often"
            ));
        }
        self.log.info(format_args!("peer {name}: {what}"));
    }
}

/// Logs the change of a path, and passes it to the programs that follow path changes over the control socket.
///
/// The allowance of log lines limits the log only: these programs receive every change.
fn on_path(platform: &mut Platform, log: &mut PeerLog<'_>, peer: PeerId, change: PathChange) {
    let PathChange { peer: name, path, link, remote, state, cause, .. } = &change;
    log.write(peer, name, format_args!("path {path} ({link} → {remote}) {state}: {cause}"));
    platform.on_change(log.now, change);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::log::Level;
    use proptest::prelude::*;
    use std::sync::mpsc::sync_channel;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn watchers_receive_every_path_change_whatever_the_log_omits(
            changes in prop::collection::vec((0u16..2, any::<u8>(), 0u64..20), 300..600),
        ) {
            let (mut platform, mut allowances) = (Platform::default(), Allowances::default());
            let (log, mut now, mut seen) = (Log::new(Level::Error), Instant::from_millis(1_000), 0);
            for (peer, path, later_ms) in changes {
                now += Duration::from_millis(later_ms);
                let (reply, response) = sync_channel(1);
                platform.watch(now, seen, reply);
                let change = PathChange { path, peer: format!("peer {peer}"), ..PathChange::default() };
                on_path(&mut platform, &mut PeerLog { allowances: &mut allowances, log, now }, PeerId(peer), change);
                match response.try_recv() {
                    Ok(Response::Changes { changes }) => {
                        let got: Vec<_> = changes.iter().map(|change| (change.number, change.path)).collect();
                        prop_assert_eq!(got, [(seen + 1, path)]);
                    }
                    other => return Err(TestCaseError::fail(format!("change {} is missing: {other:?}", seen + 1))),
                }
                seen += 1;
            }
            let is_used_up = |peer| allowances.take(now, PeerId(peer)).is_none_or(|omitted| omitted > 0);
            prop_assert!([0, 1].into_iter().any(is_used_up), "the log omitted no line");
        }
    }
}
