//! Reports in datagrams with data. They save the headers of a datagram of their own.

use super::super::control_datagrams::write_report;
use super::super::{Context, Peer};
use crate::path::Path;
use core::ops::Range;
use weft_core::pool::BufId;
use weft_units::Instant;
use weft_wire::data_report;
use weft_wire::frame::{Frame, FrameWriter, Frames};

/// Maximum length of a report beside a unit, in bytes. A longer one leaves alone.
pub const ROOM: usize = 64;

impl Peer {
    /// True if the reports about a path may leave with data.
    ///
    /// The peer must know such datagrams, and the path must be the only usable one. Beside other paths, reports leave at
    /// once: over 40 random bundles no gain was measured, and another path may have to take over.
    pub(crate) fn reports_ride(&self, index: usize) -> bool {
        self.session.takes_reports_with_data
            && self.paths.iter().enumerate().all(|(at, path)| path.is_usable() == (at == index))
    }

    /// Writes the report about a path that is to leave with a unit by that path. The unit's datagram has `free` bytes.
    ///
    /// Returns no bytes if nothing waits for a report, if the whole report does not fit, or if reports do not ride.
    pub(crate) fn riding_report<'a>(
        &self,
        now: Instant,
        index: usize,
        free: usize,
        out: &'a mut [u8; ROOM],
    ) -> &'a [u8] {
        let may_ride = |path: &&Path| free > data_report::LENGTH_LEN && path.report_may_ride(now);
        let path = self.paths.get(index).filter(may_ride).filter(|_| self.reports_ride(index));
        let Some(path) = path else { return &[] };
        let mut writer = FrameWriter::new(&mut out[..(free - data_report::LENGTH_LEN).min(ROOM)]);
        let is_whole = write_report(now, path, &mut writer);
        let len = writer.len();
        if is_whole { &out[..len] } else { &[] }
    }

    /// Records that the report about a path left with a unit by that path.
    pub(crate) fn on_report_rode(&mut self, now: Instant, index: usize) {
        self.schedule_report(now, index);
        self.paths[index].pending.reports &= !(1 << index);
    }

    /// Handles the report before a unit. Returns the position of the unit, or `None` if the plaintext is malformed.
    pub(crate) fn on_report_with_data(
        &mut self,
        cx: &mut Context<'_>,
        buf: BufId,
        plaintext: Range<usize>,
    ) -> Option<usize> {
        let mut copy = [0; u8::MAX as usize];
        let (report, unit) = data_report::parse(cx.pool.bytes(buf).get(plaintext.clone())?).ok()?;
        let (frame, unit_at) = (copy.get_mut(..report.len())?, plaintext.end - unit.len());
        frame.copy_from_slice(report);
        let Some(Ok(Frame::Report(report))) = Frames::new(frame).next() else { return None };
        self.on_report(cx, &report);
        self.repeat_lost(cx);
        Some(unit_at)
    }
}
