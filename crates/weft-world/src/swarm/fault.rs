//! The faults of a run, and their times.

use super::plan::NodePlan;
use std::fmt;
use weft_units::{Duration, Instant, Rng};

/// A fault, with the times at which it begins and ends.
#[derive(Clone, Debug)]
pub(super) struct SwarmFault {
    pub(super) at: Instant,
    pub(super) until: Instant,
    pub(super) kind: FaultKind,
}

/// Time after the end of a fault during which a session may still end because of the fault.
///
/// A node sends handshakes to a silent peer at most 20 s apart. The first handshake after the fault succeeds.
const CALLED_WITHIN: Duration = Duration::from_secs(25);

/// Kinds of faults. `link` is an access link of `node`.
#[derive(Clone, Debug)]
pub(super) enum FaultKind {
    /// The link loses datagrams with this probability.
    Loss { node: usize, link: usize, p: f64 },
    /// The link delays one datagram in four by up to this time.
    Reorder { node: usize, link: usize, by: Duration },
    /// The link also delivers copies of datagrams with probability `p`, up to `later` after the originals.
    Duplicate { node: usize, link: usize, p: f64, later: Duration },
    /// The link changes bytes of datagrams with this probability.
    Corrupt { node: usize, link: usize, p: f64 },
    /// The link carries no datagram from the node.
    CutUp { node: usize, link: usize },
    /// The link carries no datagram to the node.
    CutDown { node: usize, link: usize },
    /// No datagram passes between the nodes `a` and `b`.
    Partition { a: usize, b: usize },
    /// A firewall passes only datagrams of existing sessions, and drops handshakes.
    NoHandshakes { node: usize },
    /// The process ends without notice and restarts.
    Crash { node: usize },
    /// The process stops for a while. Datagrams that arrive wait in its sockets.
    Pause { node: usize },
    /// The link's interface goes down and comes up again.
    Unplug { node: usize, link: usize },
    /// The NAT in front of the link forgets its mapping.
    Rebind { node: usize, link: usize },
    /// The link's MTU falls to `mtu` and stays there. Longer datagrams vanish.
    Mtu { node: usize, link: usize, mtu: u16 },
    /// The delay of the path through the link grows by `by`.
    Delay { node: usize, link: usize, by: Duration },
    /// The node's clock jumps ahead by `by`.
    ClockStep { node: usize, by: Duration },
    /// A stranger sends `count` datagrams to the node: replays, exact or changed, or random bytes.
    Attack { node: usize, count: u32 },
    /// The machine sleeps. When it wakes up, the node starts new sessions.
    Suspend { node: usize },
    /// The process ends and restarts without its state.
    ///
    /// Its wall clock then shows an earlier time by `back`.
    LoseState { node: usize, back: Duration },
    /// The disk stores nothing that the process writes.
    DiskFull { node: usize },
    /// The node reads its configuration file again, at the beginning and at the end of the fault.
    Reload { node: usize },
    /// A hijacker forwards datagrams to the link with this probability from another address and drops the originals.
    Hijack { node: usize, link: usize, p: f64 },
    /// `node` runs with the key of another node.
    Twin { node: usize },
    /// `node` sends arbitrary datagrams under its own key.
    Lie { node: usize },
    /// The key of `node` is revoked at the node `by`.
    Revoke { by: usize, node: usize },
}

impl SwarmFault {
    /// True if a session may end at `at` because of this fault.
    ///
    /// A node starts the handshake for a new session key 60 s before the old key ends, so a session can also end
    /// after the fault. A smaller MTU, the loss of one link, a reload and the actions of other nodes must not end a
    /// session.
    pub(super) fn may_end_a_session(&self, at: Instant) -> bool {
        let is_innocent = matches!(
            self.kind,
            FaultKind::Mtu { .. }
                | FaultKind::Unplug { .. }
                | FaultKind::DiskFull { .. }
                | FaultKind::Reload { .. }
                | FaultKind::Lie { .. }
                | FaultKind::Revoke { .. }
        );
        !is_innocent && self.at <= at && at <= self.until + CALLED_WITHIN
    }

    /// Returns a second fault that makes this one worse. `None` for most kinds, and for some random values.
    ///
    /// The second fault of a crash is a replay to the node that has restarted. The second fault of a NAT rebinding is
    /// reordering. Datagrams from the old address then arrive after datagrams from the new one.
    pub(super) fn draw_company(&self, rng: &mut Rng) -> Option<SwarmFault> {
        let (from, until, kind) = match self.kind {
            FaultKind::Crash { node } => (self.until, 3, FaultKind::Attack { node, count: 12 }),
            FaultKind::Rebind { node, link } => {
                let by = Duration::from_millis(20 + rng.below(60));
                (self.at.before(Duration::from_millis(50)), 0, FaultKind::Reorder { node, link, by })
            }
            _ => return None,
        };
        let until = self.until.max(from + Duration::from_secs(until));
        rng.chance(0.5).then_some(SwarmFault { at: from, until, kind })
    }

    /// Draws a fault that begins and ends between `from` and `end`.
    ///
    /// It lasts at most 250 s if `is_long`, else at most 3 s.
    pub(super) fn draw(rng: &mut Rng, nodes: &[NodePlan], from: Instant, end: Instant, is_long: bool) -> SwarmFault {
        let (at, until) = SwarmFault::draw_time(rng, from, end, is_long);
        SwarmFault { at, until, kind: FaultKind::draw(rng, nodes, is_long) }
    }

    /// Draws the time at which a fault begins and the time at which it ends, both between `from` and `end`.
    ///
    /// The fault lasts at most 250 s if `is_long`, else at most 3 s.
    pub(super) fn draw_time(rng: &mut Rng, from: Instant, end: Instant, is_long: bool) -> (Instant, Instant) {
        let at = from + Duration::from_nanos(rng.below((end - from).as_nanos() as u64));
        let most = (end - at).min(if is_long { Duration::from_secs(250) } else { Duration::from_secs(3) });
        // Lengths are at least 20 ms and have a logarithmic distribution: each factor of ten is equally likely.
        let decades = (most.as_secs_f64() / 0.02).max(1.0);
        let length = 0.02 * libm::pow(decades, rng.unit());
        (at, (at + Duration::from_secs_f64(length)).min(end))
    }
}

impl FaultKind {
    fn draw(rng: &mut Rng, nodes: &[NodePlan], is_long: bool) -> FaultKind {
        let node = rng.below(nodes.len() as u64) as usize;
        let link = rng.below(nodes[node].links.len() as u64) as usize;
        let p = [0.02, 0.1, 0.3, 0.6][rng.below(4) as usize];
        let ms = |ms: u64| Duration::from_millis(ms);
        let kind = if is_long && rng.chance(0.4) { 7 } else { rng.below(18) };
        match kind {
            0 | 1 => FaultKind::Loss { node, link, p },
            2 => FaultKind::Reorder { node, link, by: ms(1 + rng.below(60)) },
            3 => FaultKind::Duplicate { node, link, p, later: ms(1 + rng.below(400)) },
            4 => FaultKind::Corrupt { node, link, p: p / 2.0 },
            5 => FaultKind::CutUp { node, link },
            6 => FaultKind::CutDown { node, link },
            7 => FaultKind::NoHandshakes { node },
            8 => FaultKind::Partition {
                a: node,
                b: (node + 1 + rng.below(nodes.len() as u64 - 1) as usize) % nodes.len(),
            },
            9 | 10 => FaultKind::Crash { node },
            11 => FaultKind::Pause { node },
            12 => FaultKind::Unplug { node, link },
            13 if nodes[node].is_callee => FaultKind::CutUp { node, link },
            13 => FaultKind::Rebind { node, link },
            14 => FaultKind::Mtu { node, link, mtu: [600, 800, 1000, 1280, 1400, 1450][rng.below(6) as usize] },
            15 => FaultKind::Delay { node, link, by: ms(5 + rng.below(120)) },
            16 => FaultKind::ClockStep { node, by: ms(1 << rng.below(16)) },
            _ => FaultKind::Attack { node, count: 4 + rng.below(30) as u32 },
        }
    }
}

impl fmt::Display for SwarmFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |at: Instant| at.as_micros() as f64 / 1e3;
        write!(f, "{:10.1} to {:10.1} ms: {:?}", ms(self.at), ms(self.until), self.kind)
    }
}
