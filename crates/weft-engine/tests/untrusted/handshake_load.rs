//! Handshake load: only handshakes of senders that know this node's public key count.

use crate::net::{PORT, World, direction};
use std::net::SocketAddr;
use weft_engine::Policy;
use weft_session::{Cipher, Identity, SessionPeerConfig, Sessions};
use weft_units::{Duration, PeerId, Rng};
use weft_wire::hop::PacketType;

/// Returns an initiation of a stranger that knows the hub's public key.
fn stranger(world: &World) -> Vec<u8> {
    let hub = SessionPeerConfig::from(Identity::from_secret([2; 32]).public_key());
    let own = Identity::from_secret([99; 32]);
    let mut sessions = Sessions::new(own, &[hub], Cipher::Aes256Gcm, [9; 32], world.now).unwrap();
    let mut out = [0; 1_024];
    let len = sessions.initiate(world.now, PeerId(0), 1, &mut out).unwrap();
    out[..len].to_vec()
}

/// Lets the home node initiate while a flood reaches the hub.
///
/// Returns the number of cookie replies, and whether a session exists a second later.
fn call_under(flood: impl Fn(&mut Rng, &[u8]) -> Vec<u8>) -> (usize, bool) {
    let mut rng = Rng::new(7);
    let mut world = World::new(&[direction(50, 10, 0.0)], &Policy::default());
    world.run_for(Duration::from_secs(2));
    let first = stranger(&world);
    world.restart(0, &Policy::default(), 1 << 40);
    world.seen = Some(Vec::new());
    let end = world.now + Duration::from_secs(1);
    while world.now < end {
        for _ in 0..20 {
            let source = SocketAddr::from(([203, 0, 113, rng.below(250) as u8], PORT));
            let datagram = flood(&mut rng, &first);
            world.inject(1, 0, source, &datagram);
        }
        world.run_for(Duration::from_millis(5));
    }
    let to_home = world.seen.take().unwrap().into_iter().filter(|seen| seen.to == 0);
    let cookies = to_home.filter(|seen| PacketType::of(&seen.bytes) == Ok(PacketType::CookieReply)).count();
    let is_met = world.nodes[0].snapshot(world.time_of(0)).peers[0].established_for.is_some();
    (cookies, is_met)
}

#[test]
fn datagrams_without_the_right_mac_are_no_load() {
    // Each datagram has a byte changed, another length, or random content.
    let damaged = |rng: &mut Rng, first: &[u8]| {
        let mut datagram = first.to_vec();
        match rng.below(3) {
            0 => {
                let at = 1 + rng.below(first.len() as u64 - 17) as usize;
                datagram[at] ^= 1 + rng.below(255) as u8;
            }
            1 => datagram.truncate(rng.below(first.len() as u64) as usize),
            _ => datagram[1..].iter_mut().for_each(|byte| *byte = rng.below(256) as u8),
        }
        datagram
    };
    assert_eq!(call_under(damaged), (0, true));
    let (cookies, is_met) = call_under(|_, first| first.to_vec());
    assert!(cookies > 0 && is_met, "who knows the key is load: {cookies} cookies");
}
