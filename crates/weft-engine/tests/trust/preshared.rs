//! A preshared secret in addition to the static keys. Without it no session is established.

use crate::net::{World, config, direction};
use weft_engine::Policy;
use weft_session::PresharedKey;
use weft_units::Duration;

fn has_session(secrets: [Option<u8>; 2]) -> bool {
    let configs = [0, 1].map(|node| {
        let mut config = config(node, 1, &Policy::default(), 1);
        config.peers[0].preshared_key = secrets[node].map(|byte| PresharedKey::new([byte; 32]));
        config
    });
    let mut world = World::with(&[direction(20, 10, 0.0)], configs);
    world.run_for(Duration::from_secs(3));
    world.send(0, 4_000, 1, 100);
    world.run_for(Duration::from_millis(200));
    world.take_numbers(1).len() == 1
}

#[test]
fn both_ends_need_the_same_secret() {
    for secrets in [[None, None], [Some(7), Some(7)]] {
        assert!(has_session(secrets), "{secrets:?}");
    }
    for secrets in [[Some(7), None], [None, Some(7)], [Some(7), Some(8)]] {
        assert!(!has_session(secrets), "{secrets:?}");
    }
}

#[test]
fn a_changed_secret_counts_from_the_next_handshake() {
    let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
    world.run_for(Duration::from_secs(1));
    for node in [0, 1] {
        let mut peers = config(node, 1, &Policy::default(), 1).peers;
        peers[0].preshared_key = Some(PresharedKey::new([node as u8; 32]));
        world.nodes[node].reconfigure(world.now, peers, Vec::new(), Vec::new(), None).unwrap();
    }
    world.send(0, 4_000, 1, 100);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.take_numbers(1).len(), 1, "the session goes on");
    // The next handshake is due after 120 s, and the key expires after 180 s.
    world.run_for(Duration::from_secs(190));
    world.send(0, 4_000, 2, 100);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.take_numbers(1).len(), 0, "the secrets differ");
}
