//! Relayed datagrams: routes alone, and a live session among an attacker's datagrams.
//!
//! The attacker invents datagrams or modifies true ones.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_session::{Cipher, Identity, Outcome, SessionPeerConfig, Sessions};
use weft_units::{Instant, PathId, PeerId};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::relay::{Label, MAX_RELAYS, Way, overhead};

const PEER: PeerId = PeerId(0);
const WITHIN: usize = 20;
const LOOKED_AHEAD: usize = 128;

fn node(own: u8, other: u8) -> Sessions {
    let [own_key, other_key] = [own, other].map(|n| Identity::from_secret([n; 32]));
    let peer = SessionPeerConfig::from(other_key.public_key());
    Sessions::new(own_key, &[peer], Cipher::Aes256Gcm, [own; 32], Instant::ZERO).unwrap()
}

fn pair() -> [Sessions; 2] {
    let (mut a, mut b, mut out) = (node(1, 2), node(2, 1), [0; 512]);
    let len = a.initiate(Instant::ZERO, PEER, 1, &mut out).unwrap();
    let initiation = out[..len].to_vec();
    let Ok(Outcome::Reply { len, .. }) = b.handle(Instant::ZERO, &initiation, b"a", false, &mut out) else { panic!() };
    let response = out[..len].to_vec();
    assert!(matches!(a.handle(Instant::ZERO, &response, b"b", false, &mut out), Ok(Outcome::Established { .. })));
    let mut first = [0; HOP_HEADER_LEN + TAG_LEN];
    a.seal(PEER, PathId(0), PacketType::Control, &mut first).unwrap();
    b.open(&mut first).unwrap();
    [a, b]
}

/// Returns a datagram for a route over `relays` relays, `passed` of which have forwarded it.
fn seal(node: &mut Sessions, relays: usize, passed: usize) -> Vec<u8> {
    let way = (0..passed).fold(Way::new(&vec![Label(7); relays]).unwrap(), |way, _| way.passed(Label(9)));
    let mut datagram = vec![0; WITHIN + overhead(relays)];
    node.seal_relayed(PEER, &way, &mut datagram).unwrap();
    datagram
}

/// Every parsed route is written again with the same bytes, and each relay changes only one label.
fn way(code: u8, bytes: &[u8]) {
    let Ok(way) = Way::parse(code, bytes) else { return };
    let labels = &bytes[bytes.len() - Way::labels_len(code).unwrap()..];
    let mut out = [0; MAX_RELAYS * 4];
    let len = way.emit(&mut out).unwrap();
    assert_eq!((way.code(), &out[..len]), (code, labels));
    assert_eq!(way.back().back().labels(), way.labels());
    let passed = way.passed(Label(0));
    let changed = way.labels().iter().zip(passed.labels()).filter(|(before, after)| before != after).count();
    assert!(changed <= 1 && passed.labels().len() == way.labels().len());
    assert_eq!(passed == way, way.next().is_none(), "only at the end nothing changes");
}

fuzz_target!(|bytes: &[u8]| {
    if let Some((code, labels)) = bytes.split_first() {
        way(*code, labels);
    }
    let [mut sender, mut receiver] = pair();
    let (mut rest, mut sealed) = (bytes, Vec::new());
    while let [kind, len, after @ ..] = rest {
        let (mask, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        let relays = 1 + usize::from(kind >> 4) % MAX_RELAYS;
        let true_one = match kind & 1 {
            0 => Vec::new(),
            _ => seal(&mut sender, relays, usize::from(kind >> 1 & 7).min(relays)),
        };
        sealed.push(true_one.clone());
        let mut datagram = true_one;
        datagram.resize(datagram.len().max(mask.len()), 0);
        datagram.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        let arrived = datagram.clone();
        if let Ok(opened) = receiver.open_relayed(&mut datagram) {
            assert_eq!(datagram[opened.within.clone()], arrived[opened.within], "what is within stays as it is");
            // The keys are constant, so the fuzzer can learn the next sealed datagram from the comparisons that it
            // observes.
            let at = usize::from(arrived[1] >> 4);
            let is_next = |_| seal(&mut sender, opened.way.labels().len(), at) == arrived;
            assert!(sealed.contains(&arrived) || (0..LOOKED_AHEAD).any(is_next), "a forgery was opened");
        }
    }
    let mut datagram = seal(&mut sender, 2, 1);
    let again = datagram.clone();
    receiver.open_relayed(&mut datagram).expect("the session goes on");
    assert!(receiver.open_relayed(&mut again.clone()).is_err(), "a replay was opened");
});
