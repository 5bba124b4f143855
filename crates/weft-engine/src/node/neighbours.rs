//! Reports of a relay to its peers: the nodes to which it forwards datagrams, with RTT and loss.
//!
//! A relay reports only its own peers, to its own peers, within their sessions. No node repeats the report of
//! another. A false report therefore concerns only the sender's own links. The resulting route is measured from end
//! to end before anything depends on it.

use super::Engine;
use crate::peer::Peer;
use crate::relay::reach::{repeat_interval, words};
use weft_units::{Duration, Instant};
use weft_wire::frame::Neighbour;
use weft_wire::relay::Label;

/// Maximum number of reports that fit into a datagram.
///
/// *Derived*: 1,174 bytes of frames, 11 bytes for each report.
const DATAGRAM_WORDS: usize = 106;
/// Maximum number of peers that are sent reports in one step. More would delay the node's other work.
const BATCH: usize = 1_024;
/// Least interval between two searches for peers to which reports are due, per peer of this node.
///
/// *Derived*: examining a peer takes about 20 ns, and searches may take 1 % of the node's time.
const LOOK: Duration = Duration::from_micros(2);

/// Returns the report of this node, as a relay, about its connection to a peer.
///
/// `node` is the peer's label, the first 32 bits of its node id.
fn neighbour_of(node: Label, peer: &Peer) -> Neighbour {
    let path = peer.fastest_direct_path().filter(|path| peer.is_established() && path.health.answers());
    let nothing = Neighbour { node, is_reachable: false, rtt_us: 0, loss: 0 };
    path.map_or(nothing, |path| Neighbour {
        node,
        is_reachable: true,
        rtt_us: u32::try_from(path.rtt().smoothed().as_micros()).unwrap_or(u32::MAX),
        loss: (path.loss().fraction() * 256.0) as u8,
    })
}

impl Engine {
    /// Sends each peer this relay's reports about the other peers: changes soon, and all reports periodically.
    pub(super) fn report_neighbours(&mut self, now: Instant) {
        if !self.relaying.is_relay {
            (self.relaying.repeat_at, self.relaying.send_at) = (None, None);
            return;
        }
        self.report_changes();
        if self.relaying.repeat_at.is_none_or(|at| now >= at) {
            self.repeat_reports(now);
        }
        if now >= self.relaying.quiet_until {
            self.send_reports(now);
        } else {
            self.relaying.send_at = Some(self.relaying.quiet_until);
        }
    }

    /// Queues reports about peers that became reachable or unreachable.
    fn report_changes(&mut self) {
        while let Some(of) = self.peers.take_unseen() {
            let Some(neighbour) = self.neighbour(of) else { continue };
            if self.relaying.bulletin.reports_reachable(of) != neighbour.is_reachable {
                let reached = self.relaying.reached.saturating_add_signed(if neighbour.is_reachable { 1 } else { -1 });
                self.relaying.reached = reached;
                self.relaying.bulletin.add(of, neighbour);
            }
        }
    }

    /// Queues reports about reachable peers again, as many as fit into a datagram. The reported peers take turns.
    fn repeat_reports(&mut self, now: Instant) {
        let mut said = 0;
        for _ in 0..self.peers.len() {
            let of = self.relaying.repeat_next % self.peers.len();
            self.relaying.repeat_next = of + 1;
            if let Some(neighbour) = self.neighbour(of).filter(|neighbour| neighbour.is_reachable) {
                self.relaying.bulletin.add(of, neighbour);
                said += 1;
            }
            if said == DATAGRAM_WORDS {
                break;
            }
        }
        let reached = self.relaying.reached;
        let part = if reached > DATAGRAM_WORDS { DATAGRAM_WORDS as f64 / reached as f64 } else { 1.0 };
        self.relaying.repeat_at = Some(now + repeat_interval(reached).mul_f64(part));
    }

    fn neighbour(&self, of: usize) -> Option<Neighbour> {
        Some(neighbour_of(self.relaying.labels.of(of)?, self.peers.get(of)?))
    }

    /// Selects the next peers to which reports are due. Each gets at most one datagram of them, by its fastest path.
    ///
    /// Reports that are due are counted only for reachable receivers. A busy relay takes many peers for unreachable,
    /// and counting the reports for these peers would keep it busy.
    fn send_reports(&mut self, now: Instant) {
        let (mut told, mut sent) = (0, 0);
        for _ in 0..self.peers.len() {
            if told == BATCH {
                break;
            }
            let index = self.relaying.send_next % self.peers.len();
            self.relaying.send_next = index + 1;
            let Some(peer) = self.peers.get(index) else { continue };
            let Some(fastest) = peer.fastest_path() else { continue };
            let count = peer.outstanding_reports(&self.relaying.bulletin).take(DATAGRAM_WORDS).count();
            if count > 0
                && let Some(path) = self.peers.get_mut(index).and_then(|peer| peer.paths.get_mut(fastest))
            {
                path.pending.neighbours = true;
                (told, sent) = (told + 1, sent + count);
            }
        }
        self.relaying.quiet_until =
            now + words(sent, 1).max(LOOK * u32::try_from(self.peers.len()).unwrap_or(u32::MAX));
        // A peer to which more reports are due than fit into a datagram gets the next datagram at this time.
        self.relaying.send_at = (told > 0).then_some(self.relaying.quiet_until);
    }
}
