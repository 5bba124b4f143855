//! The loops of VPNs between the two edges: markers go out with units or by themselves, reports come back, and weights become the
//! parameters of windows.

use super::{Context, Peer};
use crate::Transmit;
use crate::path::{Path, Said, Sent};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use weft_core::control_loop::aimd_window::AimdWindow;
use weft_core::control_loop::{ControlLoop, LoopEgress, Marker, Report};
use weft_core::fair::controller::Controller;
use weft_core::flow::hash::SeededState;
use weft_core::sched::Scheduler;
use weft_units::{Instant, VpnId};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::inner::{INNER_LEN, InnerHeader, UnitKind};
use weft_wire::loop_data::{LoopHeader, MARKER_LEN, OfRun};

/// Bytes of a slice's header where its head is not known: IPv4 and TCP with timestamps.
const USUAL_HEADER: usize = 52;
/// Reports are as urgent as those on paths (RFC 4594 §3.1).
const REPORT_TOS: u8 = 0xc0;
/// A datagram with a marker alone.
const LONE_MARKER_BYTES: usize = HOP_HEADER_LEN + MARKER_LEN + TAG_LEN;
/// Markers that wait for their turn on a path; a loop that hears nothing asks again.
const MAX_MARKERS: usize = 256;

/// A marker that goes by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoneMarker {
    pub(crate) vpn: VpnId,
    pub(crate) marker: OfRun<Marker>,
    /// That of the unit it follows.
    pub(crate) tos: u8,
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
    /// VPNs whose answer waits.
    answers: VecDeque<VpnId>,
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

    /// Whether a loop of a VPN ends here.
    #[inline]
    fn has(&self, vpn: VpnId) -> bool {
        vpn != VpnId::DEFAULT && !self.arriving.is_empty() && self.arriving.contains_key(&vpn)
    }

    fn count(&mut self, vpn: VpnId, bytes: u32, ce: bool) {
        if let Some(arriving) = self.arriving.get_mut(&vpn) {
            arriving.egress.on_packet(bytes, ce);
        }
    }

    /// A marker came at `at`. The first of a run says where its counts stand: nothing is known of what came before.
    fn on_marker(&mut self, at: Instant, vpn: VpnId, OfRun { run, what: marker }: OfRun<Marker>) {
        let begun = || Arriving { run, egress: LoopEgress::counted(marker.packets, marker.bytes), answer: None };
        let arriving = self.arriving.entry(vpn).or_insert_with(begun);
        if arriving.run != run {
            *arriving = begun();
        }
        let Some(report) = arriving.egress.on_marker(at, marker) else { return };
        if arriving.answer.replace((report, at)).is_none() {
            self.answers.push_back(vpn);
        }
    }

    /// The next report, and the run it is of.
    fn next_report(&mut self, now: Instant) -> Option<(VpnId, LoopHeader)> {
        loop {
            let vpn = self.answers.pop_front()?;
            // It may have gone since, or begun anew.
            let Some(arriving) = self.arriving.get_mut(&vpn) else { continue };
            let Some((report, at)) = arriving.answer.take() else { continue };
            let held_us = (now - at).as_micros() as u32;
            return Some((vpn, LoopHeader::of_report(arriving.run, Report { held_us, ..report })));
        }
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
        self.loops.answers.clear();
        self.paths.iter_mut().for_each(|path| path.markers.clear());
    }

    /// What precedes a unit of a VPN, if there is a unit; what the peer asks and answers is taken in behind it.
    pub(super) fn on_loop_header(&mut self, cx: &mut Context<'_>, at: Instant, vpn: VpnId, header: &LoopHeader) {
        if !cx.vpns.has_member(vpn, self.id) || vpn == VpnId::DEFAULT {
            return;
        }
        if let Some(marker) = header.marker {
            self.loops.on_marker(at.min(cx.now), vpn, marker);
        }
        if let Some(OfRun { run, what: report }) = header.report
            && run == self.loops.run
        {
            self.way_in.on_report(cx.now, vpn, &report);
        }
    }

    /// Counts a unit that came for the first time: what was repeated below is no loss.
    pub(super) fn count_in_loop(&mut self, vpn: VpnId, inner: &InnerHeader, len: usize, ce: bool) {
        if !self.loops.has(vpn) {
            return;
        }
        let header = match inner.kind {
            UnitKind::TailSlice => self.heads.header_len(vpn, inner.flow).unwrap_or(USUAL_HEADER),
            _ => 0,
        };
        self.loops.count(vpn, (len + header) as u32, ce);
    }

    /// Lets loops ask that heard nothing for too long, and steers windows.
    pub(super) fn drive_loops(&mut self, now: Instant) {
        while let Some((vpn, marker)) = self.way_in.next_marker(now) {
            if let Some(index) = self.fastest_path() {
                self.send_alone(index, LoneMarker { vpn, marker: self.of_this_run(marker), tos: 0 });
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
            path.markers.push_back(marker);
        }
    }

    /// A marker that a loop has just made.
    pub(super) fn of_this_run(&self, marker: Marker) -> OfRun<Marker> {
        OfRun { run: self.loops.run, what: marker }
    }

    /// A marker as it leaves by a path in a datagram of `ip_bytes`. What the path takes longer than the shortest is no queue of the
    /// network's; nor is what the scheduler lets a unit wait for one that is shorter than the slowest in use; nor what the path takes
    /// longer for a long datagram than for a short one.
    pub(super) fn explain(&self, now: Instant, index: usize, ip_bytes: usize, marker: OfRun<Marker>) -> OfRun<Marker> {
        let OfRun { run, what } = marker;
        let waited_us = (now.as_micros() as u32).wrapping_sub(what.sent_at_us);
        let (detour_us, waits_for_slower) = self.place_among_paths(index);
        let waited_us = if waits_for_slower { waited_us } else { 0 };
        let rate = self.paths.get(index).map(|path| path.rate.capacity().unwrap_or(path.rate.pacing_rate(now)));
        let own_us = rate.map_or(0, |rate| rate.time_for(ip_bytes as u64).as_micros() as u32);
        let explained_us = detour_us.wrapping_add(waited_us).wrapping_add(own_us);
        OfRun { run, what: Marker { explained_us, ..what } }
    }

    /// How many microseconds longer a path takes than the shortest, without queues, and whether the scheduler lets units wait for it
    /// because one that carries bulk beside it takes longer still.
    fn place_among_paths(&self, index: usize) -> (u32, bool) {
        let baseline = |path: &Path| path.delay().baseline_us();
        let Some(own) = self.paths.get(index).and_then(baseline) else { return (0, false) };
        let (mut least, mut most) = (0, 0);
        for (at, path) in self.paths.iter().enumerate().filter(|(_, path)| path.is_usable()) {
            let difference = baseline(path).map_or(0, |other| other.wrapping_sub(own) as i32);
            least = least.min(difference);
            if matches!(&self.scheduler, Scheduler::EarliestDelivery(scheduler) if scheduler.carries_bulk(at)) {
                most = most.max(difference);
            }
        }
        (least.unsigned_abs(), most > 0)
    }

    /// A marker or a report by itself, if one waits for this path. Reports leave by the fastest.
    pub(super) fn poll_loop(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        loop {
            let path = self.paths.get_mut(index).filter(|path| path.is_usable())?;
            let (vpn, header, tos) = match path.markers.pop_front() {
                Some(LoneMarker { vpn, marker, tos }) => {
                    let ip_bytes = LONE_MARKER_BYTES + path.outer_header_len();
                    let marker = self.explain(cx.now, index, ip_bytes, marker);
                    (vpn, LoopHeader { marker: Some(marker), report: None }, tos)
                }
                None if self.loops.answers.is_empty() || self.fastest_path() != Some(index) => return None,
                None => {
                    let (vpn, header) = self.loops.next_report(cx.now)?;
                    (vpn, header, REPORT_TOS)
                }
            };
            let total = HOP_HEADER_LEN + header.len() + TAG_LEN;
            let datagram = out.get_mut(..total)?;
            header.emit(datagram.get_mut(HOP_HEADER_LEN..)?).ok()?;
            let path = self.paths.get_mut(index)?;
            let Ok(number) = cx.sessions.seal_in(self.id, vpn, path.id, PacketType::LoopData, datagram) else {
                // The VPN was closed meanwhile.
                continue;
            };
            path.on_sent(
                cx.now,
                number,
                (total + path.outer_header_len()) as u32,
                header.marker.is_some(),
                Sent::Control(Said::default()),
            );
            return Some(Transmit {
                link: path.link,
                destination: path.remote,
                source: path.local,
                tos,
                len: total,
                segment_size: None,
            });
        }
    }

    /// When loops have something to do.
    pub(super) fn loops_deadline(&self, now: Instant) -> Option<Instant> {
        let waits = !self.loops.answers.is_empty() && self.fastest_path().is_some();
        let waits = waits || self.usable_paths().any(|path| !path.markers.is_empty());
        let steers = self.way_in.has_windows().then(|| self.loops.deadline()).flatten();
        [waits.then_some(now), steers, self.way_in.deadline()].into_iter().flatten().min()
    }
}

/// Where a loop datagram's unit begins, and its header; `None` for one that makes no sense.
pub(super) fn split(plaintext: &[u8]) -> Option<(LoopHeader, usize)> {
    let (header, unit) = LoopHeader::parse(plaintext).ok()?;
    let makes_sense = unit.is_empty() || (unit.len() >= INNER_LEN && header.marker.is_some());
    makes_sense.then_some((header, plaintext.len() - unit.len()))
}
