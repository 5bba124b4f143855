//! Tests of the claims that one node accepts and refuses.
//!
//! The crate weft-world simulates whole networks.

use super::store::Store;
use super::*;
use crate::route::overlay::{NodeContact, OverlayTiming, OverlayTransmit};
use alloc::collections::BTreeMap;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use weft_units::Rng;
use weft_wire::ownership::ClaimMessage;

/// Root key of the tests, which needs no cryptography.
///
/// A certificate contains owner, start, validity and a signature of one byte each, then IPv4 prefixes.
struct TestRoot;

const SIGNED: u8 = 1;

fn id(first: u8) -> NodeId {
    NodeId::new(core::array::from_fn(|n| if n == 0 { first } else { 0 }))
}

fn certificate(owner: u8, since: u8, secs: u8, prefixes: &[([u8; 4], u8)]) -> Vec<u8> {
    let mut bytes = alloc::vec![owner, since, secs, SIGNED];
    prefixes.iter().for_each(|(address, length)| bytes.extend(address.iter().chain([length])));
    bytes
}

impl DirectoryAuthority for TestRoot {
    fn place_of(&self, name: &[u8]) -> NodeId {
        let sum = name.iter().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
        id(sum)
    }

    fn check(&self, certificate: &[u8]) -> Option<CertificateGrant> {
        let (&[owner, since, secs, SIGNED], prefixes) = certificate.split_first_chunk::<4>()? else { return None };
        let prefix = |chunk: &[u8]| Some((IpAddr::from(*chunk.first_chunk::<4>()?), *chunk.get(4)?));
        Some(CertificateGrant {
            owner: id(owner),
            since_unix_s: since.into(),
            holds_for: Duration::from_secs(secs.into()),
            prefixes: prefixes.chunks(5).filter_map(prefix).collect(),
        })
    }
}

fn at(secs: u64) -> Instant {
    Instant::from_millis(1_000 * secs)
}

fn take(store: &mut Store, now: u64, from: u8, seq: u64, certificate: &[u8]) -> (ClaimVerdict, Vec<Conflict>) {
    let (claim, mut conflicts) = (Claim { seq, details: &[from], certificate }, Vec::new());
    let verdict = store.claim(at(now), &TestRoot, id(from), claim, |_| true, &mut conflicts);
    (verdict, conflicts)
}

fn owner(store: &Store, now: u64, address: [u8; 4]) -> Option<(u64, u8)> {
    store.owner_of(at(now), address.into()).map(|claim| (claim.seq, claim.details[0]))
}

const NET: ([u8; 4], u8) = ([10, 1, 2, 0], 24);
const HOST: [u8; 4] = [10, 1, 2, 9];

#[test]
fn stolen_forged_and_outdated_claims_change_nothing() {
    let mut store = Store::default();
    let mine = certificate(5, 10, 200, &[NET]);
    assert_eq!(take(&mut store, 0, 5, 100, &mine).0, ClaimVerdict::Taken);
    assert_eq!(take(&mut store, 1, 6, 900, &mine).0, ClaimVerdict::Uncertified, "another's certificate");
    let mut forged = certificate(6, 1, 200, &[NET]);
    forged[3] = 0;
    assert_eq!(take(&mut store, 1, 6, 900, &forged).0, ClaimVerdict::Uncertified);
    let mut widened = mine.clone();
    widened[3] = 2;
    assert_eq!(take(&mut store, 1, 5, 900, &widened).0, ClaimVerdict::Uncertified, "its own, changed");
    assert_eq!(take(&mut store, 1, 5, 99, &mine).0, ClaimVerdict::Outdated);
    assert_eq!(owner(&store, 1, HOST), Some((100, 5)));
    assert_eq!(store.withdraw(at(1), id(5), 99), ClaimVerdict::Outdated);
    assert_eq!(store.withdraw(at(1), id(6), 900), ClaimVerdict::Taken, "of nothing");
    assert_eq!(owner(&store, 1, HOST), Some((100, 5)));
    assert_eq!(take(&mut store, 2, 5, 101, &mine).0, ClaimVerdict::Taken);
    assert_eq!(owner(&store, 2, HOST), Some((101, 5)));
}

#[test]
fn a_claim_ends_by_itself_with_its_certificate_or_when_withdrawn() {
    let mut store = Store::default();
    let (long, short) = (certificate(5, 10, 255, &[NET]), certificate(6, 10, 30, &[([10, 7, 0, 0], 16)]));
    take(&mut store, 0, 5, 1, &long);
    take(&mut store, 0, 6, 1, &short);
    assert_eq!(owner(&store, 29, [10, 7, 1, 1]), Some((1, 6)));
    assert_eq!(owner(&store, 30, [10, 7, 1, 1]), None);
    assert_eq!((owner(&store, 179, HOST), owner(&store, 180, HOST)), (Some((1, 5)), None));
    store.expire(at(180));
    assert_eq!(store.len(), (0, 0));
    take(&mut store, 190, 5, 200, &long);
    assert_eq!(store.withdraw(at(191), id(5), 201), ClaimVerdict::Taken);
    assert_eq!(owner(&store, 191, HOST), None);
    assert_eq!(take(&mut store, 192, 5, 200, &long).0, ClaimVerdict::Outdated, "it was under way");
    assert_eq!(take(&mut store, 193, 5, 202, &long).0, ClaimVerdict::Taken);
    store.forget(id(5));
    assert_eq!((owner(&store, 193, HOST), store.len()), (None, (0, 0)));
}

#[test]
fn the_older_certificate_keeps_a_prefix_in_any_order_of_claims() {
    let conflict =
        |prefix: ([u8; 4], u8)| Conflict { prefix: (prefix.0.into(), prefix.1), owner: id(5), refused: id(6) };
    let (older, younger) = (certificate(5, 10, 200, &[NET]), certificate(6, 11, 200, &[([10, 1, 2, 8], 30)]));
    let mut store = Store::default();
    take(&mut store, 0, 5, 1, &older);
    let refused = take(&mut store, 0, 6, 1, &younger);
    assert_eq!(refused, (ClaimVerdict::Owned, alloc::vec![conflict(([10, 1, 2, 8], 30))]));
    let mut store = Store::default();
    assert_eq!(take(&mut store, 0, 6, 1, &younger).0, ClaimVerdict::Taken);
    assert_eq!(take(&mut store, 0, 5, 1, &older), (ClaimVerdict::Taken, alloc::vec![conflict(([10, 1, 2, 8], 30))]));
    assert_eq!(owner(&store, 0, HOST), Some((1, 5)));
    let default = certificate(7, 200, 200, &[([0; 4], 0)]);
    assert_eq!(
        take(&mut store, 0, 7, 1, &default),
        (ClaimVerdict::Taken, Vec::new()),
        "a default route lies around others"
    );
    assert_eq!((owner(&store, 0, HOST), owner(&store, 0, [192, 0, 2, 1])), (Some((1, 5)), Some((1, 7))));
    store.forget(id(5));
    assert_eq!(take(&mut store, 1, 6, 2, &younger).0, ClaimVerdict::Taken, "it has no other owner any more");
}

#[test]
fn stored_claims_are_bounded() {
    let mut store = Store::default();
    let owner = |n: u32| NodeId::new(core::array::from_fn(|at| if at < 4 { n.to_be_bytes()[at] } else { 0 }));
    struct Anybody(NodeId, WirePrefix);
    impl DirectoryAuthority for Anybody {
        fn place_of(&self, name: &[u8]) -> NodeId {
            TestRoot.place_of(name)
        }
        fn check(&self, _: &[u8]) -> Option<CertificateGrant> {
            let (owner, prefixes) = (self.0, alloc::vec![self.1]);
            Some(CertificateGrant { owner, since_unix_s: 1, holds_for: Duration::from_secs(900), prefixes })
        }
    }
    let mut claim = |n: u32, prefix: WirePrefix| {
        let (authority, claim) = (Anybody(owner(n), prefix), Claim { seq: 1, details: &[], certificate: &[] });
        store.claim(at(0), &authority, owner(n), claim, |_| true, &mut Vec::new())
    };
    let wide = |n: u32| (IpAddr::from(Ipv6Addr::from(0xfd00 << 112 | u128::from(n) << 64)), 64u8);
    let crowded = |n: u32| (IpAddr::from(Ipv6Addr::from(0xfc00 << 112 | u128::from(n) << 32)), 96u8);
    let taken = (0..600).filter(|n| claim(*n, crowded(*n)) == ClaimVerdict::Taken).count();
    assert_eq!(taken, MOST_IN_REGION);
    let verdicts: Vec<ClaimVerdict> = (0..5_000).map(|n| claim(1_000 + n, wide(n))).collect();
    assert_eq!(
        verdicts.iter().filter(|verdict| **verdict == ClaimVerdict::Taken).count(),
        MOST_OWNERS - MOST_IN_REGION
    );
    assert!(verdicts.iter().all(|verdict| matches!(verdict, ClaimVerdict::Taken | ClaimVerdict::Full)));
    assert_eq!(claim(1_000, wide(0)), ClaimVerdict::Taken, "who is known goes on");
}

fn prefix() -> impl Strategy<Value = WirePrefix> {
    // The addresses vary in few bits, so that prefixes overlap.
    (any::<u16>(), any::<bool>(), 0u8..=40).prop_map(|(bits, is_v6, length)| {
        let few = u32::from(bits & 0xc3c1) << 16 | u32::from(bits) << 3 & 8;
        let address: IpAddr =
            if is_v6 { Ipv6Addr::from(u128::from(few) << 96 | 1).into() } else { Ipv4Addr::from(few).into() };
        region::network(address, length.min(region::width(address)))
    })
}

proptest! {
    #[test]
    fn maps_of_prefixes_are_as_looking_at_every_one(all in prop::collection::vec(prefix(), 0..40), of in prefix()) {
        let map: BTreeMap<WirePrefix, ()> = all.iter().map(|prefix| (*prefix, ())).collect();
        let mut around: Vec<WirePrefix> = map.keys().filter(|prefix| contains(**prefix, of.0)).copied().collect();
        around.sort_by_key(|(_, length)| core::cmp::Reverse(*length));
        let found: Vec<WirePrefix> = region::matches(&map, of.0).map(|(prefix, ())| prefix).collect();
        prop_assert_eq!(found, around);
        let inside = map.keys().filter(|prefix| prefix.1 >= of.1 && contains(of, prefix.0)).copied();
        prop_assert!(region::within(&map, of).map(|(prefix, ())| prefix).eq(inside));
    }

    #[test]
    fn a_lookup_of_an_address_asks_in_the_region_of_its_prefix(prefix in prefix(), bits: u128) {
        let address = match prefix.0 {
            IpAddr::V4(a) => Ipv4Addr::from(a.to_bits() | bits as u32 & u32::MAX.checked_shr(prefix.1.into()).unwrap_or(0)).into(),
            IpAddr::V6(a) => Ipv6Addr::from(a.to_bits() | bits & u128::MAX.checked_shr(prefix.1.into()).unwrap_or(0)).into(),
        };
        prop_assert!(contains(prefix, address));
        let regions = Region::around(address);
        prop_assert!(regions.contains(&Region::of(prefix)));
        prop_assert!(regions.iter().all(|region| contains(region.prefix(), address)));
        prop_assert!(regions.is_sorted_by_key(|region| core::cmp::Reverse(region.prefix().1)));
    }

    /// A node decides whether it is a holder of a key exactly as an observer does that has learnt of all nodes.
    #[test]
    fn a_node_knows_what_it_holds(seed: u64, nodes in 1usize..30) {
        let mut rng = Rng::new(seed);
        let all: Vec<NodeId> = (0..nodes).map(|_| NodeId::random(&mut rng)).collect();
        let key = NodeId::random(&mut rng);
        let mut ring = all.clone();
        ring.sort_by_key(|id| key.clockwise_to(id));
        let next: Vec<NodeId> = ring.iter().take(2).chain(ring.iter().rev().take(2)).copied().collect();
        for own in all.iter().copied() {
            let mut others: Vec<NodeId> = all.iter().copied().filter(|id| *id != own).collect();
            others.sort_by_key(|id| own.clockwise_to(id));
            let leaves = LeafSet::new(own, others.iter().copied(), others.iter().rev().copied());
            prop_assert_eq!(holders(own, &leaves, key).contains(&own), next.contains(&own));
        }
        let root = all.iter().min_by_key(|id| (id.distance_to(&key), **id)).unwrap();
        prop_assert!(next.contains(root));
    }
}

/// The nodes nearest to the positions at which a node asks about a key are at least two different nodes.
///
/// This holds however unevenly the nodes lie. A lookup believes that an address has no owner only if two holders
/// state it.
#[test]
fn a_node_that_asks_about_a_key_hears_two_holders() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let all: Vec<NodeId> = (0..10 + rng.below(190)).map(|_| NodeId::random(&mut rng)).collect();
        let keys: [NodeId; 4] = core::array::from_fn(|_| NodeId::random(&mut rng));
        for own in all.iter().copied() {
            let mut others: Vec<NodeId> = all.iter().copied().filter(|id| *id != own).collect();
            others.sort_by_key(|id| own.clockwise_to(id));
            let leaves = LeafSet::new(own, others.iter().copied(), others.iter().rev().copied());
            for key in keys {
                let root_of = |place: NodeId| *all.iter().min_by_key(|id| (id.distance_to(&place), **id)).unwrap();
                let root = root_of(key);
                let hears_another = (1..8).any(|attempt| root_of(beside(&leaves, key, attempt)) != root);
                assert!(hears_another, "seed {seed}: {own:?} asks about {key:?}");
            }
        }
    }
}

/// A node without any other node is the nearest to every key, so it stores all claims itself.
#[test]
fn a_node_alone_holds_all_and_answers_itself() {
    let contact = NodeContact { id: id(5), details: [5].into() };
    let overlay = OverlayState::new(at(0), contact, Vec::new(), OverlayTiming::default(), Rng::new(1));
    let mut directory = OwnershipDirectory::new(1_000, 1, Rng::new(2));
    let context = DirectoryContext { now: at(0), overlay: &overlay, authority: &TestRoot };
    let see_to_it = |directory: &mut OwnershipDirectory| {
        while directory.next_timeout() <= context.now {
            directory.handle_timeout(&context);
        }
    };
    directory.own(&context, &certificate(5, 10, 200, &[NET]));
    see_to_it(&mut directory);
    assert_eq!(directory.kept(), (1, 1));
    directory.look_up(&context, HOST.into());
    let Some(DirectoryEvent::Found(_, Found::Owner(owner))) = directory.poll_event() else { panic!() };
    assert_eq!((owner.id, owner.prefix), (id(5), (NET.0.into(), 24)));
    directory.look_up(&context, [10, 1, 3, 1].into());
    assert_eq!(directory.poll_event(), Some(DirectoryEvent::Found([10, 1, 3, 1].into(), Found::Nobody)));
    directory.withdraw(&context);
    see_to_it(&mut directory);
    directory.look_up(&context, HOST.into());
    assert_eq!(directory.poll_event(), Some(DirectoryEvent::Found(HOST.into(), Found::Nobody)));
    assert_eq!(directory.poll_event(), None);
}

/// A holder answers a claim by the session over which the claim arrived.
///
/// A node cannot claim with another node's certificate.
#[test]
fn a_holder_answers_an_owner() {
    let contact = NodeContact { id: id(5), details: [5].into() };
    let overlay = OverlayState::new(at(0), contact, Vec::new(), OverlayTiming::default(), Rng::new(1));
    let mut directory = OwnershipDirectory::new(1_000, 1, Rng::new(2));
    let context = DirectoryContext { now: at(0), overlay: &overlay, authority: &TestRoot };
    directory.own(&context, &certificate(6, 10, 200, &[NET]));
    assert_eq!(directory.kept(), (0, 0), "another's");
    let mut say = |from: u8, message: ClaimMessage<'_>| {
        let mut out = [0; MAX_MESSAGE];
        let len = message.emit(&mut out).unwrap();
        assert!(OwnershipDirectory::is_for(&out[..len]));
        directory.handle_message(&context, id(from), &out[..len]).unwrap();
        let OverlayTransmit { to, len, .. } = directory.poll_transmit(&overlay, &mut out).unwrap();
        assert_eq!(to, id(from));
        match ClaimMessage::parse(&out[..len]).unwrap() {
            ClaimMessage::Verdict { seq, verdict } => (seq, verdict),
            other => panic!("{other:?}"),
        }
    };
    let certificate = certificate(6, 10, 200, &[NET]);
    let claim = |seq| ClaimMessage::Claim(Claim { seq, details: &[6], certificate: &certificate });
    assert_eq!(say(6, claim(7)), (7, ClaimVerdict::Taken));
    assert_eq!(say(9, claim(8)), (8, ClaimVerdict::Uncertified));
    assert_eq!(say(6, ClaimMessage::Withdraw { seq: 6 }), (6, ClaimVerdict::Outdated));
    assert_eq!(say(6, ClaimMessage::Withdraw { seq: 9 }), (9, ClaimVerdict::Taken));
    assert_eq!(directory.kept(), (0, 0));
    assert!(directory.handle_message(&context, id(6), &[13]).is_err());
}
