//! A hub with very many peers on a real kernel.
//!
//! All sites join, the hub's uplink flaps, and the hub is killed and restarted, while its metrics are scraped every
//! second. The sites are engines in this process, each with its own address and socket. One more peer is a real node
//! with a TCP flow. There are 64 sites, or 4,095 with `WEFT_CHECK=1`; only then the test judges times.

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
/// Maximum duration of any step before the test fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measurements with a number of sites.
struct Found {
    joined: Duration,
    goodput: f64,
    flapped: Duration,
    restarted: Duration,
    /// Longest turn before and after the restart.
    longest_turns: [Duration; 2],
    longest_scrape: Duration,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "all there after {:.1?}, {:.0} Mbit/s of one TCP flow, all heard {:.1?} after a flap, back {:.1?} after the hub was killed, \
             longest turn {:.1?} and {:.1?} after that, longest scrape {:.1?}",
            self.joined,
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
    Found { joined, goodput, flapped, restarted, longest_turns, longest_scrape: hub.longest_scrape() }
}

/// Runs the sites until the condition holds.
fn wait(hub: &Hub, sites: &mut Sites, what: &str, is_so: impl Fn(&Hub) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so(hub) {
        assert!(Instant::now() < until, "{what}: {} of them are up\n{}", hub.up(), hub.log());
        sites.run_for(Duration::from_millis(20));
    }
}
