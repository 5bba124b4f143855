//! Paths that stand by: routes over relays that nobody asked for. They are kept measured, and carry data while no steady path that was
//! asked for answers.

use super::recovery::Rescue;
use super::{Context, Peer};
use crate::path::Path;
use crate::relay::Bulletin;
use weft_wire::frame::{Frame, FrameWriter};

/// Whether this path, while it answers, lets those that stand by rest. One on probation does not: sparse flows need a steady path.
pub(super) fn relieves(path: &Path) -> bool {
    !path.standby && !path.health.is_on_probation()
}

impl Peer {
    /// A path that stands by is spare as long as a better one answers.
    pub(super) fn choose_spares(&mut self, cx: &mut Context<'_>) {
        if !self.paths.iter().any(|path| path.spare || path.standby) {
            return;
        }
        let mut answering = self.paths.iter().filter(|path| path.carries() && path.health.answers());
        let is_relieved = answering.any(relieves);
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            let is_spare = is_relieved && path.standby;
            let was_spare = core::mem::replace(&mut path.spare, is_spare);
            if is_spare && !was_spare {
                self.rescue_path(cx, index, Rescue::Spared);
            }
        }
    }

    /// Whether the relay has said something that the peer was not told.
    pub(crate) fn is_behind(&self, bulletin: &Bulletin) -> bool {
        self.is_established()
            && !self.declines_neighbours
            && bulletin.read(self.told_to, self.id.0.into()).next().is_some()
    }

    /// Whether the peer should tell whom it reaches from now on. It is told a change soon.
    pub(crate) fn want_neighbours(&mut self, wants: bool) {
        if core::mem::replace(&mut self.wants_neighbours, wants) == wants {
            return;
        }
        if let Some(path) = self.fastest_path().and_then(|fastest| self.paths.get_mut(fastest)) {
            path.pending.policy = true;
        }
    }

    pub(crate) fn wants_neighbours(&self) -> bool {
        self.wants_neighbours
    }

    /// The peer says whether it wants to be told of nodes beside this one. If it does again, it is told of all.
    pub(super) fn on_neighbours_declined(&mut self, declines: bool) {
        if core::mem::replace(&mut self.declines_neighbours, declines) && !declines {
            self.told_to = 0;
        }
    }

    /// Tells the peer of nodes beside this one, as many as there is room for. The rest waits for its turn. True if there was something.
    pub(super) fn write_neighbours(&mut self, bulletin: &Bulletin, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let Some(path) = self.paths.get_mut(index) else { return false };
        if !core::mem::take(&mut path.pending.neighbours) {
            return false;
        }
        let before = writer.len();
        for (place, neighbour) in bulletin.read(self.told_to, self.id.0.into()) {
            if writer.write(&Frame::Neighbour(neighbour)).is_err() {
                break;
            }
            self.told_to = place;
        }
        writer.len() > before
    }

    /// The healthiest path that leads to the peer without relays.
    pub(crate) fn fastest_direct_path(&self) -> Option<&Path> {
        let direct = self.paths.iter().filter(|path| path.is_usable() && !crate::relay::is_route(&path.remote));
        direct.min_by_key(|path| (path.state(), path.rtt().smoothed()))
    }
}
