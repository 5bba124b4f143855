//! What time brings: silence noticed, probes sent, holes given up.

use super::recovery::Rescue;
use super::{Context, Peer, dropping};
use crate::PathState;
use crate::path::{Lane, Path, Sent};
use core::net::SocketAddr;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, LinkId, Rate};

/// CoDel's target at least: two full packets at 1 Mbit/s.
const TARGET_MIN: Duration = Duration::from_millis(20);
/// CoDel's interval at least (RFC 8289).
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const RTT_MAX: Duration = Duration::from_secs(2);
/// A scheduler that holds back is asked again after this at the latest: as a queue predicted drains and a rate grows, time alone
/// may change its mind.
const HOLD_AGAIN: Duration = Duration::from_millis(5);
/// A peer without traffic for this long is not missed.
const BUSY: Duration = Duration::from_secs(30);

impl Peer {
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        now - self.busy_at < BUSY
    }

    /// A packet of the hosts leaves for the peer, or came from it.
    pub(super) fn note_packet(&mut self, now: Instant) {
        self.busy_at = now;
        self.watch.on_packet(now);
    }

    /// How often a path is probed that answers and carries nothing.
    pub(super) fn keepalive(&self, path: &Path, now: Instant) -> Duration {
        path.keepalive(self.watch.pace(now))
    }

    /// When a path is asked again that has not answered.
    fn ask_at(&self, path: &Path, now: Instant) -> Option<Instant> {
        path.waiting.ask_at(path.answer_after().max(self.watch.patience(now)), path.misses)
    }

    /// When a path is probed next.
    pub(super) fn probe_at(&self, path: &Path, now: Instant) -> Instant {
        path.health.next_probe(self.keepalive(path, now), self.wants(path, now))
    }

    pub(crate) fn on_timeout(&mut self, cx: &mut Context<'_>) {
        self.watch_outage(cx);
        if !self.is_established() {
            return;
        }
        self.choose_spares(cx);
        self.say_untried(cx);
        for index in 0..self.paths.len() {
            self.check_silence(cx, index);
            self.try_next_address(cx, index);
            self.probe(cx, index);
            self.check_losses(cx, index);
        }
        self.repeat_lost(cx);
        self.expire_holes(cx);
        self.joins.expire(cx.now, cx.pool);
        self.open_vpns(cx);
        self.tell_revocations(cx);
        self.drive_loops(cx.now);
        self.update_hold();
        self.update_queue();
        self.ready_offer(cx);
        self.schedule_reports(cx.now);
        self.sense(cx.now);
        if self.config.policy.weights == crate::config::Weights::Measured {
            self.refresh_weights();
        }
    }

    /// Asks for the VPNs that packets wait for.
    fn open_vpns(&mut self, cx: &mut Context<'_>) {
        if self.openings.on_time(cx.now, dropping(cx, &mut self.totals.queue_drops)) {
            self.announce_vpns(None);
        }
    }

    /// News of VPNs leave by the fastest path that answers, else by the path `heard_on`, which may be back, else with a probe.
    pub(super) fn announce_vpns(&mut self, heard_on: Option<usize>) {
        let fastest = self.fastest_path();
        let answering = fastest.filter(|index| self.paths[*index].health.answers());
        let probed = || self.paths.iter().position(|path| path.pending.ping.is_some());
        let index = answering.or(heard_on).or(fastest).or_else(probed);
        if let Some(path) = index.and_then(|index| self.paths.get_mut(index)) {
            path.pending.vpns = true;
        }
    }

    fn check_silence(&mut self, cx: &mut Context<'_>, index: usize) {
        let ask_at = self.ask_at(&self.paths[index], cx.now);
        let path = &mut self.paths[index];
        if !path.active || path.barred || !path.health.answers() {
            return;
        }
        if ask_at.is_some_and(|at| at <= cx.now) {
            path.pending.ping.get_or_insert(self.next_token);
            self.next_token = self.next_token.wrapping_add(1);
        }
        let (threshold, misses) = (path.suspect_after(), path.misses);
        if path.waiting.overdue_at(threshold).is_some_and(|at| at <= cx.now) {
            path.waiting.on_overdue(cx.now);
            self.repeat_overdue(cx, index);
        }
        let path = &mut self.paths[index];
        let Some(since) = path.waiting.since() else { return };
        if path.waiting.suspect_at(threshold, misses).is_none_or(|at| at > cx.now) {
            return;
        }
        if let Some(cause) = path.health.on_silence(cx.now, since, threshold, misses) {
            self.log_path(cx.events, index, cause);
            self.doubt_link(cx, index, since);
            self.choose_spares(cx);
            self.rescue_path(cx, index, Rescue::Suspect);
        }
    }

    /// It may be the link that fell silent: before one of its other paths takes over, it must have answered. The path that the peer
    /// opened between the same two addresses is no other.
    fn doubt_link(&mut self, cx: &mut Context<'_>, silent: usize, since: Instant) {
        let Some((link, remote)) = self.paths.get(silent).map(|path| (path.link, path.remote)) else { return };
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            let takes_over = path.ours && !path.active;
            if path.link != link || path.barred || !(takes_over || path.remote == remote) {
                continue;
            }
            let (threshold, misses) = (path.suspect_after(), path.misses);
            if let Some(cause) = path.health.on_silence(cx.now, since, threshold, misses) {
                self.log_path(cx.events, index, cause);
            }
        }
    }

    fn probe(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &self.paths[index];
        let (keepalive, is_wanted) = (self.keepalive(path, cx.now), self.wants(path, cx.now));
        let path = &mut self.paths[index];
        if !path.link_up
            || path.barred
            || path.health.next_probe(keepalive, is_wanted) > cx.now
            || (!path.ours && path.health.state() == PathState::Opening)
        {
            return;
        }
        let confirm = path.suspect_after();
        let change = path.health.on_probe_sent(cx.now, keepalive, confirm, is_wanted);
        path.pending.ping.get_or_insert(self.next_token);
        if is_wanted {
            self.openings.hurry(cx.now);
        }
        path.pending.hold |= path.is_usable();
        path.pending.policy |= path.ours && path.active;
        self.next_token = self.next_token.wrapping_add(1);
        if let Some(cause) = change {
            let link = path.link;
            self.log_path(cx.events, index, cause);
            self.choose_path(cx, link);
            self.close_books(cx, index);
            self.call_again(cx);
        }
        self.keep_calling(cx);
    }

    fn check_losses(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &self.paths[index];
        if path.book.next_loss_timeout().is_none_or(|at| at > cx.now) {
            return;
        }
        let now = cx.now;
        self.settle(cx, index, |book, settling| {
            book.detect_lost(now, &mut |sent, fate, _| settling.settle(sent, fate));
        });
    }

    /// Sets CoDel's target and interval to what a loss-based sender needs to keep the paths full.
    ///
    /// CUBIC gives up 0.3 of its window (RFC 9438 §4.6), so 0.43 of a round trip must stand before. The window is to last until a path
    /// that fades is back, so the round trip counts at the rate of its good time. Only the flow itself waits: flows have queues of
    /// their own. The interval is two round trips: the sender's answer to a drop takes one to arrive and one to show.
    fn update_queue(&mut self) {
        let round_trip = self.usable_paths().map(Path::inner_round_trip).max().unwrap_or_default();
        let sum = |of: fn(&Path) -> Rate| self.usable_paths().map(|path| of(path).bps() as f64).sum::<f64>();
        let fade = sum(|path| path.rate.carried_at_best()) / sum(|path| path.rate.carried()).max(1.0);
        let round_trip = round_trip.mul_f64(fade.max(1.0)).min(RTT_MAX);
        let target = (round_trip / 2).max(TARGET_MIN);
        if self.queue_target.abs_diff(target) * 10 < self.queue_target {
            return;
        }
        self.queue_target = target;
        let interval = (round_trip * 2).max(target * 2).max(INTERVAL_MIN);
        self.way_in.set_delays(target, interval);
    }

    /// A path that may not carry data any more keeps nothing: what it has queued or in flight is repeated elsewhere.
    pub(crate) fn close_books(&mut self, cx: &mut Context<'_>, index: usize) {
        self.rescue_path(cx, index, Rescue::Down);
        let (path, units, pool) = (&mut self.paths[index], &mut self.units, &mut *cx.pool);
        let (mtu, pending) = (&mut path.mtu, &mut path.pending);
        path.waiting.clear();
        path.book.drain(|sent, _, _| match sent {
            Sent::Unit(_) | Sent::Part(..) if planted::is(Fault::ClosedPathKeepsUnits) => {}
            Sent::Unit(id) | Sent::Part(id, _) => units.release(id, pool),
            Sent::MtuProbe(size) => mtu.on_probe_lost(cx.now, size),
            // It may have been lost, and nothing else would say so.
            Sent::Control(said) => pending.link |= said.link,
            Sent::Data(..) => {}
        });
    }

    /// A link here can no longer be used.
    pub(crate) fn on_link_down(&mut self, cx: &mut Context<'_>, link: LinkId, cause: &'static str) {
        self.attempts.forget_link(cx.now, link);
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            if path.link != link || !path.link_up {
                continue;
            }
            path.link_up = false;
            if let Some(cause) = path.health.on_link_down(cx.now, cause) {
                self.log_path(cx.events, index, cause);
                self.choose_spares(cx);
                if !planted::is(Fault::LinkDownNotRescued) {
                    self.close_books(cx, index);
                }
            }
        }
    }

    /// Tells the peer that this node goes away.
    pub(crate) fn close(&mut self) {
        for path in self.paths.iter_mut().filter(|p| p.is_usable()) {
            path.pending.close = true;
        }
    }

    /// Pings the peer over every path in use.
    pub(crate) fn ping(&mut self, now: Instant, id: u32) {
        for path in self.paths.iter_mut().filter(|p| p.active) {
            let token = *path.pending.ping.get_or_insert(self.next_token);
            self.next_token = self.next_token.wrapping_add(1);
            path.pings.retain(|(_, sent)| now - sent.1 < Duration::from_secs(10));
            path.pings.push((token, (id, now)));
        }
    }

    /// The kernel refused a datagram of `size` UDP bytes as too long.
    pub(crate) fn on_too_big(&mut self, now: Instant, link: LinkId, remote: SocketAddr, size: usize) {
        for path in self.paths.iter_mut().filter(|p| p.link == link && p.remote == remote) {
            let ip_bytes = (size + path.outer_header_len()) as u16;
            path.mtu.on_too_big(now, ip_bytes);
        }
    }

    /// When to ask the scheduler again that holds back what waits: when the next path is ready, which no path's own queue may tell.
    fn held_back_until(&self, now: Instant) -> Option<Instant> {
        if !self.way_in.is_ready() {
            return None;
        }
        let again = now + HOLD_AGAIN;
        self.usable_paths().map(|p| p.pacer.ready_at()).map(|at| if at > now { at.min(again) } else { again }).min()
    }

    /// When something is next to be done without input.
    pub(crate) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        [self.next_timer(now), self.next_send(now)].into_iter().flatten().min()
    }

    /// When [`Peer::on_timeout`] has something to do.
    pub(crate) fn next_timer(&self, now: Instant) -> Option<Instant> {
        let outage = self.outage_deadline(now);
        if !self.is_established() {
            return outage;
        }
        let paths = self.paths.iter().filter_map(|p| path_timer(p, self.probe_at(p, now), self.ask_at(p, now))).min();
        let waits = [
            self.hole_deadline(),
            self.joins.next_deadline(),
            self.openings.next_deadline(),
            self.lost_deadline(),
            self.loops_deadline(),
            self.tidings.deadline(),
            outage,
        ];
        waits.into_iter().flatten().chain(paths).min()
    }

    /// When there is something to send.
    fn next_send(&self, now: Instant) -> Option<Instant> {
        if !self.is_established() {
            return None;
        }
        let paths = self.paths.iter().filter_map(|path| path_send(path, now));
        paths.chain(self.held_back_until(now)).min()
    }
}

/// When a path that is probed next at `probe_at`, and asked again at `ask_at`, has something to do.
fn path_timer(path: &Path, probe_at: Instant, ask_at: Option<Instant>) -> Option<Instant> {
    // Where nothing may leave by the path, another path reports what arrived.
    let report = path.report_due().filter(|_| !planted::is(Fault::ReportTimerNotSet));
    report.into_iter().chain(own_timer(path, probe_at, ask_at)).min()
}

/// The same without reports, which leave by other paths too.
fn own_timer(path: &Path, probe_at: Instant, ask_at: Option<Instant>) -> Option<Instant> {
    if !path.link_up || path.is_gone() {
        return None;
    }
    let judged = path.active && !path.barred && path.health.answers();
    let threshold = path.suspect_after();
    let overdue = path.waiting.overdue_at(threshold).filter(|_| judged);
    let silence = path.waiting.suspect_at(threshold, path.misses).filter(|_| judged);
    let loss = path.book.next_loss_timeout();
    if !path.has_credit() {
        return [overdue, silence, loss].into_iter().flatten().min();
    }
    let may_probe = !path.barred && (path.ours || path.health.state() != PathState::Opening);
    let probe = may_probe.then_some(probe_at);
    let sensing = path.sensing.deadline().filter(|_| path.proof.is_proven());
    let ask = ask_at.filter(|_| judged);
    [probe, overdue, silence, ask, sensing, loss].into_iter().flatten().min()
}

/// When a path has something to send.
fn path_send(path: &Path, now: Instant) -> Option<Instant> {
    if !path.link_up || path.is_gone() {
        return None;
    }
    if !path.has_credit() {
        // Only pings may go there.
        return path.proof.ping_at();
    }
    if !path.pending.is_empty() {
        return Some(now);
    }
    let next_lane = path.queues.front().filter(|_| path.is_usable()).map(|(lane, _)| lane);
    let data = next_lane.filter(|lane| *lane != Lane::Bulk || path.has_window()).map(|_| path.pacer.ready_at());
    let data = data.filter(|_| !planted::is(Fault::PacerTimerNotSet));
    let may_search = path.active && !path.barred && path.health.answers() && path.proof.is_proven();
    let search = path.mtu.probe_at(now).filter(|_| may_search);
    [data, search].into_iter().flatten().min()
}
