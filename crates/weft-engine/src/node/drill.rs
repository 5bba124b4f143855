//! Drills: this node cuts a link or a node for a limited time, to show how traffic reacts.
//!
//! Nothing is switched off. Datagrams over the cut link or node are dropped where they would leave and where they
//! arrive, as in a silent failure outside. The drill ends by its own timer, whatever happens to the client that
//! started it. During the drill, every peer that is reached over the cut target is probed
//! ([`probes`](crate::peer::Probes)).

use super::Engine;
use crate::api::{CommandError, DRILL_MAX, DrillError, DrillPhase, DrillReport, DrillTarget, Event};
use crate::links::is_route;
use crate::path::Path;
use crate::peer::{Peer, Probes};
use crate::relay::label;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_units::{Duration, Instant, LinkId, PeerId};

/// Time before the cut in which the peers concerned are probed.
const BEFORE: Duration = Duration::from_millis(500);
/// Time after the cut in which the peers concerned are probed.
const AFTER: Duration = Duration::from_secs(2);
/// Maximum number of peers that a drill probes. The first ones in the configuration are chosen.
const PEERS: usize = 16;

/// The links or the node that a drill cuts.
#[derive(Clone, Debug)]
enum Cut {
    Links(Vec<LinkId>),
    Node(PeerId),
}

/// The drill that is running, or the last one that ran.
pub(super) struct RunningDrill {
    of: DrillTarget,
    cut: Cut,
    phase: DrillPhase,
    cut_at: Instant,
    restored_at: Instant,
    peers: Vec<PeerId>,
}

impl RunningDrill {
    fn is_silent(&self) -> bool {
        self.phase == DrillPhase::Silent
    }

    /// Returns the time at which the present phase of the drill ends, or `None` if the drill is over.
    fn phase_ends(&self) -> Option<Instant> {
        match self.phase {
            DrillPhase::Before => Some(self.cut_at),
            DrillPhase::Silent => Some(self.restored_at),
            DrillPhase::After => Some(self.restored_at + AFTER),
            DrillPhase::Over => None,
        }
    }

    fn next_phase(&self) -> DrillPhase {
        match self.phase {
            DrillPhase::Before => DrillPhase::Silent,
            DrillPhase::Silent => DrillPhase::After,
            DrillPhase::After | DrillPhase::Over => DrillPhase::Over,
        }
    }
}

impl Engine {
    /// Starts a drill that cuts the target half a second from now, for the duration `time`.
    ///
    /// With `force`, it cuts the target even if some peer then has no other path.
    pub(super) fn start_drill(
        &mut self,
        now: Instant,
        of: DrillTarget,
        time: Duration,
        force: bool,
    ) -> Result<(), CommandError> {
        let refused = |why| Err(CommandError::Drill(why));
        if self.diagnosis.drill.as_ref().is_some_and(|drill| drill.phase != DrillPhase::Over) {
            return refused(DrillError::UnderWay);
        }
        if time > DRILL_MAX || time < Duration::from_millis(1) {
            return refused(DrillError::BadTime);
        }
        let cut = self.cut_of(&of)?;
        let peers = self.peers_by(&cut);
        if peers.is_empty() {
            return refused(DrillError::Unused);
        }
        let lost = peers.iter().filter_map(|id| self.peers.get(usize::from(id.0)));
        let lost = lost.filter(|peer| !peer.paths.iter().any(|path| self.would_remain(&cut, path)));
        let lost: Vec<String> = lost.map(|peer| peer.config.name.clone()).collect();
        if !lost.is_empty() && !force {
            return refused(DrillError::NoOtherPath(lost));
        }
        self.peers.iter_mut().for_each(|peer| peer.control.probes = None);
        for id in &peers {
            let probes = self.peers.get(usize::from(id.0)).map(|peer| Probes::new(now, self.paths_by(&cut, peer)));
            if let Some(peer) = self.peers.get_mut(usize::from(id.0)) {
                peer.control.probes = probes;
            }
        }
        let cut_at = now + BEFORE;
        self.diagnosis.drill =
            Some(RunningDrill { of, cut, phase: DrillPhase::Before, cut_at, restored_at: cut_at + time, peers });
        Ok(())
    }

    fn cut_of(&self, of: &DrillTarget) -> Result<Cut, CommandError> {
        match of {
            DrillTarget::Link(name) => {
                let all = || self.links().chain(self.relaying.routes.up());
                let links: Vec<LinkId> = all().filter(|link| link.name == *name).map(|link| link.id).collect();
                let known = || all().map(|link| link.name.clone()).collect();
                if links.is_empty() {
                    return Err(CommandError::UnknownLink(name.clone(), known()));
                }
                Ok(Cut::Links(links))
            }
            DrillTarget::Node(name) => self.present_peer(name).map(Cut::Node),
        }
    }

    /// True if the cut drops datagrams on this link to or from this address.
    fn goes_by(&self, cut: &Cut, link: LinkId, address: &SocketAddr) -> bool {
        match cut {
            Cut::Links(links) => links.contains(&link),
            Cut::Node(id) => {
                let Some(peer) = self.peers.get(usize::from(id.0)) else { return false };
                let over = |(via, way): (PeerId, &weft_wire::relay::Way)| {
                    via == *id || way.labels().contains(&label(&peer.config.public_key))
                };
                peer.endpoints().any(|endpoint| endpoint == address)
                    || peer.paths.iter().any(|path| path.remote == *address)
                    || self.relaying.routes.way_of(link).is_some_and(over)
            }
        }
    }

    /// True if a path leads over the cut target.
    ///
    /// A relayed route does if its first relay is now reached over the target.
    fn leads_by(&self, cut: &Cut, path: &Path) -> bool {
        let relay = || self.relaying.routes.way_of(path.link).and_then(|(via, _)| self.peers.get(usize::from(via.0)));
        let first = || relay().and_then(Peer::fastest_direct_path);
        self.goes_by(cut, path.link, &path.remote)
            || (is_route(&path.remote) && first().is_some_and(|first| self.goes_by(cut, first.link, &first.remote)))
    }

    /// True if a path could still carry data during the cut.
    fn would_remain(&self, cut: &Cut, path: &Path) -> bool {
        let answers = |path: &Path| path.carries() && path.health.answers();
        let stays = |path: &Path| answers(path) && !self.goes_by(cut, path.link, &path.remote);
        if !is_route(&path.remote) {
            return stays(path);
        }
        let relay = self.relaying.routes.way_of(path.link).and_then(|(via, _)| self.peers.get(usize::from(via.0)));
        stays(path) && relay.is_some_and(|relay| relay.paths.iter().any(|path| !is_route(&path.remote) && stays(path)))
    }

    fn paths_by(&self, cut: &Cut, peer: &Peer) -> Vec<weft_units::PathId> {
        let by = peer.paths.iter().filter(|path| path.active && self.leads_by(cut, path));
        by.map(|path| path.id).collect()
    }

    /// Returns the peers that are now reached over the cut link or node.
    ///
    /// For a node, these are the peers behind it, or the node itself if there are none.
    fn peers_by(&self, cut: &Cut) -> Vec<PeerId> {
        let by = |peer: &&Peer| peer.is_established() && peer.usable_paths().any(|path| self.leads_by(cut, path));
        let all: Vec<PeerId> = self.peers.iter().filter(by).map(|peer| peer.id).take(PEERS).collect();
        let behind: Vec<PeerId> = match cut {
            Cut::Node(node) => all.iter().copied().filter(|peer| peer != node).collect(),
            Cut::Links(_) => Vec::new(),
        };
        if behind.is_empty() { all } else { behind }
    }

    /// True if a drill drops datagrams on this link to or from this address now.
    pub(super) fn is_cut(&self, link: LinkId, address: &SocketAddr) -> bool {
        let silent = self.diagnosis.drill.as_ref().filter(|drill| drill.is_silent());
        silent.is_some_and(|drill| self.goes_by(&drill.cut, link, address))
    }

    /// Moves the running drill to its next phase when the present one ends, and sends the probes that are due.
    pub(super) fn drive_drill(&mut self, now: Instant) {
        let Some(drill) = self.diagnosis.drill.as_mut().filter(|drill| drill.phase != DrillPhase::Over) else { return };
        while drill.phase_ends().is_some_and(|at| at <= now) {
            drill.phase = drill.next_phase();
            if drill.phase == DrillPhase::Over {
                self.events.queue.push_back(Event::DrillOver { of: format!("{}", drill.of) });
            }
        }
        for id in &drill.peers {
            if let Some(peer) = self.peers.get_mut(usize::from(id.0)) {
                peer.probe_in_drill(now, drill.phase, drill.cut_at);
            }
        }
    }

    pub(super) fn drill_deadline(&self) -> Option<Instant> {
        let drill = self.diagnosis.drill.as_ref()?;
        let peers = drill.peers.iter().filter_map(|id| self.peers.get(usize::from(id.0)));
        let probes = peers.filter_map(|peer| peer.control.probes.as_ref()).map(Probes::next);
        let probes = probes.min().filter(|_| drill.phase != DrillPhase::Over);
        drill.phase_ends().into_iter().chain(probes).min()
    }

    /// Returns the results so far of the running drill, or of the last one; `None` if there was none.
    pub fn drill_report(&self, now: Instant) -> Option<DrillReport> {
        let drill = self.diagnosis.drill.as_ref()?;
        let peers = drill.peers.iter().filter_map(|id| self.peers.get(usize::from(id.0)));
        Some(DrillReport {
            of: format!("{}", drill.of),
            phase: drill.phase,
            time: drill.restored_at - drill.cut_at,
            left: drill.phase_ends().map_or(Duration::ZERO, |_| drill.restored_at + AFTER - now),
            peers: peers.filter_map(|peer| peer.drill_report(now, drill.cut_at, drill.restored_at)).collect(),
        })
    }
}
