//! Measures paths that carry no data, by trains of probe datagrams (chirps), whose delays the peer reports.

use super::{Context, Peer};
use crate::api::Transmit;
use crate::path::{Path, Resend, Sent};
use weft_units::Instant;
use weft_wire::frame::{Frame, FrameWriter};
use weft_wire::hop::{HOP_HEADER_LEN, TAG_LEN};
use weft_wire::train::{Chirp, Chirped};

/// Length of a CHIRP frame, in bytes: type, train, index, count and time.
const CHIRP_LEN: usize = 9;
/// TOS of chirps. It is the default TOS of data, because a train measures what the path can carry for data.
const BEST_EFFORT: u8 = 0;
/// Number of the sequence of random numbers for trains, distinct from the peer's other sequences.
const STREAM: u64 = 1 << 32;

impl Peer {
    /// Starts trains of chirps on answering paths without queued data, if the policy wants them, and ends trains.
    pub(super) fn sense(&mut self, now: Instant) {
        let wanted = self.config.policy.sense;
        for path in &mut self.paths {
            let may = wanted && !path.rests() && path.carries() && path.health.answers() && path.queues.is_empty();
            let (limit, stream) = (path.mtu.current(), STREAM + u64::from(path.id.0));
            path.sensing.on_time(now, may, limit, || self.ingress.rng.split(stream));
        }
    }

    /// Writes the next chirp of the path with this index to `out`, if one is due.
    ///
    /// The last chirp of a train asks for a report, so that the record of sent packets stays short.
    pub(super) fn poll_chirp(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let path = self.paths.get_mut(index).filter(|path| path.link_up)?;
        let (chirp, bytes) = path.sensing.depart(cx.now)?;
        let headers = path.outer_header_len() + HOP_HEADER_LEN + TAG_LEN;
        let len = (bytes as usize).saturating_sub(headers).max(CHIRP_LEN);
        let body = out.get_mut(HOP_HEADER_LEN..HOP_HEADER_LEN + len)?;
        body.fill(0);
        FrameWriter::new(body).write(&Frame::Chirp(chirp)).ok()?;
        let sent = Sent::Control(Resend::default());
        let transmit = self.send_control(cx, index, BEST_EFFORT, len, asks_for_report(&chirp), sent, out)?;
        self.paths.get_mut(index)?.sensing.on_left(cx.now, chirp.index, (len + headers) as u32);
        Some(transmit)
    }

    pub(super) fn on_chirp(&mut self, index: usize, at: Instant, chirp: &Chirp) {
        if let Some(path) = self.paths.get_mut(index) {
            path.pending.chirped |= path.heard.on_chirp(at, chirp);
        }
    }

    pub(super) fn on_chirped(&mut self, now: Instant, chirped: &Chirped<'_>) {
        if let Some(path) = self.path_index(chirped.path).and_then(|index| self.paths.get_mut(index)) {
            path.sensing.on_report(now, chirped.train, chirped.delays_us());
        }
    }
}

/// True if a chirp asks for a report. Only the last chirp of a train does.
pub(super) fn asks_for_report(chirp: &Chirp) -> bool {
    chirp.index + 1 == chirp.of
}

/// Writes the report about a train that arrived on a path, if one is complete. If it does not fit, it is dropped.
pub(super) fn write_chirped(path: &mut Path, writer: &mut FrameWriter<'_>) {
    path.pending.chirped = false;
    if let Some((train, delays_us)) = path.heard.take_finished() {
        let _ = writer.write_chirped(path.id, train, &delays_us);
    }
}
