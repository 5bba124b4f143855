//! An authentic but malicious peer seals arbitrary plaintexts.
//!
//! The node must process and answer them, and may write only packets from the peer's own prefixes.
#![no_main]

mod node;

use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::service::Service;
use weft_engine::{Engine, Entry, MemberConfig, Policy, Prefix, TrustConfig, VpnConfig};
use weft_session::{Cipher, Identity, RootKey, SessionPeerConfig, Sessions};
use weft_units::{Duration, Instant, PathId, PeerId, VpnId};
use weft_wire::frame::{Frame, FrameWriter, Frames};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::relay::Way;

const PREFIX: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 0));
/// The peer is a member of this VPN, with other prefixes.
const VPN: VpnId = VpnId(7);
const PREFIX_IN_VPN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 8, 0, 0));

/// Where the peer sends from.
const SOURCE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 40_000);

struct Node {
    engine: Engine,
    now: Instant,
    out: Vec<u8>,
}

impl Node {
    fn new(peer: &Identity) -> Node {
        let prefixes = vec![Prefix { address: PREFIX_IN_VPN, length: 24 }];
        let members = vec![MemberConfig { public_key: peer.public_key(), prefixes }];
        let control = Some(LoopConfig::AimdWindow(AimdConfig::default()));
        let vpn = VpnConfig {
            id: VPN,
            name: "tenant".into(),
            weight: 1,
            service: Service::BestEffort,
            entry: Entry { control, ..Entry::default() },
            prefixes: Vec::new(),
            members,
        };
        let peer = node::peer("liar", peer.public_key(), PREFIX);
        let now = Instant::from_millis(1);
        let mut engine = node::engine(Identity::from_secret([2; 32]), peer, vec![vpn], now);
        engine.set_relaying(true);
        let (root, own) = (RootKey::from_seed([3; 32]).public_key(), Vec::new());
        let trust = TrustConfig { root, certificate: None, own, policy: Policy::default(), revocations: Vec::new() };
        engine.set_trust(now, 1_800_000_000, Some(trust));
        node::set_link_up(&mut engine, now);
        Node { engine, now, out: vec![0; 65_536] }
    }

    /// Processes a datagram and returns the datagrams that leave.
    fn turn(&mut self, datagram: &[u8], wait: Duration) -> Vec<Vec<u8>> {
        self.now += wait;
        node::receive(&mut self.engine, self.now, SOURCE, datagram);
        self.engine.handle_timeout(self.now);
        let mut left = Vec::new();
        while let Some(transmit) = self.engine.poll_transmit(self.now, &mut self.out) {
            left.push(self.out[..transmit.len].to_vec());
        }
        self.engine.deliver(self.now, |vpn, pieces| {
            let write = pieces.concat();
            assert!(write.len() <= 10 + 65_535, "no device takes {} bytes", write.len());
            assert!(
                write[10] >> 4 != 4 || write[22..25] == [10, if vpn == VPN { 8 } else { 9 }, 0],
                "a source that is not the peer's"
            );
        });
        while self.engine.poll_event().is_some() {}
        left
    }
}

/// Makes both sides announce their receiver indices for the VPN.
fn open_vpn(sessions: &mut Sessions, node: &mut Node) {
    const PEER: PeerId = PeerId(0);
    let index = sessions.vpn_index(PEER, VPN).unwrap();
    let mut datagram = vec![0; HOP_HEADER_LEN + 10 + TAG_LEN];
    let mut writer = FrameWriter::new(&mut datagram[HOP_HEADER_LEN..]);
    writer.write(&Frame::Vpn { vpn: VPN, index, wants_index: true }).unwrap();
    sessions.seal(PEER, PathId(0), PacketType::Control, &mut datagram).unwrap();
    for mut answer in node.turn(&datagram, Duration::ZERO) {
        let Ok(opened) = sessions.open(&mut answer) else { continue };
        for frame in Frames::new(&answer[opened.plaintext.clone()]) {
            if let Ok(Frame::Vpn { vpn, index, .. }) = frame {
                sessions.set_vpn_index(PEER, opened.key, vpn, index);
            }
        }
    }
}

/// Returns a sealed packet of the peer. `how` selects its type and VPN.
fn alone(sessions: &mut Sessions, how: u8, plaintext: &[u8]) -> Option<Vec<u8>> {
    let mut datagram = [&[0; HOP_HEADER_LEN], plaintext, &[0; TAG_LEN]].concat();
    let packet_type = match how & 3 {
        0 if how & 16 != 0 => PacketType::DataWithReport,
        0 => PacketType::Data,
        2 => PacketType::DataPart,
        3 => PacketType::LoopData,
        _ => PacketType::Control,
    };
    let vpn = if how & 8 != 0 && packet_type != PacketType::Control { VPN } else { VpnId::DEFAULT };
    sessions.seal_in(PeerId(0), vpn, PathId(how >> 2 & 1), packet_type, &mut datagram).ok()?;
    Some(datagram)
}

/// Returns an arbitrary datagram that the peer claims to forward, with an arbitrary route.
fn relayed(sessions: &mut Sessions, bytes: &[u8]) -> Option<Vec<u8>> {
    let (code, rest) = bytes.split_first()?;
    let (within, labels) = rest.split_at_checked(rest.len().checked_sub(Way::labels_len(*code).ok()?)?)?;
    let way = Way::parse(*code, labels).ok()?;
    let mut datagram = [&[0; HOP_HEADER_LEN], within, labels, &[0; TAG_LEN]].concat();
    sessions.seal_relayed(PeerId(0), &way, &mut datagram).ok()?;
    Some(datagram)
}

fuzz_target!(|bytes: &[u8]| {
    let me = Identity::from_secret([1; 32]);
    let mut node = Node::new(&me);
    let hub = SessionPeerConfig::from(Identity::from_secret([2; 32]).public_key());
    let mut sessions = Sessions::new(me, &[hub], Cipher::Aes256Gcm, [1; 32], node.now).unwrap();
    let mut out = [0; 512];
    let len = sessions.initiate(node.now, PeerId(0), 1, &mut out).unwrap();
    let replies = node.turn(&out[..len], Duration::ZERO);
    let reply = replies.first().expect("an answer to a true initiation");
    sessions.handle(node.now, reply, b"", false, &mut out).unwrap();
    open_vpn(&mut sessions, &mut node);
    let mut rest = bytes;
    while let [how, len, after @ ..] = rest {
        let (plaintext, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        let is_relayed = how & 11 == 9;
        let sealed = if is_relayed { relayed(&mut sessions, plaintext) } else { alone(&mut sessions, *how, plaintext) };
        let Some(datagram) = sealed else { return };
        node.turn(&datagram, Duration::from_millis(u64::from(how >> 4)));
    }
});
