//! What holds for all peers of a hub together. `many_peers` measures what they cost.
#![allow(missing_docs)]
#![expect(clippy::disallowed_methods, reason = "a star also measures the work of its hub")]

mod star;

use star::{HUB, Star};
use weft_units::{Duration, Rate, Rng};

fn ready(sites: usize, is_relay: bool) -> Star {
    let mut star = Star::new(sites, is_relay);
    star.run_for(Duration::from_secs(20));
    assert_eq!(star.established(), sites);
    star
}

/// Checks that all peers of a relay receive reports about each other, also after changes.
#[test]
fn every_peer_of_a_relay_learns_of_all_others() {
    const SITES: usize = 150;
    let mut star = ready(SITES, true);
    let heard = |star: &Star, site: usize| {
        let relays = star.nodes[site].snapshot(star.now).peers;
        relays[0].reaches.len()
    };
    star.run_for(Duration::from_secs(15));
    for site in 1..=SITES {
        assert_eq!(heard(&star, site), SITES - 1, "site {site}");
    }
    star.unplug(7);
    star.run_for(Duration::from_secs(60));
    for site in (1..=SITES).filter(|site| *site != 7) {
        assert_eq!(heard(&star, site), SITES - 2, "site {site}");
    }
}

/// The rate limit of a link holds for all peers on the link together, and they share it.
#[test]
fn a_links_rate_limit_holds_for_all_peers_together() {
    let mut rng = Rng::new(11);
    for _ in 0..6 {
        let (sites, mbps) = (2 + rng.below(40) as usize, 4 + rng.below(40));
        let mut star = ready(sites, rng.chance(0.5));
        star.limit_hub(Rate::from_mbps(mbps));
        // Each site alone gets up to 1.5 times the limit.
        let every_us = 1_200 * 8 * 1_000 / (mbps * 1_500);
        let play = |star: &mut Star, time: Duration| {
            let (bytes, until) = (star.hub_bytes, star.now + time);
            let delivered = star.delivered.clone();
            while star.now < until {
                for site in 1..=sites {
                    star.send(HUB, site, 1_200);
                }
                star.run_for(Duration::from_micros(every_us));
            }
            let got: Vec<u64> = (1..=sites).map(|site| star.delivered[site] - delivered[site]).collect();
            ((star.hub_bytes - bytes) as f64 * 8.0 / time.as_secs_f64() / 1e6, got)
        };
        play(&mut star, Duration::from_secs(2));
        let (sent, got) = play(&mut star, Duration::from_secs(2));
        let (least, most) = (*got.iter().min().unwrap(), *got.iter().max().unwrap());
        println!("{sites} sites, {mbps} Mbit/s: sent {sent:.2}, packets {least} to {most}");
        // Control datagrams leave at once, so the limit may be exceeded by a little.
        assert!(sent < mbps as f64 * 1.05, "{sites} sites sent {sent:.2} of {mbps} Mbit/s");
        assert!(sent > mbps as f64 * 0.85, "{sites} sites sent {sent:.2} of {mbps} Mbit/s");
        assert!(least * 2 > most, "{sites} sites, {mbps} Mbit/s: packets {got:?}");
    }
}
