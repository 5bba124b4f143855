//! Messages of the overlay to and from the peer.
//!
//! They may be lost. The overlay repeats a request that gets no answer.

use super::Peer;
use alloc::boxed::Box;
use weft_units::{Duration, Instant};
use weft_wire::frame::{Frame, FrameWriter};

/// Maximum number of overlay messages to or from a peer that wait.
///
/// If more are to be sent, the oldest ones are dropped, because they are out of date. If more arrive, they are dropped.
const MAX_WAITING: usize = 32;

impl Peer {
    /// Queues an overlay message to the peer, to leave by the fastest path.
    pub fn send_overlay(&mut self, message: &[u8]) {
        let Some(path) = self.fastest_path().and_then(|fastest| self.paths.get_mut(fastest)) else { return };
        path.pending.overlay = true;
        if self.control.overlay.outgoing.len() >= MAX_WAITING {
            self.control.overlay.outgoing.pop_front();
        }
        self.control.overlay.outgoing.push_back(message.into());
    }

    /// Writes as many waiting overlay messages as fit into a control datagram.
    ///
    /// A message that does not fit even alone is dropped.
    pub(super) fn write_overlay(&mut self, index: usize, writer: &mut FrameWriter<'_>) {
        let Some(path) = self.paths.get_mut(index).filter(|path| path.pending.overlay) else { return };
        while let Some(message) = self.control.overlay.outgoing.front() {
            if writer.write(&Frame::Overlay(message)).is_err() && !writer.is_empty() {
                break;
            }
            self.control.overlay.outgoing.pop_front();
        }
        path.pending.overlay = !self.control.overlay.outgoing.is_empty();
    }

    pub(super) fn on_overlay(&mut self, now: Instant, message: &[u8]) {
        self.control.overlay.heard_at = Some(now);
        // A correct sender never has more messages waiting, so further messages are dropped.
        if self.control.overlay.arrived.len() < MAX_WAITING {
            self.control.overlay.arrived.push_back(message.into());
        }
    }

    /// Removes and returns the oldest overlay message that arrived from the peer.
    pub fn take_overlay_message(&mut self) -> Option<Box<[u8]>> {
        self.control.overlay.arrived.pop_front()
    }

    pub fn has_overlay_messages(&self) -> bool {
        !self.control.overlay.arrived.is_empty()
    }

    /// Sends no more initiations to the peer until the overlay or the configuration gives it addresses again.
    pub fn stop_calling(&mut self) {
        self.config.endpoints.clear();
        self.addresses.detours.clear();
    }

    /// True if an overlay message arrived from the peer within the last `time`.
    pub fn overlay_heard_since(&self, now: Instant, time: Duration) -> bool {
        self.control.overlay.heard_at.is_some_and(|at| now - at < time)
    }
}
