//! A routing daemon beside this node: applies learnt prefixes, and reports the states of watched peers.

use super::*;
use crate::daemon::services::routing::bfd::{BfdLink, PROBE_PACE, SensedAddress};
use crate::daemon::services::routing::{LearntSlice, RouteLearner, RoutedDevice, RoutingReport, RoutingSurroundings};

/// A peer's address for whose path state FRR's `bfdd` asks.
struct WatchedAddress {
    sensed: SensedAddress,
    peer: Option<PeerId>,
    /// Path state that was last passed to the thread of `bfdd`: true for up. `None` if none was passed.
    told: Option<bool>,
}

/// The parts of the node that serve a routing daemon.
#[derive(Default)]
pub struct RoutingSide {
    learner: Option<RouteLearner>,
    bfd: Option<BfdLink>,
    watched: Vec<WatchedAddress>,
    /// True if a path state is not reported to `bfdd` yet, because the queue to its thread is full.
    is_behind: bool,
    /// Counts of learnt routes, and some refused ones, for status output.
    pub report: RoutingReport,
}

impl DaemonNode {
    /// Starts the threads for `[routing]`, if it is configured.
    pub(super) fn start_routing(&mut self, sender: &TaskSender) {
        let Some(settings) = self.config.routing.clone() else { return };
        self.engine.set_multicast(settings.multicast);
        match RouteLearner::start(&settings, self.surroundings(), sender.clone(), &self.threads) {
            Ok(learner) => self.routing.learner = Some(learner),
            Err(why) => {
                self.log.error(format_args!("routing: cannot learn routes from the kernel's routing table: {why}"));
            }
        }
        let bfd = settings.bfd.map(|at| BfdLink::start(&at.value, sender.clone(), &self.threads));
        match bfd.transpose() {
            Ok(bfd) => self.routing.bfd = bfd,
            Err(why) => {
                self.log.error(format_args!("bfd: cannot start the thread that reports path states to bfdd: {why}"));
            }
        }
    }

    fn surroundings(&self) -> RoutingSurroundings {
        let default = RoutedDevice { index: self.devices.default().tun().index(), vpn: VpnId::DEFAULT, table: None };
        let others = self.config.vpns.iter().filter_map(|vpn| {
            let id = VpnId(vpn.id.value);
            Some(RoutedDevice { index: self.devices.get(id)?.tun().index(), vpn: id, table: vpn.table })
        });
        let devices = std::iter::once(default).chain(others).collect();
        RoutingSurroundings { devices, endpoints: Sieve::new(&self.config, &self.links).outside().endpoints.clone() }
    }

    /// Decides again which peers have the learnt prefixes and the watched addresses.
    pub(super) fn refresh_routing(&mut self) {
        if let Some(learner) = &self.routing.learner {
            learner.refresh(self.surroundings());
        }
        self.find_watched();
        self.tell_watched();
    }

    /// Applies a batch of changes of learnt prefixes, and sends the batch back with the outcomes by `reply`.
    pub(super) fn learn(&mut self, mut slice: LearntSlice, reply: &SyncSender<LearntSlice>) {
        let LearntSlice { changes, outcomes } = &mut slice;
        outcomes.extend(changes.iter().map(|(vpn, change)| self.engine.learn(*vpn, change).err()));
        // The thread that learns routes waits for the batch. Sending fails only after that thread has ended.
        let _ = reply.try_send(slice);
    }

    /// Sets the addresses that `bfdd` watches, and reports each state again.
    pub(super) fn sense(&mut self, addresses: Vec<SensedAddress>) {
        let new = addresses.into_iter().map(|sensed| WatchedAddress { sensed, peer: None, told: None }).collect();
        let before = std::mem::replace(&mut self.routing.watched, new);
        for peer in before.into_iter().filter_map(|watched| watched.peer) {
            self.engine.set_probe_pace(self.clock.now(), peer, None);
        }
        self.find_watched();
        self.tell_watched();
    }

    /// Finds the peers of the watched addresses, and has their paths probed often.
    fn find_watched(&mut self) {
        let now = self.clock.now();
        for watched in &mut self.routing.watched {
            let by_index =
                |vpn: &VpnId| self.devices.get(*vpn).is_some_and(|of| of.tun().index() == watched.sensed.interface);
            let vpn = self.config.vpns.iter().map(|vpn| VpnId(vpn.id.value)).find(by_index).unwrap_or(VpnId::DEFAULT);
            let peer = self.engine.peer_of_address(vpn, watched.sensed.address);
            if let Some(before) = watched.peer.filter(|before| Some(*before) != peer) {
                self.engine.set_probe_pace(now, before, None);
            }
            if peer.is_none() && watched.told.is_none() {
                self.log.error(format_args!(
                    "bfd: no peer has the address {}, so its BFD session stays down: add the address to the peer's \
                     `prefixes`",
                    watched.sensed.address
                ));
            }
            watched.peer = peer;
        }
        for peer in self.routing.watched.iter().filter_map(|watched| watched.peer) {
            self.engine.set_probe_pace(now, peer, Some(PROBE_PACE));
        }
    }

    /// Passes the path states that have changed to the thread that reports to `bfdd`.
    pub(super) fn tell_watched(&mut self) {
        let RoutingSide { bfd: Some(bfd), watched, is_behind, .. } = &mut self.routing else { return };
        *is_behind = false;
        for watched in watched {
            let is_up = watched.peer.is_some_and(|peer| self.engine.is_answering(peer));
            if watched.told != Some(is_up) {
                if bfd.tell(watched.sensed, is_up) {
                    watched.told = Some(is_up);
                } else {
                    *is_behind = true;
                }
            }
        }
    }

    /// Passes the path states that were not passed before because the queue of the thread was full.
    pub(super) fn catch_up_telling(&mut self) {
        if self.routing.is_behind {
            self.tell_watched();
        }
    }
}
