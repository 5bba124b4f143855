//! Cost of sealing and opening a packet: `cargo bench -p weft-session`.
#![allow(missing_docs)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use weft_session::{Cipher, Identity, Outcome, SessionPeerConfig, Sessions};
use weft_units::{Instant, PathId, PeerId};
use weft_wire::handshake::{INITIATION_LEN, RESPONSE_LEN};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::relay::{Label, Way, overhead};

/// The only peer of each of the two nodes.
const PEER: PeerId = PeerId(0);
const PATH: PathId = PathId(0);
const CIPHERS: [(&str, Cipher); 2] =
    [("AES-256-GCM", Cipher::Aes256Gcm), ("ChaCha20-Poly1305", Cipher::ChaCha20Poly1305)];
/// Length of the plaintext, in bytes: a packet of a sparse flow, and a full packet.
const SIZES: [usize; 2] = [100, 1_440];
/// Number of datagrams that are sealed in advance and then opened: about those of one GRO receive.
const BATCH: u64 = 64;

/// Returns two nodes with a session in use.
fn connected(cipher: Cipher) -> (Sessions, Sessions) {
    let identities = [1, 2].map(|secret| Identity::from_secret([secret; 32]));
    let node = |own: usize, seed| {
        let peer = SessionPeerConfig::from(identities[1 - own].public_key());
        Sessions::new(identities[own].clone(), &[peer], cipher, [seed; 32], Instant::ZERO).unwrap()
    };
    let (mut a, mut b) = (node(0, 10), node(1, 20));
    let (mut initiation, mut response, mut none) = ([0; INITIATION_LEN], [0; RESPONSE_LEN], [0; RESPONSE_LEN]);
    let len = a.initiate(Instant::ZERO, PEER, 1, &mut initiation).unwrap();
    let outcome = b.handle(Instant::ZERO, &initiation[..len], &[], false, &mut response).unwrap();
    let Outcome::Reply { len, .. } = outcome else { panic!("{outcome:?}") };
    let outcome = a.handle(Instant::ZERO, &response[..len], &[], false, &mut none).unwrap();
    assert!(matches!(outcome, Outcome::Established { .. }), "{outcome:?}");
    let mut first = vec![0; HOP_HEADER_LEN + TAG_LEN];
    a.seal(PEER, PATH, PacketType::Control, &mut first).unwrap();
    b.open(&mut first).unwrap();
    (a, b)
}

fn each(c: &mut Criterion, group: &str, mut bench: impl FnMut(&mut criterion::Bencher<'_>, Cipher, usize)) {
    let mut group = c.benchmark_group(group);
    for (name, cipher) in CIPHERS {
        for size in SIZES {
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(format!("{name} {size} bytes"), |b| bench(b, cipher, size));
        }
    }
}

fn seal(c: &mut Criterion) {
    each(c, "seal", |b, cipher, size| {
        let (mut sender, _) = connected(cipher);
        let mut datagram = vec![0; HOP_HEADER_LEN + size + TAG_LEN];
        b.iter(|| sender.seal(PEER, PATH, PacketType::Data, &mut datagram).unwrap());
    });
}

fn open(c: &mut Criterion) {
    each(c, "open", |b, cipher, size| {
        let (mut sender, mut receiver) = connected(cipher);
        let sealed = || {
            let mut datagram = vec![0; HOP_HEADER_LEN + size + TAG_LEN];
            sender.seal(PEER, PATH, PacketType::Data, &mut datagram).unwrap();
            datagram
        };
        b.iter_batched_ref(sealed, |datagram| receiver.open(datagram).unwrap(), BatchSize::NumIterations(BATCH));
    });
}

/// Returns a relayed datagram with `size` bytes of plaintext, to be sealed for the relay.
fn wrapped(size: usize) -> Vec<u8> {
    let mut datagram = vec![0; HOP_HEADER_LEN + size + TAG_LEN + overhead(1)];
    datagram[HOP_HEADER_LEN] = PacketType::Data.byte();
    datagram
}

fn seal_relayed(c: &mut Criterion) {
    let way = Way::new(&[Label(1)]).unwrap();
    each(c, "seal relayed", |b, cipher, size| {
        let ((mut sender, _), mut datagram) = (connected(cipher), wrapped(size));
        b.iter(|| sender.seal_relayed(PEER, &way, &mut datagram).unwrap());
    });
}

fn open_relayed(c: &mut Criterion) {
    let way = Way::new(&[Label(1)]).unwrap();
    each(c, "open relayed", |b, cipher, size| {
        let (mut sender, mut receiver) = connected(cipher);
        let sealed = || {
            let mut datagram = wrapped(size);
            sender.seal_relayed(PEER, &way, &mut datagram).unwrap();
            datagram
        };
        b.iter_batched_ref(sealed, |bytes| receiver.open_relayed(bytes).unwrap(), BatchSize::NumIterations(BATCH));
    });
}

criterion_group!(benches, seal, open, seal_relayed, open_relayed);
criterion_main!(benches);
