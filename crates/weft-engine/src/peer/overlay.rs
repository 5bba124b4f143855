//! Messages of the overlay on their way to and from the peer. They may be lost: who asked asks again.

use super::Peer;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use weft_units::{Duration, Instant};
use weft_wire::frame::{Frame, FrameWriter};

/// Messages that wait at most; of more the oldest are out of date.
const MAX_WAITING: usize = 32;

/// Messages from and to the peer's overlay.
#[derive(Debug, Default)]
pub(crate) struct OverlayMail {
    outgoing: VecDeque<Box<[u8]>>,
    arrived: VecDeque<Box<[u8]>>,
    heard_at: Option<Instant>,
}

impl Peer {
    /// A message leaves by the fastest path.
    pub(crate) fn tell_overlay(&mut self, message: &[u8]) {
        let Some(path) = self.fastest_path().and_then(|fastest| self.paths.get_mut(fastest)) else { return };
        path.pending.overlay = true;
        if self.overlay.outgoing.len() >= MAX_WAITING {
            self.overlay.outgoing.pop_front();
        }
        self.overlay.outgoing.push_back(message.into());
    }

    /// Writes what fits. A message that would not even fit alone is given up.
    pub(super) fn write_overlay(&mut self, index: usize, writer: &mut FrameWriter<'_>) {
        let Some(path) = self.paths.get_mut(index).filter(|path| path.pending.overlay) else { return };
        while let Some(message) = self.overlay.outgoing.front() {
            if writer.write(&Frame::Overlay(message)).is_err() && !writer.is_empty() {
                break;
            }
            self.overlay.outgoing.pop_front();
        }
        path.pending.overlay = !self.overlay.outgoing.is_empty();
    }

    pub(super) fn on_overlay(&mut self, now: Instant, message: &[u8]) {
        self.overlay.heard_at = Some(now);
        // No sender lets more wait, so that more in one datagram come from none that is honest.
        if self.overlay.arrived.len() < MAX_WAITING {
            self.overlay.arrived.push_back(message.into());
        }
    }

    /// The next message that has come, for the node's overlay.
    pub(crate) fn take_overlay_message(&mut self) -> Option<Box<[u8]>> {
        self.overlay.arrived.pop_front()
    }

    pub(crate) fn has_overlay_messages(&self) -> bool {
        !self.overlay.arrived.is_empty()
    }

    /// It is not called again before somebody wants it.
    pub(crate) fn stop_calling(&mut self) {
        self.config.endpoints.clear();
        self.detours.clear();
    }

    /// Whether a message has come within this time.
    pub(crate) fn overlay_heard_since(&self, now: Instant, time: Duration) -> bool {
        self.overlay.heard_at.is_some_and(|at| now - at < time)
    }
}
