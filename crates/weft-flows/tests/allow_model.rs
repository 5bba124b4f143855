//! Rules of access against a model that scans the rules and keeps every flow in a map.
//!
//! An ordinary run draws about 15,000 packets. `WEFT_CHECK=1` draws more than 100,000.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weft_flows::allow::{AccessFilter, AccessVerdict, AllowRule, AllowRules, Beyond, NodeGroups, Party};
use weft_flows::rules::FlowPrefix;
use weft_units::{Duration, Instant, PeerId, VpnId};
use weft_wire::ip::IpView;

/// Number of peers. Host `n` of peer `p` has the address that ends in `10 * (p + 1) + n`.
const PEERS: u16 = 3;
const PORTS: [u16; 4] = [22, 53, 80, 8_080];
const PROTOCOLS: [u8; 4] = [6, 17, 1, 47];
const GROUPS: [&str; 3] = ["admins", "staff", "cameras"];

/// Part of a packet that a datagram holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece {
    Whole,
    First(u8),
    ShortFirst(u8),
    Later(u8),
}

/// A packet between a host here and a host behind a peer, or between hosts behind two peers.
#[derive(Clone, Debug)]
struct Drawn {
    is_ipv6: bool,
    vpn: u32,
    /// Peer of the far host.
    peer: u16,
    far_host: u8,
    own_host: u8,
    /// Peer to which an arriving packet is forwarded.
    onward: Option<u16>,
    protocol: u8,
    ports: (u16, u16),
    piece: Piece,
    /// An ICMP error that quotes this packet, as sent in the other direction.
    is_error: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Leaves(Drawn),
    Arrives(Drawn),
    SetRules(Vec<AllowRule>),
    SetPeer(u16, Vec<usize>),
    /// Longer than any entry lives.
    Pause,
}

fn address(is_ipv6: bool, last: u8) -> IpAddr {
    if is_ipv6 {
        IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
    } else {
        IpAddr::from([10, 0, 0, last])
    }
}

fn far(peer: u16, host: u8) -> u8 {
    10 * (peer as u8 + 1) + host
}

/// Returns the bytes of an IP packet with this payload.
fn ip(src: IpAddr, dst: IpAddr, protocol: u8, piece: Piece, payload: &[u8]) -> Vec<u8> {
    let (id, offset, more) = match piece {
        Piece::Whole => (0, 0, false),
        Piece::First(id) | Piece::ShortFirst(id) => (id, 0, true),
        Piece::Later(id) => (id, 24u16, false),
    };
    let is_fragment = piece != Piece::Whole;
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let flags = (u16::from(more) << 13) | (offset / 8);
            let mut packet = vec![0x45, 0];
            packet.extend(((20 + payload.len()) as u16).to_be_bytes());
            packet.extend([0, id]);
            packet.extend(flags.to_be_bytes());
            packet.extend([64, protocol, 0, 0]);
            packet.extend(src.octets());
            packet.extend(dst.octets());
            packet.extend(payload);
            packet
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut body = Vec::new();
            if is_fragment {
                body.extend([protocol, 0]);
                body.extend((offset | u16::from(more)).to_be_bytes());
                body.extend([0, 0, 0, id]);
            }
            body.extend(payload);
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((body.len() as u16).to_be_bytes());
            packet.extend([if is_fragment { 44 } else { protocol }, 64]);
            packet.extend(src.octets());
            packet.extend(dst.octets());
            packet.extend(body);
            packet
        }
        _ => unreachable!("both ends are of one version"),
    }
}

impl Drawn {
    /// Returns the protocol number in this IP version.
    fn number(&self) -> u8 {
        if self.protocol == 1 && self.is_ipv6 { 58 } else { self.protocol }
    }

    fn ends(&self, arrives: bool) -> (IpAddr, IpAddr) {
        let far_end = address(self.is_ipv6, far(self.peer, self.far_host));
        let near = match self.onward {
            Some(onward) if arrives => far(onward, self.own_host),
            _ => 1 + self.own_host,
        };
        let near = address(self.is_ipv6, near);
        if arrives { (far_end, near) } else { (near, far_end) }
    }

    /// Returns the ports in the words of a flow's key.
    fn key_ports(&self) -> (u16, u16) {
        match self.protocol {
            6 | 17 => self.ports,
            1 => (self.ports.0, self.ports.0),
            _ => (0, 0),
        }
    }

    fn payload(&self) -> Vec<u8> {
        let (src, dst) = self.ports;
        let mut payload: Vec<u8> = match self.protocol {
            6 | 17 => [src.to_be_bytes(), dst.to_be_bytes()].concat(),
            1 => vec![if self.is_ipv6 { 128 } else { 8 }, 0, 0, 0, (src >> 8) as u8, src as u8],
            _ => vec![0; 4],
        };
        payload.resize(if matches!(self.piece, Piece::ShortFirst(_)) { 6 } else { 24 }, 0);
        if self.protocol == 6 && payload.len() > 13 {
            payload[12] = 0x50;
            payload[13] = 0x10;
        }
        payload
    }

    fn bytes(&self, arrives: bool) -> Vec<u8> {
        let (src, dst) = self.ends(arrives);
        if !self.is_error {
            return ip(src, dst, self.number(), self.piece, &self.payload());
        }
        // An echo and its answer have one identifier.
        let ports = if self.protocol == 1 { self.ports } else { (self.ports.1, self.ports.0) };
        let reversed = Drawn { ports, ..self.clone() };
        let quoted = ip(dst, src, self.number(), Piece::Whole, &reversed.payload());
        let mut icmp = vec![if self.is_ipv6 { 1 } else { 3 }, 1, 0, 0, 0, 0, 0, 0];
        icmp.extend(quoted);
        ip(src, dst, if self.is_ipv6 { 58 } else { 1 }, Piece::Whole, &icmp)
    }
}

/// Ends of a flow without order.
type Pair = (u32, u8, [(IpAddr, u16); 2]);

#[derive(Clone, Debug)]
struct Begun {
    by: (IpAddr, u16),
    to: (IpAddr, u16),
    owner: Option<u16>,
    toward: Option<u16>,
}

/// Identity of the packet to which a fragment belongs.
type Divided = (u32, IpAddr, IpAddr, u8, u8);

struct Model {
    rules: Vec<AllowRule>,
    own: NodeGroups,
    peers: Vec<NodeGroups>,
    flows: BTreeMap<Pair, Begun>,
    admitted: BTreeSet<Divided>,
}

impl Model {
    fn allows(
        &self,
        from: u16,
        toward: Option<u16>,
        vpn: u32,
        protocol: u8,
        (src, dst): ((IpAddr, u16), (IpAddr, u16)),
    ) -> bool {
        let to = toward.map_or(&self.own, |peer| &self.peers[usize::from(peer)]);
        let is = |party: &Party, node: &NodeGroups, address: IpAddr| match party {
            Party::Any => true,
            Party::Node(name) => *name == node.name,
            Party::Group(group) => node.groups.contains(group),
            Party::Prefix(prefix) => prefix.contains(address),
        };
        let from = &self.peers[usize::from(from)];
        self.rules.iter().any(|rule| {
            rule.from.iter().any(|party| is(party, from, src.0))
                && rule.to.iter().any(|party| is(party, to, dst.0))
                && rule.protocol.is_none_or(|number| number == protocol)
                && (rule.ports.is_empty() || rule.ports.iter().any(|range| range.contains(&dst.1)))
                && rule.vpn.is_none_or(|number| number.0 == vpn)
        })
    }

    fn pair(vpn: u32, protocol: u8, a: (IpAddr, u16), b: (IpAddr, u16)) -> Pair {
        (vpn, protocol, [a.min(b), a.max(b)])
    }

    fn still_allowed(&self, vpn: u32, protocol: u8, flow: &Begun) -> bool {
        flow.owner.is_none_or(|owner| self.allows(owner, flow.toward, vpn, protocol, (flow.by, flow.to)))
    }

    fn leaves(&mut self, packet: &Drawn) {
        let hides = matches!(packet.piece, Piece::ShortFirst(_)) && matches!(packet.protocol, 6 | 17);
        let is_later = matches!(packet.piece, Piece::Later(_)) && matches!(packet.protocol, 6 | 17);
        if packet.is_error || hides || is_later {
            return;
        }
        let ((src, dst), (src_port, dst_port)) = (packet.ends(false), self.ports_of(packet));
        let (by, to) = ((src, src_port), (dst, dst_port));
        let pair = Model::pair(packet.vpn, packet.number(), by, to);
        let flow = Begun { by, to, owner: None, toward: Some(packet.peer) };
        self.flows.entry(pair).or_insert(flow);
    }

    /// Fragments of other protocols than TCP and UDP have no ports.
    fn ports_of(&self, packet: &Drawn) -> (u16, u16) {
        if packet.piece != Piece::Whole && packet.protocol == 1 { (0, 0) } else { packet.key_ports() }
    }

    fn arrives(&mut self, packet: &Drawn) -> bool {
        let (src, dst) = packet.ends(true);
        let id = match packet.piece {
            Piece::Whole => None,
            Piece::First(id) | Piece::ShortFirst(id) | Piece::Later(id) => Some(id),
        };
        let divided = id.filter(|_| !packet.is_error).map(|id| (packet.vpn, src, dst, packet.number(), id));
        if matches!(packet.piece, Piece::Later(_)) && !packet.is_error {
            return self.admitted.contains(&divided.unwrap());
        }
        let hides = matches!(packet.piece, Piece::ShortFirst(_)) && matches!(packet.protocol, 6 | 17);
        let enters = if packet.is_error { self.error_arrives(packet) } else { !hides && self.flow_arrives(packet) };
        if let Some(divided) = divided {
            if enters {
                self.admitted.insert(divided);
            } else {
                self.admitted.remove(&divided);
            }
        }
        enters
    }

    fn flow_arrives(&mut self, packet: &Drawn) -> bool {
        let ((src, dst), (src_port, dst_port)) = (packet.ends(true), self.ports_of(packet));
        let (by, to) = ((src, src_port), (dst, dst_port));
        let (vpn, protocol) = (packet.vpn, packet.number());
        let pair = Model::pair(vpn, protocol, by, to);
        if let Some(flow) = self.flows.get(&pair) {
            let answers = flow.by != by;
            if answers || (flow.owner == Some(packet.peer) && flow.toward == packet.onward) {
                return self.still_allowed(vpn, protocol, flow);
            }
        }
        let is_allowed = self.allows(packet.peer, packet.onward, vpn, protocol, (by, to));
        if is_allowed {
            self.flows.insert(pair, Begun { by, to, owner: Some(packet.peer), toward: packet.onward });
        }
        is_allowed
    }

    fn error_arrives(&self, packet: &Drawn) -> bool {
        let (src, dst) = packet.ends(true);
        let (vpn, protocol) = (packet.vpn, packet.number());
        let (far_port, near_port) = packet.key_ports();
        let (far, near) = ((src, far_port), (dst, near_port));
        if let Some(flow) = self.flows.get(&Model::pair(vpn, protocol, far, near)) {
            let peer = if flow.by == near { flow.toward } else { flow.owner };
            if peer == Some(packet.peer) && self.still_allowed(vpn, protocol, flow) {
                return true;
            }
        }
        let icmp = if packet.is_ipv6 { 58 } else { 1 };
        self.allows(packet.peer, packet.onward, vpn, icmp, ((src, 0), (dst, 0)))
    }
}

fn party() -> impl Strategy<Value = Party> {
    let prefix = (any::<bool>(), 0u8..45, 0u8..=6).prop_map(|(is_ipv6, last, free)| {
        let length = if is_ipv6 { 128 } else { 32 } - free;
        Party::Prefix(FlowPrefix { address: address(is_ipv6, last), length })
    });
    prop_oneof![
        1 => Just(Party::Any),
        3 => (0..PEERS + 2).prop_map(|peer| Party::Node(format!("n{peer}"))),
        3 => prop::sample::select(&GROUPS[..]).prop_map(|group| Party::Group(group.to_owned())),
        3 => prefix,
    ]
}

fn rule() -> impl Strategy<Value = AllowRule> {
    let ports = prop_oneof![
        2 => Just(Vec::new()),
        3 => prop::collection::vec((0..PORTS.len(), 0u16..40).prop_map(|(at, more)| PORTS[at]..=PORTS[at] + more), 1..3),
    ];
    let parties = || prop::collection::vec(party(), 1..3);
    let protocol = prop_oneof![1 => Just(None), 3 => prop::sample::select(&[6u8, 17, 1, 58, 47][..]).prop_map(Some)];
    let vpn = prop_oneof![3 => Just(None), 1 => (0u32..2).prop_map(|vpn| Some(VpnId(vpn)))];
    (parties(), parties(), protocol, ports, vpn).prop_map(|(from, to, protocol, ports, vpn)| AllowRule {
        name: "r".into(),
        from,
        to,
        protocol,
        ports,
        vpn,
    })
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let piece = prop_oneof![
        6 => Just(Piece::Whole),
        1 => (0u8..3).prop_map(Piece::First),
        1 => (0u8..3).prop_map(Piece::ShortFirst),
        1 => (0u8..3).prop_map(Piece::Later),
    ];
    let place = (any::<bool>(), 0u32..2, 0..PEERS, 0u8..2, 0u8..2, prop::option::weighted(0.2, 0..PEERS));
    let ports = (0..PORTS.len(), 0..PORTS.len()).prop_map(|(a, b)| (PORTS[a], PORTS[b]));
    (place, prop::sample::select(&PROTOCOLS[..]), ports, piece, prop::bool::weighted(0.1)).prop_map(
        |((is_ipv6, vpn, peer, far_host, own_host, onward), protocol, ports, piece, is_error)| Drawn {
            is_ipv6,
            vpn,
            peer,
            far_host,
            own_host,
            onward: onward.filter(|onward| *onward != peer),
            protocol,
            ports,
            piece: if is_error { Piece::Whole } else { piece },
            is_error,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => drawn().prop_map(Step::Leaves),
        30 => drawn().prop_map(Step::Arrives),
        1 => prop::collection::vec(rule(), 1..6).prop_map(Step::SetRules),
        1 => (0..PEERS, prop::collection::vec(0..GROUPS.len(), 0..3)).prop_map(|(peer, groups)| Step::SetPeer(peer, groups)),
        1 => Just(Step::Pause),
    ]
}

fn node(peer: u16, groups: &[usize]) -> NodeGroups {
    NodeGroups { name: format!("n{peer}"), groups: groups.iter().map(|at| GROUPS[*at].to_owned()).collect() }
}

fn cases() -> u32 {
    if std::env::var_os("WEFT_CHECK").is_some() { 600 } else { 80 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_filter_decides_as_the_model(
        rules in prop::collection::vec(rule(), 1..6), steps in prop::collection::vec(step(), 150..300), seed in any::<u64>(),
    ) {
        let own = NodeGroups { name: format!("n{PEERS}"), groups: vec![GROUPS[1].to_owned()] };
        let mut filter = AccessFilter::new(AllowRules::compile(rules.clone()).unwrap(), &own, seed);
        let peers: Vec<NodeGroups> = (0..PEERS).map(|peer| node(peer, &[usize::from(peer)])).collect();
        let mut model = Model { rules, own: own.clone(), peers, flows: BTreeMap::new(), admitted: BTreeSet::new() };
        let set_peers = |filter: &mut AccessFilter, peers: &[NodeGroups]| {
            (0..).zip(peers).for_each(|(peer, node)| filter.set_peer(PeerId(peer), Some(node)));
        };
        set_peers(&mut filter, &model.peers);
        let (mut now, mut dropped) = (Instant::from_millis(1_000), 0);
        for step in steps {
            now += Duration::from_millis(1);
            match step {
                Step::Leaves(packet) => {
                    let packet = Drawn { onward: None, ..packet };
                    model.leaves(&packet);
                    let bytes = packet.bytes(false);
                    filter.on_leaving(now, PeerId(packet.peer), VpnId(packet.vpn), &IpView::parse(&bytes).unwrap());
                }
                Step::Arrives(packet) => {
                    let bytes = packet.bytes(true);
                    let beyond = Beyond { from: PeerId(packet.peer), toward: packet.onward.map(PeerId) };
                    let view = IpView::parse(&bytes).unwrap();
                    let enters = filter.on_arriving(now, beyond, VpnId(packet.vpn), &view) == AccessVerdict::Pass;
                    let model_says = model.arrives(&packet);
                    prop_assert_eq!(enters, model_says, "{:?} with {:?}", packet, model.rules);
                    dropped += u64::from(!enters);
                }
                Step::SetRules(rules) => {
                    filter.set_rules(AllowRules::compile(rules.clone()).unwrap(), &own);
                    model.rules = rules;
                    set_peers(&mut filter, &model.peers);
                }
                Step::SetPeer(peer, groups) => {
                    model.peers[usize::from(peer)] = node(peer, &groups);
                    filter.set_peer(PeerId(peer), Some(&model.peers[usize::from(peer)]));
                }
                Step::Pause => {
                    now += Duration::from_secs(10_000);
                    model.flows.clear();
                    model.admitted.clear();
                }
            }
        }
        let drops = filter.drops();
        prop_assert_eq!(drops.no_rule + drops.fragments + drops.short_fragments, dropped);
    }
}

/// The terms of one rule, not to be drawn: with 4,097 combinations.
#[test]
fn too_many_terms_and_empty_rules_are_refused() {
    let many: Vec<Party> = (0..65).map(|n| Party::Node(format!("n{n}"))).collect();
    let rule = AllowRule { name: "r".into(), from: many.clone(), to: many, protocol: None, ports: vec![], vpn: None };
    assert!(AllowRules::compile(vec![rule.clone()]).is_err());
    assert!(AllowRules::compile(vec![AllowRule { from: vec![], ..rule }]).is_err());
}
