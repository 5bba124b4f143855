//! The work of a node for one peer must not grow with the number of its peers.
//!
//! `SITES=4095 cargo test -p weft-engine --test many_peers -- --nocapture --ignored` prints the full results for a
//! large hub.
#![allow(missing_docs)]
#![expect(clippy::disallowed_methods, reason = "the time that work takes is what is measured")]

mod star;

use star::{HUB, Star};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration as Time, Instant as Clock};
use weft_units::Duration;

const FEW: usize = 8;
const MANY: usize = 512;
/// Largest growth of a cost with [`MANY`] peers instead of [`FEW`].
///
/// Every cost grew by more than 50 when each turn examined every peer. Caches explain most of the remaining growth.
const MOST_GROWTH: f64 = 8.0;

/// Serializes the tests. Concurrent tests displace each other's caches, which affects many peers more than few.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the least hub time of each star over several intervals, to suppress other load of the machine.
///
/// The stars take turns, so that a load of some seconds meets all of them.
fn least<const N: usize>(mut stars: [Star; N], mut slice: impl FnMut(&mut Star)) -> [Time; N] {
    let mut least = [Time::MAX; N];
    for _ in 0..8 {
        for (star, least) in stars.iter_mut().zip(&mut least) {
            star.forget_turns();
            slice(star);
            *least = star.turns.iter().sum::<Time>().min(*least);
        }
    }
    least
}

fn ready(sites: usize, is_relay: bool) -> Star {
    let mut star = Star::new(sites, is_relay);
    star.run_for(Duration::from_secs(20));
    assert_eq!(star.established(), sites);
    star
}

fn check(what: &str, few: Time, many: Time) {
    let growth = many.as_secs_f64() / few.as_secs_f64();
    println!("{what}: {few:?} with {FEW} peers, {many:?} with {MANY}, {growth:.1} times");
    assert!(growth < MOST_GROWTH, "{what} costs {growth:.1} times as much with {MANY} peers as with {FEW}");
}

#[test]
fn a_packet_costs_the_same() {
    let _alone = alone();
    let packets = |star: &mut Star| {
        for _ in 0..50 {
            star.send(HUB, 1, 1_000);
            star.send(2, HUB, 1_000);
            star.run_for(Duration::from_micros(100));
        }
    };
    let [few, many] = least([FEW, MANY].map(|sites| ready(sites, false)), packets);
    check("100 packets", few, many);
}

#[test]
fn an_idle_peer_costs_the_same() {
    let _alone = alone();
    let idle = |star: &mut Star| star.run_for(Duration::from_secs(60));
    let [few, many] = least([FEW, MANY].map(|sites| ready(sites, false)), idle);
    check("a minute of an idle peer", few / FEW as u32, many / MANY as u32);
}

/// Checks the time for a relay's reports about each peer to every other.
///
/// Their number grows with the square of the peers, up to a bound.
#[test]
fn a_relays_reports_take_a_small_part_of_its_time() {
    let _alone = alone();
    let [took] = least([ready(MANY, true)], |star| star.run_for(Duration::from_secs(15)));
    let part = took.as_secs_f64() / 15.0;
    println!("an idle relay of {MANY} peers takes {:.1} % of a core", part * 100.0);
    assert!(part < 0.3, "{part}");
}

/// Checks that a relay spends no time on reports for peers that it cannot reach.
///
/// A relay that is overloaded takes its peers for unreachable. If they cost more then, it stays overloaded.
#[test]
fn peers_out_of_reach_cost_a_relay_no_more_than_another_node() {
    let _alone = alone();
    let stars = [true, false].map(|is_relay| {
        let mut star = ready(MANY, is_relay);
        star.restart(HUB, 1 << 40);
        star.run_for(Duration::from_secs(3));
        (2..=MANY).for_each(|site| star.unplug(site));
        // The site that is left has all reports by then.
        star.run_for(Duration::from_secs(15));
        star
    });
    let [relay, other] = least(stars, |star| {
        // Each change of a path makes the relay look for outstanding reports.
        for _ in 0..20 {
            star.flap(HUB);
            star.run_for(Duration::from_millis(20));
        }
    });
    let growth = relay.as_secs_f64() / other.as_secs_f64();
    println!(
        "20 changes while {MANY} peers are out of reach: {relay:?} of a relay, {other:?} of another node, {growth:.1} times"
    );
    assert!(growth < 1.2, "{growth}");
}

#[test]
fn a_restarted_hub_takes_each_peer_back_at_the_same_cost() {
    let _alone = alone();
    let restart = |sites: usize| {
        let mut star = ready(sites, true);
        let times = (1..4).map(|number| {
            star.forget_turns();
            star.restart(HUB, number << 40);
            // A site without traffic asks rarely whether the hub is there.
            star.run_for(Duration::from_secs(30));
            assert_eq!(star.established(), sites);
            star.turns.iter().sum::<Time>() / sites as u32
        });
        times.min().unwrap_or_default()
    };
    let [few, many] = [FEW, MANY].map(restart);
    check("a peer that comes back", few, many);
}

/// Checks the cost of the search for peers with problems, which a node makes each second.
#[test]
fn a_look_at_a_peer_that_is_well_costs_the_same() {
    let _alone = alone();
    let look = |sites: usize| {
        let star = ready(sites, false);
        let times = (0..50).map(|_| {
            let began = Clock::now();
            assert_eq!(star.nodes[HUB].unwell(star.now, 1280).count(), 0);
            began.elapsed()
        });
        times.min().unwrap_or_default() / sites as u32
    };
    let [few, many] = [FEW, MANY].map(look);
    check("a look at a peer", few, many);
}

/// Checks that a stranger that knows the hub's key can cause one key agreement and no more work.
///
/// `SITES=4096` with `--release` measures what the documents say.
#[test]
fn an_initiation_of_a_stranger_costs_the_same() {
    let _alone = alone();
    let sites = std::env::var("SITES").ok().and_then(|text| text.parse().ok()).unwrap_or(MANY);
    let mut hubs = [1, sites].map(|sites| ready(sites, false));
    let initiations = hubs.each_ref().map(Star::initiation_of_a_stranger);
    let mut least = [Time::MAX; 2];
    for _ in 0..100 {
        for ((hub, initiation), least) in hubs.iter_mut().zip(&initiations).zip(&mut least) {
            hub.run_for(Duration::from_millis(100));
            *least = hub.inject(initiation).min(*least);
        }
    }
    assert_eq!(hubs.map(|hub| hub.established()), [1, sites]);
    let [few, many] = least;
    let growth = many.as_secs_f64() / few.as_secs_f64();
    println!("an initiation of a stranger: {few:?} with 1 peer, {many:?} with {sites}, {growth:.2} times");
    assert!(growth <= 1.5, "{growth}");
}

#[test]
#[ignore = "takes minutes with thousands of sites"]
fn the_story_of_a_large_hub() {
    let sites = std::env::var("SITES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_024);
    for (sites, is_relay) in [(10, false), (sites, false), (10, true), (sites, true)] {
        let mut star = Star::new(sites, is_relay);
        let part = |star: &mut Star, what: &str, work: &mut dyn FnMut(&mut Star)| {
            let begin = Clock::now();
            star.forget_turns();
            work(star);
            let (total, longest): (Time, Time) = (star.turns.iter().sum(), star.longest_turn());
            let (turns, up, took) = (star.turns.len(), star.established(), begin.elapsed());
            println!(
                "{sites} sites, relay {is_relay}, {what}: hub {total:?} in {turns} turns, longest {longest:?}, {up} up ({took:?})"
            );
        };
        part(&mut star, "10 s from the start", &mut |star| star.run_for(Duration::from_secs(10)));
        part(&mut star, "30 s idle", &mut |star| star.run_for(Duration::from_secs(30)));
        part(&mut star, "1,000 packets each way in 1 s", &mut |star| {
            for _ in 0..1_000 {
                star.send(HUB, 1, 1_000);
                star.send(2, HUB, 1_000);
                star.run_for(Duration::from_millis(1));
            }
        });
        part(&mut star, "10 s with a flap of the uplink", &mut |star| {
            star.flap(HUB);
            star.run_for(Duration::from_secs(10));
        });
        part(&mut star, "30 s from a restart", &mut |star| {
            star.restart(HUB, 1 << 40);
            star.run_for(Duration::from_secs(30));
        });
    }
}
