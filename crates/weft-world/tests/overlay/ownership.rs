//! The directory of prefix owners in whole overlays.
//!
//! See `weft_world::overlay::ownership` and `docs/operate/overlay.md`.

use std::net::IpAddr;
use weft_core::route::ownership::{DirectoryEvent, Found};
use weft_units::Duration;
use weft_wire::ownership::ClaimVerdict;
use weft_world::overlay::ownership::{self, Estate, address_in, owner, prefixes};
use weft_world::overlay::{Lie, Registry, percentile};

const NODES: u32 = 60;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn lan(n: u32) -> IpAddr {
    address_in(prefixes(n)[1])
}

/// Returns an overlay in which no site owns the default route, so that some addresses have no owner.
fn estate(seed: u64) -> Estate {
    let mut estate = Estate::new(seed, NODES);
    estate.world.own(0, &prefixes(0)[..2]);
    estate.wait(secs(5));
    estate
}

/// The overlay has 200 nodes if `WEFT_CHECK` is set, otherwise 100.
#[test]
fn every_prefix_is_found_from_every_node() {
    let nodes = if std::env::var_os("WEFT_CHECK").is_some() { 200 } else { 100 };
    let outcome = ownership::run(1, nodes, nodes - 1);
    assert_eq!(outcome.lookups.1, 0, "of {}", outcome.lookups.0);
    assert!(outcome.lookups.0 > u64::from(nodes * (nodes - 1) * 2));
    let (p50, p99) = (percentile(&outcome.ms, 0.5), percentile(&outcome.ms, 0.99));
    assert!(p99 < 1_000.0, "{p50} ms, {p99} ms");
}

#[test]
fn a_node_that_moves_is_found_at_once_also_by_nodes_with_its_old_address() {
    let mut estate = estate(2);
    for n in 1..20 {
        let (knew, new) = (estate.other_than(&[n]), estate.other_than(&[n]));
        assert_eq!(estate.ask(knew, lan(n)).0, Some(n));
        estate.world.relocate(n);
        estate.wait(secs(1));
        for asker in [new, knew] {
            let found = estate.look_up([(asker, lan(n))]);
            if !estate.world.meet(&found[0].0) {
                assert_eq!(asker, knew);
                let again = estate.look_up([(asker, lan(n))]);
                assert!(estate.world.meet(&again[0].0), "{again:?}");
            }
        }
    }
}

#[test]
fn withdrawn_and_revoked_prefixes_have_no_owner() {
    let mut estate = estate(3);
    estate.world.withdraw(7);
    estate.world.revoke(8);
    estate.wait(secs(2));
    let found = estate.look_up((0..NODES).filter(|n| ![7, 8].contains(n)).flat_map(|n| [(n, lan(7)), (n, lan(8))]));
    assert_eq!(found.len(), 2 * (NODES as usize - 2));
    assert!(found.iter().all(|(finding, _)| finding.found == Found::Nobody), "{found:?}");
    let kept = |estate: &Estate| (0..NODES).map(|n| estate.world.directory(n).unwrap().kept().0).sum::<usize>();
    let before = kept(&estate);
    estate.world.own(7, &prefixes(7));
    estate.wait(secs(8));
    assert!(kept(&estate) > before);
    assert_eq!(estate.ask(20, lan(7)).0, Some(7), "it can come back");
    estate.world.show(8, Vec::new());
    assert_eq!(estate.ask(20, lan(8)).0, None);
}

#[test]
fn others_answer_when_a_root_dies() {
    let mut estate = estate(4);
    let mut ms = Vec::new();
    for n in 1..25 {
        let asker = estate.other_than(&[n]);
        let root = estate.root_for(lan(n), asker);
        if [asker, n].contains(&root) || estate.world.overlay(n).is_none() {
            continue;
        }
        estate.world.kill(root);
        let (found, took) = estate.ask(asker, lan(n));
        assert_eq!(found, Some(n));
        ms.push(took.as_secs_f64() * 1e3);
        estate.world.start(root, &[asker]);
        estate.wait(secs(20));
    }
    assert!(ms.len() > 15 && percentile(&ms, 0.9) <= 1_200.0 && percentile(&ms, 1.0) <= 1_500.0, "{ms:?}");
}

#[test]
fn the_next_root_has_what_the_dead_one_had() {
    let mut estate = estate(5);
    // One root after the other is killed, faster than owners renew their claims.
    for _ in 0..8 {
        let root = estate.root_for(lan(3), 3);
        if root != 3 {
            estate.world.kill(root);
        }
        estate.wait(secs(6));
        let asker = estate.other_than(&[3]);
        assert_eq!(estate.ask(asker, lan(3)).0, Some(3));
    }
}

#[test]
fn a_network_that_fell_apart_knows_all_when_it_is_whole_again() {
    let mut estate = estate(6);
    (0..NODES).for_each(|n| estate.world.terrain.put_on_side(n, u8::from(n % 2 == 1)));
    estate.wait(secs(200));
    let pairs = || (0..NODES).map(|n| (n, (n * 7 + 4) % NODES));
    let found = estate.look_up(pairs().map(|(n, other)| (n, lan(other))));
    for (finding, _) in &found {
        let of = (finding.node * 7 + 4) % NODES;
        let expected = (of % 2 == finding.node % 2).then_some(of);
        assert_eq!(owner(&estate.world, finding), expected, "{finding:?}");
    }
    estate.world.terrain.heal();
    estate.wait(secs(150));
    let found = estate.look_up(pairs().map(|(n, other)| (n, lan(other))));
    assert!(found.iter().all(|(f, _)| owner(&estate.world, f) == Some((f.node * 7 + 4) % NODES)), "{found:?}");
}

/// Checks that every owner is found although a root lies for longer than the lifetime of a claim.
///
/// The root lies to owners and to nodes that look up an owner. The last two cases run only if `WEFT_CHECK` is set.
#[test]
fn a_lying_root_hides_no_owner() {
    let cases = [
        (7, 3, "denies"),
        (9, 3, "misleads"),
        (11, 29, "shows its own"),
        (12, 41, "shows a forgery"),
        (13, 29, "swallows"),
        (8, 11, "denies"),
        (10, 11, "misleads"),
    ];
    let shown = if std::env::var_os("WEFT_CHECK").is_some() { 7 } else { 5 };
    for (seed, n, kind) in cases.into_iter().take(shown) {
        let mut estate = estate(seed);
        let root = estate.root_for(lan(n), n);
        assert_ne!(root, n);
        let certify = |of: u32, prefix| Registry::default().certify(estate.world.id(of), &[prefix], 0);
        let lie = match kind {
            "denies" => Lie::Denies,
            "misleads" => Lie::Misleads,
            "shows its own" => Lie::Shows(certify(root, prefixes(root)[1])),
            "shows a forgery" => {
                let mut forged = certify(root, prefixes(n)[1]);
                *forged.last_mut().unwrap() ^= 1;
                Lie::Shows(forged)
            }
            _ => Lie::Swallows,
        };
        estate.world.corrupt(root, lie);
        estate.wait(secs(200));
        for _ in 0..16 {
            let asker = estate.other_than(&[n, root]);
            let mut found = estate.look_up([(asker, lan(n))]);
            if !estate.world.meet(&found[0].0) {
                assert_eq!((kind, owner(&estate.world, &found[0].0)), ("misleads", Some(n)), "{found:?}");
                found = estate.look_up([(asker, lan(n))]);
            }
            assert!(estate.world.meet(&found[0].0), "{kind}: {found:?}");
            assert_eq!(owner(&estate.world, &found[0].0), Some(n));
        }
    }
}

#[test]
fn the_owner_with_the_older_certificate_keeps_a_prefix() {
    let mut estate = estate(20);
    estate.world.take_reports();
    estate.world.own(9, &[prefixes(9)[0], prefixes(5)[1]]);
    estate.wait(secs(8));
    assert_eq!(estate.ask(30, lan(5)).0, Some(5));
    let conflicts = estate.world.take_reports().into_iter().filter_map(|(_, event)| match event {
        DirectoryEvent::Conflict(conflict) => Some(conflict),
        _ => None,
    });
    let conflicts: Vec<_> = conflicts.collect();
    assert!(!conflicts.is_empty());
    let (five, nine) = (estate.world.id(5), estate.world.id(9));
    assert!(conflicts.iter().all(|c| (c.prefix, c.owner, c.refused) == (prefixes(5)[1], five, nine)), "{conflicts:?}");
    assert!(conflicts.len() <= 8, "each holder says it once");
}

#[test]
fn a_node_with_another_nodes_certificate_is_refused() {
    let mut estate = estate(21);
    let stolen = Registry::default().certify(estate.world.id(5), &prefixes(5), 0);
    let holders: Vec<u32> = estate.world.directory(5).unwrap().holders().map(|id| estate.world.node(id)).collect();
    for holder in holders.iter().filter(|holder| **holder != 13) {
        let verdict = estate.world.claim_as(13, *holder, &stolen, u64::MAX);
        assert_eq!(verdict, Some(ClaimVerdict::Uncertified));
    }
    let found = estate.look_up([(30, lan(5))]);
    assert!(estate.world.meet(&found[0].0));
}
