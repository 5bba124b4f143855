//! The running node: the engine, and everything of the daemon that packets do not pass through.
//!
//! `datapath` drives it. Its parts answer the control socket, follow links, apply the configuration, and do periodic
//! upkeep.

mod answer;
mod caps;
mod carriers;
mod events;
mod links;
mod quota;
mod reload;
mod routing;
mod sockets;

use super::carriers::Carriers;
use super::carriers::fallback::Fallback;
use super::clock::{self, Clock};
use super::control::{Task, TaskSender};
use super::gather::Gathered;
use super::links::{LinkChange, LinkTable, WantedLinks};
use super::log::Log;
use super::machine::changes::Changes;
use super::machine::device;
use super::machine::devices::Devices;
use super::machine::kill_switch::KillSwitch;
use super::machine::outside::{ShownRefusals, Sieve};
use super::machine::resolver::ResolverSetting;
use super::overlay;
use super::ping::Pings;
use super::platform::{self, Platform};
use super::service;
use super::services::export::ExportHandle;
use super::services::names::Names;
use super::services::proxy::ProxyProcess;
use super::services::{access, allow, flows, signalling, tcp_er};
use super::shown::allowance::Allowances;
use super::shown::history::{self, Histories};
use super::shown::live;
use super::shown::qos;
use super::shown::rates::TrafficRates;
use super::shown::refusal::refused;
use super::shown::totals;
use super::shown::view;
use super::shown::why;
use super::stamps;
use super::state::{StateWriter, StoredStamps};
use super::threads::Threads;
use super::trial::ConfigTrial;
use super::trust;
use super::turns::TurnTimes;
use crate::config::{self, Config, QuotaPeriod};
use crate::status::{self, RefusedPrefix, Status, UnusedLink};
use crate::{entropy, outcome::Failure};
use quota::QuotaKeeper;
use routing::RoutingSide;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use weft_control::{PathChange, Request, Response};
use weft_engine::{Command, CommandError, Engine, EngineConfig, Event, FlowListing, Outside, PeerSnapshot};
use weft_io::netlink;
use weft_session::{Certificate, Identity, PublicKey};
use weft_tcp_er::proxy::PeerTotals;
use weft_units::{Instant, PeerId, Rate, VpnId};

/// Interval of the periodic work of the node, such as the storage of stamps.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Datagrams and packets lost inside this machine, except those that queues drop to keep delays short.
#[derive(Default)]
pub struct Drops {
    /// Number that was lost because no buffer was left to receive them.
    pub no_buffer: u64,
    /// Number that was lost because the kernel's socket buffer was full.
    pub socket_full: u64,
}

/// The running node.
pub struct DaemonNode {
    /// The protocol's state machine.
    pub engine: Engine,
    /// TUN devices of all VPNs.
    pub devices: Devices,
    /// Links on which datagrams are sent.
    pub links: LinkTable,
    /// Threads that carry datagrams in TCP connections.
    pub carriers: Carriers,
    /// Decides when a link uses TCP and when it returns to UDP.
    fallback: Fallback,
    /// Pings without an answer yet.
    pub pings: Pings,
    /// Unfinished listings of flows for `weft qos`, each with the client that waits for it.
    listings: Vec<(FlowListing, SyncSender<Response>)>,
    allowances: Allowances,
    names: Names,
    /// Programs on this machine that use the overlay.
    platform: Platform,
    /// Counters of losses inside this machine.
    pub drops: Drops,
    /// Durations of the packet loop's turns.
    pub turns: TurnTimes,
    file: PathBuf,
    /// Trial of a changed configuration, if one is in progress.
    trial: ConfigTrial,
    config: Config,
    identity: Identity,
    certificate: Option<Certificate>,
    clock: Clock,
    state_writer: StateWriter,
    tcp_er: Option<tcp_er::RateKeeper>,
    accepted: Vec<(PublicKey, u64)>,
    /// Peers whose stamps must still be deleted on disk.
    forgotten: Vec<PublicKey>,
    log: Log,
    threads: Threads,
    /// Thread that serves clients of WireGuard and OpenVPN. `None` without `[access]`.
    access: Option<access::AccessHandle>,
    /// Thread that exports flow records. `None` if no export is configured.
    export: Option<ExportHandle>,
    /// Process of the TCP proxy, and the rates that its connections to each peer may have.
    proxy: Option<(ProxyProcess, PeerTotals)>,
    next_upkeep: Instant,
    next_totals: Instant,
    histories: Histories,
    rates: TrafficRates,
    next_history: Instant,
    is_stopping: bool,
    /// True if the kill switch is lifted when the node ends, which `weft down` demands.
    lifts_kill_switch: bool,
    /// True if revocations are not yet stored.
    has_unsaved_revocations: bool,
    /// Request to store accepted stamps.
    stamp_write: Gathered,
    /// Request to set routes, because prefixes of peers have changed.
    route_update: Gathered,
    /// IP networks of this machine that peers' prefixes must not contain, as of the last setting of the routes.
    ///
    /// The value is `None` before the interfaces are known.
    outside: Option<Outside>,
    /// Prefixes of peers that were refused because they would take addresses from this machine.
    refused: ShownRefusals,
    /// Findings about peers without a session or with an impaired connection, and when they were logged.
    why: why::FindingLog,
    /// Request to check the links, because routes or interfaces may have changed.
    link_check: Gathered,
    /// Configured links that are not in use, as last logged.
    unused_links: Vec<UnusedLink>,
    changes: Changes,
    kill_switch: KillSwitch,
    resolver: ResolverSetting,
    /// Prefixes learnt from a routing daemon, and reports of path states to it.
    routing: RoutingSide,
    /// Usage of links with a quota.
    quotas: QuotaKeeper,
}

/// Data and handles that [`DaemonNode::new`] needs.
pub struct Parts {
    /// File of the configuration.
    pub file: PathBuf,
    /// Configuration that was read from `file`.
    pub config: Config,
    /// Host names of endpoints in the configuration, and their addresses.
    pub names: Names,
    /// Key pair of the node.
    pub identity: Identity,
    /// Clock that drives the engine.
    pub clock: Clock,
    /// Certificate of the node, if it has one.
    pub certificate: Option<Certificate>,
    /// Stored stamps and revocations of earlier runs.
    pub stamps: StoredStamps,
    /// Writer of the stored state.
    pub state_writer: StateWriter,
    /// Record of the changes to this machine.
    pub changes: Changes,
    /// The kill switch, set if the configuration has it.
    pub kill_switch: KillSwitch,
    /// The process's threads.
    pub threads: Threads,
    /// Sender of tasks to the packet loop.
    pub sender: TaskSender,
}

impl DaemonNode {
    /// Opens the TUN devices and creates the engine.
    ///
    /// # Errors
    /// Returns the reason why that fails, as text for a reader.
    pub fn new(parts: Parts) -> Result<DaemonNode, Failure> {
        let Parts { file, config, names, identity, certificate, clock, stamps, state_writer, .. } = parts;
        let Parts { changes, kill_switch, threads, sender, .. } = parts;
        let StoredStamps { base, accepted, revocations, quotas } = stamps;
        let mut engine = engine(&config, &identity, &accepted, clock)?;
        engine.set_used_stamp(base);
        flows::set(&mut engine, clock.now(), &config, certificate.as_ref()).map_err(Failure::new)?;
        allow::set(&mut engine, &config, certificate.as_ref()).map_err(Failure::new)?;
        trust::set(&mut engine, clock, &config, certificate.clone(), revocations);
        engine.set_overlay(clock.now(), config.engine_overlay());
        engine.set_signalling(clock.now(), config.engine_signal());
        engine.set_relaying(config.node.relay);
        let devices =
            Devices::open(&config, engine.inner_mtu(), changes.clone()).map_err(|why| Failure::new(why.to_string()))?;
        let mut links = LinkTable::new(WantedLinks::of(&config), config.node.listen.unwrap_or(0), devices.indices());
        let access = access::AccessHandle::start(&config, &threads)?;
        links.add_own(access.iter().map(access::AccessHandle::device).collect());
        let resolver = ResolverSetting::new(&config, &threads);
        let carriers =
            Carriers::start(&config, identity.public_key(), sender.clone(), &threads).map_err(Failure::new)?;
        let mut node = DaemonNode {
            engine,
            devices,
            links,
            carriers,
            fallback: Fallback::default(),
            pings: Pings::default(),
            listings: Vec::new(),
            allowances: Allowances::default(),
            platform: Platform::default(),
            drops: Drops::default(),
            turns: TurnTimes::default(),
            file,
            trial: ConfigTrial::default(),
            config,
            identity,
            certificate,
            clock,
            state_writer,
            tcp_er: None,
            accepted,
            forgotten: Vec::new(),
            log: threads.log(),
            threads,
            access,
            export: None,
            proxy: None,
            next_upkeep: Instant::ZERO,
            next_totals: Instant::ZERO,
            histories: Histories::default(),
            rates: TrafficRates::default(),
            next_history: clock.now(),
            is_stopping: false,
            lifts_kill_switch: false,
            has_unsaved_revocations: false,
            stamp_write: Gathered::default(),
            route_update: Gathered::default(),
            outside: None,
            refused: ShownRefusals::default(),
            why: why::FindingLog::default(),
            link_check: Gathered::default(),
            unused_links: Vec::new(),
            changes,
            kill_switch,
            resolver,
            names,
            routing: RoutingSide::default(),
            quotas: QuotaKeeper::new(&quotas),
        };
        node.load_tcp_er();
        node.set_proxy();
        node.start_routing(&sender);
        node.set_export();
        node.set_resolver();
        node.open_door();
        // No interface is known yet, so this call only stores which links are wanted.
        node.check_links();
        Ok(node)
    }

    /// Starts the proxy when it is first configured, and passes each later policy to it.
    fn set_proxy(&mut self) {
        let policy = self.config.proxy_policy();
        if policy.is_some() && self.proxy.is_none() {
            match ProxyProcess::start(self.devices.default().tun().name(), self.changes.clone(), &self.threads) {
                Ok(proxy) => self.proxy = Some((proxy, PeerTotals::default())),
                Err(why) => self.log.error(format_args!("cannot start the TCP proxy: {why}")),
            }
        }
        if let Some((proxy, _)) = &self.proxy {
            proxy.set_policy(policy.unwrap_or_default());
        }
    }

    /// Starts, changes or stops the export of flow records.
    fn set_export(&mut self) {
        let Some(settings) = &self.config.flows.export else {
            self.export = None;
            return;
        };
        let names = self.config.flows.classes().names().map(str::to_owned).collect();
        if let Some(export) = self.export.as_mut().filter(|export| export.serves(settings)) {
            return export.set_class_names(names);
        }
        match ExportHandle::start(settings, names, self.clock, &self.threads) {
            Ok(export) => self.export = Some(export),
            Err(why) => self.log.error(format_args!("cannot start the export of flow records: {why}")),
        }
    }

    /// Sets the machine's DNS servers as the configuration demands.
    fn set_resolver(&mut self) {
        if let Err(why) = self.resolver.set(&self.config) {
            self.log.error(format_args!("DNS: cannot start the thread that sets this machine's DNS servers: {why}"));
        }
    }

    /// Passes flow records from the engine to the export. Returns true if more wait.
    ///
    /// Discards the records if there is no export.
    pub fn export_flows(&mut self) -> bool {
        match &mut self.export {
            Some(export) => export.pass_records(&mut self.engine),
            None => {
                while self.engine.take_flow_record().is_some() {}
                false
            }
        }
    }

    fn send_totals(&mut self, now: Instant) {
        if let Some((proxy, known)) = self.proxy.as_mut().filter(|_| now >= self.next_totals) {
            let totals = totals::totals(self.engine.payload_rates(now), known);
            self.next_totals = now + totals::next_check_in(known, &totals);
            proxy.set_totals(totals.clone());
            *known = totals;
        }
    }

    /// Gives the engine fresh entropy if a handshake has used some.
    pub fn refresh_entropy(&mut self) {
        if self.engine.wants_entropy() {
            match entropy::seed() {
                Ok(entropy) => self.engine.reseed(entropy),
                Err(why) => self.log.error(format_args!("{why}")),
            }
        }
    }

    /// Ends all sessions and starts new ones. The node sends nothing under the old keys any more.
    pub fn renew_sessions(&mut self, cause: &'static str) {
        let unix_ns = clock::unix_ns();
        let entropy = entropy::seed().unwrap_or_else(|why| {
            self.log.error(format_args!("{why}"));
            // The old keys must end even if the kernel gives no random numbers. The wall clock then replaces them: the
            // clocks of two copies of a machine differ, and the engine mixes the clock into a state that stays secret.
            let mut entropy = [0; 32];
            entropy[..8].copy_from_slice(&unix_ns.to_le_bytes());
            entropy
        });
        self.engine.renew_sessions(self.clock.now(), entropy, unix_ns, cause);
    }

    /// Returns the process's threads.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Ends the parts of the node, and stores the state for the next run.
    pub fn finish(self) {
        let DaemonNode { mut engine, state_writer, export, quotas, .. } = self;
        let DaemonNode { resolver, mut kill_switch, lifts_kill_switch, .. } = self;
        resolver.end();
        if lifts_kill_switch {
            kill_switch.lift();
        }
        if let Some(export) = export {
            export.finish(&mut engine);
        }
        let _ = state_writer.quotas(quotas.lines());
        state_writer.close(engine.used_stamp());
    }

    /// Returns true if the node is to stop.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Processes netlink events. Returns messages about links that could not be used.
    pub fn on_netlink(&mut self, events: &[netlink::NetlinkEvent]) -> Vec<String> {
        let mut changes = Vec::new();
        self.links.apply(events, &mut changes);
        let mut failures = self.on_link_changes(changes);
        self.kill_switch.look_again();
        self.link_check.want();
        failures.extend(self.recheck_links());
        if self.outside.as_ref() != Some(Sieve::new(&self.config, &self.links).outside()) {
            self.set_routes(true);
        }
        failures
    }

    fn stop(&mut self, cause: &str) {
        service::stopping();
        self.close(cause);
    }

    /// Ends all sessions and makes the node stop. Logs `cause`.
    pub fn close(&mut self, cause: &str) {
        self.log.info(format_args!("stopping: {cause}"));
        // The engine never refuses this command.
        let _ = self.engine.handle_command(self.clock.now(), Command::Close);
        self.keep_accepted();
        self.is_stopping = true;
    }

    /// Sets the routes for the peers' present prefixes: all routes if `anew`, else only the changed ones.
    fn set_routes(&mut self, anew: bool) {
        let sieve = Sieve::new(&self.config, &self.links);
        self.outside = Some(sieve.outside().clone());
        // This call makes the engine drop peers whose certificates claim an IP network of this machine. So their
        // prefixes get no routes below.
        self.engine.set_outside(self.clock.now(), sieve.outside().clone());
        flows::set_transit(&mut self.engine, self.clock.now(), &self.config, sieve.outside());
        let certified = trust::prefixes(&self.engine);
        let (refused, result) = self.devices.set_routes(&self.config, &certified, &sieve, anew);
        for RefusedPrefix { name, prefix, why } in self.refused.set_configured(refused) {
            self.log.error(format_args!("prefix {prefix} of peer {name} is not routed: {why}"));
        }
        if let Err(why) = result {
            self.log.error(format_args!("cannot set the routes to the peers' prefixes: {why}"));
        }
    }

    /// Loads or unloads `weft_er` as the configuration demands; proxies and signalling need it, too.
    fn load_tcp_er(&mut self) {
        let config = &self.config;
        let is_wanted = config.tcp_er.is_some() || config.signal.is_some() || !config.proxies.each.is_empty();
        let wanted = is_wanted.then(|| config.tcp_er.clone().unwrap_or_default());
        match (wanted, &self.tcp_er) {
            (None, _) => self.tcp_er = None,
            (Some(wanted), Some(keeper)) => keeper.set(wanted),
            (Some(wanted), None) => match tcp_er::RateKeeper::start(wanted, &self.threads) {
                Ok(keeper) => self.tcp_er = Some(keeper),
                Err(why) => self.log.error(format_args!("cannot start explicit rates for TCP connections: {why}")),
            },
        }
    }

    fn set_mtu(&self, mtu: u16) {
        let name = self.devices.default().tun().name();
        match self.devices.set_mtu(mtu) {
            Ok(()) => self.log.info(format_args!("device {name}: the MTU is now {mtu} B")),
            Err(why) => self.log.error(format_args!("device {name}: cannot set the MTU to {mtu} B: {why}")),
        }
    }

    /// Continues each unfinished listing of flows by one step. Returns true while one is unfinished.
    pub fn continue_listings(&mut self, now: Instant) -> bool {
        for (mut listing, reply) in std::mem::take(&mut self.listings) {
            if self.engine.continue_listing(now, &mut listing) {
                self.listings.push((listing, reply));
            } else if let Some(qos) = qos::qos(&self.engine, now, listing) {
                // A client that has disconnected needs no answer.
                let _ = reply.try_send(Response::Qos(Box::new(qos)));
            }
        }
        !self.listings.is_empty()
    }

    /// Does all work that is due and not urgent; cheap when nothing is due.
    pub fn upkeep(&mut self, now: Instant) {
        self.pings.finish(now);
        self.platform.handle_timeout(now);
        self.end_trial(now);
        self.send_totals(now);
        self.why.look(now, &self.engine, || why::own(&self.identity, &self.links), self.log);
        if self.has_unsaved_revocations {
            self.has_unsaved_revocations = !self.state_writer.revoked(self.engine.revocations().to_vec());
        }
        if self.stamp_write.take(now) {
            self.keep_accepted();
            self.stamp_write.done(now, self.clock.now());
        }
        if self.route_update.take(now) {
            self.set_routes(false);
            self.route_update.done(now, self.clock.now());
        }
        if now >= self.next_history {
            self.next_history = now + history::INTERVAL;
            self.histories.note(now, self.engine.path_snapshots(now));
            self.rates.note(now, &self.engine);
            self.watch_caps(now);
            self.watch_quotas(now);
        }
        self.recheck_links();
        self.look_at_carriers(now);
        self.catch_up_telling();
        if now < self.next_upkeep {
            return;
        }
        self.next_upkeep = now + UPKEEP_INTERVAL;
        // The kernel reports no event for some changes, such as those of nexthop objects, so the links are checked
        // periodically.
        self.link_check.want();
        self.forget_stamps();
        self.keep_accepted();
        self.engine.set_unix_time(now, self.clock.unix_s());
        self.state_writer.reached(clock::unix_ns(), self.engine.used_stamp());
    }

    /// Returns the time at which [`DaemonNode::upkeep`] is due.
    pub fn next_upkeep(&self) -> Instant {
        let totals = self.proxy.as_ref().map(|_| self.next_totals);
        let requests =
            [self.stamp_write.next(), self.route_update.next(), self.link_check.next(), self.trial.next_timeout()];
        let others = [self.pings.next_timeout(), self.platform.next_timeout(), totals, self.fallback.next_timeout()]
            .into_iter()
            .chain(requests)
            .flatten();
        others.fold(self.next_upkeep.min(self.next_history).min(self.why.next()), Instant::min)
    }

    fn keep_accepted(&mut self) {
        let accepted: Vec<_> = self.engine.accepted_stamps().collect();
        if accepted != self.accepted {
            self.state_writer.accepted(accepted.clone());
            self.accepted = accepted;
        }
    }

    fn status(&self) -> Status {
        let now = self.clock.now();
        let snapshot = self.engine.snapshot(now);
        let link = |active: &super::links::Active| status::Link {
            name: active.name.clone(),
            index: active.id.0,
            mtu: active.mtu,
            addresses: active.addresses.iter().map(ToString::to_string).collect(),
            max_rate_up_bps: self.cap_of(&active.name).map(Rate::bps),
            quota: self.link_quota(&active.name),
        };
        let keys: BTreeSet<_> = self.config.peers.iter().map(|peer| peer.public_key.value.to_string()).collect();
        let is_there = |peer: &PeerSnapshot| peer.certified_until_unix_s.is_some() || keys.contains(&peer.public_key);
        let own = why::own(&self.identity, &self.links);
        let mut peers: Vec<_> = snapshot.peers.iter().filter(|peer| is_there(peer)).map(view::peer).collect();
        peers.iter_mut().for_each(|peer| self.rates.fill(peer));
        Status {
            schema: status::SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            public_key: self.identity.public_key().to_string(),
            tun: self.devices.default().tun().name().to_owned(),
            uptime_s: now.since(Instant::ZERO).as_secs(),
            inner_mtu: snapshot.inner_mtu,
            kill_switch: self.kill_switch.is_set(),
            trial_ends_in_ms: self.trial.left(now).map(|left| left.as_millis() as u64),
            links: self.links.active().iter().map(link).collect(),
            tcp: self.tcp_bundles(),
            unused_links: self.links.unused().into_iter().chain(self.links.without_socket()).collect(),
            strangers: why::fill(now, &self.engine, &own, &mut peers),
            peers,
            vpns: self.engine.vpns().iter().map(|vpn| view::vpn(vpn, self.devices.get(vpn.id))).collect(),
            tcp_er: self.tcp_er.as_ref().map(|keeper| view::tcp_er(&keeper.choice(), self.config.tcp_er.as_ref())),
            signal: signalling::status(&self.engine, &snapshot, now),
            proxy: self.proxy.as_ref().map(|(proxy, _)| proxy.shown()),
            relay: self.config.node.relay.then(|| view::relay(self.engine.relay_totals(), self.engine.label_clashes())),
            overlay: self.engine.overlay_status().as_ref().map(overlay::status),
            allow: allow::shown(&self.engine, self.clock.now()),
            flow_export: self.export.as_ref().map(ExportHandle::shown),
            refused_prefixes: self.refused.all(now),
            rejected_datagrams: snapshot.rejected_datagrams,
            unroutable_packets: snapshot.unroutable_packets,
            buffers_in_use: snapshot.buffers_in_use,
            buffers_peak: snapshot.buffers_peak,
            no_buffer_drops: self.drops.no_buffer + snapshot.no_buffer_packets,
            socket_full_drops: self.drops.socket_full + self.carriers.lost,
            dropped_log_lines: self.log.dropped(),
            longest_turn_us: u64::try_from(self.turns.longest.as_micros()).unwrap_or(u64::MAX),
            long_turns: self.turns.long,
        }
    }
}

/// Creates an engine with the settings of `config`. `accepted` has the last stamp accepted from each peer.
fn engine(
    config: &Config,
    identity: &Identity,
    accepted: &[(PublicKey, u64)],
    clock: Clock,
) -> Result<Engine, Failure> {
    let now = clock.now();
    let engine_config = EngineConfig {
        identity: identity.clone(),
        cipher: config.node.cipher,
        peers: config.engine_peers(),
        vpns: config.engine_vpns(),
        links: config.engine_links(),
        accepted_stamps: accepted.to_vec(),
        stamp_base: clock::unix_ns().saturating_sub(now.as_nanos()),
        inner_mtu: device::fixed(&config.tun),
    };
    let fresh = || entropy::seed().map_err(|why| Failure::new(why.to_string()));
    let seed = fresh()?;
    let mut engine = Engine::new(engine_config, now, seed).map_err(|why| Failure::new(why.to_string()))?;
    // A copy of the first seed may have stayed on the stack, so the engine gets a second one.
    engine.reseed(fresh()?);
    Ok(engine)
}
