//! Control datagrams: reports, pings, and what the peer should know.

use super::sense::write_chirped;
use super::{Context, Peer};
use crate::Transmit;
use crate::config::Bundle;
use crate::path::{Path, Said, Sent};
use crate::relay::is_route;
use crate::vpn::News;
use weft_core::sense::ReceiveLog;
use weft_units::{Duration, FlowId, FlowSeq, Instant};
use weft_wire::frame::{Arrivals, Frame, FrameWriter, MAX_LINK_NAME};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};

const MAX_REPORT_RANGES: usize = 48;
const MAX_CONTROL: usize = 1200;
/// How often a path that carries only reports asks for one at most,
const ASK_EVERY: Duration = Duration::from_millis(40);
/// and the least data those reports spoke of. Derived: a ping and its answers are 180 bytes, a twentieth of it.
const ASK_BYTES: u64 = 3_600;
/// Class selector 6, what routing and keepalives use (RFC 4594 §3.1).
pub(super) const CONTROL_TOS: u8 = 0xc0;

impl Peer {
    /// A control datagram for a path, if something waits for it.
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
        let mut said = self.paths.get(index)?.pending.said();
        let mut eliciting = self.write_requests(index, &mut writer) | self.write_vpns(cx, index, &mut writer);
        eliciting |= self.write_neighbours(cx.bulletin, index, &mut writer);
        said.revocations = self.write_revocations(cx, index, &mut writer);
        eliciting |= said.revocations > 0;
        self.write_reports(now, index, &mut writer);
        self.write_loop_reports(now, index, &mut writer);
        self.write_overlay(index, &mut writer);
        write_chirped(self.paths.get_mut(index)?, &mut writer);
        eliciting |= self.write_skips(index, &mut writer);
        eliciting |= self.write_gone(index, &mut writer);
        said.link = !writer.is_empty() && self.write_link(index, &mut writer);
        eliciting |= said.link;
        self.write_close(index, &mut writer);
        let len = writer.len();
        if len == 0 {
            return None;
        }
        self.send_control(cx, index, CONTROL_TOS, len, eliciting, Sent::Control(said), out)
    }

    /// Pings an unproved address. While its credit is small, nothing else may go there.
    pub(super) fn poll_address_ping(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let path = self.paths.get_mut(index)?;
        if !path.link_up || path.is_gone() || path.proof.ping_at().is_none_or(|at| at > cx.now) {
            return None;
        }
        path.proof.on_ping(cx.now);
        let token = self.next_token;
        self.next_token = token.wrapping_add(1);
        let mut writer = self.control_writer(index, out)?;
        writer.write(&Frame::Ping { token }).ok()?;
        let len = writer.len();
        self.send_control(cx, index, CONTROL_TOS, len, true, Sent::Control(Said::default()), out)
    }

    /// Writes the frames of a control datagram for a path.
    pub(super) fn control_writer<'a>(&self, index: usize, out: &'a mut [u8]) -> Option<FrameWriter<'a>> {
        let limit = MAX_CONTROL.min(self.paths.get(index)?.datagram_limit()).min(out.len());
        Some(FrameWriter::new(out.get_mut(HOP_HEADER_LEN..limit.checked_sub(TAG_LEN)?)?))
    }

    /// While data comes in, reports are all that leaves. A ping among them now and then shows whether they arrive. While packets come close
    /// together, every path that says something asks with it.
    fn ask_among_reports(&mut self, now: Instant, index: usize) {
        let is_dense = self.watch.is_dense(now);
        let path = &mut self.paths[index];
        if (is_dense || path.unasked_bytes >= ASK_BYTES) && path.asked_at.is_none_or(|at| now - at >= ASK_EVERY) {
            path.unasked_bytes = 0;
            path.pending.ping.get_or_insert(self.next_token);
            self.next_token = self.next_token.wrapping_add(1);
        }
    }

    /// A ping padded to the size under test.
    fn poll_mtu_probe(&mut self, cx: &mut Context<'_>, index: usize, out: &mut [u8]) -> Option<Transmit> {
        let token = self.next_token;
        let path = self.paths.get_mut(index)?;
        if !path.active || path.barred || !path.health.answers() {
            return None;
        }
        let size = path.mtu.probe(cx.now)?;
        let len = usize::from(size).checked_sub(path.outer_header_len() + HOP_HEADER_LEN + TAG_LEN)?;
        let body = out.get_mut(HOP_HEADER_LEN..HOP_HEADER_LEN + len)?;
        body.fill(0);
        FrameWriter::new(body).write(&Frame::Ping { token }).ok()?;
        path.mtu.on_probe_sent();
        self.next_token = token.wrapping_add(1);
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

    /// Frames that ask for a report. True if there were any.
    fn write_requests(&mut self, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let hold_us = u32::try_from(self.hold_announced.as_micros()).unwrap_or(u32::MAX);
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
            let (path_active, path_standby, declines_neighbours) = (path.active, path.standby, !self.wants_neighbours);
            let policy = Frame::Policy { bundle_toward_me, path_active, path_standby, declines_neighbours };
            let _ = writer.write(&policy);
            self.told_wants_neighbours = self.wants_neighbours;
        }
        if core::mem::take(&mut pending.hold) && !self.hold_announced.is_zero() {
            let _ = writer.write(&Frame::Hold { hold_us });
        }
        writer.len() > before
    }

    /// The paths from here that were given up. True if there was one. It comes late, for a peer that does not know this frame reads no other
    /// after it.
    fn write_gone(&mut self, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let Some(path) = self.paths.get_mut(index).filter(|path| path.pending.gone) else { return false };
        path.pending.gone = false;
        let before = writer.len();
        for path in self.paths.iter().filter(|path| path.ours && path.is_gone()) {
            if writer.write(&Frame::Gone { path: path.id }).is_err() {
                break;
            }
        }
        writer.len() > before
    }

    /// What the link is called here. Older nodes read nothing behind it. True if it was written.
    fn write_link(&mut self, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let may = |path: &&mut Path| path.pending.link && !path.pending.close && !is_route(&path.remote);
        let Some(path) = self.paths.get_mut(index).filter(may) else { return false };
        let name = path.link_name.get(..MAX_LINK_NAME).unwrap_or(&path.link_name);
        path.pending.link = writer.write(&Frame::Link(name)).is_err();
        !path.pending.link
    }

    /// Goodbye, after all else: what follows it would not be read.
    fn write_close(&mut self, index: usize, writer: &mut FrameWriter<'_>) {
        let Some(path) = self.paths.get_mut(index).filter(|path| path.pending.close && !path.pending.overlay) else {
            return;
        };
        path.pending.close = writer.write(&Frame::Close { reason: 0 }).is_err();
    }

    /// What the peer is to be told of VPNs. True if there was something. What finds no room leaves with the next datagram.
    fn write_vpns(&mut self, cx: &mut Context<'_>, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let before = writer.len();
        let Some(path) = self.paths.get_mut(index).filter(|path| path.pending.vpns) else { return false };
        path.pending.vpns = false;
        while let Some(news) = self.openings.news() {
            let (vpn, wants_index) = match news {
                News::Ask(vpn) => (vpn, true),
                News::Answer(vpn) | News::Refuse(vpn) => (vpn, false),
            };
            // Told under the key that seals this datagram: nothing comes between.
            let index = match news {
                News::Refuse(_) => Some(0),
                News::Ask(_) | News::Answer(_) => cx.sessions.vpn_index(self.id, vpn),
            };
            let Some(index) = index else { break };
            if writer.write(&Frame::Vpn { vpn, index, wants_index }).is_err() {
                path.pending.vpns = true;
                break;
            }
            self.openings.told();
        }
        writer.len() > before
    }

    /// What the peer need not wait for, in what room is left: there may be more of it than of all else. True if there was something.
    fn write_skips(&mut self, index: usize, writer: &mut FrameWriter<'_>) -> bool {
        let before = writer.len();
        if !self.paths[index].health.answers() {
            // It is needed by the first packets after the outage. A probe may well be lost.
            self.paths[index].pending.skips = false;
            return false;
        }
        while let Some(&(flow, first)) = self.skips.front() {
            let count = run_length(&self.skips, flow, first);
            if writer.write(&Frame::Skip { flow, first, count }).is_err() {
                break;
            }
            self.skips.drain(..count as usize);
        }
        self.paths[index].pending.skips = !self.skips.is_empty();
        writer.len() > before
    }

    /// The reports that are to leave by this path.
    fn write_reports(&mut self, now: Instant, index: usize, writer: &mut FrameWriter<'_>) {
        let Some(path) = self.paths.get_mut(index) else { return };
        let wanted = core::mem::take(&mut path.pending.reports);
        for (_, path) in self.paths.iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1) {
            write_report(now, path, writer);
        }
    }

    /// Marks the paths by which reports that are due should leave. Each leaves by its own path, so that a path cut on its way back
    /// hides only its own news, and by the fastest, so that none waits for a slow way back.
    pub(super) fn schedule_reports(&mut self, now: Instant) {
        let fastest = self.fastest_path();
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            if path.report_due().is_none_or(|due| due > now) {
                continue;
            }
            path.log.on_report_sent(now);
            let told = core::mem::take(&mut path.unreported_bytes);
            // Also where it does not answer here: it is heard, so it may be back, and the fastest may be dead without its being known.
            let own = (path.link_up && !path.is_gone()).then_some(index);
            for by in own.into_iter().chain(fastest.filter(|fastest| Some(*fastest) != own)) {
                self.paths[by].pending.reports |= 1 << index;
                self.paths[by].unasked_bytes += told;
            }
        }
    }

    /// The healthiest path with the least round-trip time; one on probation only where there is no other.
    pub(crate) fn fastest_path(&self) -> Option<usize> {
        let rank = |path: &Path| (path.state(), path.health.is_on_probation(), path.rtt().smoothed());
        (0..self.paths.len()).filter(|i| self.paths[*i].is_usable()).min_by_key(|i| rank(&self.paths[*i]))
    }
}

fn write_report(now: Instant, path: &Path, writer: &mut FrameWriter<'_>) {
    let log: &ReceiveLog = &path.log;
    let Some(report) = log.report(now) else { return };
    let arrivals = Arrivals {
        path: path.id,
        received_at_us: report.received_at_us,
        held_us: report.held.as_micros() as u64,
        packets_received: report.packets_received,
        bytes_received: report.bytes_received,
        ce_received: report.ce_received,
    };
    // What finds no room is in the next report too.
    let _ = writer.write_report(&arrivals, log.ranges(), MAX_REPORT_RANGES);
}

fn run_length(skips: &alloc::collections::VecDeque<(FlowId, FlowSeq)>, flow: FlowId, first: FlowSeq) -> u32 {
    skips.iter().enumerate().take_while(|(i, s)| s.0 == flow && s.1 == first.plus(*i as i32)).count() as u32
}
