//! Probes of an address by a link: a UDP datagram, pings, packet sizes, and the nearest routers.

use crate::daemon::machine::kill_switch::TUNNEL_MARK;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use weft_io::echo::EchoSocket;
use weft_io::udp::{Bounce, BounceReason, Outgoing, UdpConfig, UdpLink};

/// Maximum time to wait for the answer to one ping, or for the ICMP error that one datagram causes.
const PATIENCE: Duration = Duration::from_millis(600);
/// Lengths of the pings that find the longest packet that passes, in bytes with the IP header, longest first.
const SIZES: [usize; 6] = [1500, 1400, 1280, 1000, 576, 300];
/// Length of the ping that tests whether the host answers, in bytes with the IP header.
const SHORT: usize = 84;
/// Number of nearest routers on the route to look for.
const HOPS: u8 = 4;

/// Result of a ping.
pub enum PingResult {
    /// The host answered after this time.
    Answered(Duration),
    /// No answer arrived.
    Silent,
    /// The ping could not be sent.
    Failed(io::Error),
}

/// Results of all probes of one address over one link.
pub struct ProbedRoute {
    pub link: String,
    pub remote: SocketAddr,
    pub ping: PingResult,
    /// Reaction to a UDP datagram, such as an ICMP error, or `None` if there was none.
    pub bounce: Option<&'static str>,
    /// Length of the longest answered ping, in bytes with the IP header. `None` if none was answered.
    pub largest: Option<usize>,
    /// Length of the longest ping that was sent, in bytes with the IP header.
    pub asked: usize,
    /// Routers on the route, the nearest first, as far as they answer.
    pub hops: Vec<IpAddr>,
}

/// Probes all pairs of a link and an address in parallel.
pub fn all(pairs: &[(String, SocketAddr)]) -> Vec<ProbedRoute> {
    std::thread::scope(|scope| {
        let probe = |(link, remote): &(String, SocketAddr)| {
            let (link, remote) = (link.clone(), *remote);
            scope.spawn(move || probe(link, remote))
        };
        let running: Vec<_> = pairs.iter().map(probe).collect();
        running.into_iter().filter_map(|probe| probe.join().ok()).collect()
    })
}

fn probe(link: String, remote: SocketAddr) -> ProbedRoute {
    let ping = ping(&link, remote.ip(), SHORT);
    let passes = |size: &&usize| matches!(self::ping(&link, remote.ip(), **size), PingResult::Answered(_));
    let answers = matches!(ping, PingResult::Answered(_));
    let largest = answers.then(|| SIZES.iter().find(passes).copied().unwrap_or(SHORT));
    let bounce = bounce(&link, remote, None).and_then(|bounce| words(bounce.error));
    let hops = (1..=HOPS).map_while(|hops| bounce_of_router(&link, remote, hops)).collect();
    ProbedRoute { link, remote, ping, bounce, largest, asked: SIZES[0], hops }
}

fn ping(link: &str, to: IpAddr, size: usize) -> PingResult {
    match EchoSocket::open(link, to).and_then(|mut echo| echo.ask(size, PATIENCE)) {
        Ok(Some(time)) => PingResult::Answered(time),
        Ok(None) => PingResult::Silent,
        Err(why) => PingResult::Failed(why),
    }
}

/// Sends a datagram that weft ignores, and returns the ICMP error that it causes. `None` if none arrives.
///
/// `hops` is the datagram's TTL. `None` stands for the usual TTL.
fn bounce(link: &str, remote: SocketAddr, hops: Option<u8>) -> Option<Bounce> {
    let socket = UdpLink::bind(&UdpConfig { device: Some(link.to_owned()), ..UdpConfig::default() }).ok()?;
    // A kill switch rejects datagrams without the mark.
    let _ = socket.set_mark(TUNNEL_MARK);
    socket.keep_bounces().ok()?;
    hops.map(|hops| socket.set_hop_limit(hops)).transpose().ok()?;
    let outgoing = Outgoing { destination: remote, source: None, tos: 0, contents: &[0], segment_size: None };
    socket.send(&outgoing).ok()?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(bounce) = socket.take_bounce() {
            return Some(bounce);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

fn bounce_of_router(link: &str, remote: SocketAddr, hops: u8) -> Option<IpAddr> {
    bounce(link, remote, Some(hops)).filter(|bounce| bounce.error == BounceReason::HopLimit)?.reporter
}

fn words(error: BounceReason) -> Option<&'static str> {
    Some(match error {
        BounceReason::Port => "port unreachable",
        BounceReason::Host => "host unreachable",
        BounceReason::Network => "network unreachable",
        BounceReason::Prohibited => "administratively prohibited",
        BounceReason::TooBig => "too big",
        BounceReason::HopLimit | BounceReason::Other => return None,
    })
}
