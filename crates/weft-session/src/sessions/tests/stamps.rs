//! Refused stamps: both ends learn the reason, sessions recover, and recorded initiations stay refused.

use super::*;
use crate::stamps::{FARTHEST_AHEAD, StampFault, StampRefusal};
use weft_units::Rng;

const DAY: u64 = 86_400 * 1_000_000_000;
/// The time that a right clock shows at the start of a test, in nanoseconds since 1970.
const NOW: u64 = 20_000 * DAY;

/// Lets a node handle an initiation that it must refuse, and returns the refusal.
fn refuse(to: &mut Sessions, now: Instant, datagram: &[u8]) -> StampRefusal {
    answer(to, now, datagram).unwrap_err();
    to.take_refusal().expect("it is authentic")
}

#[test]
fn a_node_without_its_state_learns_the_reason_and_connects_with_the_next_stamp() {
    let (left, right) = identities();
    let (mut a, mut b) = pair();
    handshake(&mut a, &mut b, at(0), 500);
    let mut forgetful = node(&left, &right, 77);
    let first = initiation(&mut forgetful, at(10), 3);
    let refusal = refuse(&mut b, at(10), &first);
    assert_eq!((refusal.refused.stamp, refusal.refused.accepted), (3, 500));
    assert_eq!(refusal.refused.fault, StampFault::NotRising);
    assert!(refusal.answer.len() <= first.len(), "no amplification");
    assert!(refuse(&mut b, at(10), &first).answer.is_empty(), "not at any rate");
    let told = answer(&mut forgetful, at(10), &refusal.answer).unwrap().0;
    assert_eq!(told, Outcome::Refused { peer: PEER, refused: refusal.refused, call_again: true });
    assert!(!forgetful.is_established(PEER));
    handshake(&mut forgetful, &mut b, at(10), 4);
    pass(&mut forgetful, &mut b);
    assert_eq!(b.accepted_stamps().next().unwrap().1, 501);
    // The stamp 1,000 of the clock is not used: after a refusal, each stamp is the previous one plus one.
    forgetful.force_initiate(at(20), PEER).unwrap();
    handshake(&mut forgetful, &mut b, at(20), 1_000);
    assert_eq!(b.accepted_stamps().next().unwrap().1, 502);
}

#[test]
fn refusals_of_others_change_nothing() {
    let (left, right) = identities();
    let (mut a, mut b) = pair();
    let recorded = initiation(&mut a, at(0), 5);
    answer(&mut b, at(0), &recorded).unwrap();
    let refusal = refuse(&mut b, at(10), &recorded).answer;
    // The node that sent the recorded initiation now waits for the answer to a newer one. The refusal of the old one
    // must not affect it.
    a.force_initiate(at(10), PEER).unwrap();
    let next = initiation(&mut a, at(10), 6);
    assert_eq!(answer(&mut a, at(10), &refusal), Err(HandshakeError::Unexpected));
    for bit in 0..refusal.len() * 8 {
        let mut forged = refusal.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert!(answer(&mut a, at(10), &forged).is_err(), "bit {bit}");
    }
    let mut stranger = node(&identity(3), &left, 1);
    assert!(answer(&mut stranger, at(10), &refusal).is_err());
    let mut unmet = node(&right, &identity(3), 1);
    assert_eq!(answer(&mut unmet, at(10), &recorded), Err(HandshakeError::Stranger));
    assert_eq!(unmet.take_refusal(), None, "strangers get silence");
    let (_, second) = answer(&mut b, at(10), &next).unwrap();
    assert!(matches!(answer(&mut a, at(10), &second), Ok((Outcome::Established { .. }, _))));
}

#[test]
fn recordings_of_runs_that_were_met_are_known() {
    let (left, right) = identities();
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 5);
    let (_, second) = answer(&mut b, at(0), &first).unwrap();
    answer(&mut a, at(0), &second).unwrap();
    pass(&mut a, &mut b);
    let refusal = refuse(&mut b, at(10), &first);
    assert!(refusal.is_of_known_run);
    let mut restarted = node(&left, &right, 78);
    handshake(&mut restarted, &mut b, at(20), 6);
    pass(&mut restarted, &mut b);
    let refusal = refuse(&mut b, at(30), &first);
    assert!(refusal.is_of_known_run, "its run has ended");
    let unmet = initiation(&mut node(&left, &right, 79), at(30), 2);
    assert!(!refuse(&mut b, at(30), &unmet).is_of_known_run);
    // The first run returns after the restarted one, so two runs are active. A refused initiation of the restarted run
    // need not be a replay.
    a.force_initiate(at(40), PEER).unwrap();
    handshake(&mut a, &mut b, at(40), 7);
    pass(&mut a, &mut b);
    let mut behind = initiation(&mut restarted, at(50), 7);
    assert!(!refuse(&mut b, at(50), &behind).is_of_known_run);
    behind[8] ^= 1;
    assert_eq!(answer(&mut b, at(51), &behind), Err(HandshakeError::BadMac));
}

#[test]
fn a_stamp_far_ahead_is_refused_and_the_peer_is_not_locked_out() {
    let (mut a, mut b) = pair();
    b.set_unix_time(at(0), NOW);
    let far = NOW + FARTHEST_AHEAD.as_nanos() as u64 + 1;
    let first = initiation(&mut a, at(0), far);
    assert_eq!(answer(&mut b, at(0), &first), Err(HandshakeError::TooFarAhead));
    let refusal = b.take_refusal().unwrap();
    assert_eq!((refusal.refused.fault, refusal.refused.accepted), (StampFault::TooFarAhead, 0));
    answer(&mut a, at(0), &refusal.answer).unwrap();
    handshake(&mut a, &mut b, at(0), far + 5);
    assert_eq!(b.accepted_stamps().next().unwrap().1, 1);
    // A later run with a right clock is accepted: the stamp far ahead was refused, so it is not the highest accepted
    // one.
    let mut again = node(&identities().0, &identities().1, 78);
    handshake(&mut again, &mut b, at(20), NOW);
    b.reset_stamps(PEER);
    assert_eq!(b.accepted_stamps().next(), None);
}

#[test]
fn both_ends_learn_that_two_nodes_use_one_key() {
    let (left, right) = identities();
    let mut b = node(&right, &left, 20);
    let mut twins = [node(&left, &right, 1), node(&left, &right, 2)];
    for turn in 0..4 {
        let now = at(10 * (turn + 1));
        let twin = &mut twins[turn as usize % 2];
        twin.force_initiate(now, PEER).unwrap();
        handshake(twin, &mut b, now, turn + 1);
        pass(twin, &mut b);
        let (is_peers, is_own) = (b.shared_keys(now, PEER).0, twin.shared_keys(now, PEER).1);
        // From the third turn on, an association returns after another one. Node `b` thus detects that two nodes use
        // the key, and its answer reports this.
        assert_eq!((is_peers, is_own), (turn >= 2, turn >= 2), "turn {turn}");
    }
}

/// The state that a node stores on its disk: the stamp that it used last, and the highest stamp that it accepted.
#[derive(Clone, Copy, Default)]
struct StampDisk {
    used: u64,
    accepted: Option<u64>,
}

/// A node whose clock may be wrong and whose disk may lose its content or get an old backup.
///
/// It checks that no initiation is accepted twice.
struct ClockedNode {
    sessions: Sessions,
    identity: Identity,
    peer: Identity,
    disk: StampDisk,
    backup: StampDisk,
    /// Difference of the node's clock from the right time, in nanoseconds.
    off: i64,
    /// Numbers of the initiations that the node accepted since its disk last lost its content or got a backup.
    accepted: Vec<usize>,
}

impl ClockedNode {
    fn new(identity: &Identity, peer: &Identity) -> ClockedNode {
        let (disk, sessions) = (StampDisk::default(), node(identity, peer, 1));
        let (identity, peer) = (identity.clone(), peer.clone());
        ClockedNode { sessions, identity, peer, disk, backup: disk, off: 0, accepted: Vec::new() }
    }

    fn clock(&self, now: Instant) -> u64 {
        (NOW + now.as_nanos()).saturating_add_signed(self.off)
    }

    fn restart(&mut self, now: Instant, seed: u8) {
        self.sessions = node(&self.identity, &self.peer, seed);
        if let Some(accepted) = self.disk.accepted {
            self.sessions.restore_accepted_stamp(PEER, accepted);
        }
        self.sessions.set_unix_time(now, self.clock(now));
    }

    fn initiate(&mut self, now: Instant) -> Vec<u8> {
        self.disk.used = self.clock(now).max(self.disk.used + 1);
        self.sessions.force_initiate(now, PEER).unwrap();
        initiation(&mut self.sessions, now, self.disk.used)
    }

    /// Processes the initiation `number`. Returns the answer or refusal, and true if the initiation was accepted.
    fn take(&mut self, now: Instant, number: usize, datagram: &[u8]) -> (Vec<u8>, bool) {
        let result = answer(&mut self.sessions, now, datagram);
        self.disk.accepted = self.sessions.accepted_stamps().next().map(|(_, stamp)| stamp);
        match result {
            Ok((_, reply)) => {
                assert!(!self.accepted.contains(&number), "initiation {number} was accepted twice");
                self.accepted.push(number);
                (reply, true)
            }
            Err(HandshakeError::Replayed | HandshakeError::TooFarAhead) => {
                (self.sessions.take_refusal().unwrap().answer, false)
            }
            Err(why) => panic!("{why}"),
        }
    }
}

/// Restarts, losses, restores and wrong clocks occur in random order.
///
/// A session results from the second handshake at the latest. No initiation is accepted twice while the responder keeps
/// its state.
#[test]
fn sessions_return_after_any_history_and_recordings_stay_refused() {
    let (mut replays, mut refused, mut second_tries) = (0, 0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (left, right) = identities();
        let mut nodes = [ClockedNode::new(&left, &right), ClockedNode::new(&right, &left)];
        let mut recorded: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut now = at(1);
        for step in 0..120 {
            now += Duration::from_secs(6 + rng.below(100_000));
            let of = rng.below(2) as usize;
            match rng.below(8) {
                0 => nodes[of].off = (rng.below(800) as i64 - 400) * DAY as i64,
                1 => nodes[of].off = 0,
                2 => nodes[of].backup = nodes[of].disk,
                3 => {
                    (nodes[of].disk, nodes[of].accepted) = (nodes[of].backup, Vec::new());
                    nodes[of].restart(now, step + 2);
                }
                4 => {
                    (nodes[of].disk, nodes[of].accepted) = (StampDisk::default(), Vec::new());
                    nodes[of].restart(now, step + 2);
                }
                _ => nodes[of].restart(now, step + 2),
            }
            // An attacker replays some recorded initiations before the true node initiates.
            for _ in 0..rng.below(3).min(recorded.len() as u64) {
                let number = rng.below(recorded.len() as u64) as usize;
                let (to, datagram) = &recorded[number];
                let (was, is_accepted) =
                    (nodes[*to].accepted.contains(&number), nodes[*to].take(now, number, datagram).1);
                assert!(!(was && is_accepted));
                replays += 1;
                refused += u32::from(!is_accepted);
                now += Duration::from_secs(6);
            }
            let mut tries = 0;
            while !try_session(&mut nodes, of, now, &mut recorded) {
                tries += 1;
                assert!(tries < 2, "seed {seed}, step {step}: no session");
            }
            second_tries += tries;
        }
    }
    assert!(replays > 1_000 && refused > 500 && second_tries > 300, "{replays} {refused} {second_tries}");
}

/// Node `of` initiates a handshake. Returns true if a session results, and false if the stamp is refused.
fn try_session(nodes: &mut [ClockedNode; 2], of: usize, now: Instant, recorded: &mut Vec<(usize, Vec<u8>)>) -> bool {
    let datagram = nodes[of].initiate(now);
    recorded.push((1 - of, datagram.clone()));
    let (reply, _) = nodes[1 - of].take(now, recorded.len() - 1, &datagram);
    match answer(&mut nodes[of].sessions, now, &reply).unwrap().0 {
        Outcome::Established { .. } => {}
        Outcome::Refused { .. } => return false,
        other => panic!("{other:?}"),
    }
    let [first, second] = nodes;
    let (from, to) = if of == 0 { (first, second) } else { (second, first) };
    pass(&mut from.sessions, &mut to.sessions);
    true
}
