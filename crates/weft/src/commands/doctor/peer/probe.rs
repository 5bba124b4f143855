//! Probes by a link to an address: UDP, ping, packet sizes, and the first routers on the way.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use weft_io::echo::Echo;
use weft_io::udp::{Bounce, IcmpError, Outgoing, UdpConfig, UdpLink};

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_millis(600);
/// IP bytes of the packets by which the longest that passes is found, longest first.
const SIZES: [usize; 6] = [1500, 1400, 1280, 1000, 576, 300];
const SHORT: usize = 84;
/// Routers looked for.
const HOPS: u8 = 4;

/// What became of a ping.
pub enum Probe {
    /// The answer came after this.
    Answered(Duration),
    /// None came.
    Silent,
    /// It could not be sent.
    Failed(io::Error),
}

/// What was found by a link to an address.
pub struct Route {
    pub link: String,
    pub remote: SocketAddr,
    pub ping: Probe,
    /// What came back of a UDP datagram.
    pub bounce: Option<&'static str>,
    /// The longest packet that was answered, of those that were tried; absent: none was.
    pub largest: Option<usize>,
    /// The longest that was tried.
    pub asked: usize,
    /// Routers on the way, the nearest first, as far as they say.
    pub hops: Vec<IpAddr>,
}

/// Probes all pairs at once.
pub fn all(pairs: &[(String, SocketAddr)]) -> Vec<Route> {
    std::thread::scope(|scope| {
        let probe = |(link, remote): &(String, SocketAddr)| {
            let (link, remote) = (link.clone(), *remote);
            scope.spawn(move || probe(link, remote))
        };
        let running: Vec<_> = pairs.iter().map(probe).collect();
        running.into_iter().filter_map(|probe| probe.join().ok()).collect()
    })
}

fn probe(link: String, remote: SocketAddr) -> Route {
    let ping = ping(&link, remote.ip(), SHORT);
    let passes = |size: &&usize| matches!(self::ping(&link, remote.ip(), **size), Probe::Answered(_));
    let answers = matches!(ping, Probe::Answered(_));
    let largest = answers.then(|| SIZES.iter().find(passes).copied().unwrap_or(SHORT));
    let bounce = bounce(&link, remote, None).and_then(|bounce| words(bounce.error));
    let hops = (1..=HOPS).map_while(|hops| bounce_of_router(&link, remote, hops)).collect();
    Route { link, remote, ping, bounce, largest, asked: SIZES[0], hops }
}

fn ping(link: &str, to: IpAddr, size: usize) -> Probe {
    match Echo::open(link, to).and_then(|mut echo| echo.ask(size, PATIENCE)) {
        Ok(Some(time)) => Probe::Answered(time),
        Ok(None) => Probe::Silent,
        Err(why) => Probe::Failed(why),
    }
}

/// What comes back of a datagram that weft does not take for one of its own.
fn bounce(link: &str, remote: SocketAddr, hops: Option<u8>) -> Option<Bounce> {
    let socket = UdpLink::bind(&UdpConfig { device: Some(link.to_owned()), ..UdpConfig::default() }).ok()?;
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
    bounce(link, remote, Some(hops)).filter(|bounce| bounce.error == IcmpError::HopLimit)?.reporter
}

fn words(error: IcmpError) -> Option<&'static str> {
    Some(match error {
        IcmpError::Port => "port unreachable",
        IcmpError::Host => "host unreachable",
        IcmpError::Network => "network unreachable",
        IcmpError::Prohibited => "administratively prohibited",
        IcmpError::TooBig => "too big",
        IcmpError::HopLimit | IcmpError::Other => return None,
    })
}
