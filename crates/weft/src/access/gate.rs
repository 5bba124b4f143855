//! The WireGuard side without sockets: whose datagram this is, what is inside, and what leaves for whom (WireGuard paper, §5).

use super::clients::Client;
use base64ct::{Base64, Encoding as _};
use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::rate_limiter::RateLimiter;
use boringtun::noise::{Packet, Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use weft_session::Identity;

/// Handshakes a second before a cookie is asked for; each is counted twice.
const HANDSHAKES: u64 = 2 * 100;
/// A whole UDP datagram.
const MAX_DATAGRAM: usize = 65_535;
/// What a datagram has beside the packet, or a handshake, which is longer than a short packet.
const OVERHEAD: usize = 148;
/// Type of the message that asks for a proof of address (WireGuard paper, §5.4.7).
const COOKIE_REPLY: u8 = 3;
/// WireGuard's indices have 24 bits for a tunnel and 8 for its sessions.
const MAX_INDEX: u32 = 0xff_ffff;

/// Where a datagram came from, and to which address of ours, which answers come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The client's address and port.
    pub address: SocketAddr,
    /// Ours, as it was written.
    pub local: Option<IpAddr>,
}

/// What comes out of the gate.
#[derive(PartialEq, Eq, Debug)]
pub enum Output<'a> {
    /// A datagram for a client.
    Datagram(Remote, &'a [u8]),
    /// A packet from a client.
    Packet(&'a [u8]),
}

/// What is known of a client's tunnel.
pub struct Seen {
    /// The client.
    pub client: Client,
    /// Since the last handshake; absent: there was none.
    pub handshake: Option<Duration>,
    /// Where it is.
    pub remote: Option<SocketAddr>,
    /// Bytes of packets to it.
    pub sent_bytes: u64,
    /// Bytes of packets from it.
    pub received_bytes: u64,
}

struct Tunnel {
    client: Client,
    tunn: Tunn,
    remote: Option<Remote>,
}

/// The tunnels of all clients. Strangers get no answer.
pub struct Gate {
    secret: StaticSecret,
    public: PublicKey,
    limiter: Arc<RateLimiter>,
    tunnels: HashMap<u32, Tunnel>,
    by_key: HashMap<[u8; 32], u32>,
    by_address: HashMap<Ipv4Addr, u32>,
    last_index: u32,
    buffer: Vec<u8>,
    /// Packets whose source was not their client's, since the start.
    pub strays: u64,
}

impl Gate {
    /// A gate without clients, known by the public half of `identity`.
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
            strays: 0,
        }
    }

    /// Lets in these and nobody else; who was in and still is is not disturbed.
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

    /// Takes in a datagram, of whomever.
    pub fn receive(&mut self, from: Remote, datagram: &[u8], out: &mut impl FnMut(Output<'_>)) {
        let address = from.address.ip();
        let index = match self.limiter.verify_packet(Some(address), datagram, &mut self.buffer) {
            Ok(Packet::HandshakeInit(init)) => parse_handshake_anon(&self.secret, &self.public, &init)
                .ok()
                .and_then(|half| self.by_key.get(&half.peer_static_public).copied()),
            Ok(Packet::HandshakeResponse(packet)) => Some(packet.receiver_idx >> 8),
            Ok(Packet::PacketCookieReply(packet)) => Some(packet.receiver_idx >> 8),
            Ok(Packet::PacketData(packet)) => Some(packet.receiver_idx >> 8),
            Err(TunnResult::WriteToNetwork(cookie)) => return out(Output::Datagram(from, cookie)),
            Err(_) => None,
        };
        let Some(tunnel) = index.and_then(|index| self.tunnels.get_mut(&index)) else { return };
        let is_genuine = match tunnel.tunn.decapsulate(Some(address), datagram, &mut self.buffer) {
            TunnResult::WriteToNetwork(answer) => {
                out(Output::Datagram(from, answer));
                // Whoever gets a cookie has proved nothing yet.
                answer.first() != Some(&COOKIE_REPLY)
            }
            TunnResult::WriteToTunnelV4(packet, source) if source == tunnel.client.address => {
                out(Output::Packet(packet));
                true
            }
            TunnResult::WriteToTunnelV4(..) | TunnResult::WriteToTunnelV6(..) => {
                self.strays += 1;
                true
            }
            TunnResult::Done => true,
            TunnResult::Err(_) => false,
        };
        if is_genuine {
            tunnel.remote = Some(from);
            // What waited for a session.
            while let TunnResult::WriteToNetwork(waiting) = tunnel.tunn.decapsulate(None, &[], &mut self.buffer) {
                out(Output::Datagram(from, waiting));
            }
        }
    }

    /// Takes a packet for a client; dropped where nobody has the address, or has never come.
    pub fn send(&mut self, packet: &[u8], out: &mut impl FnMut(Output<'_>)) {
        let Some(IpAddr::V4(destination)) = Tunn::dst_address(packet) else { return };
        let Some(tunnel) = self.by_address.get(&destination).and_then(|index| self.tunnels.get_mut(index)) else {
            return;
        };
        let Some(remote) = tunnel.remote.filter(|_| packet.len() <= MAX_DATAGRAM) else { return };
        if let TunnResult::WriteToNetwork(datagram) = tunnel.tunn.encapsulate(packet, &mut self.buffer) {
            out(Output::Datagram(remote, datagram));
        }
    }

    /// Looks after what is due: repeats, new keys, keepalives. Four times a second will do.
    pub fn tick(&mut self, out: &mut impl FnMut(Output<'_>)) {
        self.limiter.reset_count();
        for tunnel in self.tunnels.values_mut() {
            if let (TunnResult::WriteToNetwork(datagram), Some(remote)) =
                (tunnel.tunn.update_timers(&mut self.buffer), tunnel.remote)
            {
                out(Output::Datagram(remote, datagram));
            }
        }
    }

    /// Each client and what is known of it.
    pub fn seen(&self) -> impl Iterator<Item = Seen> {
        self.tunnels.values().map(|Tunnel { client, tunn, remote }| {
            let (handshake, sent, received, ..) = tunn.stats();
            Seen {
                client: client.clone(),
                handshake,
                remote: remote.map(|remote| remote.address),
                sent_bytes: sent as u64,
                received_bytes: received as u64,
            }
        })
    }
}

/// The identity's secret: its text is always 32 bytes of base64.
fn secret_bytes(identity: &Identity) -> [u8; 32] {
    let mut bytes = [0; 32];
    let _ = Base64::decode(identity.secret_to_base64(), &mut bytes);
    bytes
}
