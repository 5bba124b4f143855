//! Spare paths: links of a higher tier, and routes over relays that were not configured.
//!
//! Spare paths are measured all the time. They carry data only while each path of a lower tier is silent or on
//! probation. If this node is a relay, the module also writes its reports about its neighbours.

use super::recovery::Rescue;
use super::{Context, Peer};
use crate::links::is_route;
use crate::path::Path;
use crate::relay::Bulletin;
use core::net::SocketAddr;
use weft_units::PathTier;
use weft_wire::frame::{Frame, FrameWriter, Neighbour};

/// Returns the lowest tier of which one of `paths` answers, or `None` if no path answers.
///
/// Paths of higher tiers are then unnecessary. A path on probation is ignored, because sparse flows need a path that
/// does not fail repeatedly.
pub(super) fn lowest_tier<'a>(paths: impl Iterator<Item = &'a Path>) -> Option<PathTier> {
    paths.filter(|path| path.health.answers() && !path.health.is_on_probation()).map(Path::tier).min()
}

impl Peer {
    /// Marks each path as spare while a path of a lower tier answers.
    pub(super) fn choose_spares(&mut self, cx: &mut Context<'_>) {
        if !self.paths.iter().any(|path| path.spare || path.tier() != PathTier::Primary) {
            return;
        }
        let lowest = lowest_tier(self.paths.iter().filter(|path| path.carries()));
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            let is_spare = lowest.is_some_and(|lowest| path.tier() > lowest);
            let was_spare = core::mem::replace(&mut path.spare, is_spare);
            if is_spare && !was_spare {
                self.rescue_path(cx, index, Rescue::Spared);
            }
        }
    }

    /// Returns this relay's reports about its other peers that this peer has not been sent; none without a session.
    pub fn outstanding_reports(&self, bulletin: &Bulletin) -> impl Iterator<Item = Neighbour> {
        let from = if self.is_established() { self.control.bulletin_position } else { bulletin.end() };
        bulletin.read(from, self.id.0.into()).map(|(_, neighbour)| neighbour)
    }

    /// Writes as many pending NEIGHBOUR frames (reports about this relay's peers) as fit.
    ///
    /// Returns true if it wrote at least one frame.
    pub(super) fn write_neighbours(&mut self, bulletin: &Bulletin, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let Some(path) = self.paths.get_mut(index) else { return false };
        if !core::mem::take(&mut path.pending.neighbours) {
            return false;
        }
        let before = writer.len();
        for (place, neighbour) in bulletin.read(self.control.bulletin_position, self.id.0.into()) {
            if writer.write(&Frame::Neighbour(neighbour)).is_err() {
                break;
            }
            self.control.bulletin_position = place;
        }
        writer.len() > before
    }

    /// Returns the usable path to the peer that crosses no relay and is in the best state.
    ///
    /// Among paths in equal states, the RTT decides. `None` if there is no usable path without a relay.
    pub fn fastest_direct_path(&self) -> Option<&Path> {
        let direct = self.paths.iter().filter(|path| path.is_usable() && !is_route(&path.remote));
        direct.min_by_key(|path| (path.state(), path.rtt().smoothed()))
    }

    /// Returns the best path for relayed datagrams: it crosses no relay, and its address is proven.
    ///
    /// The best state decides, and among equals the least RTT. An address is proven if the peer has shown that it
    /// receives there. To an unproven address this node may send only a limited number of bytes, and relayed datagrams
    /// are not counted among them. It therefore sends none to such an address.
    pub fn fastest_proven_path(&self) -> Option<&Path> {
        let direct = self.paths.iter().filter(|path| path.is_usable() && !is_route(&path.remote));
        direct.filter(|path| path.proof.is_proven()).min_by_key(|path| (path.state(), path.rtt().smoothed()))
    }

    /// Returns the addresses at which the peer answers now without relays.
    pub fn direct_remotes(&self) -> impl Iterator<Item = SocketAddr> {
        let answers = self.paths.iter().filter(|path| path.health.answers() && !is_route(&path.remote));
        answers.map(|path| path.remote)
    }
}
