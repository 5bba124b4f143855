//! What a peer is told of revocations, until it is known to have heard.

use super::{Context, Peer};
use crate::path::Said;
use weft_session::Revocation;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};
use weft_wire::certificate;
use weft_wire::frame::{Frame, FrameWriter};

/// What is neither reported as arrived nor as lost is told again after this.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Checking a signature is work: a peer that told so many false revocations is not listened to before its next session.
const MAX_FALSE: u8 = 16;

/// How far a peer has been told of the node's list of revocations.
#[derive(Debug, Default)]
pub(crate) struct Tidings {
    /// So many have arrived there.
    told: u16,
    /// A datagram is under way, until then.
    under_way_until: Option<Instant>,
    /// False ones that came from it.
    false_ones: u8,
    /// When the last of them came.
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

    /// When to tell again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.under_way_until
    }
}

impl Peer {
    /// The node's list begins anew.
    pub(crate) fn forget_told(&mut self) {
        self.tidings = Tidings::default();
    }

    /// Tells the peer what it has not heard yet, a datagram at a time, by the fastest path.
    pub(crate) fn tell_revocations(&mut self, cx: &mut Context<'_>) {
        if planted::is(Fault::RevocationNotTold) || !self.tidings.is_due(cx.now, cx.trust.revocations.list().len()) {
            return;
        }
        self.tidings.under_way_until = None;
        if let Some(path) = self.fastest_path().and_then(|fastest| self.paths.get_mut(fastest)) {
            path.pending.revocations = true;
        }
    }

    /// Writes as many revocations as fit; up to which one, counted from 1, the peer knows them then. 0 if there was none.
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

    /// The peer says that a key is revoked. What is new is acted upon by the node.
    ///
    /// After a false one no other is checked at the same instant, so that one datagram costs one false signature at most. True ones are
    /// checked once each, since the node keeps them.
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
