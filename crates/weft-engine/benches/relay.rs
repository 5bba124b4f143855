//! Work of a relay for each datagram, from the received GRO batch to the GSO batch sent.
//!
//! Run `cargo bench -p weft-engine --bench relay`.
#![allow(missing_docs)]

#[path = "../tests/mesh/mod.rs"]
mod mesh;
#[path = "../tests/net/mod.rs"]
mod net;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mesh::{Knows, Mesh, key, wire};
use std::cell::RefCell;
use std::net::SocketAddr;
use weft_core::pool::LARGE_BYTES;
use weft_engine::{Departing, Engine, EngineConfig, Received};
use weft_session::{Cipher, Identity, Outcome, SessionPeerConfig, Sessions};
use weft_units::{Duration, Instant, LinkId, PathId, PeerId};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::relay::{Label, Way, overhead};

const CIPHERS: [(&str, Cipher); 2] =
    [("AES-256-GCM", Cipher::Aes256Gcm), ("ChaCha20-Poly1305", Cipher::ChaCha20Poly1305)];
/// UDP payload of a full datagram over IPv4, in bytes.
const DATAGRAM: usize = 1_472;
/// Number of datagrams in a GRO batch.
const BATCH: usize = 44;
const RELAY: PeerId = PeerId(0);

/// A relay with a usable path to the far end. The sender consists of its sessions alone.
struct Relay {
    node: Engine,
    now: Instant,
    sender: Sessions,
    way: Way,
    out: Vec<u8>,
}

fn source() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 51_900))
}

impl Relay {
    fn new(cipher: Cipher) -> Relay {
        let with_cipher = |config| EngineConfig { cipher, ..config };
        let (first, last) =
            (Knows { direct: vec![1], ..Knows::default() }, Knows { direct: vec![1], ..Knows::default() });
        let middle = Knows { direct: vec![0, 2], is_relay: true, ..Knows::default() };
        let mut mesh = Mesh::with(&[wire(0, 1), wire(1, 2)], &[first, middle, last], with_cipher);
        mesh.run_for(Duration::from_secs(3));
        let identity = Identity::from_secret([1; 32]);
        let sender = Sessions::new(identity, &[SessionPeerConfig::from(key(1))], cipher, [9; 32], mesh.now).unwrap();
        let [a, b, c, d, ..] = *key(2).node_id().as_bytes();
        let way = Way::new(&[Label(u32::from_be_bytes([a, b, c, d]))]).unwrap();
        let mut relay = Relay { node: mesh.nodes.swap_remove(1), now: mesh.now, sender, way, out: vec![0; 65_536] };
        relay.meet();
        relay
    }

    /// Performs the sender's handshake with the relay, and sends a packet that confirms it.
    fn meet(&mut self) {
        let mut message = [0; 512];
        let len = self.sender.initiate(self.now, RELAY, u64::MAX / 2, &mut message).unwrap();
        let out = self.take(&message[..len]);
        let outcome = self.sender.handle(self.now, &out, &[], false, &mut message).unwrap();
        assert!(matches!(outcome, Outcome::Established { .. }), "{outcome:?}");
        let mut first = vec![0; HOP_HEADER_LEN + TAG_LEN];
        self.sender.seal(RELAY, PathId(0), PacketType::Control, &mut first).unwrap();
        self.take(&first);
        while self.node.poll_transmit(self.now, &mut self.out).is_some() {}
    }

    /// Delivers one datagram. Returns the first datagram that leaves.
    fn take(&mut self, datagram: &[u8]) -> Vec<u8> {
        let mut memory = vec![0; LARGE_BYTES].into_boxed_slice();
        memory[..datagram.len()].copy_from_slice(datagram);
        self.receive(memory, datagram.len(), datagram.len());
        let len = self.node.poll_transmit(self.now, &mut self.out).map_or(0, |transmit| transmit.len);
        self.out[..len].to_vec()
    }

    /// Delivers the content of `memory` to the node. Returns other memory in exchange.
    fn receive(&mut self, memory: Box<[u8]>, len: usize, stride: usize) -> Box<[u8]> {
        let pool = self.node.pool();
        let buf = pool.alloc_large().unwrap();
        let other = pool.take(buf);
        pool.put(buf, memory);
        let (link, destination) = (LinkId(1), Some([10, 0, 0, 2].into()));
        let received = Received { at: self.now, link, source: source(), destination, tos: 0, buf, len, stride };
        self.node.handle_datagrams(self.now, received);
        other
    }

    /// Returns a batch as the kernel delivers it.
    fn batch(&mut self) -> Box<[u8]> {
        let mut memory = vec![0; LARGE_BYTES].into_boxed_slice();
        for datagram in memory[..BATCH * DATAGRAM].chunks_mut(DATAGRAM) {
            datagram[HOP_HEADER_LEN] = PacketType::Data.byte();
            self.sender.seal_relayed(RELAY, &self.way, datagram).unwrap();
        }
        memory
    }

    fn pass_on(&mut self, batch: Box<[u8]>) -> Box<[u8]> {
        let other = self.receive(batch, BATCH * DATAGRAM, DATAGRAM);
        let departing = self.node.poll_departing(self.now, &mut self.out);
        let Some(Departing::Relayed(forward)) = departing else { panic!("{departing:?}") };
        assert_eq!(forward.transmit.len, BATCH * DATAGRAM);
        self.node.pool().release(forward.buf);
        other
    }
}

fn relay(c: &mut Criterion) {
    let mut group = c.benchmark_group("relay");
    for (name, cipher) in CIPHERS {
        let relay = RefCell::new(Relay::new(cipher));
        group.throughput(Throughput::Bytes((BATCH * (DATAGRAM - overhead(1))) as u64));
        group.bench_function(format!("{name}, {BATCH} datagrams of {DATAGRAM} bytes"), |b| {
            let batch = || relay.borrow_mut().batch();
            b.iter_batched(batch, |batch| relay.borrow_mut().pass_on(batch), BatchSize::NumIterations(16));
        });
    }
}

criterion_group!(benches, relay);
criterion_main!(benches);
