//! The loops of VPNs between the two edges: markers go out with units or by themselves, reports come back, and weights become the
//! parameters of windows.

use super::{Context, Peer};
use crate::Transmit;
use crate::path::{Said, Sent};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use weft_core::control_loop::{ControlLoop, LoopEgress, Marker, Report};
use weft_core::fair::controller::Controller;
use weft_core::flow::hash::SeededState;
use weft_units::{Instant, VpnId};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::inner::{INNER_LEN, InnerHeader, UnitKind};
use weft_wire::loop_data::{LoopHeader, OfRun};

/// Bytes of a slice's header where its head is not known: IPv4 and TCP with timestamps.
const USUAL_HEADER: usize = 52;
/// Reports are as urgent as those on paths (RFC 4594 §3.1).
const REPORT_TOS: u8 = 0xc0;
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
}

impl Loops {
    pub(super) fn new(seed: u64) -> Loops {
        Loops {
            run: 0,
            arriving: HashMap::with_hasher(SeededState::new(seed)),
            answers: VecDeque::new(),
            controller: None,
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

    /// a and b of a window that is to have another share from now on.
    fn parameters(&self, weight: f64, nominal_weight: f64) -> Option<(f64, f64)> {
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
        let mut windows = Vec::new();
        for (_, share, law) in self.way_in.loops_mut() {
            if let ControlLoop::AimdWindow(window) = law {
                windows.push((share.weight(), window));
            }
        }
        controller.turn(now, &mut windows);
    }

    /// Sets the parameters of a VPN's window as its weight asks for.
    pub(super) fn set_window(&mut self, vpn: VpnId, weight: f64, nominal_weight: f64) {
        let Some((a, b)) = self.loops.parameters(weight, nominal_weight) else { return };
        for (of, _, law) in self.way_in.loops_mut() {
            if let ControlLoop::AimdWindow(window) = law
                && of == vpn
            {
                window.set_parameters(a, b);
            }
        }
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

    /// A marker or a report by itself, if one waits for this path. Reports leave by the fastest.
    pub(super) fn poll_loop(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        loop {
            let path = self.paths.get_mut(index).filter(|path| path.is_usable())?;
            let (vpn, header, tos) = match path.markers.pop_front() {
                Some(LoneMarker { vpn, marker, tos }) => (vpn, LoopHeader { marker: Some(marker), report: None }, tos),
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
