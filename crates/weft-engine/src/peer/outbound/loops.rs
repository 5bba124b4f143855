//! Both ends of the loops of one peer, except the sending ends, which are in the ingress queue.
//!
//! Markers from the peer are counted here, and reports answer them.

use super::grants::Grants;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use weft_core::control_loop::aimd_window::AimdWindow;
use weft_core::control_loop::{LEISURE, LoopEgress, LoopReport, Marker};
use weft_core::fair::controller::WindowController;
use weft_core::flow::hash::SeededState;
use weft_units::{Instant, VpnId};
use weft_wire::frame::{Frame, FrameWriter};
use weft_wire::loop_data::OfRun;

/// Returns the latest time at which a loop marker or report leaves that was ready at `at`.
///
/// A pressing marker or report leaves at once. Any other waits up to [`LEISURE`] for other frames, because a marker
/// and its report that are sent alone cost two more datagrams.
pub fn due(at: Instant, is_pressing: bool) -> Instant {
    if is_pressing { at } else { at + LEISURE }
}

/// The receiving end of a loop whose egress edge is this node.
pub struct Arriving {
    pub run: u8,
    pub egress: LoopEgress,
    /// Report that answers the newest marker, and the arrival time of that marker. `None` once it was sent.
    pub answer: Option<(LoopReport, Instant)>,
}

/// State of the loops of one peer, except the sending ends in [`super::ingress_queue`].
pub struct Loops {
    /// Number of the current run of the loops that begin at this node. It rises with each restart.
    pub run: u8,
    pub arriving: HashMap<VpnId, Arriving, SeededState>,
    /// VPNs whose loop report waits to be sent.
    pub answers: VecDeque<VpnId>,
    /// Latest time at which the first report of `answers` leaves. It is in the far future if there is none.
    pub answer_by: Instant,
    pub controller: Option<WindowController>,
    /// Memory for the list of windows that the controller gets each time it runs. It is empty in between.
    pub windows: Vec<(f64, &'static mut AimdWindow)>,
    /// Computes the rates granted to the loops. Present while any loop follows granted rates.
    pub grants: Option<Box<Grants>>,
}

impl Loops {
    pub fn new(seed: u64) -> Loops {
        Loops {
            run: 0,
            arriving: HashMap::with_hasher(SeededState::new(seed)),
            answers: VecDeque::new(),
            answer_by: Instant::FAR_FUTURE,
            controller: None,
            windows: Vec::new(),
            grants: None,
        }
    }

    /// Raises the run number that the markers of this node's loops carry, because the loops were restarted.
    ///
    /// When the number changes, the egress edges begin to count anew.
    pub fn next_run(&mut self) {
        self.run = self.run.wrapping_add(1);
    }

    /// Sets the controller that adjusts the loops' windows; `None` if no loop is window-based.
    pub fn set_controller(&mut self, controller: Option<WindowController>) {
        self.controller = controller;
    }

    /// Deletes the receiving ends of loops, except those of VPNs for which `stay` returns true.
    pub fn retain(&mut self, stay: impl Fn(VpnId) -> bool) {
        self.arriving.retain(|vpn, _| stay(*vpn));
    }

    /// Returns the receiving end of a VPN's loop, if the loop ends at this node.
    #[inline]
    pub fn egress_mut(&mut self, vpn: VpnId) -> Option<&mut LoopEgress> {
        if vpn == VpnId::DEFAULT || self.arriving.is_empty() {
            return None;
        }
        self.arriving.get_mut(&vpn).map(|arriving| &mut arriving.egress)
    }

    /// Handles a marker from the peer that arrived at `at`. `run` rises when the peer restarts its loops.
    ///
    /// The first marker of a run sets the counts of arrived packets and bytes to those that it states as sent,
    /// because the receiver did not count the units before it.
    pub fn on_marker(&mut self, at: Instant, vpn: VpnId, OfRun { run, what: marker }: OfRun<Marker>) {
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

    /// Writes the loop reports that wait into a control datagram, as far as they fit.
    pub fn write_reports(&mut self, now: Instant, writer: &mut FrameWriter<'_>) {
        while let Some(vpn) = self.answers.front().copied() {
            // The loop may have been removed or restarted since its report was queued.
            if let Some(arriving) = self.arriving.get_mut(&vpn)
                && let Some((report, at)) = arriving.answer
            {
                let what = LoopReport { held_us: (now - at).as_micros() as u32, ..report };
                if writer.write(&Frame::LoopReport { vpn, report: OfRun { run: arriving.run, what } }).is_err() {
                    return;
                }
                arriving.answer = None;
            }
            self.answers.pop_front();
        }
        self.answer_by = Instant::FAR_FUTURE;
    }

    /// Discards all loop reports that wait to be sent.
    pub fn forget_answers(&mut self) {
        self.answers.clear();
        self.answer_by = Instant::FAR_FUTURE;
    }

    /// Returns the time at which the controller of the windows runs next, or `None` without a controller.
    pub fn deadline(&self) -> Option<Instant> {
        self.controller.as_ref()?.deadline()
    }

    /// Returns the AIMD parameters `a` and `b` for a window of the weight `weight`, if a controller exists.
    ///
    /// `nominal_weight` is the weight of the VPN to which the configured `a` and `b` apply.
    pub fn parameters(&self, weight: f64, nominal_weight: f64) -> Option<(f64, f64)> {
        Some(self.controller.as_ref()?.initial(weight, nominal_weight))
    }
}
