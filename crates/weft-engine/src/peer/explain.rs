//! Explains which paths a flow takes and why, by asking a copy of the scheduler.
//!
//! The copy chooses a path for a sparse packet and for bulk, first with the present paths, then as if the paths chosen
//! for sparse packets had failed. The running peer does not change.

use super::Peer;
use super::spares::lowest_tier;
use super::view;
use crate::api::PathState;
use crate::api::{Explanation, FlowPattern, KnownFlow, PathReason};
use crate::path::{Lane, Path};
use alloc::string::String;
use alloc::vec::Vec;
use weft_core::sched::{PathChoice, PathView, Scheduler, UnitView};
use weft_units::{Instant, PathId, VpnId};

/// Size of the packet of a sparse flow that is assumed, such as a query or a bare acknowledgement, in IP bytes.
const SPARSE_BYTES: u32 = 100;
/// Size of the bulk packet that is assumed, in IP bytes: a full packet.
const BULK_BYTES: u32 = 1_500;

/// Indices of the paths that sparse flows take, and of those that bulk takes.
#[derive(Default)]
struct Ways {
    sparse: Vec<usize>,
    bulk: Vec<usize>,
}

impl Ways {
    fn ids(paths: &[Path], positions: &[usize]) -> Vec<PathId> {
        positions.iter().filter_map(|at| paths.get(*at)).map(|path| path.id).collect()
    }
}

impl Peer {
    /// Returns the paths to this peer, and for each whether and why a flow that matches `of` takes it.
    pub fn explain_flow(&self, now: Instant, vpn: VpnId, of: &FlowPattern) -> Explanation {
        let known = self.ingress.flows.iter().find(|(_, flow)| flow.key.vpn == vpn && of.holds(&flow.key.key));
        let hash = known.map(|(_, flow)| flow.hash);
        let ways = self.ways(now, &[], hash);
        let next = self.ways(now, &ways.sparse, hash);
        let snapshot = self.snapshot(now);
        let paths = (0..).zip(&self.paths).filter(|(_, path)| !path.is_gone()).zip(snapshot.paths);
        let mss = |header: usize| u16::try_from(self.inner_limit().saturating_sub(header)).unwrap_or(u16::MAX);
        Explanation {
            vpn,
            vpn_name: String::new(),
            matches: Vec::new(),
            is_established: self.is_established(),
            is_open: false,
            flow: known.map(|(id, flow)| KnownFlow {
                id,
                key: flow.key.key,
                packets: flow.packets,
                bytes: flow.bytes,
                idle: now - flow.last_used,
                committed_bytes: self.dispatch.committed.get(usize::from(id.0)).copied().unwrap_or(0),
            }),
            schedule: self.config.policy.schedule,
            bundles: self.bundles(),
            paths: paths
                .map(|((at, path), snapshot)| PathReason {
                    path: snapshot,
                    takes_sparse: ways.sparse.contains(&at),
                    takes_bulk: ways.bulk.contains(&at),
                    waiting_bytes: path.queues.bytes_before(Lane::Bulk),
                    why: self.why(at, path, &ways),
                    falls: path.health.recent_falls(now),
                    probation_left: path.health.probation_left(now),
                })
                .collect(),
            next_sparse: Ways::ids(&self.paths, &next.sparse),
            next_bulk: Ways::ids(&self.paths, &next.bulk),
            queued_bytes: self.backlog_bytes(),
            entry: self.entry_status(vpn),
            inner_limit: self.inner_limit(),
            mss: mss(if of.destination.is_ipv6() { 60 } else { 40 }),
        }
    }

    /// Returns the paths that a flow with this `hash` would take if those with the indices `failed` were down.
    fn ways(&self, now: Instant, failed: &[usize], hash: Option<u32>) -> Ways {
        let views = self.views_without(now, failed);
        let usable: Vec<usize> = (0..views.len()).filter(|at| views[*at].usable).collect();
        let answering: Vec<usize> = usable.iter().copied().filter(|at| !views[*at].suspect).collect();
        let eligible = if answering.is_empty() { usable } else { answering };
        let mut scheduler = self.dispatch.scheduler.clone();
        let mut pick = |bytes, urgent| {
            let unit = UnitView { bytes, flow_hash: hash.unwrap_or(0), urgent };
            scheduler.pick(now, &views, unit)
        };
        match &self.dispatch.scheduler {
            Scheduler::EarliestDelivery(_) => {
                let sparse = match pick(SPARSE_BYTES, true) {
                    PathChoice::Path(at) => Vec::from([at]),
                    _ => Vec::new(),
                };
                // This call makes the scheduler update its set of paths for bulk.
                pick(BULK_BYTES, false);
                Ways { sparse, bulk: eligible.into_iter().filter(|at| scheduler.carries_bulk(*at)).collect() }
            }
            Scheduler::FlowHash(_) if hash.is_some() => match pick(BULK_BYTES, false) {
                PathChoice::Path(at) => Ways { sparse: Vec::from([at]), bulk: Vec::from([at]) },
                _ => Ways::default(),
            },
            _ => Ways { sparse: eligible.clone(), bulk: eligible },
        }
    }

    /// Returns the scheduler's views of all paths, with those in `failed` marked as not usable.
    fn views_without(&self, now: Instant, failed: &[usize]) -> Vec<PathView> {
        let stays = |(at, path): &(usize, &Path)| !failed.contains(at) && path.carries();
        let all = || self.paths.iter().enumerate();
        let lowest = lowest_tier(all().filter(stays).map(|(_, path)| path));
        let is_usable = |(at, path): (usize, &Path)| {
            stays(&(at, path)) && path.health.is_usable() && lowest.is_none_or(|lowest| path.tier() <= lowest)
        };
        let usable = all().filter(|each| is_usable(*each));
        let only = if self.bundles() { None } else { usable.max_by_key(|(_, path)| path.preference()) };
        let only = only.map(|(at, _)| at);
        let origin = self.paths.iter().find_map(|path| path.delay().baseline_us());
        all()
            .map(|(at, path)| PathView {
                usable: is_usable((at, path)) && only.is_none_or(|only| only == at),
                ..view::view_of(path, now, origin)
            })
            .collect()
    }

    /// Returns the reason why the path with index `at` is used or not used, as text for people.
    fn why(&self, at: usize, path: &Path, ways: &Ways) -> &'static str {
        let (sparse, bulk) = (ways.sparse.contains(&at), ways.bulk.contains(&at));
        let by_arrival = matches!(self.dispatch.scheduler, Scheduler::EarliestDelivery(_));
        match path.state() {
            _ if path.barred => "the configuration excludes it from sending",
            _ if !path.link_up => "its link is down",
            PathState::Opening => "it has not answered yet",
            PathState::Down => "it is down and is probed",
            _ if !path.active => "only probed: another path of its link is used",
            _ if path.spare => "spare path: a preferred path answers",
            PathState::Suspect if !sparse && !bulk => "silent: used only if no other path answers",
            PathState::Suspect => "silent, but no other path answers",
            _ if sparse && by_arrival => "a packet arrives first over it",
            _ if bulk && by_arrival && path.health.is_on_probation() => {
                "on probation after repeated failures: bulk only"
            }
            _ if bulk && by_arrival => "its capacity outweighs its delay for bulk",
            _ if by_arrival && self.bundles() => "its delay outweighs its capacity",
            _ if sparse || bulk => "the scheduler uses it",
            _ if !self.bundles() => "one path at a time: another has more capacity",
            _ => "the flow's hash selects another path",
        }
    }
}
