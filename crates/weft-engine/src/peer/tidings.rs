//! Sends the node's list of revocations to the peer until the peer is known to have it.
//!
//! The list only grows. One datagram at a time is in flight: the next follows an acknowledgement, and a loss or a
//! timeout sends the same part again. The number of false revocations that a peer may send is limited.

use crate::path::Said;
use crate::peer::{Context, Peer};
use weft_session::Revocation;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};
use weft_wire::certificate;
use weft_wire::frame::{Frame, FrameWriter};

/// Time after which revocations are sent again if their datagram is neither acknowledged nor lost.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Most false revocations accepted from a peer in a session.
///
/// Checking a signature is work, so further ones are ignored.
const MAX_FALSE: u8 = 16;

/// Progress of one peer through the node's list of revocations.
#[derive(Debug, Default)]
pub struct Tidings {
    /// Number of revocations that the peer has acknowledged.
    told: u16,
    /// Time until which a datagram with revocations counts as in flight.
    under_way_until: Option<Instant>,
    /// Number of false revocations received from the peer.
    false_ones: u8,
    /// Arrival time of the last false revocation.
    false_at: Option<Instant>,
}

impl Tidings {
    fn is_due(&self, now: Instant, known: usize) -> bool {
        usize::from(self.told) < known && self.under_way_until.is_none_or(|until| until <= now)
    }

    pub(super) fn on_delivered(&mut self, said: Said) {
        if said.revocations > 0 {
            self.told = self.told.max(said.revocations);
            self.under_way_until = None;
        }
    }

    pub(super) fn on_lost(&mut self, said: Said) {
        if said.revocations > self.told {
            self.under_way_until = None;
        }
    }

    /// Returns the time at which revocations are sent again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.under_way_until
    }
}

impl Peer {
    /// Starts again from the beginning of the node's list.
    pub fn forget_told(&mut self) {
        self.tidings = Tidings::default();
    }

    /// Sends the peer the revocations that it lacks by the fastest path, one datagram at a time.
    pub fn tell_revocations(&mut self, cx: &mut Context<'_>) {
        if planted::is(Fault::RevocationNotTold) || !self.tidings.is_due(cx.now, cx.trust.revocations.list().len()) {
            return;
        }
        self.tidings.under_way_until = None;
        if let Some(path) = self.fastest_path().and_then(|fastest| self.paths.get_mut(fastest)) {
            path.pending.revocations = true;
        }
    }

    /// Writes as many revocations as fit.
    ///
    /// Returns the number that the peer has after this datagram, or 0 if none was written.
    pub(super) fn write_revocations(&mut self, cx: &Context<'_>, index: usize, writer: &mut FrameWriter<'_>) -> u16 {
        let Some(path) = self.paths.get_mut(index).filter(|path| path.pending.revocations) else { return 0 };
        path.pending.revocations = false;
        let told = self.tidings.told;
        let untold = cx.trust.revocations.list().get(usize::from(told)..).unwrap_or_default();
        let fits = |revocation: &&Revocation| writer.write(&Frame::Revocation(revocation.to_wire())).is_ok();
        let count = untold.iter().take_while(fits).count();
        if count == 0 {
            return 0;
        }
        self.tidings.under_way_until = Some(cx.now + AGAIN_AFTER);
        told + count as u16
    }

    /// Handles a revocation from the peer. The node acts on a new one.
    ///
    /// After a false revocation, no other is checked at the same instant. One datagram therefore costs at most one
    /// false signature. A true revocation is checked once, because the node stores it.
    pub(super) fn on_revocation(&mut self, cx: &mut Context<'_>, revocation: certificate::Revocation) {
        let tidings = &mut self.tidings;
        if tidings.false_ones >= MAX_FALSE || tidings.false_at == Some(cx.now) {
            return;
        }
        if cx.trust.take_revocation(&revocation.into()).is_err() {
            tidings.false_ones += 1;
            tidings.false_at = Some(cx.now);
        }
    }
}
