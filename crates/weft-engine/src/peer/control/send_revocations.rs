//! Sends the node's list of revocations to the peer until the peer is known to have it.
//!
//! The list only grows. One datagram at a time is in flight: the next follows an acknowledgement, and a loss or a
//! timeout sends the same part again. The number of false revocations that a peer may send is limited.

use super::super::{Context, Peer};
use super::revocation_sync::RevocationSync;
use weft_session::Revocation;
use weft_units::Duration;
use weft_units::planted::{self, Fault};
use weft_wire::certificate;
use weft_wire::frame::{Frame, FrameWriter};

/// Time after which revocations are sent again if their datagram was neither acknowledged nor declared lost.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

impl Peer {
    /// Begins to send this node's revocations to the peer from the start of the list again.
    pub fn restart_revocation_sync(&mut self) {
        self.control.revocation_sync = RevocationSync::default();
    }

    /// Sends the peer the revocations that it lacks by the fastest path, one datagram at a time.
    pub fn send_revocations(&mut self, cx: &mut Context<'_>) {
        if planted::is(Fault::RevocationNotTold)
            || !self.control.revocation_sync.is_due(cx.now, cx.trust.revocations.list().len())
        {
            return;
        }
        self.control.revocation_sync.under_way_until = None;
        if let Some(path) = self.fastest_path().and_then(|fastest| self.paths.get_mut(fastest)) {
            path.pending.revocations = true;
        }
    }

    /// Writes as many of the revocations that the peer lacks as fit into a control datagram.
    ///
    /// Returns the number of revocations that the peer has once it gets this datagram, or 0 if none was written.
    pub fn write_revocations(&mut self, cx: &Context<'_>, index: usize, writer: &mut FrameWriter<'_>) -> u16 {
        let Some(path) = self.paths.get_mut(index).filter(|path| path.pending.revocations) else { return 0 };
        path.pending.revocations = false;
        let told = self.control.revocation_sync.told;
        let untold = cx.trust.revocations.list().get(usize::from(told)..).unwrap_or_default();
        let fits = |revocation: &&Revocation| writer.write(&Frame::Revocation(revocation.to_wire())).is_ok();
        let count = untold.iter().take_while(fits).count();
        if count == 0 {
            return 0;
        }
        self.control.revocation_sync.under_way_until = Some(cx.now + AGAIN_AFTER);
        told + count as u16
    }

    /// Handles a revocation from the peer. The node acts on it if it is new and valid.
    ///
    /// After a false revocation, no other is checked for a second. A true revocation is checked once, because the node
    /// stores it.
    pub fn on_revocation(&mut self, cx: &mut Context<'_>, revocation: certificate::RevocationView) {
        let sync = &mut self.control.revocation_sync;
        if sync.may_check(cx.now) && cx.trust.take_revocation(&revocation.into()).is_err() {
            sync.on_false(cx.now);
        }
    }
}
