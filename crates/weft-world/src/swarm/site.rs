//! A node with its process and machine: engine, clock, sockets, and state on disk.

use super::packet::{ONE_SIDED, VPNS, host};
use super::plan::{NodePlan, Plan, link_name};
use super::role::{NodeRole, UNIX_S};
use super::spin::IdleTurns;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::service::Service;
use weft_engine::{ConfigError, Engine, EngineConfig, LinkEvent, MemberConfig, PeerConfig, Prefix, VpnConfig};
use weft_session::{Identity, PublicKey, Revocation};
use weft_units::{Duration, Instant, LinkId, Rng, VpnId};

/// UDP port of all nodes.
pub(super) const PORT: u16 = 51_900;

/// Largest number of a node's addresses that other nodes have configured.
const MAX_ENDPOINTS: usize = 2;

/// Returns the address and port of a node's access link.
pub(super) fn address(node: usize, link: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, link as u8, 0, 1 + node as u8)), PORT)
}

/// A clock that runs fast or slow and may jump ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriftingClock {
    offset_ns: i128,
    ppm: i128,
}

impl DriftingClock {
    /// Draws a clock. Some clocks start near the maximum of a 32-bit counter of microseconds, after which it wraps.
    fn draw(rng: &mut Rng, ppm: i128) -> DriftingClock {
        let wrap_ns = u64::from(u32::MAX) * 1_000;
        let offset_ns = if rng.chance(0.3) { wrap_ns - rng.below(10_000_000_000) } else { rng.below(wrap_ns) };
        DriftingClock { offset_ns: offset_ns.into(), ppm }
    }

    /// Returns the time that the clock shows at `at`.
    pub(super) fn local(&self, at: Instant) -> Instant {
        let ns = i128::from(at.as_nanos());
        Instant::from_nanos((ns + ns * self.ppm / 1_000_000 + self.offset_ns) as u64)
    }

    /// Returns the first true time at which the clock shows `local` or later.
    pub(super) fn global(&self, local: Instant) -> Instant {
        let ns = (i128::from(local.as_nanos()) - self.offset_ns) * 1_000_000 / (1_000_000 + self.ppm);
        let mut at = Instant::from_nanos(ns.clamp(0, i128::from(u64::MAX)) as u64);
        while self.local(at) < local {
            at += Duration::from_nanos(1);
        }
        at
    }

    pub(super) fn step(&mut self, by: Duration) {
        self.offset_ns += by.as_nanos() as i128;
    }
}

/// A datagram that waits in a socket.
#[derive(Clone, Debug)]
pub(super) struct SocketDatagram {
    pub(super) link: usize,
    pub(super) source: SocketAddr,
    pub(super) tos: u8,
    pub(super) bytes: Vec<u8>,
    /// True if the datagram was changed in flight or comes from a stranger.
    pub(super) tampered: bool,
    /// Number of the node that sent the datagram, if the datagram is unchanged.
    pub(super) sender: Option<usize>,
}

/// A node: its engine, clock, sockets and disk.
pub(super) struct SwarmSite {
    pub(super) engine: Option<Engine>,
    pub(super) clock: DriftingClock,
    /// Time of the last jump of the node's clock.
    pub(super) stepped_at: Option<Instant>,
    /// Time at which the node's event loop runs next.
    pub(super) wake: Instant,
    /// Number of runs of the event loop without work in the present second.
    pub(super) idle_turns: IdleTurns,
    /// Time at which the engine asked to be woken. `None` if the engine got input since it asked.
    pub(super) asked: Option<Instant>,
    /// True while a fault keeps the process stopped.
    pub(super) paused: bool,
    pub(super) inbox: Vec<SocketDatagram>,
    /// Maximum length of a packet that the node's TUN device delivers, in bytes.
    pub(super) inner_mtu: u16,
    pub(super) rng: Rng,
    /// Least hold time for units of each peer, by peer number, since the node last delivered packets.
    holds: Vec<Duration>,
    is_unplugged: Vec<bool>,
    node: usize,
    disk: Disk,
    /// True while the disk is full and stores nothing.
    pub(super) is_disk_full: bool,
    stamp_base: u64,
    runs: u64,
}

/// The state that survives restarts.
#[derive(Default)]
struct Disk {
    accepted: Vec<(PublicKey, u64)>,
    used: u64,
    revocations: Vec<Revocation>,
}

/// Returns the prefix behind a node, the same in every VPN.
pub(super) fn behind(node: usize) -> Prefix {
    Prefix { address: host(node).into(), length: 24 }
}

pub(super) fn identity(node: usize) -> Identity {
    Identity::from_secret([node as u8 + 1; 32])
}

/// Returns the public key of a node.
pub(super) fn public_key(node: usize) -> PublicKey {
    identity(node).public_key()
}

impl SwarmSite {
    pub(super) fn new(plan: &Plan, node: usize, now: Instant) -> SwarmSite {
        let mut rng = Rng::new(plan.seed).split(1_000 + node as u64);
        let clock = DriftingClock::draw(&mut rng, plan.nodes[node].skew_ppm.into());
        let mut site = SwarmSite {
            engine: None,
            clock,
            stepped_at: None,
            wake: now,
            idle_turns: IdleTurns::new(now),
            asked: None,
            paused: false,
            inbox: Vec::new(),
            inner_mtu: 1280,
            rng,
            holds: Vec::new(),
            is_unplugged: vec![false; plan.nodes[node].links.len()],
            node,
            disk: Disk::default(),
            is_disk_full: false,
            stamp_base: 1 + node as u64,
            runs: 0,
        };
        if plan.starts(node) {
            site.start(plan, now);
        } else {
            site.wake = Instant::FAR_FUTURE;
        }
        site
    }

    /// Records that the engine got an input, and wakes the node at `at` or earlier.
    pub(super) fn on_input(&mut self, at: Instant) {
        self.asked = None;
        self.wake = self.wake.min(at);
    }

    /// Lowers the recorded least hold times to the present ones. It is called after each input.
    ///
    /// An input may release packets with one hold time and then set another.
    pub(super) fn note_holds(&mut self) {
        let now = self.engine.iter().flat_map(Engine::hold_times);
        self.holds.iter_mut().zip(now).for_each(|(least, hold)| *least = hold.min(*least));
    }

    /// Returns the least hold time for units of each peer, by peer number, since the last call.
    pub(super) fn take_holds(&mut self) -> Vec<Duration> {
        self.note_holds();
        let now = self.engine.iter().flat_map(Engine::hold_times).collect();
        std::mem::replace(&mut self.holds, now)
    }

    /// Returns the time on the node's clock.
    pub(super) fn local(&self, now: Instant) -> Instant {
        self.clock.local(now)
    }

    /// Starts the node's process with the state on its disk.
    pub(super) fn start(&mut self, plan: &Plan, now: Instant) {
        self.runs += 1;
        self.holds.clear();
        let mut seed = [0; 32];
        seed.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.rng.next_u64().to_le_bytes()));
        let config = self.config(plan);
        // The plan gives each node its own key, so the engine accepts the configuration.
        self.engine = Engine::new(config, self.local(now), seed).ok();
        if let Some(engine) = &mut self.engine {
            engine.set_relaying(plan.has_relays);
            engine.set_used_stamp(self.disk.used);
            if let Some(mut trust) = plan.trust(self.node, &plan.nodes[self.node].policy) {
                trust.revocations.clone_from(&self.disk.revocations);
                engine.set_trust(self.clock.local(now), UNIX_S + now.as_micros() / 1_000_000, Some(trust));
            }
        }
        self.inner_mtu = self.engine.as_ref().map_or(1280, Engine::inner_mtu);
        for link in 0..self.is_unplugged.len() {
            if !self.is_unplugged[link] {
                self.plug(&plan.nodes[self.node], link, now, true);
            }
        }
        self.wake = now;
    }

    /// Ends the process.
    ///
    /// The state on disk remains. The next process starts its clock at another value.
    pub(super) fn stop(&mut self, now: Instant) {
        self.save();
        if self.engine.take().is_some() {
            self.stamp_base += self.local(now).as_nanos();
        }
        self.clock = DriftingClock::draw(&mut self.rng, self.clock.ppm);
        self.inbox.clear();
        self.wake = Instant::FAR_FUTURE;
    }

    /// Writes the state that survives restarts to the disk.
    pub(super) fn save(&mut self) {
        let Some(engine) = self.engine.as_ref().filter(|_| !self.is_disk_full) else { return };
        self.disk.accepted = engine.accepted_stamps().collect();
        self.disk.used = engine.used_stamp();
        self.disk.revocations = engine.revocations().to_vec();
    }

    /// Deletes the handshake state on disk, and sets the wall clock back by `back`.
    ///
    /// Revocations are in a separate file and remain.
    pub(super) fn lose_state(&mut self, back: Duration) {
        (self.disk.accepted, self.disk.used) = (Vec::new(), 0);
        self.stamp_base = self.stamp_base.saturating_sub(back.as_nanos() as u64);
    }

    /// Wakes the machine up from sleep. The engine then starts new sessions.
    pub(super) fn wake_up(&mut self, now: Instant) {
        let local = self.local(now);
        let mut entropy = [0; 32];
        entropy.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.rng.next_u64().to_le_bytes()));
        let unix_ns = self.stamp_base.saturating_add(local.as_nanos());
        if let Some(engine) = &mut self.engine {
            engine.renew_sessions(local, entropy, unix_ns, "the machine slept");
        }
    }

    /// Applies a revocation at this node, or stores it on disk if the node's process does not run.
    pub(super) fn revoke(&mut self, revocation: &Revocation, now: Instant) {
        let local = self.local(now);
        match &mut self.engine {
            Some(engine) => drop(engine.revoke(local, revocation)),
            None => self.disk.revocations.push(*revocation),
        }
        self.on_input(now);
    }

    /// Makes the process, if it runs, read its configuration again. Fails if the engine refuses the configuration.
    pub(super) fn reload(&mut self, plan: &Plan, now: Instant) -> Result<(), ConfigError> {
        let config = self.config(plan);
        let local = self.local(now);
        self.on_input(now);
        let Some(engine) = &mut self.engine else { return Ok(()) };
        engine.reconfigure(local, config.peers, config.vpns, config.links, config.inner_mtu)
    }

    /// Brings a link's interface up or down.
    pub(super) fn plug(&mut self, plan: &NodePlan, link: usize, now: Instant, up: bool) {
        self.is_unplugged[link] = !up;
        let id = LinkId(link as u32 + 1);
        let mtu = plan.links[link].interface_mtu;
        let event = match up {
            true => LinkEvent::Up { link: id, name: link_name(link), mtu, ipv4: true, ipv6: false },
            false => LinkEvent::Down { link: id, cause: "no carrier" },
        };
        let local = self.local(now);
        if let Some(engine) = &mut self.engine {
            engine.handle_link(local, event);
            self.on_input(now);
        }
    }

    /// True if the link's interface is up.
    pub(super) fn is_plugged(&self, link: usize) -> bool {
        self.is_unplugged.get(link) == Some(&false)
    }

    fn config(&self, plan: &Plan) -> EngineConfig {
        let me = plan.owner(self.node);
        let node = &plan.nodes[self.node];
        let is_known =
            |&&(caller, _): &&(usize, usize)| caller == me || !matches!(plan.roles[caller], NodeRole::Guest { .. });
        let peers = plan.pairs.iter().filter(is_known).filter_map(|&(caller, callee)| match me {
            _ if me == caller => Some((
                callee,
                (0..plan.nodes[callee].links.len().min(MAX_ENDPOINTS)).map(|l| address(callee, l)).collect(),
            )),
            _ if me == callee => Some((caller, Vec::new())),
            _ => None,
        });
        let peers = peers.map(|(peer, endpoints)| PeerConfig {
            preshared_key: plan.secret(self.node, peer),
            name: peer.to_string(),
            public_key: identity(peer).public_key(),
            endpoints,
            routes: Vec::new(),
            prefixes: vec![behind(peer)],
            policy: node.policy.clone(),
        });
        EngineConfig {
            identity: identity(me),
            cipher: node.cipher,
            peers: peers.collect(),
            vpns: self.vpns(plan),
            links: node.link_configs(),
            accepted_stamps: self.disk.accepted.clone(),
            stamp_base: self.stamp_base,
            inner_mtu: node.inner_mtu,
        }
    }

    fn vpns(&self, plan: &Plan) -> Vec<VpnConfig> {
        if !plan.has_vpns {
            return Vec::new();
        }
        let me = plan.owner(self.node);
        let callees = plan.pairs.iter().filter(|(caller, _)| *caller == me).map(|(_, callee)| *callee);
        let callers = plan
            .pairs
            .iter()
            .filter(|(caller, callee)| *callee == me && plan.roles[*caller] == NodeRole::Member)
            .map(|(caller, _)| *caller);
        let all: Vec<usize> = callees.clone().chain(callers).collect();
        let member = |&node: &usize| MemberConfig { public_key: public_key(node), prefixes: vec![behind(node)] };
        let vpn = |id: VpnId, members: &[usize]| VpnConfig {
            id,
            name: id.to_string(),
            weight: 1,
            service: Service::BestEffort,
            entry: plan.entry(id),
            prefixes: vec![behind(me)],
            members: members.iter().map(member).collect(),
        };
        let of_all = VPNS.into_iter().map(|id| vpn(id, &all));
        of_all.chain([vpn(ONE_SIDED, &callees.collect::<Vec<_>>())]).collect()
    }
}
