//! Timers of a peer: detects silent paths, sends probes, and gives up on missing units.
//!
//! Each timer has a matching deadline in [`Peer::next_timeout`]. CoDel's times are adapted to the paths here.

use super::dropping;
use super::recovery::Rescue;
use super::{Context, Peer};
use crate::api::{PathState, Weights};
use crate::path::{Path, Sent, Urgency};
use core::net::SocketAddr;
use weft_flows::port::Port;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, LinkId, Rate};

/// Least target of CoDel. Derived: two full packets at 1 Mbit/s.
const TARGET_MIN: Duration = Duration::from_millis(20);
/// Least interval of CoDel. Standard: RFC 8289.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Maximum RTT, including jitter and fading, from which CoDel's target and interval are computed.
const RTT_MAX: Duration = Duration::from_secs(2);
/// Longest time until a scheduler that holds a unit must choose again.
///
/// Its choice may change without input, because predicted queues drain and rates grow.
const HOLD_AGAIN: Duration = Duration::from_millis(5);
/// Maximum number of unanswered datagrams that are recorded for a path that may not carry data.
///
/// Derived: this node sends that number of probes on such a path in 13 s if it needs the peer's answers. A later
/// answer is useless, because newer probes follow.
const UNANSWERED_MAX: usize = 128;
/// Time without a host's packet to or from a peer after which the peer is no longer busy.
const BUSY: Duration = Duration::from_secs(30);

impl Peer {
    pub fn is_busy(&self, now: Instant) -> bool {
        now - self.session.busy_at < BUSY
    }

    /// Records a host's packet to or from the peer. The pace of such packets determines the interval of probes.
    pub(super) fn note_packet(&mut self, now: Instant) {
        self.session.busy_at = now;
        self.session.watch.on_packet(now);
    }

    /// Returns the probe interval of a path that answers and carries no traffic.
    pub(super) fn keepalive(&self, path: &Path, now: Instant) -> Duration {
        path.keepalive(self.session.probe_pace.or_else(|| self.session.watch.pace(now)))
    }

    /// Returns the time of a path's next probe.
    pub(super) fn probe_at(&self, path: &Path, now: Instant) -> Instant {
        path.health.next_probe(self.keepalive(path, now), self.wants(path, now))
    }

    pub fn on_timeout(&mut self, cx: &mut Context<'_>) {
        self.watch_outage(cx);
        self.release_acks(cx);
        if !self.is_established() {
            return;
        }
        // An input may have changed a path.
        self.choose_spares(cx);
        self.report_untried(cx);
        let urgency = self.urgency(cx.now);
        for index in 0..self.paths.len() {
            self.check_silence(cx, index, urgency);
            self.try_next_address(cx, index);
            self.probe(cx, index);
            self.check_losses(cx, index);
        }
        self.repeat_lost(cx);
        self.expire_holes(cx);
        self.inbound.joins.expire(cx.now, cx.pool);
        self.open_vpns(cx);
        self.send_revocations(cx);
        self.drive_loops(cx.now);
        // The steps above may have changed a path, too.
        self.choose_spares(cx);
        self.update_hold();
        self.update_queue();
        self.ready_offer(cx);
        self.schedule_reports(cx.now);
        self.sense(cx.now);
        if self.config.policy.weights == Weights::Measured {
            self.refresh_weights();
        }
    }

    /// Asks the peer to open the VPNs for which packets wait.
    fn open_vpns(&mut self, cx: &mut Context<'_>) {
        if self.ingress.openings.on_time(cx.now, dropping(cx, &mut self.totals.queue_drops)) {
            self.announce_vpns(None);
        }
    }

    /// Selects the path for pending VPN frames.
    ///
    /// It is the fastest answering path, else `heard_on`, else the fastest path, else a path with a pending probe.
    ///
    /// A datagram arrived on `heard_on`, so this path may work again.
    pub(super) fn announce_vpns(&mut self, heard_on: Option<usize>) {
        let fastest = self.fastest_path();
        let answering = fastest.filter(|index| self.paths[*index].health.answers());
        let probed = || self.paths.iter().position(|path| path.pending.ping.is_some());
        let index = answering.or(heard_on).or(fastest).or_else(probed);
        if let Some(path) = index.and_then(|index| self.paths.get_mut(index)) {
            path.pending.vpns = true;
        }
    }

    /// True if hosts' packets, measurements or a relay's traffic depend on the peer's answers now.
    pub(super) fn is_needed(&self, now: Instant) -> bool {
        self.is_watched() || self.session.watch.had_packet(now) || self.ingress.openings.next_deadline().is_some()
    }

    /// True if a routing protocol, measurements or a relay's traffic depend on the peer's answers.
    fn is_watched(&self) -> bool {
        self.session.probe_pace.is_some() || self.control.probes.is_some() || self.session.is_first_relay
    }

    /// Returns how urgent it is to detect that a path is silent.
    fn urgency(&self, now: Instant) -> Urgency {
        match self.is_needed(now) {
            false => Urgency::Idle,
            true if self.is_watched() || self.has_alternatives() => Urgency::Switch,
            true => Urgency::Alone,
        }
    }

    /// True if paths with different links or addresses answer. One of them can then take over from another.
    fn has_alternatives(&self) -> bool {
        let mut answering = self.paths.iter().filter(|path| path.health.answers()).map(|path| (path.link, path.remote));
        answering.next().is_some_and(|first| answering.any(|other| other != first))
    }

    fn check_silence(&mut self, cx: &mut Context<'_>, index: usize, urgency: Urgency) {
        let path = &mut self.paths[index];
        if !path.active || path.barred || !path.health.answers() {
            return;
        }
        if path.ask_at(urgency).is_some_and(|at| at <= cx.now) {
            path.ask(cx.now, self.control.take_token());
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

    /// Makes a link's other paths suspect when one falls silent.
    ///
    /// The whole link may have failed, so another path must answer before it takes over. The peer's path between the
    /// same two addresses becomes suspect as well, because it uses the same route as the silent path.
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
        path.ask(cx.now, self.control.take_token());
        if is_wanted {
            self.ingress.openings.hurry(cx.now);
        }
        path.pending.hold |= path.is_usable();
        path.pending.policy |= path.active && path.states_policy();
        if let Some(cause) = change {
            let link = path.link;
            self.log_path(cx.events, index, cause);
            self.choose_path(cx, link);
            self.move_units_away(cx, index);
            if !self.can_wait(cx.now) {
                self.call_again(cx);
            }
        } else if !path.health.is_usable() {
            self.give_up_sent(cx, index, UNANSWERED_MAX);
        }
        self.keep_calling(cx);
    }

    fn check_losses(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &self.paths[index];
        if path.sent_packets.next_loss_timeout().is_none_or(|at| at > cx.now) {
            return;
        }
        let now = cx.now;
        self.apply_fates(cx, index, |sent_packets, fates| {
            sent_packets.detect_lost(now, &mut |sent, fate, departure| fates.on_fate(sent, fate, departure));
        });
    }

    /// Sets CoDel's target and interval so that a loss-based sender keeps the paths full.
    ///
    /// CUBIC reduces its window by 0.3 (RFC 9438 §4.6), so 0.43 of an RTT must be queued. The window must last until
    /// a fading path recovers. The RTT is therefore scaled by the ratio of the best recent rate to the present rate.
    /// Only the flow itself waits, because each flow has its own queue. The interval is two RTTs: a drop takes one to
    /// reach the sender and one to show its effect.
    fn update_queue(&mut self) {
        let round_trip = self.usable_paths().map(Path::inner_round_trip).max().unwrap_or_default();
        let sum = |of: fn(&Path) -> Rate| self.usable_paths().map(|path| of(path).bps() as f64).sum::<f64>();
        let fade = sum(|path| path.rate.carried_at_best()) / sum(|path| path.rate.carried()).max(1.0);
        let round_trip = round_trip.mul_f64(fade.max(1.0)).min(RTT_MAX);
        let target = (round_trip / 2).max(TARGET_MIN);
        if self.ingress.queue_target.abs_diff(target) * 10 < self.ingress.queue_target {
            return;
        }
        self.ingress.queue_target = target;
        let interval = (round_trip * 2).max(target * 2).max(INTERVAL_MIN);
        self.ingress.queue.set_delays(target, interval);
    }

    /// Moves all units of a path that may no longer carry data to other paths.
    pub fn move_units_away(&mut self, cx: &mut Context<'_>, index: usize) {
        self.rescue_path(cx, index, Rescue::Down);
        self.paths[index].waiting.clear();
        self.give_up_sent(cx, index, 0);
    }

    /// Removes all but the newest `kept` datagrams from a path's record of sent packets.
    ///
    /// The path must not be in use for data.
    fn give_up_sent(&mut self, cx: &mut Context<'_>, index: usize, kept: usize) {
        let (path, units, pool) = (&mut self.paths[index], &mut self.recovery.units, &mut *cx.pool);
        let (mtu, pending) = (&mut path.mtu, &mut path.pending);
        path.waiting.keep_newest(kept);
        path.sent_packets.give_up(kept, |sent, _, _| match sent {
            Sent::Unit(_) | Sent::Part(..) if planted::is(Fault::ClosedPathKeepsUnits) => {}
            Sent::Unit(id) | Sent::Part(id, _) => units.release(id, pool),
            Sent::MtuProbe(size) => mtu.on_probe_lost(cx.now, size),
            // No later report will state whether the datagram arrived. If it contained a link name, the name is sent
            // again.
            Sent::Control(resend) => pending.link |= resend.link,
            Sent::Data(..) => {}
        });
    }

    /// Handles a local link that went down. `cause` is the reason for reports.
    pub fn on_link_down(&mut self, cx: &mut Context<'_>, link: LinkId, cause: &'static str) {
        self.addresses.attempts.forget_link(cx.now, link);
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
                    self.move_units_away(cx, index);
                }
            }
        }
    }

    /// Informs the peer that this node is leaving.
    pub fn close(&mut self) {
        for path in self.paths.iter_mut().filter(|p| p.is_usable()) {
            path.pending.close = true;
        }
    }

    /// Pings the peer over every path in use. Each answer is reported with the number `id`.
    pub fn ping(&mut self, now: Instant, id: u32) {
        for path in self.paths.iter_mut().filter(|p| p.active) {
            let token = *path.pending.ping.get_or_insert(self.control.take_token());
            path.pings.retain(|(_, sent)| now - sent.1 < Duration::from_secs(10));
            path.pings.push((token, (id, now)));
        }
    }

    /// Handles a datagram with a UDP payload of `size` bytes that the kernel refused as too long.
    pub fn on_too_big(&mut self, now: Instant, link: LinkId, remote: SocketAddr, size: usize) {
        for path in self.paths.iter_mut().filter(|p| p.link == link && p.remote == remote) {
            let ip_bytes = (size + path.outer_header_len()) as u16;
            path.mtu.on_too_big(now, ip_bytes);
        }
    }

    /// Returns the time at which the scheduler must choose a path again, or `None` if no unit waits for its choice.
    ///
    /// It chooses again when the next path is ready, or after [`HOLD_AGAIN`]. While the port has used up its rate, it
    /// chooses again when the port may send.
    fn held_back_until(&self, now: Instant) -> Option<Instant> {
        if !self.ingress.queue.is_ready(now) {
            return self.ingress.queue.port().and_then(Port::held_until);
        }
        let again = now + HOLD_AGAIN;
        self.usable_paths().map(|p| p.pacer.ready_at()).map(|at| if at > now { at.min(again) } else { again }).min()
    }

    /// Returns the earliest time at which this node has work for the peer without further input.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        sooner(self.next_timer(now), self.next_send(now))
    }

    /// Returns the time at which [`Peer::on_timeout`] next has work, or `None` if it has none.
    pub fn next_timer(&self, now: Instant) -> Option<Instant> {
        let (outage, acks) = (self.outage_deadline(now), self.ingress.held_acks.deadline());
        if !self.is_established() {
            return outage.into_iter().chain(acks).min();
        }
        let urgency = self.urgency(now);
        let own = |path: &Path| own_timer(path, self.probe_at(path, now), urgency);
        let timer = |(index, path)| sooner(self.report_timer(index), own(path));
        let paths = self.paths.iter().enumerate().filter_map(timer).min();
        let waits = [
            self.inbound.hole_deadline(),
            self.inbound.joins.next_deadline(),
            self.ingress.openings.next_deadline(),
            self.lost_deadline(),
            self.loops_deadline(),
            self.control.revocation_sync.deadline(),
            outage,
            acks,
        ];
        waits.into_iter().flatten().chain(paths).min()
    }

    /// Returns the time at which the report about a path is due. If nothing may leave by the path, another one sends it.
    fn report_timer(&self, index: usize) -> Option<Instant> {
        let due = self.paths[index].report_due(|| self.reports_ride(index));
        due.filter(|_| !planted::is(Fault::ReportTimerNotSet))
    }

    /// Returns the time at which this node next has something to send to the peer.
    fn next_send(&self, now: Instant) -> Option<Instant> {
        if !self.is_established() {
            return None;
        }
        let paths = self.paths.iter().filter_map(|path| path_send(path, now));
        paths.chain(self.held_back_until(now)).min()
    }
}

/// Returns the time of a path's next timer work other than its report, or `None` if its link is down or it is gone.
///
/// The report may leave by another path.
fn own_timer(path: &Path, probe_at: Instant, urgency: Urgency) -> Option<Instant> {
    if !path.link_up || path.is_gone() {
        return None;
    }
    let is_judged = path.active && !path.barred && path.health.answers();
    let silence = if is_judged { silence_timer(path, urgency) } else { None };
    let may_probe = !path.barred && (path.ours || path.health.state() != PathState::Opening);
    let probe = may_probe.then_some(probe_at);
    let sensing = path.sensing.deadline().filter(|_| path.proof.is_proven());
    sooner(sooner(silence, probe), sooner(sensing, path.sent_packets.next_loss_timeout()))
}

/// Returns the time at which the silence of an answering path is next to be judged, or `None` if all is answered.
fn silence_timer(path: &Path, urgency: Urgency) -> Option<Instant> {
    let ask = path.ask_at(urgency);
    if path.waiting.since().is_none() {
        return ask;
    }
    let threshold = path.suspect_after();
    sooner(ask, sooner(path.waiting.overdue_at(threshold), path.waiting.suspect_at(threshold, path.misses)))
}

/// Returns the earlier of two times, of which each may be missing.
fn sooner(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}

/// Returns the time at which something is next to be sent on a path, or `None` if nothing is.
fn path_send(path: &Path, now: Instant) -> Option<Instant> {
    if !path.link_up || path.is_gone() {
        return None;
    }
    if !path.has_credit() {
        // The peer has not proven to receive at the path's address, so only pings may be sent there.
        return path.proof.ping_at();
    }
    if !path.pending.is_empty() {
        return Some(now);
    }
    let next_lane = path.queues.front().filter(|_| path.is_usable()).map(|(lane, _)| lane);
    let data = next_lane.filter(|lane| !lane.waits_for_window() || path.has_window()).map(|_| path.pacer.ready_at());
    let data = data.filter(|_| !planted::is(Fault::PacerTimerNotSet));
    let may_search = path.active && !path.barred && path.health.answers() && path.proof.is_proven();
    let search = path.mtu.probe_at(now).filter(|_| may_search);
    sooner(data, search)
}
