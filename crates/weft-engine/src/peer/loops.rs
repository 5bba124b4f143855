//! Loops of VPNs between this node and the peer, as the two edges.
//!
//! Markers of this node's loops leave with units or in control frames. Each marker from the peer is answered with a
//! report. The parameters of window-based loops are computed from the VPNs' weights. The sending ends of the loops that
//! begin at this node are in the ingress queue ([`super::outbound::ingress_queue`]).

use super::control_datagrams::CONTROL_TOS;
use super::outbound::loops::due;
use super::{Context, Peer};
use crate::api::Transmit;
use crate::path::LoneMarker;
use crate::path::{Path, Resend, Sent};
use alloc::vec::Vec;
use weft_core::control_loop::aimd_window::AimdWindow;
use weft_core::control_loop::{ControlLoop, LoopReport, Marker};
use weft_units::{Instant, VpnId};
use weft_wire::frame::{Frame, FrameWriter, loop_marker_len};
use weft_wire::hop::{HOP_HEADER_LEN, TAG_LEN};
use weft_wire::inner::{INNER_LEN, InnerHeader, UnitKind};
use weft_wire::loop_data::OfRun;

/// Length that is assumed for the header of a slice whose head is unknown, in bytes: IPv4 and TCP with timestamps.
const USUAL_HEADER: usize = 52;
/// Maximum number of loop markers that wait on a path. Further ones are dropped.
///
/// A lost marker only causes a delay, because a loop without reports sends another marker.
const MAX_MARKERS: usize = 256;

impl Peer {
    /// Restarts all loops between this node and the peer, because the peer restarted.
    pub(super) fn restart_loops(&mut self) {
        self.ingress.queue.restart_loops();
        self.loops.next_run();
        self.loops.arriving.clear();
        self.forget_loop_frames();
    }

    /// Discards all loop markers and loop reports that wait to be sent.
    pub(super) fn forget_loop_frames(&mut self) {
        self.loops.forget_answers();
        self.paths.iter_mut().for_each(Path::forget_markers);
    }

    /// Handles a marker that arrived at `at`, of a loop that ends at this node.
    ///
    /// If a unit arrived with the marker, the caller must have counted the unit.
    pub(super) fn on_marker(&mut self, cx: &mut Context<'_>, at: Instant, vpn: VpnId, marker: OfRun<Marker>) {
        if cx.vpns.has_member(vpn, self.id) && vpn != VpnId::DEFAULT {
            self.loops.on_marker(at.min(cx.now), vpn, marker);
        }
    }

    /// Handles the peer's report about a loop that begins at this node.
    pub(super) fn on_loop_report(&mut self, cx: &mut Context<'_>, vpn: VpnId, report: &OfRun<LoopReport>) {
        if cx.vpns.has_member(vpn, self.id) && report.run == self.loops.run {
            self.ingress.queue.on_report(cx.now, vpn, &report.what);
        }
    }

    /// Counts a unit that arrives for the first time in the loop of its VPN.
    ///
    /// A retransmitted unit is counted like any other.
    pub(super) fn count_in_loop(&mut self, now: Instant, vpn: VpnId, inner: &InnerHeader, len: usize, ce: bool) {
        let Some(egress) = self.loops.egress_mut(vpn) else { return };
        egress.on_time(now);
        let header = match inner.kind {
            UnitKind::TailSlice => self.output.header_len(vpn, inner.flow).unwrap_or(USUAL_HEADER),
            _ => 0,
        };
        egress.on_packet((len + header) as u32, ce);
    }

    /// Queues markers for loops that got no report recently, and runs the controller of the windows if it is due.
    pub(super) fn drive_loops(&mut self, now: Instant) {
        while let Some((vpn, marker)) = self.ingress.queue.next_marker(now) {
            if let Some(index) = self.fastest_path() {
                self.send_alone(index, LoneMarker { vpn, marker: self.of_this_run(marker), tos: 0, since: now });
            }
        }
        if self.loops.deadline().is_some_and(|due| due <= now) {
            self.steer(now);
        }
    }

    fn steer(&mut self, now: Instant) {
        let Some(controller) = &mut self.loops.controller else { return };
        let mut windows: Vec<(f64, &mut AimdWindow)> = core::mem::take(&mut self.loops.windows);
        for (_, share, law) in self.ingress.queue.loops_mut() {
            if let ControlLoop::AimdWindow(window) = law {
                windows.push((share.weight(), window));
            }
        }
        controller.turn(now, &mut windows);
        // The new vector is empty and only keeps the memory. The conversion is needed because the lifetime of its items
        // differs.
        self.loops.windows = windows.into_iter().map_while(|_| None).collect();
    }

    /// Queues a marker on a path, to leave without a unit after the units that are already queued there.
    pub(super) fn send_alone(&mut self, index: usize, marker: LoneMarker) {
        if let Some(path) = self.paths.get_mut(index)
            && path.markers.len() < MAX_MARKERS
        {
            path.markers_due = path.markers_due.min(due(marker.since, marker.marker.what.is_pressing));
            path.markers.push_back(marker);
        }
    }

    /// Adds the number of the loops' current run to a new marker. Each restart of the loops begins a run.
    pub(super) fn of_this_run(&self, marker: Marker) -> OfRun<Marker> {
        OfRun { run: self.loops.run, what: marker }
    }

    /// Adds to a marker that leaves now the delays that no queue in the network caused.
    ///
    /// The delays are the wait at this node, the path's extra delay over the shortest path, and the datagram's own
    /// transmission time. The marker leaves by the path `index` in a datagram of `ip_bytes` bytes.
    pub(super) fn explain(&self, now: Instant, index: usize, ip_bytes: usize, marker: OfRun<Marker>) -> OfRun<Marker> {
        let OfRun { run, what } = marker;
        let waited_us = (now.as_micros() as u32).wrapping_sub(what.sent_at_us);
        let rate = self.paths.get(index).map(|path| path.rate.capacity().unwrap_or(path.rate.pacing_rate(now)));
        let own_us = rate.map_or(0, |rate| rate.time_for(ip_bytes as u64).as_micros() as u32);
        let explained_us = self.detour_us(index).wrapping_add(waited_us).wrapping_add(own_us);
        OfRun { run, what: Marker { explained_us, ..what } }
    }

    /// Returns a path's base delay above that of the shortest path, in microseconds.
    fn detour_us(&self, index: usize) -> u32 {
        let baseline = |path: &Path| path.delay().baseline_us();
        let Some(own) = self.paths.get(index).and_then(baseline) else { return 0 };
        let differences = self.usable_paths().filter_map(baseline).map(|other| other.wrapping_sub(own) as i32);
        differences.min().unwrap_or(0).min(0).unsigned_abs()
    }

    /// Writes a control datagram with the loop markers due on this path, or else with due loop reports.
    ///
    /// Reports leave only by the fastest path.
    pub(super) fn poll_loop(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let path = self.paths.get(index).filter(|path| path.is_usable())?;
        let has_markers = path.markers_due <= cx.now;
        if !has_markers && (self.loops.answer_by > cx.now || self.fastest_path() != Some(index)) {
            return None;
        }
        let mut writer = self.control_writer(index, out)?;
        let tos = if has_markers {
            self.write_markers(cx.now, index, &mut writer)?
        } else {
            self.loops.write_reports(cx.now, &mut writer);
            CONTROL_TOS
        };
        let len = writer.len();
        if len == 0 {
            return None;
        }
        self.send_control(cx, index, tos, len, has_markers, Sent::Control(Resend::default()), out)
    }

    /// Writes the markers at the head of a path's list that share one TOS, and returns that TOS.
    ///
    /// Markers leave with the TOS of their units, so that routers do not let them overtake the units.
    fn write_markers(&mut self, now: Instant, index: usize, writer: &mut FrameWriter<'_>) -> Option<u8> {
        let path = self.paths.get(index)?;
        let tos = path.markers.front()?.tos;
        let (room, mut written) = (writer.room(), 0);
        let fits = |marker: &&LoneMarker| {
            let len = loop_marker_len(&marker.marker.what);
            let fits = marker.tos == tos && written + len <= room;
            written += if fits { len } else { 0 };
            fits
        };
        let count = path.markers.iter().take(writer.frames_left()).take_while(fits).count();
        let ip_bytes = path.outer_header_len() + HOP_HEADER_LEN + written + TAG_LEN;
        for _ in 0..count {
            let LoneMarker { vpn, mut marker, since, .. } = self.paths.get_mut(index)?.markers.pop_front()?;
            marker.what.sent_at_us = marker.what.sent_at_us.wrapping_add((now - since).as_micros() as u32);
            let marker = self.explain(now, index, ip_bytes, marker);
            writer.write(&Frame::LoopMarker { vpn, marker }).ok()?;
        }
        let path = self.paths.get_mut(index)?;
        path.markers_due = if path.markers.is_empty() { Instant::FAR_FUTURE } else { now };
        Some(tos)
    }

    /// Fills the remaining space of a control datagram on the fastest path with loop reports.
    pub(super) fn write_loop_reports(&mut self, now: Instant, index: usize, writer: &mut FrameWriter<'_>) {
        if !self.loops.answers.is_empty() && self.fastest_path() == Some(index) {
            self.loops.write_reports(now, writer);
        }
    }

    /// Returns the time at which markers, reports or the controller of the loops are due next.
    pub(super) fn loops_deadline(&self) -> Option<Instant> {
        if !self.ingress.queue.has_vpns() {
            return None;
        }
        let answers = self.loops.answer_by;
        let fastest = self.fastest_path().and_then(|index| self.paths.get(index));
        let may_answer = answers != Instant::FAR_FUTURE && fastest.is_some_and(Path::has_credit);
        let answers = may_answer.then_some(answers);
        let marked = self.usable_paths().filter(|path| path.has_credit()).map(|path| path.markers_due);
        let markers = marked.filter(|due| *due != Instant::FAR_FUTURE).min();
        let steers = self.ingress.queue.has_windows().then(|| self.loops.deadline()).flatten();
        [answers, markers, steers, self.ingress.queue.deadline()].into_iter().flatten().min()
    }
}

/// Parses the loop marker before a unit. Returns the marker, and the unit's offset in `plaintext`.
///
/// Returns `None` if the bytes are malformed.
pub(super) fn split(plaintext: &[u8]) -> Option<(OfRun<Marker>, usize)> {
    let (marker, unit) = OfRun::<Marker>::parse(plaintext).ok()?;
    (unit.len() >= INNER_LEN).then_some((marker, plaintext.len() - unit.len()))
}
