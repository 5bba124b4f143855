//! Tests that session keys which have ended are nowhere in the process's memory.

use super::*;
use crate::traces;

/// Returns 32 bytes that depend only on `number`, in place of entropy.
fn entropy(number: u64) -> [u8; 32] {
    let mut rng = weft_units::Rng::new(number);
    core::array::from_fn(|_| rng.next_u64() as u8)
}

/// Returns two nodes whose random numbers depend on added entropy, not only on their seeds.
///
/// The seeds are constants in this test's code, so a search of the memory would find them. All tests share one memory,
/// so each test has its own number and therefore its own keys. Two tests with equal static keys would share their
/// static Diffie-Hellman secret.
fn seeded_pair(test: u64) -> (Sessions, Sessions) {
    let (left, right) = (identity(100 + 2 * test as u8), identity(101 + 2 * test as u8));
    let (mut a, mut b) = (node(&left, &right, 10), node(&right, &left, 20));
    a.reseed(entropy(test * 1_000 + 1));
    b.reseed(entropy(test * 1_000 + 2));
    traces::take();
    (a, b)
}

/// Runs a handshake that `a` initiates with `b`, and sends a packet in each direction.
#[inline(never)]
fn meet(a: &mut Sessions, b: &mut Sessions, now: Instant, stamp: u64) {
    let first = initiation(a, now, stamp);
    let (_, second) = answer(b, now, &first).unwrap();
    answer(a, now, &second).unwrap();
    let third = seal(a, PATH, b"from the initiator").unwrap().1;
    open(b, &third).unwrap();
    let fourth = seal(b, PATH, b"from the responder").unwrap().1;
    open(a, &fourth).unwrap();
}

#[test]
fn after_181_s_memory_holds_nothing_that_opens_what_was_recorded() {
    let _alone = traces::alone();
    for (test, cipher) in [(1, Cipher::Aes256Gcm), (2, Cipher::ChaCha20Poly1305)] {
        let (mut a, mut b) = seeded_pair(test);
        b.cipher = cipher;
        let mut old = Vec::new();
        // Each round begins 120 s after the previous one.
        for round in 0..5 {
            meet(&mut a, &mut b, at(120 * round), round + 1);
            let fresh = traces::take();
            assert!(fresh.len() > 10 && traces::found(&fresh) >= 4, "live keys are found: {}", traces::found(&fresh));
            old.push(fresh);
            for node in [&mut a, &mut b] {
                node.reseed(entropy(test * 1_000 + 10 + round));
                node.handle_timeout(at(120 * round + 61));
            }
            // All sessions but the last ended at least 181 s after they began. Their keys and the secrets behind them
            // must not be in memory.
            let ended = old.len().saturating_sub(1);
            for secrets in &old[..ended] {
                assert_eq!(traces::found(secrets), 0, "{cipher:?}, round {round}");
            }
        }
        old.push(traces::take());
        drop((a, b));
        assert_eq!(traces::found(&old.concat()), 0, "{cipher:?}: after the end");
    }
}

#[test]
fn keys_that_are_forgotten_are_gone_and_the_next_session_uses_others() {
    let _alone = traces::alone();
    let (mut a, mut b) = seeded_pair(3);
    meet(&mut a, &mut b, at(0), 1);
    let secrets = traces::take();
    for node in [&mut a, &mut b] {
        node.forget_keys(PEER);
        node.reseed(entropy(3_010));
        assert!(!node.is_established(PEER) && node.indices.len() == 0);
    }
    assert_eq!(seal(&mut a, PATH, b"").unwrap_err(), SealError::NotEstablished);
    assert_eq!(traces::found(&secrets), 0);
    meet(&mut a, &mut b, at(1), 2);
    assert!(a.is_established(PEER) && b.is_established(PEER));
}

/// Two copies of one process have no key in common once each gets its own entropy.
///
/// This is the situation after a running machine was cloned.
#[test]
fn two_copies_that_begin_anew_never_use_a_key_and_a_number_twice() {
    let (left, right) = identities();
    let copies = [1_u8, 2].map(|copy| {
        traces::take();
        let (mut a, mut b) = (node(&left, &right, 10), node(&right, &left, 20));
        meet(&mut a, &mut b, at(0), 1);
        let before = traces::take();
        a.forget_keys(PEER);
        a.reseed([copy; 32]);
        meet(&mut a, &mut b, at(10), 2);
        (before, traces::take())
    });
    let [(before, first), (same, second)] = copies;
    assert_eq!(before, same, "both are copies of one process");
    let own = |secrets: &[[u8; 32]]| secrets.to_vec();
    // Only the initiator was copied. The random numbers of the responder are thus the same in both runs.
    let shared: Vec<_> = own(&first).into_iter().filter(|secret| second.contains(secret)).collect();
    assert!(first.len() - shared.len() > 8, "{} of {} are shared", shared.len(), first.len());
    let keys = |secrets: &[[u8; 32]]| secrets.iter().rev().take(4).copied().collect::<Vec<_>>();
    assert!(keys(&first).iter().all(|key| !second.contains(key)), "session keys differ");
}
