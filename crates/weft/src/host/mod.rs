//! `weft signal`: in-band rate signalling for one interface, on a machine without a node.
//!
//! One thread does all the work. The kernel diverts some packets to this thread: those that begin and end connections
//! of the rules, and arriving packets with options. The thread also gets copies of a few other packets. All further
//! packets pass without it. When the process ends, all packets pass.

mod diversion;
mod redirection;
mod rules;

use crate::config::host::{self, Host};
use crate::daemon::services::tcp_er::RateKeeper;
use crate::daemon::threads::{Pulse, Threads, not_started};
use crate::daemon::{self, Clock, Level, Log};
use crate::entropy;
use crate::outcome::Failure;
use diversion::Diversion;
use nix::net::if_::if_nametoindex;
use rules::Handover;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weft_engine::{Event, FlowKey, HostLink, Leaving, SignalHost, SignalTotals};
use weft_io::netfilter::{Hook, Queued, Verdicts};
use weft_io::netlink::{self, DeviceMeter, LinkWatch};
use weft_io::raw::RawSender;
use weft_io::wait::{Poller, Waker};
use weft_units::{Instant, Rate};

/// Maximum number of packets that are read from one socket before the thread serves the next socket.
const TURN: usize = 64;

/// Poller token of the queue of diverted packets.
const QUEUE: u64 = 0;
/// Poller token of the copies of packets.
const COPIES: u64 = 1;
/// Poller token of the interface's address changes.
const ADDRESSES: u64 = 2;
/// Poller token of the request to stop.
const STOP: u64 = 3;

/// Signals for the interface that `file` names, until a signal ends the process.
///
/// # Errors
/// Returns the reason why the signalling could not start or continue.
pub fn run(file: &Path, level: Level) -> Result<(), Failure> {
    let log = Log::new(level);
    let (config, report) = host::load(file).map_err(Failure::new)?;
    eprint!("{report}");
    let failed = |why: io::Error| {
        Failure::new(format!(
            "cannot start the threads of rate signalling: {why}: check the limits of threads, open files and memory"
        ))
    };
    let signals = daemon::block_signals().map_err(failed)?;
    let stop = Arc::new(Waker::new().map_err(failed)?);
    let wakes = Arc::clone(&stop);
    let threads = Threads::start(log, move || drop(wakes.wake())).map_err(failed)?;
    let mut agent = Agent::start(&config, &threads).map_err(|why| {
        Failure::new(format!("cannot start rate signalling for interface {}: {why}", config.interface))
    })?;
    let stops = Arc::clone(&stop);
    let wait = move |pulse: &Pulse| {
        pulse.resting(|| daemon::wait_for_signal(&signals)).and_then(|()| stops.wake()).map_err(|why| why.to_string())
    };
    threads
        .spawn("weft-signals", wait)
        .map_err(|why| Failure::new(not_started("waits for SIGTERM and SIGINT", &why)))?;
    let by = match agent.diversion.handover {
        Handover::Queue => "nftables",
        Handover::Mark => "nftables and iptables",
    };
    log.info(format_args!(
        "rate signalling is active for interface {} with a rate of {}; {by} diverts its packets",
        config.interface, config.rate
    ));
    let ended = |why| Failure::new(format!("rate signalling ends, because it cannot continue: {why}: start it again"));
    let result = agent.run(&stop).map_err(ended).and_then(|()| match threads.fault() {
        Some(why) => Err(Failure::new(why)),
        None => Ok(()),
    });
    let SignalTotals { asked, granted, refused, given_up, forged, quick_start_answered, .. } =
        agent.host.status(agent.clock.now()).totals;
    log.info(format_args!(
        "ended: requested {asked}, granted {granted}, refused {refused}, given up {given_up}, wrong tags {forged}, \
         Quick-Start answered {quick_start_answered}"
    ));
    drop(agent);
    log.flush(Duration::from_secs(1));
    result
}

/// The signalling agent of the interface: the protocol's state machine, and the sockets and devices that it uses.
struct Agent {
    host: SignalHost,
    diversion: Diversion,
    raw: RawSender,
    meter: DeviceMeter,
    watch: LinkWatch,
    index: u32,
    addresses: BTreeSet<IpAddr>,
    rates: [Rate; 2],
    keeper: RateKeeper,
    clock: Clock,
    log: Log,
}

impl Agent {
    fn start(config: &Host, threads: &Threads) -> io::Result<Agent> {
        let log = threads.log();
        let interface = config.interface.as_str();
        let missing = || format!("this machine has no interface {interface}: correct `interface` in the configuration");
        let index = if_nametoindex(interface).map_err(|_| io::Error::other(missing()))?;
        let (clock, mut meter) = (Clock::start(), DeviceMeter::open(index)?);
        let rates = [config.rate, config.rate_down];
        let seed = entropy::seed()?.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let host = SignalHost::new(clock.now(), config.signal.engine(Vec::new()), link(rates, meter.read()?), seed);
        let keeper = RateKeeper::start(config.tcp_er.clone(), threads)?;
        let what = |why: io::Error| {
            let text = format!("cannot open a raw socket: {why}: run as root, or with CAP_NET_RAW");
            io::Error::new(why.kind(), text)
        };
        let raw = RawSender::open(interface, rules::OWN).map_err(what)?;
        let diversion = Diversion::begin(config, index)?;
        let watch = LinkWatch::open()?;
        let mut agent =
            Agent { host, diversion, raw, meter, watch, index, addresses: BTreeSet::new(), rates, keeper, clock, log };
        agent.read_address_changes()?;
        Ok(agent)
    }

    fn run(&mut self, stop: &Waker) -> io::Result<()> {
        let (mut poller, mut ready) = (Poller::new()?, Vec::new());
        poller.add(self.diversion.queue.as_raw_fd(), QUEUE)?;
        poller.add(self.diversion.copies.as_raw_fd(), COPIES)?;
        poller.add(self.watch.as_raw_fd(), ADDRESSES)?;
        poller.add(stop.as_raw_fd(), STOP)?;
        loop {
            let now = self.clock.now();
            poller.wait(self.host.next_timeout().map(|due| due - now), &mut ready)?;
            if ready.iter().any(|ready| ready.token == STOP) {
                return Ok(());
            }
            if ready.iter().any(|ready| ready.token == ADDRESSES) {
                self.read_address_changes()?;
            }
            let now = self.clock.now();
            if self.host.wants_look(now) {
                self.host.look(now, link(self.rates, self.meter.read()?));
            }
            for ready in &ready {
                match ready.token {
                    QUEUE => turn(|| self.decide())?,
                    COPIES => turn(|| self.follow())?,
                    _ => {}
                }
            }
            self.host.handle_timeout(self.clock.now());
            self.process_events();
        }
    }

    /// Gives verdicts on the diverted packets that wait in the queue.
    fn decide(&mut self) -> io::Result<()> {
        let Agent { host, diversion, raw, clock, log, .. } = self;
        diversion.queue.receive(|verdicts, queued| {
            if let Err(why) = decide(host, raw, clock.now(), verdicts, queued) {
                log.debug(format_args!("cannot process a packet that the kernel diverted here: {why}"));
            }
        })
    }

    /// Handles the copies of packets that this machine has sent. Sends an ACK where one must follow.
    fn follow(&mut self) -> io::Result<()> {
        let Agent { host, diversion, raw, clock, log, .. } = self;
        diversion.copies.receive(|copied| {
            if let Some(ack) = host.left(clock.now(), copied.head)
                && let Err(why) = send(raw, ack)
            {
                log.debug(format_args!("cannot send a TCP ACK with a rate signal: {why}"));
            }
        })
    }

    /// Passes grants on to this machine's sockets, and writes events to the log.
    fn process_events(&mut self) {
        while let Some(event) = self.host.poll_event() {
            let now = self.clock.now();
            match event {
                Event::Granted(grant) => {
                    self.log.debug(daemon::services::signalling::granted(&grant, now));
                    self.keeper.granted(&grant.flow, grant.bytes_per_second, grant.ends - now);
                }
                Event::Withdrawn(flow) => {
                    self.log.debug(daemon::services::signalling::withdrawn(&flow));
                    self.keeper.withdrawn(&flow);
                }
                _ => {}
            }
        }
    }

    fn read_address_changes(&mut self) -> io::Result<()> {
        let mut events = Vec::new();
        self.watch.poll(&mut events)?;
        for event in events {
            match event {
                netlink::NetlinkEvent::Address(address) => _ = self.addresses.insert(address.address),
                netlink::NetlinkEvent::AddressRemoved { address, .. } => _ = self.addresses.remove(&address),
                netlink::NetlinkEvent::LinkRemoved { index } if index == self.index => {
                    return Err(io::Error::other("the interface was removed"));
                }
                _ => {}
            }
        }
        self.host.set_addresses(self.addresses.iter().copied().collect());
        Ok(())
    }
}

fn decide(
    host: &mut SignalHost,
    raw: &RawSender,
    now: Instant,
    verdicts: &Verdicts<'_>,
    Queued { id, hook, mark, packet }: Queued<'_>,
) -> io::Result<()> {
    let mark = mark & !rules::HAND_OVER;
    match hook {
        Hook::Arriving => {
            let is_changed = host.arrives(now, packet);
            verdicts.accept(id, mark, is_changed.then_some(packet))
        }
        Hook::Leaving => {
            let Leaving { before, instead } = host.leaves(now, packet);
            let sent = before.map_or(Ok(()), |ack| send(raw, ack));
            verdicts.accept(id, mark, instead).and(sent)
        }
    }
}

fn send(raw: &RawSender, packet: &[u8]) -> io::Result<()> {
    let to = FlowKey::of(packet).map_err(io::Error::other)?.dst;
    raw.send(packet, to)
}

/// Calls `receive` until it finds no packet, at most [`TURN`] times, so that the other sockets do not wait long.
fn turn(mut receive: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..TURN {
        match receive() {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
            result => result?,
        }
    }
    Ok(())
}

fn link([up, down]: [Rate; 2], load: netlink::Load) -> HostLink {
    let netlink::Load { mtu, sent_bytes, received_bytes, queued_bytes } = load;
    HostLink { up, down, sent_bytes, received_bytes, queued_bytes, mtu: mtu as usize }
}
