//! WireGuard at the edge, without sockets (WireGuard paper, §5).
//!
//! The gate maps a received datagram to its client, decrypts it, checks the source address, and returns the packet. It
//! encrypts packets to clients. It must never answer a datagram from a stranger.

use super::clients::Client;
use base64ct::{Base64, Encoding as _};
use boringtun::noise::errors::WireGuardError;
use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Packet, Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use weft_control::ClientRefusals;
use weft_session::Identity;

/// Twice the number of handshakes per second above which the gate requires a cookie.
///
/// The rate limiter adds two to its counter for each handshake.
const HANDSHAKES: u64 = 2 * 100;
/// Maximum length of a UDP datagram, in bytes.
const MAX_DATAGRAM: usize = 65_535;
/// Maximum number of bytes by which a WireGuard datagram is longer than the packet in it.
///
/// *Standard*: the length of a handshake initiation. Without a session it is sent while the packet waits.
const OVERHEAD: usize = 148;
/// Message type of the cookie reply, which demands a proof of address (WireGuard paper, §5.4.7).
const COOKIE_REPLY: u8 = 3;
/// Maximum index of a tunnel, after which the indices begin anew.
///
/// Of WireGuard's 32-bit index 24 bits are for the tunnel and 8 bits for its sessions.
const MAX_INDEX: u32 = 0xff_ffff;

/// Source of a datagram, and the local address that received it; answers use both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Address and port of the client.
    pub address: SocketAddr,
    /// Local address to which the datagram was sent.
    pub local: Option<IpAddr>,
}

/// An output of the gate, which the caller must send or deliver.
#[derive(PartialEq, Eq, Debug)]
pub enum GateOutput<'a> {
    /// A datagram for a client.
    Datagram(Remote, &'a [u8]),
    /// A decrypted packet from a client.
    Packet(&'a [u8]),
}

/// State of a client's tunnel.
pub struct SeenClient {
    /// Entry of the client in the list of admitted clients.
    pub client: Client,
    /// Time since the last handshake. `None` if there was none.
    pub handshake: Option<Duration>,
    /// Address and port from which the client's last genuine datagram arrived. `None` if none has arrived.
    pub remote: Option<SocketAddr>,
    /// Bytes in the packets sent to the client since its tunnel was created.
    pub sent_bytes: u64,
    /// Bytes in the packets received from the client since its tunnel was created.
    pub received_bytes: u64,
}

struct Tunnel {
    client: Client,
    tunn: Tunn,
    remote: Option<Remote>,
}

/// The tunnels of all clients. The gate does not answer strangers.
pub struct Gate {
    secret: StaticSecret,
    public: PublicKey,
    limiter: Arc<RateLimiter>,
    tunnels: HashMap<u32, Tunnel>,
    by_key: HashMap<[u8; 32], u32>,
    by_address: HashMap<Ipv4Addr, u32>,
    last_index: u32,
    buffer: Vec<u8>,
    /// Counters of rejected datagrams and packets of clients, by reason.
    pub refused: ClientRefusals,
}

impl Gate {
    /// Creates a gate without clients, whose public key is that of `identity`.
    pub fn new(identity: &Identity) -> Gate {
        let secret = StaticSecret::from(secret_bytes(identity));
        let public = PublicKey::from(&secret);
        Gate {
            limiter: Arc::new(RateLimiter::new(&public, HANDSHAKES)),
            secret,
            public,
            tunnels: HashMap::new(),
            by_key: HashMap::new(),
            by_address: HashMap::new(),
            last_index: 0,
            buffer: vec![0; MAX_DATAGRAM + OVERHEAD],
            refused: ClientRefusals::default(),
        }
    }

    /// Admits exactly these clients. The tunnels of clients that stay admitted continue.
    pub fn set(&mut self, clients: &[Client]) {
        self.tunnels.retain(|_, tunnel| clients.contains(&tunnel.client));
        let tunnels = &self.tunnels;
        self.by_key.retain(|_, index| tunnels.contains_key(index));
        self.by_address.retain(|_, index| tunnels.contains_key(index));
        for client in clients {
            if !self.by_key.contains_key(&client.public_key.0) && !self.by_address.contains_key(&client.address) {
                self.add(client.clone());
            }
        }
    }

    fn add(&mut self, client: Client) {
        self.last_index = (self.last_index + 1) & MAX_INDEX;
        while self.tunnels.contains_key(&self.last_index) {
            self.last_index = (self.last_index + 1) & MAX_INDEX;
        }
        let (index, key) = (self.last_index, PublicKey::from(client.public_key.0));
        let tunn = Tunn::new(self.secret.clone(), key, None, None, index, Some(Arc::clone(&self.limiter)));
        self.by_key.insert(client.public_key.0, index);
        self.by_address.insert(client.address, index);
        self.tunnels.insert(index, Tunnel { client, tunn, remote: None });
    }

    /// Receives a datagram from any sender. Passes answers and the decrypted packet to `out`.
    pub fn receive(&mut self, from: Remote, datagram: &[u8], out: &mut impl FnMut(GateOutput<'_>)) {
        let address = from.address.ip();
        let index = match self.limiter.verify_packet(Some(address), datagram, &mut self.buffer) {
            Ok(Packet::HandshakeInit(init)) => {
                let half = parse_handshake_anon(&self.secret, &self.public, &init).ok();
                let index = half.and_then(|half| self.by_key.get(&half.peer_static_public).copied());
                if index.is_none() {
                    self.refused.from_no_client += 1;
                    self.refused.last_from = Some(from.address);
                }
                index
            }
            Ok(Packet::HandshakeResponse(packet)) => Some(packet.receiver_idx >> 8),
            Ok(Packet::PacketCookieReply(packet)) => Some(packet.receiver_idx >> 8),
            Ok(Packet::PacketData(packet)) => Some(packet.receiver_idx >> 8),
            Err(TunnResult::WriteToNetwork(cookie)) => return out(GateOutput::Datagram(from, cookie)),
            Err(TunnResult::Err(WireGuardError::InvalidMac)) => {
                self.refused.for_another_edge += 1;
                self.refused.last_from = Some(from.address);
                None
            }
            Err(_) => None,
        };
        let Some(tunnel) = index.and_then(|index| self.tunnels.get_mut(&index)) else { return };
        let is_genuine = match tunnel.tunn.decapsulate(Some(address), datagram, &mut self.buffer) {
            TunnResult::WriteToNetwork(answer) => {
                out(GateOutput::Datagram(from, answer));
                // A client to which a cookie is sent has not yet proved that it has this address, so the address is not
                // stored.
                answer.first() != Some(&COOKIE_REPLY)
            }
            TunnResult::WriteToTunnelV4(packet, source) if source == tunnel.client.address => {
                out(GateOutput::Packet(packet));
                true
            }
            TunnResult::WriteToTunnelV4(..) => {
                self.refused.strays += 1;
                true
            }
            // A client that sends all traffic to the edge sends IPv6 as well, so that IPv6 cannot bypass the tunnel.
            // The edge drops these IPv6 packets.
            TunnResult::WriteToTunnelV6(..) => true,
            TunnResult::Done => true,
            TunnResult::Err(_) => false,
        };
        if is_genuine {
            tunnel.remote = Some(from);
            // The session is new, so packets that waited for it are sent.
            while let TunnResult::WriteToNetwork(waiting) = tunnel.tunn.decapsulate(None, &[], &mut self.buffer) {
                out(GateOutput::Datagram(from, waiting));
            }
        }
    }

    /// Encrypts a packet for a client.
    ///
    /// Drops it if no client has the address, or if the client has not yet connected.
    pub fn send(&mut self, packet: &[u8], out: &mut impl FnMut(GateOutput<'_>)) {
        let Some(IpAddr::V4(destination)) = Tunn::dst_address(packet) else { return };
        let Some(tunnel) = self.by_address.get(&destination).and_then(|index| self.tunnels.get_mut(index)) else {
            return;
        };
        let Some(remote) = tunnel.remote.filter(|_| packet.len() <= MAX_DATAGRAM) else { return };
        if let TunnResult::WriteToNetwork(datagram) = tunnel.tunn.encapsulate(packet, &mut self.buffer) {
            out(GateOutput::Datagram(remote, datagram));
        }
    }

    /// Performs the due work of all tunnels: retransmissions, rekeys, keepalives.
    ///
    /// Four calls per second are enough.
    pub fn tick(&mut self, out: &mut impl FnMut(GateOutput<'_>)) {
        self.limiter.reset_count();
        for tunnel in self.tunnels.values_mut() {
            if let (TunnResult::WriteToNetwork(datagram), Some(remote)) =
                (tunnel.tunn.update_timers(&mut self.buffer), tunnel.remote)
            {
                out(GateOutput::Datagram(remote, datagram));
            }
        }
    }

    /// Returns the state of each client's tunnel.
    pub fn seen(&self) -> impl Iterator<Item = SeenClient> {
        self.tunnels.values().map(|Tunnel { client, tunn, remote }| {
            let (handshake, sent, received, ..) = tunn.stats();
            SeenClient {
                client: client.clone(),
                handshake,
                remote: remote.map(|remote| remote.address),
                sent_bytes: sent as u64,
                received_bytes: received as u64,
            }
        })
    }
}

/// Returns the private key of the identity.
///
/// Decoding cannot fail, because the key's text is always the base64 of 32 bytes.
fn secret_bytes(identity: &Identity) -> [u8; 32] {
    let mut bytes = [0; 32];
    let _ = Base64::decode(identity.secret_to_base64(), &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: [u8; 4] = [10, 9, 128, 2];
    const HOST: [u8; 4] = [192, 168, 5, 2];

    /// The client's end of a tunnel.
    struct Far {
        tunn: Tunn,
        from: Remote,
    }

    impl Far {
        /// Sends `packet` and exchanges datagrams with the gate until both ends are done.
        ///
        /// Returns the packets that left the gate, and the number of datagrams that the gate sent.
        fn send(&mut self, gate: &mut Gate, packet: &[u8]) -> (Vec<Vec<u8>>, usize) {
            let mut buffer = vec![0; 2_000];
            let TunnResult::WriteToNetwork(first) = self.tunn.encapsulate(packet, &mut buffer) else {
                return (vec![], 0);
            };
            let mut waiting = vec![first.to_vec()];
            let (mut packets, mut answers) = (Vec::new(), 0);
            while let Some(datagram) = waiting.pop() {
                let mut said = Vec::new();
                gate.receive(self.from, &datagram, &mut |output| match output {
                    GateOutput::Packet(packet) => packets.push(packet.to_vec()),
                    GateOutput::Datagram(to, datagram) => {
                        assert_eq!(to, self.from);
                        said.push(datagram.to_vec());
                    }
                });
                answers += said.len();
                for datagram in said {
                    let mut input = datagram.as_slice();
                    while let TunnResult::WriteToNetwork(more) = self.tunn.decapsulate(None, input, &mut buffer) {
                        waiting.push(more.to_vec());
                        input = &[];
                    }
                }
            }
            (packets, answers)
        }
    }

    fn packet(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        (packet[0], packet[3]) = (0x45, 40);
        packet[12..16].copy_from_slice(&source);
        packet[16..20].copy_from_slice(&destination);
        packet
    }

    fn remote(port: u16) -> Remote {
        Remote { address: ([192, 0, 2, 2], port).into(), local: Some([192, 0, 2, 1].into()) }
    }

    fn edge() -> Identity {
        Identity::from_secret([1; 32])
    }

    fn far(secret: [u8; 32], port: u16) -> Far {
        let edge = PublicKey::from(edge().public_key().0);
        Far { tunn: Tunn::new(StaticSecret::from(secret), edge, None, None, 5, None), from: remote(port) }
    }

    fn client(secret: [u8; 32]) -> Client {
        Client { name: "phone".into(), address: CLIENT.into(), public_key: Identity::from_secret(secret).public_key() }
    }

    fn gate() -> Gate {
        let mut gate = Gate::new(&edge());
        gate.set(&[client([2; 32])]);
        gate
    }

    /// Returns the datagrams that the gate sends for a packet to the client.
    fn sent(gate: &mut Gate) -> Vec<(Remote, Vec<u8>)> {
        let mut sent = Vec::new();
        gate.send(&packet(HOST, CLIENT), &mut |output| match output {
            GateOutput::Datagram(to, datagram) => sent.push((to, datagram.to_vec())),
            GateOutput::Packet(_) => panic!("a packet for a client came back"),
        });
        sent
    }

    #[test]
    fn packets_pass_both_ways_and_a_client_may_move() {
        let (mut gate, mut far) = (gate(), far([2; 32], 1));
        assert!(sent(&mut gate).is_empty());
        assert_eq!(far.send(&mut gate, &packet(CLIENT, HOST)).0, [packet(CLIENT, HOST)]);
        for port in [1, 2] {
            far.from = remote(port);
            assert_eq!(far.send(&mut gate, &packet(CLIENT, HOST)).0, [packet(CLIENT, HOST)]);
            let [(to, datagram)] = sent(&mut gate).try_into().unwrap();
            assert_eq!(to, remote(port));
            let mut buffer = vec![0; 2_000];
            match far.tunn.decapsulate(None, &datagram, &mut buffer) {
                TunnResult::WriteToTunnelV4(came, _) => assert_eq!(came, packet(HOST, CLIENT)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(gate.refused, ClientRefusals::default());
    }

    #[test]
    fn a_source_that_is_not_the_clients_stays_out() {
        let (mut gate, mut far) = (gate(), far([2; 32], 1));
        let (packets, answers) = far.send(&mut gate, &packet([10, 9, 128, 3], HOST));
        assert!(packets.is_empty() && answers > 0, "{packets:?}");
        assert_eq!(gate.refused, ClientRefusals { strays: 1, ..ClientRefusals::default() });
    }

    #[test]
    fn strangers_and_removed_clients_get_no_answer() {
        let mut gate = gate();
        assert_eq!(far([3; 32], 1).send(&mut gate, &packet(CLIENT, HOST)), (vec![], 0));
        let mut far = far([2; 32], 1);
        assert_eq!(far.send(&mut gate, &packet(CLIENT, HOST)).0.len(), 1);
        gate.set(&[]);
        assert_eq!(far.send(&mut gate, &packet(CLIENT, HOST)), (vec![], 0));
        assert!(sent(&mut gate).is_empty());
        assert_eq!((gate.refused.from_no_client, gate.refused.for_another_edge), (1, 0));
    }

    #[test]
    fn clients_of_another_edge_get_no_answer_and_are_counted() {
        let (mut gate, mut far) = (gate(), far([2; 32], 7));
        let other = PublicKey::from(Identity::from_secret([9; 32]).public_key().0);
        far.tunn = Tunn::new(StaticSecret::from([2; 32]), other, None, None, 5, None);
        assert_eq!(far.send(&mut gate, &packet(CLIENT, HOST)), (vec![], 0));
        let last_from = Some(remote(7).address);
        assert_eq!(gate.refused, ClientRefusals { for_another_edge: 1, last_from, ..ClientRefusals::default() });
        assert!(sent(&mut gate).is_empty());
    }

    #[test]
    fn a_client_with_a_new_key_takes_the_place_of_the_old_one() {
        let mut gate = gate();
        let mut old = far([2; 32], 1);
        old.send(&mut gate, &packet(CLIENT, HOST));
        gate.set(&[client([4; 32])]);
        assert_eq!(old.send(&mut gate, &packet(CLIENT, HOST)), (vec![], 0));
        assert_eq!(far([4; 32], 2).send(&mut gate, &packet(CLIENT, HOST)).0.len(), 1);
        assert_eq!(sent(&mut gate).pop().unwrap().0, remote(2));
    }

    #[test]
    fn a_sender_with_a_cookie_moves_no_client() {
        let mut gate = gate();
        let mut buffer = [vec![0; 2_000], vec![0; 2_000]];
        let [first, second] = &mut buffer;
        let (mut client, mut stranger) = (far([2; 32], 1).tunn, far([3; 32], 9).tunn);
        let TunnResult::WriteToNetwork(init) = client.format_handshake_initiation(first, false) else {
            panic!("no handshake")
        };
        let TunnResult::WriteToNetwork(other) = stranger.format_handshake_initiation(second, false) else {
            panic!("no handshake")
        };
        gate.receive(remote(1), init, &mut |_| {});
        // The limiter adds one for this handshake and two for each of the next ones, so the gate demands a cookie
        // during the loop.
        gate.receive(remote(9), other, &mut |_| {});
        let mut cookies = 0;
        for _ in 0..HANDSHAKES {
            gate.receive(remote(9), init, &mut |output| match output {
                GateOutput::Datagram(_, &[COOKIE_REPLY, ..]) => cookies += 1,
                output => panic!("{output:?}"),
            });
        }
        assert!(cookies > 0);
        assert!(gate.seen().all(|seen| seen.remote == Some(remote(1).address)));
    }
}
