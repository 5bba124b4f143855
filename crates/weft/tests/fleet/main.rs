//! A hub with very many peers on a real kernel.
//!
//! All sites join, the hub's uplink flaps, and the hub is killed and restarted, while its metrics are scraped every
//! second. The sites are engines in this process, each with its own address and socket. One more peer is a real node
//! with a TCP flow. There are 64 sites, or 4,095 with `WEFT_CHECK=1`. Only then the test judges times.

#[path = "../common/mod.rs"]
mod common;
mod hub;
mod sites;

use common::inside;
use hub::Hub;
use sites::Sites;
use std::fmt;
use std::time::{Duration, Instant};

/// Number of sites in the run with few sites, which is the reference for goodput.
const FEW: usize = 10;
/// Maximum turn of the packet loop that weft promises with 4,096 peers.
const LONGEST_TURN: Duration = Duration::from_millis(100);
/// Time within which all peers must be back after a flap or a restart.
const BACK_WITHIN: Duration = Duration::from_secs(30);
/// Minimum goodput of the flow with many sites, as a fraction of that with few sites.
const LEAST_SHARE: f64 = 0.9;
/// Maximum rate of datagrams from the hub to each idle site, in datagrams per second, soon after the start.
///
/// Derived: the site probes each second and gets an answer. The hub probes every 8 s, and a probe has two answers. A
/// datagram of reports arrives every 13 s. The rest is for retransmissions.
const MOST_IDLE_DATAGRAMS: f64 = 2.0;
/// Maximum duration of any step before the test fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measurements with a number of sites.
struct Found {
    joined: Duration,
    idle: Idle,
    goodput: f64,
    flapped: Duration,
    restarted: Duration,
    /// Longest turn before and after the restart.
    longest_turns: [Duration; 2],
    longest_scrape: Duration,
}

/// Cost of sites without traffic.
struct Idle {
    /// Datagrams a second that each site receives and sends.
    datagrams: [f64; 2],
    /// Shares of a processor that the hub takes, and all sites together.
    processors: [f64; 2],
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([received, sent], [hub, sites]) = (self.datagrams, self.processors);
        write!(
            f,
            "while idle {received:.2} datagrams/s to each and {sent:.2} from each, {hub:.2} processors for the hub and {sites:.2} for the sites"
        )
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "all there after {:.1?}, {}, {:.0} Mbit/s of one TCP flow, all heard {:.1?} after a flap, back {:.1?} after the hub was killed, \
             longest turn {:.1?} and {:.1?} after that, longest scrape {:.1?}",
            self.joined,
            self.idle,
            self.goodput / 1e6,
            self.flapped,
            self.restarted,
            self.longest_turns[0],
            self.longest_turns[1],
            self.longest_scrape
        )
    }
}

#[test]
fn a_hub_with_very_many_peers() {
    inside::or_again("a_hub_with_very_many_peers", grow);
}

fn grow() {
    let is_long = std::env::var_os("WEFT_CHECK").is_some();
    let many = if is_long { 4_095 } else { 64 };
    hub::build();
    let [few, many] = [FEW, many].map(|sites| {
        let found = play(sites);
        println!("{sites} sites: {found}");
        found
    });
    let share = many.goodput / few.goodput;
    println!("of the goodput with {FEW} sites it has {share:.3}");
    if is_long {
        assert!(many.longest_turns.iter().all(|turn| *turn <= LONGEST_TURN), "{many}");
        assert!(many.restarted <= BACK_WITHIN && many.flapped <= BACK_WITHIN, "{many}");
        assert!(many.idle.datagrams[0] <= MOST_IDLE_DATAGRAMS, "{many}");
        assert!(share >= LEAST_SHARE, "{share}");
    }
}

fn play(count: usize) -> Found {
    let mut hub = Hub::start(count);
    let mut sites = Sites::start(count);
    let began = Instant::now();
    wait(&hub, &mut sites, "sites that never came", |hub| hub.up() > count);
    let joined = began.elapsed();
    sites.run_for(Duration::from_secs(2));
    let idle = idle(&hub, &mut sites, count);
    let flow = hub::flow();
    // Slow start is not counted.
    sites.run_for(Duration::from_secs(1));
    let goodput = flow.goodput(|| sites.run_for(Duration::from_secs(6)));
    drop(flow);
    hub.set_uplink(false);
    sites.run_for(Duration::from_secs(2));
    hub.set_uplink(true);
    let began = Instant::now();
    wait(&hub, &mut sites, "sites that were not heard after the flap", |hub| hub.heard_within(began.elapsed()) > count);
    let flapped = began.elapsed();
    let before = hub.longest_turn();
    hub.restart();
    let began = Instant::now();
    wait(&hub, &mut sites, "sites that did not come back", |hub| hub.up() > count);
    let restarted = began.elapsed();
    sites.run_for(Duration::from_secs(3));
    let longest_turns = [before, hub.longest_turn()];
    Found { joined, idle, goodput, flapped, restarted, longest_turns, longest_scrape: hub.longest_scrape() }
}

/// Measures the CPU time and the memory that the sites cost while no packet goes to them.
fn idle(hub: &Hub, sites: &mut Sites, count: usize) -> Idle {
    let cpu = |hub: &Hub| [hub.cpu(), inside::process_time("/proc/thread-self/stat")];
    let (began, before, cpu_before) = (Instant::now(), sites.datagrams(), cpu(hub));
    sites.run_for(Duration::from_secs(5));
    let (time, after, cpu_after) = (began.elapsed().as_secs_f64(), sites.datagrams(), cpu(hub));
    let each = |before: u64, after: u64| (after - before) as f64 / time / count as f64;
    Idle {
        datagrams: [each(before.received, after.received), each(before.sent, after.sent)],
        processors: [0, 1].map(|of| (cpu_after[of] - cpu_before[of]).as_secs_f64() / time),
    }
}

/// Runs the sites until the condition holds.
fn wait(hub: &Hub, sites: &mut Sites, what: &str, is_so: impl Fn(&Hub) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so(hub) {
        assert!(Instant::now() < until, "{what}: {} of them are up\n{}", hub.up(), hub.log());
        sites.run_for(Duration::from_millis(20));
    }
}
