//! Tests of two or three nodes, message by message. The crate weft-world simulates whole networks.

use super::*;
use weft_wire::overlay::{MAX_DETAILS, MAX_MESSAGE};

const DELAY: Duration = Duration::from_millis(10);

fn id(first: u8) -> NodeId {
    NodeId::new(core::array::from_fn(|n| if n == 0 { first } else { 0 }))
}

fn contact(first: u8) -> NodeContact {
    NodeContact { id: id(first), details: [first; 39].into() }
}

fn overlay(first: u8, bootstrap: &[u8]) -> OverlayState {
    let bootstrap = bootstrap.iter().map(|first| contact(*first)).collect();
    OverlayState::new(Instant::ZERO, contact(first), bootstrap, OverlayTiming::default(), Rng::new(first.into()))
}

/// A few nodes of an overlay and the messages between them. Each message takes 10 ms, or is lost.
struct OverlayTestWorld {
    nodes: Vec<OverlayState>,
    now: Instant,
    under_way: VecDeque<(Instant, NodeId, OverlayTransmit, Vec<u8>)>,
    is_cut: fn(NodeId, NodeId) -> bool,
}

impl OverlayTestWorld {
    fn new(nodes: Vec<OverlayState>) -> OverlayTestWorld {
        OverlayTestWorld { nodes, now: Instant::ZERO, under_way: VecDeque::new(), is_cut: |_, _| false }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            for node in &mut self.nodes {
                let mut out = [0; MAX_MESSAGE];
                while let Some(transmit) = node.poll_transmit(&mut out) {
                    let hops = [node.id(), transmit.via.unwrap_or(transmit.to), transmit.to];
                    if !hops.windows(2).any(|hop| (self.is_cut)(hop[0], hop[1])) {
                        let bytes = out[..transmit.len].to_vec();
                        self.under_way.push_back((self.now + DELAY, node.id(), transmit, bytes));
                    }
                }
            }
            let wake = self.nodes.iter_mut().map(OverlayState::next_timeout).min().unwrap();
            let next = self.under_way.front().map_or(wake, |(at, ..)| wake.min(*at));
            if next > end {
                self.now = end;
                return;
            }
            self.now = next.max(self.now);
            while let Some((_, from, OverlayTransmit { to, via, .. }, bytes)) =
                self.under_way.pop_front_if(|(at, ..)| *at <= self.now)
            {
                if let Some(node) = self.nodes.iter_mut().find(|node| node.id() == to) {
                    node.handle_message(self.now, from, via, &bytes).unwrap();
                }
            }
            for node in &mut self.nodes {
                node.handle_timeout(self.now);
            }
        }
    }

    fn next_hop(&mut self, at: usize, key: u8) -> NextHop {
        let node = &mut self.nodes[at];
        let mut header =
            Header { key: id(key), source: node.id(), run: 1, seq: 1, hops_left: 10, was_duplicated: false };
        node.next_hop(self.now, &mut header)
    }

    fn quality(&self, at: usize, first: u8) -> Option<Quality> {
        self.nodes[at].link(id(first)).map(NeighbourLink::quality)
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn nodes_find_each_other_through_any_that_is_known() {
    let mut world =
        OverlayTestWorld::new(alloc::vec![overlay(0x10, &[]), overlay(0x50, &[0x10]), overlay(0x90, &[0x50])]);
    assert!(!world.nodes[2].is_ready());
    assert_eq!(world.next_hop(2, 0x90), NextHop::Drop, "it does not know its place");
    world.run(secs(5));
    for node in &world.nodes {
        assert!(node.is_ready());
        assert_eq!(node.census(), Census { members: 2, ..Census::default() });
    }
    assert_eq!(world.nodes[0].details(id(0x90)), Some(&[0x90; 39][..]));
    assert_eq!(world.next_hop(0, 0x8f), NextHop::Forward(id(0x90)));
    assert_eq!(world.next_hop(0, 0x11), NextHop::Deliver);
    let bottom = overlay(0x20, &[0x10]);
    let alone = OverlayTestWorld::new(alloc::vec![bottom]);
    assert!(!alone.nodes[0].is_ready());
}

#[test]
fn a_node_that_finds_no_other_is_alone() {
    let mut world = OverlayTestWorld::new(alloc::vec![overlay(0x20, &[0x10])]);
    world.run(secs(4));
    assert!(!world.nodes[0].is_ready());
    world.run(secs(3));
    assert_eq!(world.next_hop(0, 0xff), NextHop::Deliver);
    world.nodes.push(overlay(0x10, &[]));
    world.run(secs(40));
    assert_eq!(world.nodes[0].census().members, 1, "it goes on looking");
}

#[test]
fn a_silent_root_is_reached_around_the_cut() {
    let mut world =
        OverlayTestWorld::new(alloc::vec![overlay(0x10, &[]), overlay(0x50, &[0x10]), overlay(0x58, &[0x10])]);
    world.run(secs(120));
    assert_eq!(world.next_hop(0, 0x50), NextHop::Forward(id(0x50)));
    world.is_cut = |from, to| (from, to) == (id(0x50), id(0x10));
    world.run(Duration::from_millis(80));
    assert_eq!(world.quality(0, 0x50), Some(Quality::Suspect));
    assert_eq!(world.next_hop(0, 0x50), NextHop::Duplicate(id(0x58), id(0x50)), "one way is enough");
    world.run(secs(1));
    assert_eq!(world.quality(0, 0x50), Some(Quality::Down));
    assert_eq!(world.next_hop(0, 0x50), NextHop::Forward(id(0x50)));
    assert_eq!(world.nodes[0].via(id(0x50)), Some(id(0x58)));
    assert_eq!(world.next_hop(2, 0x50), NextHop::Forward(id(0x50)), "others still reach it");
    world.is_cut = |_, _| false;
    world.run(secs(20));
    assert_eq!(world.next_hop(0, 0x50), NextHop::Forward(id(0x50)));
    assert_eq!(world.nodes[0].via(id(0x50)), None);
}

#[test]
fn a_dead_root_is_replaced() {
    let mut world =
        OverlayTestWorld::new(alloc::vec![overlay(0x10, &[]), overlay(0x50, &[0x10]), overlay(0x58, &[0x10])]);
    world.run(secs(120));
    world.is_cut = |from, _| from == id(0x50);
    world.run(secs(5));
    assert_eq!(world.next_hop(0, 0x50), NextHop::Forward(id(0x58)));
    assert_eq!(world.next_hop(2, 0x50), NextHop::Deliver);
    assert_eq!(world.nodes[0].via(id(0x50)), None);
}

#[test]
fn reports_of_the_lower_layer_count_at_once() {
    let mut world =
        OverlayTestWorld::new(alloc::vec![overlay(0x10, &[]), overlay(0x50, &[0x10]), overlay(0x58, &[0x10])]);
    world.run(secs(10));
    let now = world.now;
    world.nodes[0].handle_unreachable(now, id(0x50));
    assert_eq!(world.next_hop(0, 0x50), NextHop::Forward(id(0x58)));
    world.nodes[0].handle_reachable(now, id(0x50));
    assert_eq!(world.next_hop(0, 0x50), NextHop::Forward(id(0x58)), "it has to answer first");
    world.run(secs(2));
    assert_eq!(world.next_hop(0, 0x50), NextHop::Forward(id(0x50)));
}

#[test]
fn only_the_leaving_node_is_removed_and_at_once() {
    let mut world =
        OverlayTestWorld::new(alloc::vec![overlay(0x10, &[]), overlay(0x50, &[0x10]), overlay(0x58, &[0x10])]);
    world.run(secs(10));
    world.nodes[1].leave();
    let mut leaver = world.nodes.remove(1);
    let mut out = [0; MAX_MESSAGE];
    while let Some(OverlayTransmit { to, len, .. }) = leaver.poll_transmit(&mut out) {
        let node = world.nodes.iter_mut().find(|node| node.id() == to).unwrap();
        node.handle_message(world.now, leaver.id(), None, &out[..len]).unwrap();
    }
    assert_eq!(world.next_hop(0, 0x50), NextHop::Forward(id(0x58)));
    assert!(world.nodes.iter().all(|node| node.census().members == 1));
}

/// Simulates a neighbour `liar` of `node` that answers probes, and answers other messages as `lie` defines.
///
/// Returns the other nodes to which `node` sent messages.
fn feed(
    node: &mut OverlayState,
    now: Instant,
    liar: NodeId,
    lie: impl Fn(&OverlayMessage<'_>) -> Option<Vec<u8>>,
) -> Vec<NodeId> {
    let (mut out, mut asked) = ([0; MAX_MESSAGE], Vec::new());
    while let Some(OverlayTransmit { to, len, .. }) = node.poll_transmit(&mut out) {
        let message = OverlayMessage::parse(&out[..len]).unwrap();
        if to != liar {
            asked.push(to);
            continue;
        }
        let answer = match message {
            OverlayMessage::Probe { seq } | OverlayMessage::Introduction { seq, .. } => {
                let mut echo = [0; MAX_MESSAGE];
                let state = NodeState { is_ready: true, leaf_news: 1, table_news: 1 };
                let len = OverlayMessage::Echo { seq, state }.emit(&mut echo).unwrap();
                Some(echo[..len].to_vec())
            }
            other => lie(&other),
        };
        if let Some(bytes) = answer {
            node.handle_message(now, liar, None, &bytes).unwrap();
        }
    }
    asked
}

/// Lets `duration` pass while only the node `who` answers. Returns the number of messages to other nodes.
fn pass(node: &mut OverlayState, now: &mut Instant, duration: Duration, who: NodeId) -> usize {
    let (end, mut tried) = (*now + duration, 0);
    while *now < end {
        *now += Duration::from_millis(10);
        node.handle_timeout(*now);
        tried += feed(node, *now, who, |_| None).len();
    }
    tried
}

#[test]
fn a_silent_node_that_probes_is_tried_at_once() {
    let (mut node, mut now, nobody) = (overlay(0x10, &[0x50]), Instant::ZERO, id(0x99));
    pass(&mut node, &mut now, secs(10), id(0x50));
    node.handle_unreachable(now, id(0x50));
    pass(&mut node, &mut now, secs(30), nobody);
    while pass(&mut node, &mut now, DELAY, nobody) == 0 {}
    assert_eq!(pass(&mut node, &mut now, secs(5), nobody), 0, "it is left alone for eight seconds");
    let mut probe = [0; MAX_MESSAGE];
    let len = OverlayMessage::Probe { seq: 1 }.emit(&mut probe).unwrap();
    node.handle_message(now, id(0x50), Some(id(0x58)), &probe[..len]).unwrap();
    pass(&mut node, &mut now, DELAY, id(0x50));
    assert_eq!(node.standing(id(0x50)), Some(NodeStanding::Lost), "a way around says nothing of the direct one");
    node.handle_message(now, id(0x50), None, &probe[..len]).unwrap();
    pass(&mut node, &mut now, secs(1), id(0x50));
    assert_eq!(node.standing(id(0x50)), Some(NodeStanding::Member));
}

#[test]
fn a_liar_costs_some_probes_and_no_more() {
    let mut node = overlay(0x10, &[0x50]);
    let lies: Vec<NodeId> = (0..=255).map(|n| NodeId::new([n; 20])).collect();
    let lie = |message: &OverlayMessage<'_>| {
        let OverlayMessage::Find(query) = message else { return None };
        let mut out = [0; MAX_MESSAGE];
        let start = lies.len() * usize::from(matches!(query, Query::Near(_))) / 2;
        let contacts = lies.iter().skip(start).map(|id| weft_wire::overlay::WireContact { id: *id, details: &[1] });
        let len = weft_wire::overlay::emit_found(*query, 0, contacts, &mut out).unwrap();
        Some(out[..len].to_vec())
    };
    let (mut now, mut probes) = (Instant::ZERO, 0);
    while now < Instant::from_millis(60_000) {
        probes += feed(&mut node, now, id(0x50), lie).len();
        now = node.next_timeout().max(now);
        node.handle_timeout(now);
        assert!(node.census().candidates <= 64 && node.census().members <= 1);
    }
    assert!(node.is_ready(), "nobody it named exists");
    assert!(probes < 60 * 25, "{probes} probes in a minute");
}

#[test]
fn an_answer_to_no_question_is_ignored() {
    let mut node = overlay(0x10, &[0x50]);
    let now = Instant::from_millis(1);
    node.handle_timeout(now);
    feed(&mut node, now, id(0x50), |_| None);
    let mut out = [0; MAX_MESSAGE];
    let contacts = || [weft_wire::overlay::WireContact { id: id(0x77), details: &[0; MAX_DETAILS] }].into_iter();
    let row = Query::Row { of: id(0x10), row: 0, columns: 0xffff };
    let mut tell = |node: &mut OverlayState, from| {
        let len = weft_wire::overlay::emit_found(row, 0, contacts(), &mut out).unwrap();
        node.handle_message(now, from, None, &out[..len]).unwrap();
        (node.census().candidates, node.take_told().len())
    };
    assert_eq!(tell(&mut node, id(0x66)), (0, 0), "a stranger");
    assert_eq!(tell(&mut node, id(0x50)), (1, 1), "asked");
    node.forget(now, id(0x77));
    assert_eq!(tell(&mut node, id(0x50)), (0, 0), "asked once");
    assert_eq!(node.handle_message(now, id(0x50), None, &[9]), Err(WireError::UnknownType));
}

#[test]
fn packets_end_after_their_hops_and_duplicates_after_the_first() {
    let mut world = OverlayTestWorld::new(alloc::vec![overlay(0x10, &[]), overlay(0x50, &[0x10])]);
    world.run(secs(5));
    let now = world.now;
    let mut header = Header { key: id(0x50), source: id(0x99), run: 1, seq: 7, hops_left: 1, was_duplicated: false };
    assert_eq!(world.nodes[0].next_hop(now, &mut header), NextHop::Forward(id(0x50)));
    assert_eq!(world.nodes[0].next_hop(now, &mut header), NextHop::Drop, "no hop left");
    assert_eq!(world.nodes[1].next_hop(now, &mut header), NextHop::Deliver, "it need not be forwarded");
    header.was_duplicated = true;
    assert_eq!(world.nodes[1].next_hop(now, &mut header), NextHop::Deliver);
    assert_eq!(world.nodes[1].next_hop(now, &mut header), NextHop::Drop, "the other copy");
}

mod selection {
    use super::*;
    use proptest::prelude::*;

    fn choices() -> impl Strategy<Value = Vec<HopCandidate>> {
        let quality = prop_oneof![Just(Quality::Good), Just(Quality::Degraded), Just(Quality::Suspect)];
        prop::collection::vec((quality, 0.0..1.0), 0..6).prop_map(|all| {
            let choice = |(n, (quality, loss)): (usize, _)| HopCandidate { id: id(n as u8), quality, loss };
            all.into_iter().enumerate().map(choice).collect()
        })
    }

    proptest! {
        /// `select` equals a literal implementation of its rule over the whole list.
        #[test]
        fn is_as_the_rule_says(choices in choices(), may_duplicate: bool) {
            let first = |quality| choices.iter().position(|choice| choice.quality == quality);
            let order = [Quality::Good, Quality::Degraded, Quality::Suspect];
            let ranked: Vec<usize> = order
                .into_iter()
                .flat_map(|quality| (0..choices.len()).filter(|n| choices[*n].quality == quality).collect::<Vec<_>>())
                .collect();
            let best = ranked.first().copied();
            let is_sure = best.is_some_and(|n| {
                choices[n].quality == Quality::Good || choices[n].quality == Quality::Degraded && choices[n].loss <= 0.3
            });
            let second = if is_sure { first(Quality::Suspect).filter(|n| Some(*n) < best) } else { ranked.get(1).copied() };
            let expected = best.map(|best| match second.filter(|_| may_duplicate) {
                Some(second) => NextHop::Duplicate(choices[best].id, choices[second].id),
                None => NextHop::Forward(choices[best].id),
            });
            prop_assert_eq!(select(&choices, may_duplicate), expected);
        }
    }
}
