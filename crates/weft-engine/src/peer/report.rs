//! Processes the peer's reports.
//!
//! A report updates the path's record of sent packets, RTT, loss and rate, and confirms that the path answers. This
//! module also selects the one path of each link that carries data, and computes the hold time that is sent to the
//! peer.

use super::{Context, Peer};
use crate::api::PathState;
use crate::path::Path;
use weft_core::sense::PathSample as Counters;
use weft_units::tuned::{Constant, Tuned};
use weft_units::{Duration, LinkId};
use weft_wire::frame::ReceptionReport;

/// Least number of retransmissions of one unit that the announced hold time must allow.
const REPEATS: u32 = 4;
/// Largest number of retransmissions of one unit that the announced hold time allows.
///
/// Derived: after sixteen retransmissions on a path that loses half of all packets, about [`MISSING`] are missing.
const REPEATS_MAX: u32 = 16;
/// Largest share of the units that may still be missing after all retransmissions.
///
/// A TCP sender reduces its rate for each missing unit. Tuned: in a sweep, the choice between 1e-4 and 1e-6 changes
/// the result less than the choice of the mix.
const MISSING: Tuned<f64> = Tuned::new(Constant::Missing, 1e-5);
/// Time that a retransmission takes in addition to one RTT.
///
/// It covers gap detection, report spacing, and the queue that the retransmission overtakes.
const REPEAT_MARGIN: Duration = Duration::from_millis(10);
const HOLD_MAX: Duration = Duration::from_secs(2);
/// Longest hold time that allows more than [`REPEATS`] retransmissions. A longer one allows only [`REPEATS`].
///
/// Standard: a TCP sender may time out after 1 s without an acknowledgement (RFC 6298, section 2.4).
const HOLD_FOR_LOSS: Duration = Duration::from_secs(1);

impl Peer {
    pub(super) fn on_report(&mut self, cx: &mut Context<'_>, report: &ReceptionReport<'_>) {
        let Some(index) = self.path_index(report.arrivals.path) else { return };
        let counters = counters(report);
        let now = cx.now;
        let sample = self.apply_fates(cx, index, |sent_packets, fates| {
            sent_packets.on_report(now, &counters, report.ranges(), &mut |sent, fate, departure| {
                fates.on_fate(sent, fate, departure)
            })
        });
        let keepalive = self.keepalive(&self.paths[index], now);
        let path = &mut self.paths[index];
        path.waiting.on_report(counters.largest);
        path.proof.on_acknowledged(counters.largest);
        if let Some(mut sample) = sample {
            if path.state() == PathState::Down {
                // Probes lost while the path was down must not be included in its loss rate.
                (sample.lost_packets, sample.lost_bytes) = (0, 0);
                path.rate.resume(now);
            }
            let (probes, bytes) = path.mtu.take_lost_probes();
            sample.lost_packets = sample.lost_packets.saturating_sub(probes);
            sample.lost_bytes = sample.lost_bytes.saturating_sub(bytes);
            path.on_sample(now, &sample);
            let confirmed = path.health.on_confirmed(now, sample.largest_sent_at, keepalive);
            // The loss rate of a path that carries only occasional pings is not meaningful.
            let loss = if path.active { path.health.on_loss(now, path.loss().fraction()) } else { None };
            if let Some(cause) = confirmed {
                self.on_path_answers(cx, index, cause);
            }
            if let Some(cause) = loss {
                self.log_path(cx.events, index, cause);
            }
        }
    }

    /// Handles a path that answers for the first time, or again.
    fn on_path_answers(&mut self, cx: &mut Context<'_>, index: usize, cause: &'static str) {
        let path = &self.paths[index];
        if path.ours && !path.barred && !path.active && !self.has_path_in_use(path.link) {
            self.use_path(index);
        }
        self.forget_attempts(index);
        self.choose_spares(cx);
        self.refresh_weights();
        let keepalive = self.keepalive(&self.paths[index], cx.now);
        self.paths[index].health.on_traffic(cx.now, keepalive);
        self.paths[index].pending.policy |= self.paths[index].states_policy();
        // Units may have been given up while no path could carry a SKIP frame. The peer still waits for them, so it is
        // informed now.
        self.paths[index].pending.skips |= !self.recovery.skips.is_empty();
        self.ingress.openings.hurry(cx.now);
        self.report_gone();
        self.log_path(cx.events, index, cause);
    }

    pub(super) fn has_path_in_use(&self, link: LinkId) -> bool {
        self.paths.iter().any(|p| p.link == link && p.active && p.health.is_usable())
    }

    /// Puts this path into use for data, instead of the other paths of its link.
    fn use_path(&mut self, index: usize) {
        let link = self.paths[index].link;
        if let Some(before) = self.paths.iter().find(|p| p.link == link && p.active).map(|p| p.rate.clone()) {
            self.paths[index].rate.take_over(&before);
        }
        for other in self.paths.iter_mut().filter(|p| p.link == link) {
            other.pending.policy |= other.active;
            other.active = false;
        }
        self.paths[index].active = true;
        self.paths[index].pending.policy = true;
    }

    /// Puts the best answering path of a link into use after the path in use was given up.
    pub fn choose_path(&mut self, cx: &mut Context<'_>, link: LinkId) {
        if self.has_path_in_use(link) {
            return;
        }
        let may = |p: &Path| p.link == link && p.ours && p.link_up && !p.barred && p.health.answers();
        let best = (0..self.paths.len())
            .filter(|i| may(&self.paths[*i]))
            .min_by_key(|i| (self.paths[*i].state(), self.paths[*i].rtt().smoothed()));
        if let Some(index) = best {
            self.use_path(index);
            self.refresh_weights();
            self.log_path(cx.events, index, "in use instead");
        }
    }

    /// Computes the time for which the peer should wait for a missing unit.
    ///
    /// The time is announced to the peer if it has changed by more than a fifth.
    pub(super) fn update_hold(&mut self) {
        let delays = |p: &Path| p.delay().baseline_us().unwrap_or_default();
        let Some(origin) = self.usable_paths().next().map(delays) else { return };
        let (mut least, mut most, mut rtt, mut loss) = (i64::MAX, i64::MIN, Duration::ZERO, 0.0f64);
        for path in self.usable_paths() {
            let delay = i64::from(delays(path).wrapping_sub(origin) as i32);
            least = least.min(delay);
            most = most.max(delay + path.delay().jitter().as_micros() as i64);
            rtt = rtt.max(path.rtt().smoothed());
            loss = loss.max(path.loss().fraction());
        }
        let skew = Duration::from_micros(u64::try_from(most - least).unwrap_or(0));
        let hold = (skew + hold_for(rtt + REPEAT_MARGIN, loss)).min(HOLD_MAX);
        let (old, new) = (self.recovery.hold_announced.as_micros() as i128, hold.as_micros() as i128);
        if (old - new).abs() * 5 > old {
            self.recovery.hold_announced = hold;
            for path in self.paths.iter_mut().filter(|p| p.is_usable()) {
                path.pending.hold = true;
            }
        }
    }
}

/// Returns the time in which nearly every lost unit arrives, if one retransmission takes `once`.
///
/// `loss` is the share of packets lost, 0…1. A retransmission is lost as often as any other packet.
fn hold_for(once: Duration, loss: f64) -> Duration {
    let mut repeats = REPEATS;
    let mut missing: f64 = (0..repeats).map(|_| loss).product();
    while missing > MISSING.get() && repeats < REPEATS_MAX {
        missing *= loss;
        repeats += 1;
    }
    (once * REPEATS).max((once * repeats).min(HOLD_FOR_LOSS))
}

fn counters(report: &ReceptionReport<'_>) -> Counters {
    let a = &report.arrivals;
    Counters {
        largest: report.largest(),
        received_at_us: a.received_at_us,
        held: Duration::from_micros(a.held_us),
        packets_received: a.packets_received,
        bytes_received: a.bytes_received,
        ce_received: a.ce_received,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn the_hold_time_grows_with_the_loss_up_to_a_senders_timeout() {
        let mut rng = Rng::new(1);
        for _ in 0..1_000 {
            let once = Duration::from_millis(11 + rng.below(400));
            let mut losses = [rng.unit(), rng.unit()];
            losses.sort_by(f64::total_cmp);
            let [less, more] = losses.map(|loss| hold_for(once, loss));
            assert!(less >= once * REPEATS && less <= more, "{once:?}, {losses:?}: {less:?}, {more:?}");
            assert!(more <= (once * REPEATS).max(HOLD_FOR_LOSS), "{once:?}, {losses:?}: {more:?}");
        }
        let once = Duration::from_millis(20);
        assert_eq!([0.0, 0.05].map(|loss| hold_for(once, loss)), [once * REPEATS; 2]);
        assert_eq!([0.09, 0.3].map(|loss| hold_for(once, loss)), [once * 5, once * 10]);
    }
}
