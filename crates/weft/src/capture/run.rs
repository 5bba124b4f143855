//! Runs the command `weft capture`, from its arguments to the summary.

use super::output::{CaptureOutput, EndSignals};
use super::scope::{LinkScope, PrefixOwners};
use super::summary::Summary;
use super::taps::{HeldPacket, InterfaceTap, Layer, Taken, Wanted};
use super::wire::PacketBuffers;
use crate::cli::CaptureArguments;
use crate::config;
use crate::control::{ask, unexpected};
use crate::escape;
use crate::outcome::{Failure, Outcome, json};
use crate::status::{SCHEMA, Sockets};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use weft_control::{Request, Response};
use weft_pcapng::PcapngWriter;

/// Interval at which the node is asked for its present sockets and addresses.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between two requests to the node, also if packets with a new address arrive.
const LEAST_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of packets that are read from one interface before the next interface has its turn.
const PACKETS_PER_TURN: usize = 256;
/// Maximum time, after the end of the capture, to store the packets that still wait in the sockets.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Captures until a signal, the number of packets or the time limit ends the capture.
pub fn capture(arguments: &CaptureArguments) -> Result<Outcome, Failure> {
    if arguments.link.is_some() && !layers(arguments).0 {
        return Err(usage("--link selects datagrams on links: add --outer"));
    }
    if arguments.json && arguments.write == Path::new("-") {
        return Err(usage("--json and -w - both need standard output: use -w FILE"));
    }
    let signals = EndSignals::listen().map_err(|why| {
        Failure::new(format!(
            "the capture did not start: cannot wait for the signals that end it, such as Ctrl-C: {why}: try again"
        ))
    })?;
    let signals = Rc::new(signals);
    let wanted = look(arguments)?;
    let taps =
        wanted.into_iter().map(|wanted| InterfaceTap::open(wanted, arguments.snap)).collect::<Result<Vec<_>, _>>()?;
    let output = CaptureOutput::create(&arguments.write, &signals)?;
    let is_live = output.is_live();
    let failed = |why: io::Error| write_failed(&arguments.write, &why);
    let application = concat!("weft ", env!("CARGO_PKG_VERSION"));
    let writer = PcapngWriter::new(output, application).map_err(failed)?;
    let now = Instant::now();
    let mut capture = RunningCapture {
        arguments,
        signals,
        taps,
        writer,
        is_live,
        began: now,
        next_look: now + LOOK_INTERVAL,
        last_look: now,
        packets: 0,
        is_node_silent: false,
        scratch: PacketBuffers::default(),
    };
    capture.announce();
    let ended_by = match capture.run() {
        Ok(ended_by) => ended_by,
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => "reader",
        Err(why) => return Err(failed(why)),
    };
    let summary = capture.finish(ended_by).map_err(failed)?;
    eprint!("{}", summary.text());
    if arguments.json {
        print!("{}", json(&summary)?);
    }
    Ok(Outcome::Well)
}

/// Returns whether datagrams on links are wanted, and whether packets on tunnel devices are.
fn layers(arguments: &CaptureArguments) -> (bool, bool) {
    (arguments.outer || !arguments.inner, arguments.inner)
}

fn usage(why: &str) -> Failure {
    Failure::with(Outcome::Usage, why)
}

fn write_failed(file: &Path, why: &io::Error) -> Failure {
    let advice = match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": free some disk space, or store fewer bytes of each packet with --snap BYTES"
        }
        _ => "",
    };
    Failure::new(format!("{}: {why}{advice}", file.display()))
}

/// Asks the node, and returns the interfaces that the arguments select.
fn look(arguments: &CaptureArguments) -> Result<Vec<Wanted>, Failure> {
    let socket = &arguments.control.control;
    let request = Request::Sockets { peer: arguments.peer.clone() };
    let sockets = match ask(socket, &request)? {
        Response::Sockets(sockets) => *sockets,
        other => return Err(unexpected(&other)),
    };
    let (outer, inner) = layers(arguments);
    let mut wanted = if outer { links(arguments, &sockets)? } else { Vec::new() };
    if inner {
        wanted.extend(devices(arguments, &sockets)?);
    }
    Ok(wanted)
}

fn links(arguments: &CaptureArguments, sockets: &Sockets) -> Result<Vec<Wanted>, Failure> {
    let selected = arguments.link.as_deref();
    let names = || sockets.links.iter().map(|link| link.name.as_str());
    if let Some(name) = selected.filter(|selected| !names().any(|name| name == *selected)) {
        return Err(Failure::new(config::unknown_name("link in use", name, names())));
    }
    let links = sockets.links.iter().filter(|link| selected.is_none_or(|selected| link.name == selected));
    let wanted = links.map(|link| {
        let tcp = (sockets.tcp_port, sockets.tcp_mark);
        let layer = Layer::Outer(LinkScope::new(link.clone(), tcp, sockets.remotes.clone()));
        Wanted { name: link.name.clone(), index: link.index, layer }
    });
    Ok(wanted.collect())
}

fn devices(arguments: &CaptureArguments, sockets: &Sockets) -> Result<Vec<Wanted>, Failure> {
    let selected = arguments.vpn.as_deref();
    let names = || sockets.devices.iter().map(|device| device.vpn.as_str());
    if let Some(name) = selected.filter(|selected| !names().any(|name| name == *selected)) {
        return Err(Failure::new(config::unknown_name("VPN", name, names())));
    }
    let prefixes = match &arguments.peer {
        None => None,
        Some(_) => match ask(&arguments.control.control, &Request::Prefixes { peer: None, vpn: None })? {
            Response::Prefixes(prefixes) => Some(prefixes),
            other => return Err(unexpected(&other)),
        },
    };
    if prefixes.as_ref().is_some_and(|prefixes| prefixes.left_out > 0) {
        let why = "the node has too many prefixes to tell one peer's inner packets from another's: omit --peer";
        return Err(Failure::new(why));
    }
    let devices = sockets.devices.iter().filter(|device| selected.is_none_or(|selected| device.vpn == selected));
    let wanted = devices.map(|device| {
        let owners = prefixes.as_ref().map(|prefixes| {
            let of_vpn = prefixes.prefixes.iter().filter(|prefix| prefix.vpn == device.vpn);
            PrefixOwners::new(of_vpn.map(|prefix| (prefix.prefix.as_str(), prefix.peer == arguments.peer)))
        });
        let layer = Layer::Inner { vpn: device.vpn.clone(), owners, has_payload: arguments.payload };
        Wanted { name: device.name.clone(), index: device.index, layer }
    });
    Ok(wanted.collect())
}

/// A running capture.
struct RunningCapture<'a> {
    arguments: &'a CaptureArguments,
    signals: Rc<EndSignals>,
    taps: Vec<InterfaceTap>,
    writer: PcapngWriter<CaptureOutput>,
    is_live: bool,
    began: Instant,
    next_look: Instant,
    last_look: Instant,
    packets: u64,
    /// True if the user has been told that the node does not answer, until it answers again.
    is_node_silent: bool,
    scratch: PacketBuffers,
}

impl RunningCapture<'_> {
    /// Prints which interfaces are captured.
    fn announce(&self) {
        let names: Vec<&str> = self.taps.iter().map(InterfaceTap::name).collect();
        let names =
            if names.is_empty() { "no interface, because the node has none yet".to_owned() } else { names.join(", ") };
        eprintln!("capturing packets on {names}; Ctrl-C ends the capture");
        if self.taps.iter().filter_map(InterfaceTap::socket).any(|socket| !socket.describes_batches()) {
            eprintln!(
                "this kernel is older than Linux 6.2: datagrams that it sends in a batch are stored as one long packet"
            );
        }
    }

    /// Stores packets until the capture ends, and returns the reason of the end.
    fn run(&mut self) -> io::Result<&'static str> {
        let ended_by = self.run_until_end()?;
        // Packets that arrived before the end may still wait in the sockets.
        let last = Instant::now() + LAST_WORK;
        for at in 0..self.taps.len() {
            while self.drain(at)? == PACKETS_PER_TURN && Instant::now() < last {}
        }
        Ok(ended_by)
    }

    fn run_until_end(&mut self) -> io::Result<&'static str> {
        for tap in &mut self.taps {
            tap.register(&mut self.writer)?;
        }
        self.writer.flush()?;
        let ends = self.arguments.time.and_then(|time| self.began.checked_add(time));
        loop {
            let now = Instant::now();
            if ends.is_some_and(|ends| now >= ends) {
                return Ok("time");
            }
            if now >= self.next_look {
                self.look_again(now)?;
            }
            let until = ends.map_or(self.next_look, |ends| ends.min(self.next_look));
            if self.wait(until.saturating_duration_since(now))? {
                return Ok("signal");
            }
            for at in 0..self.taps.len() {
                self.drain(at)?;
                if self.is_full() {
                    return Ok("count");
                }
            }
            if self.is_live {
                self.writer.flush()?;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.left() == 0
    }

    /// Returns the number of packets that the capture may still store before it ends.
    fn left(&self) -> u64 {
        self.arguments.count.map_or(u64::MAX, |count| count.saturating_sub(self.packets))
    }

    /// Waits for packets, at most for `most`. Returns true if a signal ends the capture.
    fn wait(&self, most: Duration) -> io::Result<bool> {
        let sockets = self.taps.iter().filter_map(InterfaceTap::socket).map(|socket| socket.as_fd());
        let all = std::iter::once(self.signals.as_fd()).chain(sockets);
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // The wait is rounded up to whole milliseconds: a wait of zero would spin until the time is over.
        let timeout = PollTimeout::try_from(most + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(fds.first().is_some_and(|fd| fd.any().unwrap_or(false))),
            Err(why) => Err(why.into()),
        }
    }

    /// Reads at most [`PACKETS_PER_TURN`] packets of the interface `taps[at]`. Returns the number of packets read.
    fn drain(&mut self, at: usize) -> io::Result<usize> {
        for read in 0..PACKETS_PER_TURN {
            let left = self.left();
            let Some(tap) = self.taps.get_mut(at).filter(|_| left > 0) else { return Ok(read) };
            match tap.take(left, &mut self.writer, &mut self.scratch)? {
                Taken::Nothing => return Ok(read),
                Taken::Done(stored) => self.packets += stored,
                Taken::NewAddress(held) => self.on_new_address(at, &held)?,
            }
        }
        Ok(PACKETS_PER_TURN)
    }

    fn on_new_address(&mut self, at: usize, held: &HeldPacket) -> io::Result<()> {
        let now = Instant::now();
        if now.saturating_duration_since(self.last_look) < LEAST_INTERVAL {
            return Ok(());
        }
        self.look_again(now)?;
        let left = self.left();
        if let Some(tap) = self.taps.get_mut(at) {
            self.packets += tap.take_held(held, left, &mut self.writer, &mut self.scratch)?;
        }
        Ok(())
    }

    /// Takes over the node's present links, ports and addresses. If the node does not answer, the earlier ones stay.
    fn look_again(&mut self, now: Instant) -> io::Result<()> {
        (self.last_look, self.next_look) = (now, now + LOOK_INTERVAL);
        let wanted = match look(self.arguments) {
            Ok(wanted) => wanted,
            Err(why) => {
                if !std::mem::replace(&mut self.is_node_silent, true) {
                    eprintln!(
                        "cannot get the addresses from the node: {}: the capture goes on with the last known addresses",
                        escape::line(why.text())
                    );
                }
                return Ok(());
            }
        };
        if std::mem::take(&mut self.is_node_silent) {
            eprintln!("the node answers again: the capture now follows the addresses that the node uses now");
        }
        for tap in self.taps.iter_mut().filter(|tap| !wanted.iter().any(|wanted| tap.is(wanted))) {
            tap.close();
        }
        for wanted in wanted {
            let name = wanted.name.clone();
            let result = match self.taps.iter_mut().find(|tap| tap.is(&wanted)) {
                Some(tap) => tap.update(wanted),
                None => InterfaceTap::open(wanted, self.arguments.snap).map(|tap| self.taps.push(tap)),
            };
            if let Err(why) = result {
                let (name, why) = (escape::line(&name), escape::line(why.text()));
                eprintln!(
                    "cannot capture packets on the interface {name}: {why}; the capture of other interfaces goes on"
                );
            }
        }
        for tap in &mut self.taps {
            tap.register(&mut self.writer)?;
            tap.count_drops();
        }
        self.writer.flush()
    }

    /// Ends the capture: writes the counters of its interfaces, and returns the summary.
    fn finish(mut self, ended_by: &'static str) -> io::Result<Summary> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let time = self.began.elapsed();
        let mut written = Ok(());
        for tap in &mut self.taps {
            written = written.and_then(|()| tap.finish(&mut self.writer, unix_ns));
        }
        match written.and_then(|()| self.writer.flush()) {
            Err(why) if why.kind() != io::ErrorKind::BrokenPipe => return Err(why),
            _ => {}
        }
        let interfaces: Vec<_> = self.taps.iter().map(InterfaceTap::summary).collect();
        Ok(Summary {
            schema: SCHEMA,
            file: escape::line(&self.arguments.write.display().to_string()).into_owned(),
            time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            ended_by,
            packets: self.packets,
            dropped: interfaces.iter().map(|of| of.dropped).sum(),
            interfaces,
        })
    }
}
