//! Two peers of a relay whose keys have the same label.
//!
//! One must be relayed, the other not, and the clash must be reported.

use crate::mesh::{Knows, Mesh, key, wire};
use std::collections::BTreeMap;
use weft_engine::{EngineConfig, Event};
use weft_session::{Identity, PublicKey};
use weft_units::{Duration, Rng};

const EDGE: usize = 0;
const RELAY: usize = 1;
/// Two nodes whose keys have the same label.
const TWINS: [usize; 2] = [2, 3];

fn label(key: &PublicKey) -> [u8; 4] {
    let [a, b, c, d, ..] = *key.node_id().as_bytes();
    [a, b, c, d]
}

/// Returns the secrets of two nodes with one label, drawn at random.
///
/// Among 77,000 keys such a pair exists with probability 1/2.
fn twins(rng: &mut Rng) -> [[u8; 32]; 2] {
    let mut known = BTreeMap::new();
    loop {
        let mut secret = [0; 32];
        secret.chunks_mut(8).for_each(|part| part.copy_from_slice(&rng.next_u64().to_be_bytes()));
        if let Some(other) = known.insert(label(&Identity::from_secret(secret).public_key()), secret) {
            return [other, secret];
        }
    }
}

fn with_twins(config: EngineConfig, secrets: &[[u8; 32]; 2]) -> EngineConfig {
    let own = TWINS.iter().position(|twin| config.identity.public_key() == key(*twin));
    let renamed = |public: PublicKey| {
        let twin = TWINS.iter().position(|twin| public == key(*twin));
        twin.map_or(public, |twin| Identity::from_secret(secrets[twin]).public_key())
    };
    let mut config = config;
    if let Some(twin) = own {
        config.identity = Identity::from_secret(secrets[twin]);
    }
    config.peers.iter_mut().for_each(|peer| peer.public_key = renamed(peer.public_key));
    config
}

#[test]
fn of_two_peers_with_one_label_one_is_relayed_and_the_other_is_named() {
    let mut rng = Rng::new(8);
    let drawn = twins(&mut rng);
    for secrets in [drawn, [drawn[1], drawn[0]]] {
        let [first, second] = TWINS;
        let wires = [wire(EDGE, RELAY), wire(RELAY, first), wire(RELAY, second)];
        let over_relay = |twin| (twin, vec![vec![RELAY]]);
        let twin = || Knows { direct: vec![RELAY], routed: vec![(EDGE, Vec::new())], is_relay: false };
        let knows = [
            Knows { direct: vec![RELAY], routed: TWINS.map(over_relay).into(), is_relay: false },
            Knows { direct: vec![EDGE, first, second], is_relay: true, ..Knows::default() },
            twin(),
            twin(),
        ];
        let mut mesh = Mesh::with(&wires, &knows, |config| with_twins(config, &secrets));
        mesh.run_for(Duration::from_secs(4));
        let clashes: Vec<_> = mesh.nodes[RELAY].label_clashes().collect();
        assert_eq!(clashes, [("n3", "n2")]);
        let said =
            mesh.events.iter().filter(|(node, _, event)| *node == RELAY && matches!(event, Event::LabelClash { .. }));
        assert_eq!(said.count(), 1, "it is said, once");
        mesh.take_numbers(first);
        for number in 0..100 {
            mesh.send(EDGE, first, number, 500);
            mesh.send(EDGE, second, number, 500);
            mesh.run_for(Duration::from_millis(5));
        }
        mesh.run_for(Duration::from_millis(500));
        assert_eq!(mesh.take_numbers(first), (0..100).collect::<Vec<_>>(), "the first one is relayed");
        assert!(mesh.take_numbers(second).is_empty());
        let direct = mesh.nodes[RELAY].snapshot(mesh.now);
        assert!(direct.peers.iter().all(|peer| peer.established_for.is_some()), "both are peers as ever");
    }
}
