//! Probes of a drill: pings on the path that a sparse flow takes while a link or node is cut.
//!
//! The pings sent and answered are counted for each path, before, during and after the cut. Further results are the
//! longest gap between answers, and the times at which paths became suspect, went down and answered again.

use super::Peer;
use super::control::probes::{ProbedPath, Probes};
use crate::api::{DrillPhase, PeerDrill, WayDrill};
use crate::path::Path;
use weft_units::{Duration, Instant, Rate};

/// Interval between two probes of a drill, where the path's rate allows it.
///
/// Derived: the packet interval of a voice call. The probes then have the same delays and losses as a voice call. They
/// update the path's estimates as often, and detect silence as early, as the packets of a voice call.
const INTERVAL: Duration = Duration::from_millis(20);
/// Longest interval between two probes of a drill, on a path with a low rate.
const INTERVAL_MAX: Duration = Duration::from_millis(100);
/// Approximate size of a probe in IP bytes, from which the interval of the probes is computed.
const PROBE_BYTES: u64 = 100;
/// Divisor of a path's rate: probes take at most 1/10 of it.
const SHARE: u64 = 10;

impl Peer {
    /// Sends the next probe of a drill if it is due, and records when a cut path became suspect or went down.
    pub fn probe_in_drill(&mut self, now: Instant, phase: DrillPhase, cut_at: Instant) {
        let Some(mut probes) = self.control.probes.take() else { return };
        if phase >= DrillPhase::Silent && now >= cut_at {
            let cut = || self.paths.iter().filter(|path| probes.cut.contains(&path.id) && path.active);
            let is_suspected = cut().any(|path| !path.health.answers());
            let is_down = cut().any(|path| !path.health.is_usable());
            probes.suspected_at = probes.suspected_at.or(is_suspected.then_some(now));
            probes.down_at = probes.down_at.or(is_down.then_some(now));
        }
        if probes.next <= now && phase < DrillPhase::Over {
            let interval = self.send_probe(now, phase, &mut probes);
            // Probes that were due during a stall of the program are not sent later.
            probes.next = (probes.next + interval).max(now + interval / 2);
        }
        self.control.probes = Some(probes);
    }

    /// Sends a probe on the path that a sparse flow would take now. Returns the time until the next probe.
    fn send_probe(&mut self, now: Instant, phase: DrillPhase, probes: &mut Probes) -> Duration {
        let is_cut = |path: &Path| probes.cut.contains(&path.id);
        let usable = (0..self.paths.len()).filter(|at| self.paths[*at].is_usable());
        let rank = |path: &Path| (!path.health.answers(), !is_cut(path), path.state(), path.rtt().smoothed());
        let Some(at) = usable.min_by_key(|at| rank(&self.paths[*at])) else {
            probes.unsent += 1;
            return INTERVAL;
        };
        let path = &mut self.paths[at];
        if path.pending.ping.is_none() {
            let token = self.control.take_token();
            path.pending.ping = Some(token);
            probes.on_sent(now, token, path.id, phase);
        }
        interval(path.rate.pacing_rate(now))
    }

    /// Returns the results of the drill for this peer, or `None` if the peer takes part in no drill.
    pub fn drill_report(&self, now: Instant, cut_at: Instant, restored_at: Instant) -> Option<PeerDrill> {
        let probes = self.control.probes.as_ref()?;
        let ways = probes.ways.iter().filter_map(|way| {
            let path = self.paths.iter().find(|path| path.id == way.path)?;
            Some(WayDrill {
                path: way.path,
                link_name: path.link_name.clone(),
                remote: path.remote,
                is_cut: probes.cut.contains(&way.path),
                sent: way.sent,
                answered: way.answered,
            })
        });
        let sum = |of: fn(&ProbedPath) -> &[u32; 3]| probes.ways.iter().flat_map(of).sum::<u32>();
        let (sent, answered) = (sum(|way| &way.sent), sum(|way| &way.answered));
        let unanswered_since = probes.answered_at.unwrap_or(cut_at);
        Some(PeerDrill {
            peer: self.config.name.clone(),
            sent,
            lost: sent - answered,
            unsent: probes.unsent,
            suspected_after: probes.suspected_at.map(|at| at - cut_at),
            down_after: probes.down_at.map(|at| at - cut_at),
            gap: probes.gap.max(now.min(restored_at) - unanswered_since.max(cut_at)),
            gap_after: probes.gap_after,
            back_after: probes.back_at.map(|at| at - restored_at),
            ways: ways.collect(),
        })
    }
}

fn interval(rate: Rate) -> Duration {
    rate.time_for(PROBE_BYTES * SHARE).clamp(INTERVAL, INTERVAL_MAX)
}
