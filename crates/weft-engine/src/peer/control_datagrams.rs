//! Control datagrams: reports, pings, and the other frames for the peer.
//!
//! Each path has a set of pending frames. A control datagram carries as many of them as fit, in order of importance.
//! Frames that do not fit stay pending for the next datagram. Control datagrams leave before data and are not held by
//! the pacer.

use super::sense::write_chirped;
use super::{Context, Peer};
use crate::api::Bundle;
use crate::api::Transmit;
use crate::links::is_route;
use crate::path::{Path, Resend, Sent};
use crate::vpn::News;
use weft_core::sense::ReceiveLog;
use weft_units::{Duration, FlowId, FlowSeq, Instant};
use weft_wire::frame::{Frame, FrameWriter, MAX_LINK_NAME, ReportCounters};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};

const MAX_REPORT_RANGES: usize = 48;
/// Maximum length of the frames of a control datagram with its header, in bytes.
const MAX_CONTROL: usize = 1200;
/// Least interval between the pings that are added to reports on a path on which this node sends only reports.
const ASK_EVERY: Duration = Duration::from_millis(40);
/// Number of received data bytes that a path's reports must cover before another ping is added to a report.
///
/// *Derived*: 20 times the 180 bytes of a ping and its answers.
const ASK_BYTES: u64 = 3_600;
/// Traffic class of control datagrams.
///
/// *Standard*: class selector 6, for routing and keepalives (RFC 4594 §3.1).
pub(super) const CONTROL_TOS: u8 = 0xc0;

impl Peer {
    /// Writes a control datagram for the path with this index if a frame is pending on it, or a probe is due.
    pub(super) fn poll_control(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let now = cx.now;
        let path = self.paths.get(index)?;
        if !path.link_up || path.is_gone() {
            return None;
        }
        if path.proof.is_proven() {
            let probe = self.poll_chirp(cx, index, out).or_else(|| self.poll_mtu_probe(cx, index, out));
            if probe.is_some() {
                return probe;
            }
        }
        let path = self.paths.get(index)?;
        if path.pending.is_empty() {
            return None;
        }
        let mut writer = self.control_writer(index, out)?;
        self.ask_among_reports(now, index);
        let mut resend = self.paths.get(index)?.pending.to_resend();
        let mut eliciting = self.write_requests(index, &mut writer);
        resend.vpn = self.write_vpns(cx, index, &mut writer);
        eliciting |= resend.vpn.is_some();
        eliciting |= self.write_neighbours(cx.bulletin, index, &mut writer);
        resend.revocations = self.write_revocations(cx, index, &mut writer);
        eliciting |= resend.revocations > 0;
        self.write_reports(now, index, &mut writer);
        self.write_loop_reports(now, index, &mut writer);
        self.write_overlay(index, &mut writer);
        write_chirped(self.paths.get_mut(index)?, &mut writer);
        eliciting |= self.write_skips(index, &mut writer);
        eliciting |= self.write_gone(index, &mut writer);
        resend.link = !writer.is_empty() && self.write_link(index, &mut writer);
        eliciting |= resend.link;
        self.write_load(index, &mut writer);
        self.write_close(index, &mut writer);
        let len = writer.len();
        if len == 0 {
            return None;
        }
        self.send_control(cx, index, CONTROL_TOS, len, eliciting, Sent::Control(resend), out)
    }

    /// Writes a ping to the unproven address of a path, if one is due.
    ///
    /// While the address has little credit, nothing else may be sent to it.
    pub(super) fn poll_address_ping(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let path = self.paths.get_mut(index)?;
        if !path.link_up || path.is_gone() || path.proof.ping_at().is_none_or(|at| at > cx.now) {
            return None;
        }
        path.proof.on_ping(cx.now);
        let token = self.control.take_token();
        let mut writer = self.control_writer(index, out)?;
        writer.write(&Frame::Ping { token }).ok()?;
        let len = writer.len();
        self.send_control(cx, index, CONTROL_TOS, len, true, Sent::Control(Resend::default()), out)
    }

    /// Returns a writer for the frames of a control datagram on a path.
    pub(super) fn control_writer<'a>(&self, index: usize, out: &'a mut [u8]) -> Option<FrameWriter<'a>> {
        let limit = MAX_CONTROL.min(self.paths.get(index)?.datagram_limit()).min(out.len());
        Some(FrameWriter::new(out.get_mut(HOP_HEADER_LEN..limit.checked_sub(TAG_LEN)?)?))
    }

    /// Adds an occasional ping to the reports of a path that only receives data.
    ///
    /// The answer to the ping shows whether the reports arrive. While packets are dense, every path that sends control
    /// datagrams adds pings as well.
    fn ask_among_reports(&mut self, now: Instant, index: usize) {
        let path = &mut self.paths[index];
        let is_dense = self.session.watch.is_dense(now) && !path.rests();
        if (is_dense || path.unasked_bytes >= ASK_BYTES) && path.asked_at.is_none_or(|at| now - at >= ASK_EVERY) {
            path.unasked_bytes = 0;
            path.pending.ping.get_or_insert(self.control.take_token());
        }
    }

    /// Writes a probe of the path MTU, if one is due: a ping that is padded to the size under test.
    fn poll_mtu_probe(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let path = self.paths.get_mut(index)?;
        if !path.active || path.barred || !path.health.answers() {
            return None;
        }
        let size = path.mtu.probe(cx.now)?;
        let len = usize::from(size).checked_sub(path.outer_header_len() + HOP_HEADER_LEN + TAG_LEN)?;
        let body = out.get_mut(HOP_HEADER_LEN..HOP_HEADER_LEN + len)?;
        body.fill(0);
        let token = self.control.take_token();
        FrameWriter::new(body).write(&Frame::Ping { token }).ok()?;
        path.mtu.on_probe_sent();
        self.send_control(cx, index, CONTROL_TOS, len, true, Sent::MtuProbe(size), out)
    }

    /// Seals and sends the `len` bytes of frames in `out`.
    #[expect(clippy::too_many_arguments, reason = "each says another thing of one datagram")]
    pub(super) fn send_control(
        &mut self,
        cx: &mut Context<'_>,
        index: usize,
        tos: u8,
        len: usize,
        eliciting: bool,
        sent: Sent,
        out: &mut [u8],
    ) -> Option<Transmit> {
        let total = HOP_HEADER_LEN + len + TAG_LEN;
        let path = self.paths.get_mut(index)?;
        let number = cx.sessions.seal(self.id, path.id, PacketType::Control, out.get_mut(..total)?).ok()?;
        path.on_sent(cx.now, number, (total + path.outer_header_len()) as u32, eliciting, sent);
        Some(Transmit {
            link: path.link,
            destination: path.remote,
            source: path.local,
            tos,
            len: total,
            segment_size: None,
        })
    }

    /// Writes the frames that ask for a report. Returns true if it wrote at least one that does.
    fn write_requests(&mut self, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let hold_us = u32::try_from(self.recovery.hold_announced.as_micros()).unwrap_or(u32::MAX);
        let bundle_toward_me = self.config.policy.bundle != Bundle::Up;
        let Some(path) = self.paths.get_mut(index) else { return false };
        let pending = &mut path.pending;
        for (token, path) in pending.pongs.drain(..) {
            let _ = writer.write(&Frame::Pong { token, path });
        }
        let before = writer.len();
        if let Some(token) = pending.ping.take() {
            let _ = writer.write(&Frame::Ping { token });
        }
        if core::mem::take(&mut pending.policy) {
            let (path_active, path_use) = (path.active, path.own_use);
            let _ = writer.write(&Frame::Policy { bundle_toward_me, path_active, path_use });
        }
        if core::mem::take(&mut pending.hold) && !self.recovery.hold_announced.is_zero() {
            let _ = writer.write(&Frame::Hold { hold_us });
        }
        writer.len() > before
    }

    /// Writes the ids of this node's paths that were given up. Returns true if it wrote at least one id.
    ///
    /// These frames come late in the datagram, because a peer that does not know the frame type skips all later frames.
    /// Frames that do not fit leave with the next datagram.
    fn write_gone(&mut self, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let before = writer.len();
        let waiting = self.paths[index].pending.gone;
        let is_due = |(at, path): &(usize, &Path)| waiting >> at & 1 == 1 && path.ours && path.is_gone();
        let refused = self
            .paths
            .iter()
            .enumerate()
            .filter(is_due)
            .find(|(_, path)| writer.write(&Frame::Gone { path: path.id }).is_err());
        self.paths[index].pending.gone = refused.map_or(0, |(at, _)| waiting & u64::MAX << at);
        writer.len() > before
    }

    /// Writes a frame with the name that this node's end of the path has: the name of its link.
    ///
    /// Returns true if it was written. Nodes of older versions skip the frames behind it.
    fn write_link(&mut self, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let may = |path: &&mut Path| path.pending.link && !path.pending.close && !is_route(&path.remote);
        let Some(path) = self.paths.get_mut(index).filter(may) else { return false };
        let name = path.link_name.get(..MAX_LINK_NAME).unwrap_or(&path.link_name);
        path.pending.link = writer.write(&Frame::Link(name)).is_err();
        !path.pending.link
    }

    /// Writes the load of a port. It is not sent again if it is lost: the next report replaces it.
    ///
    /// Nodes of older versions skip the frames behind it.
    fn write_load(&mut self, index: usize, writer: &mut FrameWriter<'_>) {
        let pending = &mut self.paths[index].pending;
        if !pending.load || pending.close {
            return;
        }
        let Some(load) = self.control.load else { return pending.load = false };
        if writer.write(&Frame::Load(load)).is_ok() {
            (pending.load, self.control.load) = (false, None);
        }
    }

    /// Writes the CLOSE frame. It comes last, because the peer reads no frame after it.
    fn write_close(&mut self, index: usize, writer: &mut FrameWriter<'_>) {
        let Some(path) = self.paths.get_mut(index).filter(|path| path.pending.close && !path.pending.overlay) else {
            return;
        };
        path.pending.close = writer.write(&Frame::Close { reason: 0 }).is_err();
    }

    /// Writes the pending frames that request, open or refuse VPNs.
    ///
    /// Returns the first frame that was written. Frames that do not fit leave with the next datagram.
    fn write_vpns(&mut self, cx: &mut Context<'_>, index: usize, writer: &mut FrameWriter<'_>) -> Option<News> {
        let path = self.paths.get_mut(index).filter(|path| path.pending.vpns)?;
        path.pending.vpns = false;
        let mut first = None;
        while let Some(news) = self.ingress.openings.news() {
            let (vpn, wants_index) = match news {
                News::Ask(vpn) => (vpn, true),
                News::Answer(vpn) | News::Refuse(vpn) => (vpn, false),
            };
            // The receiver index is valid for the key that seals this datagram. No rekey can occur before the sealing.
            let index = match news {
                News::Refuse(_) => Some(0),
                News::Ask(_) | News::Answer(_) => cx.sessions.vpn_index(self.id, vpn),
            };
            let Some(index) = index else { break };
            if writer.write(&Frame::Vpn { vpn, index, wants_index }).is_err() {
                path.pending.vpns = true;
                break;
            }
            first.get_or_insert(news);
            self.ingress.openings.on_frame_sent();
        }
        first
    }

    /// Writes SKIP frames for units that were given up, as far as they fit. Returns true if it wrote at least one.
    ///
    /// SKIP frames come after other frames, because there may be more SKIP frames than the datagram can hold.
    fn write_skips(&mut self, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let before = writer.len();
        if !self.paths[index].health.answers() {
            // A path that does not answer gets only probes, which may be lost. The SKIP frames wait until a path
            // answers, and leave before its first packets.
            self.paths[index].pending.skips = false;
            return false;
        }
        while let Some(&(flow, first)) = self.recovery.skips.front() {
            let count = run_length(&self.recovery.skips, flow, first);
            if writer.write(&Frame::Skip { flow, first, count }).is_err() {
                break;
            }
            self.recovery.skips.drain(..count as usize);
        }
        self.paths[index].pending.skips = !self.recovery.skips.is_empty();
        writer.len() > before
    }

    /// Writes the reports, on this and other paths, that are to leave by this path.
    fn write_reports(&mut self, now: Instant, index: usize, writer: &mut FrameWriter<'_>) {
        let Some(path) = self.paths.get_mut(index) else { return };
        let wanted = core::mem::take(&mut path.pending.reports);
        for (_, path) in self.paths.iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1) {
            // Ranges that do not fit are repeated in the next report.
            write_report(now, path, writer);
        }
    }

    /// Chooses the paths by which the reports that are due now leave.
    pub(super) fn schedule_reports(&mut self, now: Instant) {
        for index in 0..self.paths.len() {
            if self.paths[index].report_due(|| self.reports_ride(index)).is_some_and(|due| due <= now) {
                self.schedule_report(now, index);
            }
        }
    }

    /// Chooses the paths by which the report about one path leaves: that path itself and the fastest path.
    ///
    /// If a path is cut in the reverse direction, its report still arrives by the fastest path. The fastest path also
    /// avoids the delay of a slow path.
    pub(super) fn schedule_report(&mut self, now: Instant, index: usize) {
        let fastest = self.fastest_path();
        let Some(path) = self.paths.get_mut(index) else { return };
        path.log.on_report_sent(now);
        let told = core::mem::take(&mut path.unreported_bytes);
        // Use the path itself even if its state here is down. A datagram arrived on it, so it may work again, and the
        // fastest path may have failed unnoticed.
        let own = (path.link_up && !path.is_gone()).then_some(index);
        for by in own.into_iter().chain(fastest.filter(|fastest| Some(*fastest) != own)) {
            self.paths[by].pending.reports |= 1 << index;
            self.paths[by].unasked_bytes += told;
        }
    }

    /// Returns the index of the usable path in the best state with the least RTT, or `None` if no path is usable.
    ///
    /// A path on probation is chosen only if there is no other.
    pub fn fastest_path(&self) -> Option<usize> {
        let rank = |path: &Path| (path.state(), path.health.is_on_probation(), path.rtt().smoothed());
        (0..self.paths.len()).filter(|i| self.paths[*i].is_usable()).min_by_key(|i| rank(&self.paths[*i]))
    }
}

/// Writes the report about a path, with as many ranges as fit. Returns true if all of them fit.
pub(super) fn write_report(now: Instant, path: &Path, writer: &mut FrameWriter<'_>) -> bool {
    let log: &ReceiveLog = &path.log;
    let Some(report) = log.report(now) else { return false };
    let arrivals = ReportCounters {
        path: path.id,
        received_at_us: report.received_at_us,
        held_us: report.held.as_micros() as u64,
        packets_received: report.packets_received,
        bytes_received: report.bytes_received,
        ce_received: report.ce_received,
    };
    writer.write_report(&arrivals, log.ranges(), MAX_REPORT_RANGES).is_ok_and(|ranges| ranges == log.ranges().count())
}

fn run_length(skips: &alloc::collections::VecDeque<(FlowId, FlowSeq)>, flow: FlowId, first: FlowSeq) -> u32 {
    skips.iter().enumerate().take_while(|(i, s)| s.0 == flow && s.1 == first.plus(*i as i32)).count() as u32
}
