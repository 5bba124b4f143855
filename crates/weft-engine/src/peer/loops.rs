//! The loops of VPNs between the two edges: markers go out with units or by themselves, reports come back, and weights become the
//! parameters of windows.

use super::control::CONTROL_TOS;
use super::{Context, Peer};
use crate::Transmit;
use crate::path::{Path, Said, Sent};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use weft_core::control_loop::aimd_window::AimdWindow;
use weft_core::control_loop::{ControlLoop, LEISURE, LoopEgress, Marker, Report};
use weft_core::fair::controller::Controller;
use weft_core::flow::hash::SeededState;
use weft_units::{Instant, VpnId};
use weft_wire::frame::{Frame, FrameWriter, LOOP_MARKER_LEN};
use weft_wire::hop::{HOP_HEADER_LEN, TAG_LEN};
use weft_wire::inner::{INNER_LEN, InnerHeader, UnitKind};
use weft_wire::loop_data::OfRun;

/// Bytes of a slice's header where its head is not known: IPv4 and TCP with timestamps.
const USUAL_HEADER: usize = 52;
/// Markers that wait for their turn on a path; a loop that hears nothing asks again.
const MAX_MARKERS: usize = 256;

/// A marker that goes by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoneMarker {
    pub(crate) vpn: VpnId,
    pub(crate) marker: OfRun<Marker>,
    /// That of the unit it follows.
    pub(crate) tos: u8,
    /// Since when it waits.
    pub(crate) since: Instant,
}

/// When what is said of a loop leaves: at once, or in company, since a marker and its report would else be two more datagrams, each sealed,
/// opened and accounted for like a packet.
fn due(at: Instant, is_pressing: bool) -> Instant {
    if is_pressing { at } else { at + LEISURE }
}

/// A loop that ends here.
struct Arriving {
    run: u8,
    egress: LoopEgress,
    /// The answer to its newest marker, and when that came.
    answer: Option<(Report, Instant)>,
}

/// What a peer keeps of loops, beside those that begin here ([`super::way_in`]).
pub(super) struct Loops {
    /// Counts how often the loops that begin here began anew.
    run: u8,
    arriving: HashMap<VpnId, Arriving, SeededState>,
    /// VPNs whose answer waits,
    answers: VecDeque<VpnId>,
    /// and until when; in the far future if there is none.
    answer_by: Instant,
    controller: Option<Controller>,
    /// Room for a turn of the controller's; empty between two.
    windows: Vec<(f64, &'static mut AimdWindow)>,
}

impl Loops {
    pub(super) fn new(seed: u64) -> Loops {
        Loops {
            run: 0,
            arriving: HashMap::with_hasher(SeededState::new(seed)),
            answers: VecDeque::new(),
            answer_by: Instant::FAR_FUTURE,
            controller: None,
            windows: Vec::new(),
        }
    }

    /// The loops that begin here begin anew.
    pub(super) fn next_run(&mut self) {
        self.run = self.run.wrapping_add(1);
    }

    /// Who steers the windows, if there are any.
    pub(super) fn set_controller(&mut self, controller: Option<Controller>) {
        self.controller = controller;
    }

    /// Forgets the loops that end here and are not of VPNs that `stay`.
    pub(super) fn retain(&mut self, stay: impl Fn(VpnId) -> bool) {
        self.arriving.retain(|vpn, _| stay(*vpn));
    }

    /// The loop of a VPN, if it ends here.
    #[inline]
    fn egress_mut(&mut self, vpn: VpnId) -> Option<&mut LoopEgress> {
        if vpn == VpnId::DEFAULT || self.arriving.is_empty() {
            return None;
        }
        self.arriving.get_mut(&vpn).map(|arriving| &mut arriving.egress)
    }

    /// A marker came at `at`. The first of a run says where its counts stand: nothing is known of what came before.
    fn on_marker(&mut self, at: Instant, vpn: VpnId, OfRun { run, what: marker }: OfRun<Marker>) {
        let begun = || Arriving { run, egress: LoopEgress::counted(marker.packets, marker.bytes), answer: None };
        let arriving = self.arriving.entry(vpn).or_insert_with(begun);
        let waits = arriving.answer.is_some();
        if arriving.run != run {
            *arriving = begun();
        }
        let Some(report) = arriving.egress.on_marker(at, marker) else { return };
        arriving.answer = Some((report, at));
        if !waits {
            self.answers.push_back(vpn);
        }
        self.answer_by = self.answer_by.min(due(at, marker.is_pressing));
    }

    /// Writes reports while there are any, and room.
    fn write_reports(&mut self, now: Instant, writer: &mut FrameWriter<'_>) {
        while let Some(vpn) = self.answers.front().copied() {
            // It may have gone since, or begun anew.
            if let Some(arriving) = self.arriving.get_mut(&vpn)
                && let Some((report, at)) = arriving.answer
            {
                let what = Report { held_us: (now - at).as_micros() as u32, ..report };
                if writer.write(&Frame::LoopReport { vpn, report: OfRun { run: arriving.run, what } }).is_err() {
                    return;
                }
                arriving.answer = None;
            }
            self.answers.pop_front();
        }
        self.answer_by = Instant::FAR_FUTURE;
    }

    /// Forgets what waits to be said.
    fn forget_answers(&mut self) {
        self.answers.clear();
        self.answer_by = Instant::FAR_FUTURE;
    }

    /// When windows are next to be steered.
    fn deadline(&self) -> Option<Instant> {
        self.controller.as_ref()?.deadline()
    }

    /// a and b of a window of this weight, where there are windows.
    pub(super) fn parameters(&self, weight: f64, nominal_weight: f64) -> Option<(f64, f64)> {
        Some(self.controller.as_ref()?.initial(weight, nominal_weight))
    }
}

impl Peer {
    /// All loops with the peer begin anew: it did.
    pub(super) fn restart_loops(&mut self) {
        self.way_in.restart_loops();
        self.loops.next_run();
        self.loops.arriving.clear();
        self.forget_loop_frames();
    }

    /// Forgets what is to be said of loops.
    pub(super) fn forget_loop_frames(&mut self) {
        self.loops.forget_answers();
        self.paths.iter_mut().for_each(Path::forget_markers);
    }

    /// A marker of the loop of a VPN that ends here came `at`: with a unit, which is counted already, or by itself.
    pub(super) fn on_marker(&mut self, cx: &mut Context<'_>, at: Instant, vpn: VpnId, marker: OfRun<Marker>) {
        if cx.vpns.has_member(vpn, self.id) && vpn != VpnId::DEFAULT {
            self.loops.on_marker(at.min(cx.now), vpn, marker);
        }
    }

    /// A report on the loop of a VPN that begins here.
    pub(super) fn on_loop_report(&mut self, cx: &mut Context<'_>, vpn: VpnId, report: &OfRun<Report>) {
        if cx.vpns.has_member(vpn, self.id) && report.run == self.loops.run {
            self.way_in.on_report(cx.now, vpn, &report.what);
        }
    }

    /// Counts a unit that came for the first time: what was repeated below is no loss.
    pub(super) fn count_in_loop(&mut self, vpn: VpnId, inner: &InnerHeader, len: usize, ce: bool) {
        let Some(egress) = self.loops.egress_mut(vpn) else { return };
        let header = match inner.kind {
            UnitKind::TailSlice => self.output.header_len(vpn, inner.flow).unwrap_or(USUAL_HEADER),
            _ => 0,
        };
        egress.on_packet((len + header) as u32, ce);
    }

    /// Lets loops ask that heard nothing for too long, and steers windows.
    pub(super) fn drive_loops(&mut self, now: Instant) {
        while let Some((vpn, marker)) = self.way_in.next_marker(now) {
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
        for (_, share, law) in self.way_in.loops_mut() {
            if let ControlLoop::AimdWindow(window) = law {
                windows.push((share.weight(), window));
            }
        }
        controller.turn(now, &mut windows);
        // Nothing of it, so that its room can be had again under another lifetime.
        self.loops.windows = windows.into_iter().map_while(|_| None).collect();
    }

    /// A marker follows the units of a path by itself.
    pub(super) fn send_alone(&mut self, index: usize, marker: LoneMarker) {
        if let Some(path) = self.paths.get_mut(index)
            && path.markers.len() < MAX_MARKERS
        {
            path.markers_due = path.markers_due.min(due(marker.since, marker.marker.what.is_pressing));
            path.markers.push_back(marker);
        }
    }

    /// A marker that a loop has just made.
    pub(super) fn of_this_run(&self, marker: Marker) -> OfRun<Marker> {
        OfRun { run: self.loops.run, what: marker }
    }

    /// A marker as it leaves by a path in a datagram of `ip_bytes`. What it waited here is no queue of the network's; nor is what the path
    /// takes longer than the shortest, nor what it takes longer for a long datagram than for a short one.
    pub(super) fn explain(&self, now: Instant, index: usize, ip_bytes: usize, marker: OfRun<Marker>) -> OfRun<Marker> {
        let OfRun { run, what } = marker;
        let waited_us = (now.as_micros() as u32).wrapping_sub(what.sent_at_us);
        let rate = self.paths.get(index).map(|path| path.rate.capacity().unwrap_or(path.rate.pacing_rate(now)));
        let own_us = rate.map_or(0, |rate| rate.time_for(ip_bytes as u64).as_micros() as u32);
        let explained_us = self.detour_us(index).wrapping_add(waited_us).wrapping_add(own_us);
        OfRun { run, what: Marker { explained_us, ..what } }
    }

    /// How many microseconds longer a path takes than the shortest, without queues.
    fn detour_us(&self, index: usize) -> u32 {
        let baseline = |path: &Path| path.delay().baseline_us();
        let Some(own) = self.paths.get(index).and_then(baseline) else { return 0 };
        let differences = self.usable_paths().filter_map(baseline).map(|other| other.wrapping_sub(own) as i32);
        differences.min().unwrap_or(0).min(0).unsigned_abs()
    }

    /// Markers or reports by themselves, if it is time for those that wait for this path. Reports leave by the fastest.
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
        self.send_control(cx, index, tos, len, has_markers, Sent::Control(Said::default()), out)
    }

    /// Writes the markers that wait for a path and go by the same TOS, which it gives: the network must not let them overtake the units
    /// they follow.
    fn write_markers(&mut self, now: Instant, index: usize, writer: &mut FrameWriter<'_>) -> Option<u8> {
        let path = self.paths.get(index)?;
        let tos = path.markers.front()?.tos;
        let count =
            path.markers.iter().take_while(|marker| marker.tos == tos).count().min(writer.room() / LOOP_MARKER_LEN);
        let ip_bytes = path.outer_header_len() + HOP_HEADER_LEN + count * LOOP_MARKER_LEN + TAG_LEN;
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

    /// Reports of loops take what room a control datagram has left on the path by which they leave.
    pub(super) fn write_loop_reports(&mut self, now: Instant, index: usize, writer: &mut FrameWriter<'_>) {
        if !self.loops.answers.is_empty() && self.fastest_path() == Some(index) {
            self.loops.write_reports(now, writer);
        }
    }

    /// When loops have something to do.
    pub(super) fn loops_deadline(&self) -> Option<Instant> {
        if !self.way_in.has_vpns() {
            return None;
        }
        let answers = self.loops.answer_by;
        let fastest = self.fastest_path().and_then(|index| self.paths.get(index));
        let may_answer = answers != Instant::FAR_FUTURE && fastest.is_some_and(Path::has_credit);
        let answers = may_answer.then_some(answers);
        let marked = self.usable_paths().filter(|path| path.has_credit()).map(|path| path.markers_due);
        let markers = marked.filter(|due| *due != Instant::FAR_FUTURE).min();
        let steers = self.way_in.has_windows().then(|| self.loops.deadline()).flatten();
        [answers, markers, steers, self.way_in.deadline()].into_iter().flatten().min()
    }
}

/// Where the unit begins that a marker precedes, and the marker; `None` for what makes no sense.
pub(super) fn split(plaintext: &[u8]) -> Option<(OfRun<Marker>, usize)> {
    let (marker, unit) = OfRun::<Marker>::parse(plaintext).ok()?;
    (unit.len() >= INNER_LEN).then_some((marker, plaintext.len() - unit.len()))
}
