//! Claims of members: which are valid, which are forwarded, and which links a lying member can change.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use weft_core::route::link_map::{ClaimReceipt, Comparison, Lacked, LinkMap, MemberGraph};
use weft_units::{Instant, Rate, Rng};
use weft_wire::er_sig::Rate16;
use weft_wire::link_map::{
    ClaimedLink, Digest, LinkMapMessage, MAX_ENTRIES, MAX_LINKS, MAX_MESSAGE, emit_claim, emit_digest,
};
use weft_wire::relay::Label;

const NOW_MS: u64 = 1_800_000_000_000;

fn link(to: Label, rtt_us: u32) -> ClaimedLink {
    ClaimedLink {
        to,
        is_down: false,
        confidence: 0,
        rtt_us,
        jitter_10us: 0,
        loss: 0,
        capacity: Rate16::floor(Rate::from_mbps(10)),
        available: Rate16(0),
        age_s: 0,
    }
}

fn key(label: Label) -> [u8; 32] {
    core::array::from_fn(|at| label.0.to_be_bytes()[at % 4])
}

fn claim(author: Label, seq: u64, links: &[ClaimedLink]) -> Vec<u8> {
    let mut out = [0; MAX_MESSAGE];
    let len = emit_claim(&mut out, (&key(author), seq, true), links, |_| [0; 64]).unwrap();
    out[..len].to_vec()
}

fn hear(map: &mut LinkMap, at_ms: u64, author: Label, bytes: &[u8], is_genuine: bool) -> ClaimReceipt {
    let Ok(LinkMapMessage::Claim(claim)) = LinkMapMessage::parse(bytes) else { panic!("a claim") };
    map.receive((Instant::from_millis(at_ms - NOW_MS), at_ms), author, &claim, bytes, || is_genuine)
}

fn map_of(members: impl IntoIterator<Item = Label>) -> LinkMap {
    let mut map = LinkMap::default();
    for label in members {
        map.admit(Instant::ZERO, label, key(label), &[1], true, 1);
    }
    map
}

/// Returns the claims that another node lacks. The comparison examines `at_once` authors in a step.
fn lacked<'a>(map: &'a LinkMap, digest: &Digest<'_>, at_once: usize) -> Vec<&'a [u8]> {
    let mut comparison = Comparison::new(digest);
    let mut lacked = Vec::new();
    while !comparison.has_ended() {
        lacked.extend(comparison.advance(map, at_once));
    }
    let claim = |lacked| if let Lacked::Claim(claim) = lacked { Some(claim) } else { None };
    lacked.into_iter().filter_map(claim).collect()
}

/// Sends a digest from one map to another, and delivers the answers. Returns the number of answers.
fn compare(from: &mut LinkMap, to: &LinkMap) -> usize {
    let mut out = [0; MAX_MESSAGE];
    let range = (Label(0), Label(u32::MAX));
    let len = emit_digest(&mut out, true, range, &from.digest(Label(0), MAX_ENTRIES)).unwrap();
    let Ok(LinkMapMessage::Digest(digest)) = LinkMapMessage::parse(&out[..len]) else { panic!("a digest") };
    let claims: Vec<Vec<u8>> = lacked(to, &digest, 1 + from.members()).into_iter().map(<[u8]>::to_vec).collect();
    for bytes in &claims {
        let Ok(LinkMapMessage::Claim(claim)) = LinkMapMessage::parse(bytes) else { panic!("a claim") };
        let author = Label(u32::from_be_bytes(claim.public_key[..4].try_into().unwrap()));
        from.receive((Instant::from_millis(60_000), NOW_MS + 60_000), author, &claim, bytes, || true);
    }
    claims.len()
}

#[test]
fn in_whatever_order_claims_come_the_newest_of_each_link_counts() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut map = map_of([Label(1)]);
        let mut claims: Vec<(u64, Vec<ClaimedLink>)> = Vec::new();
        let mut newest: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for number in 0..10 {
            let seq = NOW_MS + number;
            let some: Vec<u32> = (2..8).filter(|_| rng.chance(0.4)).collect();
            let some = some.into_iter().map(|to| link(Label(to), rng.below(90_000) as u32));
            let links: Vec<_> = some.collect();
            newest.extend(links.iter().map(|link| (link.to.0, (seq, link.rtt_us))));
            claims.push((seq, links));
        }
        let mut received = claims.clone();
        received.extend(claims.iter().filter(|_| rng.chance(0.3)).cloned());
        for at in (1..received.len()).rev() {
            received.swap(at, rng.below(at as u64 + 1) as usize);
        }
        for (at, (seq, links)) in (0..).zip(&received) {
            hear(&mut map, NOW_MS + 2_000 * at, Label(1), &claim(Label(1), *seq, links), true);
        }
        for (to, (seq, rtt_us)) in &newest {
            let known = map.links_of(Label(1)).find(|(_, link)| link.to == Label(*to));
            assert_eq!(known.map(|(seq, link)| (seq, link.rtt_us)), Some((*seq, *rtt_us)), "seed {seed}");
        }
        assert!(map.messages_of(Label(1)) <= newest.len() + 1);
        // A newcomer that compares its digest with this member's map then stores the same claims.
        let mut newcomer = map_of([Label(1)]);
        assert!(compare(&mut newcomer, &map) > 0);
        assert_eq!(newcomer.digest(Label(0), 9), map.digest(Label(0), 9), "seed {seed}");
        assert_eq!(compare(&mut newcomer, &map), 0, "nothing is left to tell");
    }
}

#[test]
fn forged_and_repeated_claims_cost_no_signature_check_beyond_the_allowance() {
    let mut map = map_of([Label(1)]);
    let first = claim(Label(1), NOW_MS, &[link(Label(2), 5)]);
    assert_eq!(hear(&mut map, NOW_MS, Label(1), &first, true), ClaimReceipt::News);
    assert_eq!(hear(&mut map, NOW_MS, Label(1), &first, true), ClaimReceipt::Stale);
    assert_eq!(hear(&mut map, NOW_MS, Label(9), &first, true), ClaimReceipt::UnknownAuthor);
    let mut checks = 0;
    for number in 1..1_000 {
        let bytes = claim(Label(1), NOW_MS + number, &[link(Label(2), 5)]);
        let Ok(LinkMapMessage::Claim(claim)) = LinkMapMessage::parse(&bytes) else { panic!("a claim") };
        let now = (Instant::from_millis(number), NOW_MS + number);
        map.receive(now, Label(1), &claim, &bytes, || {
            checks += 1;
            false
        });
    }
    assert!(checks <= 12, "{checks} checks in a second");
}

/// Exchanges digests and answers in both directions, a few messages at a time as nodes do, until no answer follows.
fn reconcile(one: &mut LinkMap, other: &mut LinkMap) -> usize {
    let all = |map: &LinkMap| map.labels().map(|label| map.messages_of(label)).sum::<usize>();
    let most = all(one) + all(other);
    (0..20).find(|_| compare(one, other) + compare(other, one) == 0).unwrap_or_else(|| panic!("{most} messages"))
}

#[test]
fn members_agree_on_what_a_liar_claims_however_it_claims() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut maps = [map_of([Label(1)]), map_of([Label(1)])];
        // The member sends each node a different claim, about one link at a time, with numbers that jump.
        for number in 0..400 {
            let seq = NOW_MS + [number, rng.below(100_000), 7][rng.below(3) as usize];
            let links = [link(Label(2 + rng.below(1_000) as u32), rng.below(90_000) as u32)];
            let told = rng.below(3) as usize;
            for (at, map) in maps.iter_mut().enumerate().filter(|(at, _)| told == 2 || told == *at) {
                hear(map, NOW_MS + 2_000 * number, Label(1), &claim(Label(1), seq, &links), true);
                let (messages, links) = (map.messages_of(Label(1)), map.links_of(Label(1)).count());
                assert!(messages <= 16 && links <= messages, "seed {seed}: map {at} has {messages}, {links} links");
            }
        }
        let [one, other] = &mut maps;
        let rounds = reconcile(one, other);
        assert!(rounds <= 4, "seed {seed}: {rounds} rounds");
        assert_eq!(one.digest(Label(0), 9), other.digest(Label(0), 9), "seed {seed}");
    }
}

#[test]
fn an_author_with_many_messages_does_not_push_out_the_others() {
    let mut map = map_of((1..9).map(Label));
    let tell = |map: &mut LinkMap, author: u32, number: u64| {
        let links = [link(Label(100 + number as u32), 5)];
        let bytes = claim(Label(author), NOW_MS + number, &links);
        assert_eq!(hear(map, NOW_MS + 2_000 * number, Label(author), &bytes, true), ClaimReceipt::News);
    };
    (0..16).for_each(|number| tell(&mut map, 1, number));
    (2..9).for_each(|author| tell(&mut map, author, 20));
    let mut out = [0; MAX_MESSAGE];
    let entries: Vec<_> = (1..9).map(|label| (Label(label), 0)).collect();
    let len = emit_digest(&mut out, true, (Label(0), Label(u32::MAX)), &entries).unwrap();
    let Ok(LinkMapMessage::Digest(digest)) = LinkMapMessage::parse(&out[..len]) else { panic!("a digest") };
    let claims: Vec<&[u8]> = lacked(&map, &digest, 3);
    let author_of = |bytes: &&[u8]| {
        let Ok(LinkMapMessage::Claim(claim)) = LinkMapMessage::parse(bytes) else { panic!("a claim") };
        claim.public_key[3]
    };
    let authors: Vec<u8> = claims.iter().take(8).map(author_of).collect();
    assert_eq!((authors, claims.len()), ((1..9).collect(), 16 + 7));
}

#[test]
fn a_comparison_finds_the_same_however_few_authors_it_looks_at_once() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let labels: Vec<Label> = (0..40).map(|_| Label(rng.below(60) as u32)).collect();
        let mut map = map_of(labels.iter().copied());
        for number in 0..60 {
            let author = labels[rng.below(40) as usize];
            let bytes = claim(author, NOW_MS + number, &[link(Label(100 + rng.below(20) as u32), 5)]);
            hear(&mut map, NOW_MS + 2_000 * number, author, &bytes, true);
        }
        let ours: BTreeMap<Label, u64> = map.digest(Label(0), 100).into_iter().collect();
        let mut entry = |_| {
            let label = Label(rng.below(70) as u32);
            (label, ours.get(&label).filter(|_| rng.chance(0.5)).map_or(7, |fingerprint| *fingerprint))
        };
        let entries: BTreeMap<Label, u64> = (0..30).map(&mut entry).collect();
        let (first, last) = (Label(rng.below(30) as u32), Label(30 + rng.below(40) as u32));
        let entries: Vec<_> = entries.into_iter().filter(|(label, _)| (first..=last).contains(label)).collect();
        let mut out = [0; MAX_MESSAGE];
        let len = emit_digest(&mut out, true, (first, last), &entries).unwrap();
        let Ok(LinkMapMessage::Digest(digest)) = LinkMapMessage::parse(&out[..len]) else { panic!("a digest") };
        let all = |at_once: usize| {
            let mut comparison = Comparison::new(&digest);
            let mut lacked = Vec::new();
            while !comparison.has_ended() {
                let some = comparison.advance(&map, at_once);
                assert!(some.len() <= at_once, "seed {seed}");
                lacked.extend(some);
            }
            let certificates = lacked.iter().filter(|lacked| matches!(lacked, Lacked::Certificate(_))).count();
            let mut claims: Vec<_> = lacked.into_iter().filter(|lacked| matches!(lacked, Lacked::Claim(_))).collect();
            claims.sort_by_key(|lacked| if let Lacked::Claim(bytes) = lacked { bytes.to_vec() } else { Vec::new() });
            (certificates, claims, comparison.lacks_here())
        };
        let theirs: BTreeMap<Label, u64> = entries.iter().copied().collect();
        let in_range = || ours.iter().filter(|(label, _)| (first..=last).contains(label));
        let unknown = in_range().filter(|(label, _)| !theirs.contains_key(label)).count();
        let lacks = theirs.iter().any(|(label, fingerprint)| ours.get(label) != Some(fingerprint));
        let differing = in_range().filter(|(label, fingerprint)| theirs.get(label) != Some(fingerprint));
        let claims: usize = differing.map(|(label, _)| map.messages_of(*label)).sum();
        let once = all(100);
        assert_eq!((once.0, once.1.len(), once.2), (unknown, claims, lacks), "seed {seed}");
        assert_eq!(all(1 + rng.below(9) as usize), once, "seed {seed}");
    }
}

#[test]
fn claims_are_forgotten_after_an_hour() {
    let mut map = map_of([Label(1)]);
    let many: Vec<_> = (0..MAX_LINKS as u32).map(|to| link(Label(10 + to), 5)).collect();
    hear(&mut map, NOW_MS, Label(1), &claim(Label(1), NOW_MS, &many), true);
    map.forget_old(NOW_MS + 3_599_000);
    assert_eq!(map.links_of(Label(1)).count(), MAX_LINKS);
    map.forget_old(NOW_MS + 3_601_000);
    assert_eq!(map.links_of(Label(1)).count(), 0);
}

/// Returns the best route between two members, and whether it crosses the liar.
fn best(map: &LinkMap, liar: Label) -> Option<(Vec<Label>, bool)> {
    let route = MemberGraph::of(map).routes(Label(0), Label(1), 1, &[]).into_iter().next()?;
    let crosses = route.nodes.contains(&liar);
    Some((route.nodes, crosses))
}

#[test]
fn a_liar_draws_no_route_to_itself_and_moves_none_between_others() {
    let mut moved = 0;
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let nodes = 5 + rng.below(12) as u32;
        let mut links: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for one in 0..nodes {
            for other in (0..one).filter(|other| (*other, one) != (0, 1)) {
                if rng.chance(0.4) {
                    links.insert((other, one), 2_000 + rng.below(80_000) as u32);
                }
            }
        }
        let liar = Label(2 + rng.below(u64::from(nodes) - 2) as u32);
        let told = |of: u32| -> Vec<ClaimedLink> {
            let ends = links.iter().filter(|((one, other), _)| *one == of || *other == of);
            ends.map(|((one, other), rtt)| link(Label(if *one == of { *other } else { *one }), *rtt)).collect()
        };
        let mut honest = map_of((0..nodes).map(Label));
        for of in 0..nodes {
            hear(&mut honest, NOW_MS, Label(of), &claim(Label(of), NOW_MS, &told(of)), true);
        }
        let mut deceived = map_of((0..nodes).map(Label));
        for of in 0..nodes {
            let mut own = told(of);
            if Label(of) == liar {
                // The liar claims links to all, at any rate, or worse links than it has.
                own = (0..nodes).filter(|to| *to != of).map(|to| link(Label(to), rng.below(100_000) as u32)).collect();
            }
            hear(&mut deceived, NOW_MS, Label(of), &claim(Label(of), NOW_MS, &own), true);
        }
        let (before, after) = (best(&honest, liar), best(&deceived, liar));
        match (&before, &after) {
            (Some((route, false)), _) => assert_eq!(after.as_ref().map(|(route, _)| route), Some(route), "seed {seed}"),
            (None, _) => assert_eq!(after, None, "seed {seed}"),
            // A member may make its own links look worse, and so loses traffic of others.
            (Some((_, true)), _) => moved += 1,
        }
    }
    assert!(moved > 50, "the liar was on the way in {moved} cases");
}
