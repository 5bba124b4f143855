//! Special nodes: a guest with a certificate of limited validity, a second node with the same key, and a node that
//! sends arbitrary datagrams.

use super::fault::{FaultKind, SwarmFault};
use super::packet::host;
use super::plan::{LinkPlan, NodePlan, Plan};
use super::site::public_key;
use std::net::Ipv4Addr;
use weft_engine::{Policy, TrustConfig};
use weft_session::{Certificate, Claims, PresharedKey, Revocation, RootKey};
use weft_units::{Duration, Instant, Rng};

/// The wall clock at the start of a run, in seconds since 1970.
pub(super) const UNIX_S: u64 = 1_800_000_000;
/// Time within which a node detects an expired certificate.
///
/// A node checks certificates once a second, and the wall clock has a resolution of one second.
const EXPIRY_IS_SEEN: Duration = Duration::from_secs(3);
/// Largest number of nodes, which few seeds have.
const MOST_NODES: u64 = 12;

/// The role of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeRole {
    /// A node that its peers have configured, and that follows the protocol.
    Member,
    /// A node that initiates handshakes to `hub`. The hub has the guest's certificate and no configuration for it.
    Guest { hub: usize, papers: Papers },
    /// A second node with the key of `of`.
    ///
    /// If `is_thief` is true, the second node has only the key, and not the secrets that `of` shares with its peers.
    Twin { of: usize, is_thief: bool },
    /// A node that `hub` has configured, and that sends arbitrary datagrams to `hub`.
    Liar { hub: usize },
}

/// The state of a guest's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Papers {
    Good,
    Expire(Instant),
    /// The guest's key is revoked at this node and time.
    Revoked {
        by: usize,
        at: Instant,
    },
    OtherRoot,
    NotYetValid,
    /// The guest shows the certificate of another node.
    Stolen,
    /// The certificate claims the hub's own addresses.
    Overlap,
}

impl Papers {
    fn draw(rng: &mut Rng, plan: &Plan, hub: usize) -> Papers {
        let (from, end) = (Instant::from_millis(300), plan.times.faults_end);
        let at = from + Duration::from_nanos(rng.below((end - from).as_nanos() as u64));
        match rng.below(10) {
            0..3 => Papers::Good,
            3 | 4 => Papers::Expire(at),
            5 => Papers::Revoked { by: hub, at },
            6 => Papers::Revoked { by: rng.below(plan.nodes.len() as u64) as usize, at },
            7 => [Papers::OtherRoot, Papers::NotYetValid][rng.below(2) as usize],
            8 => Papers::Stolen,
            _ => Papers::Overlap,
        }
    }
}

/// Returns the number of nodes of a seed: `few`, or with a probability of 3 % a larger number.
pub(super) fn count(rng: &mut Rng, few: usize) -> usize {
    if rng.chance(0.03) { (5 + rng.below(MOST_NODES - 4)) as usize } else { few }
}

fn root() -> RootKey {
    RootKey::from_seed([0x52; 32])
}

impl Plan {
    /// Returns the node whose key a node uses.
    pub(super) fn owner(&self, node: usize) -> usize {
        match self.roles.get(node) {
            Some(NodeRole::Twin { of, .. }) => *of,
            _ => node,
        }
    }

    /// True if two nodes have the same key.
    pub(super) fn has_twin(&self) -> bool {
        self.roles.iter().any(|role| matches!(role, NodeRole::Twin { .. }))
    }

    /// True if a node runs an engine from the start.
    pub(super) fn starts(&self, node: usize) -> bool {
        matches!(self.roles[node], NodeRole::Member | NodeRole::Guest { .. })
    }

    /// Returns the guest whose membership ends during the run, and the time of this end. `None` if there is none.
    pub(super) fn expelled(&self) -> Option<(usize, Instant)> {
        let (node, role) = self.roles.iter().enumerate().find(|(_, role)| matches!(role, NodeRole::Guest { .. }))?;
        let NodeRole::Guest { hub, papers } = *role else { return None };
        let from = match papers {
            Papers::Good => return None,
            Papers::Expire(at) => at + EXPIRY_IS_SEEN,
            // The revoking node may crash and then lose a revocation that was not stored because its disk was full.
            Papers::Revoked { by, at } if self.has_full_disk(by, at) => Instant::FAR_FUTURE,
            Papers::Revoked { by, at } if by == hub => at,
            // The revoking node sends the revocation to the hub as soon as it can reach the hub: at the latest when
            // the final traffic, the proof of the recovery, begins.
            Papers::Revoked { .. } => self.times.proof,
            Papers::OtherRoot | Papers::NotYetValid | Papers::Stolen | Papers::Overlap => Instant::ZERO,
        };
        Some((node, from))
    }

    fn has_full_disk(&self, node: usize, at: Instant) -> bool {
        let is_it = |fault: &SwarmFault| {
            matches!(fault.kind, FaultKind::DiskFull { node: of } if of == node)
                && (fault.at..=fault.until).contains(&at)
        };
        self.faults.iter().any(is_it)
    }

    /// Returns the node whose key a second node also has. `None` if there is none.
    pub(super) fn shared_key(&self) -> Option<usize> {
        self.roles.iter().find_map(|role| if let NodeRole::Twin { of, .. } = role { Some(*of) } else { None })
    }

    /// True if `node` may lose its session with `peer` at any time.
    ///
    /// This is so if one of the two nodes lies, stops being a member, or shares its key with another node.
    pub(super) fn is_doubtful(&self, node: usize, peer: usize) -> bool {
        let of = |node: usize| match self.roles[node] {
            NodeRole::Member => false,
            NodeRole::Guest { papers, .. } => papers != Papers::Good,
            NodeRole::Twin { .. } | NodeRole::Liar { .. } => true,
        };
        of(node) || of(peer)
    }

    /// Returns the preshared secret of two nodes, if they have one.
    pub(super) fn secret(&self, node: usize, peer: usize) -> Option<PresharedKey> {
        let is_thief = matches!(self.roles[node], NodeRole::Twin { is_thief: true, .. });
        let (a, b) = (self.owner(node).min(self.owner(peer)), self.owner(node).max(self.owner(peer)));
        let is_shared = self.has_secrets && !is_thief && [a, b].iter().all(|n| self.roles[*n] == NodeRole::Member);
        is_shared.then(|| PresharedKey::new([1 + (a * 16 + b) as u8; 32]))
    }

    /// Returns a node's trust configuration, if the plan has certificates.
    pub(super) fn trust(&self, node: usize, policy: &Policy) -> Option<TrustConfig> {
        let guest = self.roles.iter().position(|role| matches!(role, NodeRole::Guest { .. }))?;
        Some(TrustConfig {
            root: root().public_key(),
            certificate: if node == guest { self.certificate(guest) } else { None },
            own: vec![host(node).into()],
            policy: policy.clone(),
            revocations: Vec::new(),
        })
    }

    fn certificate(&self, guest: usize) -> Option<Certificate> {
        let NodeRole::Guest { hub, papers } = self.roles[guest] else { return None };
        let whose = if papers == Papers::Stolen { guest + 1 } else { guest };
        // The host bits of a certificate's prefix must be zero.
        let [a, b, c, _] = host(if papers == Papers::Overlap { hub } else { guest }).octets();
        let claims = Claims {
            public_key: public_key(whose),
            name: guest.to_string(),
            not_before_unix_s: if papers == Papers::NotYetValid { UNIX_S + 1_000_000 } else { UNIX_S - 1_000 },
            not_after_unix_s: match papers {
                Papers::Expire(at) => UNIX_S + at.as_micros() / 1_000_000,
                _ => UNIX_S + 10_000_000,
            },
            may_relay: false,
            prefixes: vec![(Ipv4Addr::new(a, b, c, 0).into(), 24)],
            groups: vec![],
        };
        let signer = if papers == Papers::OtherRoot { RootKey::from_seed([0x53; 32]) } else { root() };
        signer.sign(&claims).ok()
    }

    /// Returns the revocation of a node's key.
    pub(super) fn revocation(&self, node: usize) -> Revocation {
        root().revoke(&public_key(node), UNIX_S)
    }

    /// Adds special nodes, preshared secrets and further faults to the plan.
    ///
    /// Their random values come from separate random streams, so the rest of the plan does not depend on them.
    pub(super) fn draw_adversity(&mut self, rng: &mut Rng) {
        self.has_secrets = rng.chance(0.3);
        let members = self.nodes.len() as u64;
        let is_narrowed = self.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Mtu { .. }));
        let befalls = if rng.chance(0.3) { 1 + rng.below(2) } else { 0 };
        for _ in 0..befalls {
            self.draw_mishap(rng, members);
        }
        // No special node in a plan with relays: no node can verify the reports of relays about each other. None in a
        // plan with a small MTU: a node detects the MTU only by the loss of its own long packets, and a special node
        // may send none.
        if self.has_relays || is_narrowed {
            return;
        }
        let hub = self.pairs[rng.below(self.pairs.len() as u64) as usize].1;
        match rng.below(10) {
            0 | 1 => {
                let papers = Papers::draw(rng, self, hub);
                self.add_guest(rng, hub, papers);
            }
            2 | 3 => {
                let of = self.pairs[rng.below(self.pairs.len() as u64) as usize].0;
                let is_thief = self.has_secrets && rng.chance(0.5);
                let node = self.add_node(rng, NodeRole::Twin { of, is_thief });
                self.faults.push(self.draw_fault(rng, FaultKind::Twin { node }));
            }
            4 | 5 => {
                let node = self.add_node(rng, NodeRole::Liar { hub });
                self.pairs.push((node, hub));
                self.faults.push(self.draw_fault(rng, FaultKind::Lie { node }));
            }
            _ => {}
        }
    }

    fn draw_mishap(&mut self, rng: &mut Rng, members: u64) {
        let node = rng.below(members) as usize;
        let link = rng.below(self.nodes[node].links.len() as u64) as usize;
        let back = Duration::from_secs([0, 0, 60, 86_400][rng.below(4) as usize]);
        let kind = match rng.below(7) {
            0 | 1 => FaultKind::Suspend { node },
            2 => FaultKind::LoseState { node, back },
            3 => FaultKind::DiskFull { node },
            4 => FaultKind::Reload { node },
            _ => FaultKind::Hijack { node, link, p: self.draw_hijacked_share() },
        };
        let fault = self.draw_fault(rng, kind);
        if let FaultKind::DiskFull { node } = fault.kind {
            let half = (fault.until - fault.at).mul_f64(0.5);
            self.faults.push(SwarmFault { at: fault.at + half, until: fault.until, kind: FaultKind::Crash { node } });
        }
        self.faults.push(fault);
    }

    /// Adds faults to a node: it sleeps, then sends handshakes but receives no datagram, and then crashes.
    ///
    /// While the node sleeps, its peer sends handshakes to it. When the node wakes up, it sends handshakes, too. The
    /// peer has the lower key, so the peer answers and sends no more handshakes of its own. After the crash the node
    /// has no address of the peer, so only the peer can begin a new handshake.
    pub(super) fn draw_deaf_caller(&mut self, rng: &mut Rng) {
        let ms = Duration::from_millis;
        let is_member = |node: usize| self.roles[node] == NodeRole::Member;
        let yields = |&&(peer, node): &&(usize, usize)| {
            is_member(peer) && is_member(node) && public_key(peer) < public_key(node)
        };
        let pairs: Vec<_> = self.pairs.iter().filter(yields).copied().collect();
        let Some(&(_, node)) = pairs.get(rng.below(pairs.len().max(1) as u64) as usize) else { return };
        let (asleep, deaf, down) = (ms(1_500 + rng.below(1_000)), ms(200 + rng.below(800)), ms(50 + rng.below(300)));
        let from = Instant::from_millis(300 + rng.below(200));
        let (crash, back) = (from + asleep + deaf, from + asleep + deaf + down);
        if !rng.chance(0.2) || back > self.times.faults_end {
            return;
        }
        let mut add = |at, until, kind| self.faults.push(SwarmFault { at, until, kind });
        add(from, from + asleep, FaultKind::Suspend { node });
        (0..self.nodes[node].links.len()).for_each(|link| add(from, crash, FaultKind::CutDown { node, link }));
        add(crash, back, FaultKind::Crash { node });
    }

    /// Draws the share of a link's datagrams that a hijacker forwards: a tenth, or all.
    ///
    /// If it is a tenth, the other datagrams arrive from the peer's own address and move the path back from the
    /// hijacker's address. If it is all, no datagram moves the path back. The share comes from a separate random
    /// stream, so the rest of the plan does not depend on it.
    fn draw_hijacked_share(&self) -> f64 {
        if Rng::new(self.seed).split(10).chance(0.5) { 1.0 } else { 0.1 }
    }

    fn draw_fault(&self, rng: &mut Rng, kind: FaultKind) -> SwarmFault {
        let (at, until) = SwarmFault::draw_time(rng, Instant::from_millis(300), self.times.faults_end, self.is_long);
        SwarmFault { at, until, kind }
    }

    fn add_node(&mut self, rng: &mut Rng, role: NodeRole) -> usize {
        let mut node = NodePlan::draw(rng, self.nodes.len() + 1);
        node.links.iter_mut().for_each(|link| link.forgo_jumbo_frames());
        self.nodes.push(node);
        self.roles.push(role);
        self.nodes.len() - 1
    }

    fn add_guest(&mut self, rng: &mut Rng, hub: usize, papers: Papers) {
        let node = self.add_node(rng, NodeRole::Guest { hub, papers });
        for end in [node, hub] {
            self.nodes[end].links.iter_mut().for_each(LinkPlan::make_room_for_certificates);
        }
        self.pairs.push((node, hub));
        for (from, to) in [(node, hub), (hub, node)] {
            self.draw_background(rng, from, to);
            if papers == Papers::Good {
                self.draw_proof(rng, from, to);
            }
        }
        if let Papers::Revoked { by, at } = papers {
            self.faults.push(SwarmFault { at, until: at, kind: FaultKind::Revoke { by, node } });
        }
    }
}
