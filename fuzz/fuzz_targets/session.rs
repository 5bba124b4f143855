//! A live session among an attacker's datagrams, invented or modified from true ones.
//!
//! The session continues and opens no forged datagram.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_session::{Cipher, Identity, Outcome, SessionPeerConfig, Sessions};
use weft_units::{Instant, PathId, PeerId, VpnId};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};

const PEER: PeerId = PeerId(0);
const PATH: PathId = PathId(0);
const VPN: VpnId = VpnId(7);
const LOOKED_AHEAD: usize = 128;

struct Pair {
    nodes: [Sessions; 2],
    initiation: Vec<u8>,
    response: Vec<u8>,
    /// Receiver index of the VPN's packets.
    index: u32,
}

fn node(own: u8, other: u8) -> Sessions {
    let [own_key, other_key] = [own, other].map(|n| Identity::from_secret([n; 32]));
    let peer = SessionPeerConfig::from(other_key.public_key());
    Sessions::new(own_key, &[peer], Cipher::Aes256Gcm, [own; 32], Instant::ZERO).unwrap()
}

fn seal(node: &mut Sessions, vpn: VpnId) -> Vec<u8> {
    let mut datagram = vec![0; HOP_HEADER_LEN + 20 + TAG_LEN];
    node.seal_in(PEER, vpn, PATH, PacketType::Data, &mut datagram).unwrap();
    datagram
}

fn pair() -> Pair {
    let (mut a, mut b, mut out) = (node(1, 2), node(2, 1), [0; 512]);
    let len = a.initiate(Instant::ZERO, PEER, 1, &mut out).unwrap();
    let initiation = out[..len].to_vec();
    let Ok(Outcome::Reply { len, .. }) = b.handle(Instant::ZERO, &initiation, b"a", false, &mut out) else { panic!() };
    let response = out[..len].to_vec();
    assert!(matches!(a.handle(Instant::ZERO, &response, b"b", false, &mut out), Ok(Outcome::Established { .. })));
    b.open(&mut seal(&mut a, VpnId::DEFAULT)).unwrap();
    let index = b.vpn_index(PEER, VPN).unwrap();
    let told = a.open(&mut seal(&mut b, VpnId::DEFAULT)).unwrap();
    a.set_vpn_index(PEER, told.key, VPN, index);
    Pair { nodes: [a, b], initiation, response, index }
}

fuzz_target!(|bytes: &[u8]| {
    let mut pair = pair();
    let now = Instant::from_millis(10_000);
    let (mut rest, mut sealed) = (bytes, Vec::new());
    while let [kind, len, after @ ..] = rest {
        let (chunk, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        let true_one = match kind & 3 {
            0 => Vec::new(),
            1 => pair.initiation.clone(),
            2 => pair.response.clone(),
            _ => seal(&mut pair.nodes[0], if kind & 8 != 0 { VPN } else { VpnId::DEFAULT }),
        };
        sealed.push(true_one.clone());
        let mut datagram = true_one.clone();
        datagram.resize(datagram.len().max(chunk.len()), 0);
        datagram.iter_mut().zip(chunk).for_each(|(byte, mask)| *byte ^= mask);
        let (mut out, under_load) = ([0; 512], kind & 4 != 0);
        let handled = pair.nodes[1].handle(now, &datagram, b"stranger", under_load, &mut out);
        if let Ok(Outcome::Reply { len, .. } | Outcome::Cookie { len }) = handled {
            assert!(len <= datagram.len(), "an answer longer than its question");
        }
        let arrived = datagram.clone();
        if pair.nodes[1].open(&mut datagram).is_ok() {
            // The keys are constant, so the fuzzer can learn the next sealed datagram from the comparisons that it
            // observes.
            let vpn = if arrived[2..6] == pair.index.to_be_bytes() { VPN } else { VpnId::DEFAULT };
            let is_next = |_| seal(&mut pair.nodes[0], vpn) == arrived;
            let is_true = sealed.contains(&arrived) || (0..LOOKED_AHEAD).any(is_next);
            assert!(is_true, "a forgery was opened");
        }
    }
    let mut datagram = seal(&mut pair.nodes[0], VPN);
    let again = datagram.clone();
    pair.nodes[1].open(&mut datagram).expect("the session goes on");
    assert!(pair.nodes[1].open(&mut again.clone()).is_err(), "a replay was opened");
});
