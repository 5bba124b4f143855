use super::*;
use proptest::prelude::*;

const OSPF: u8 = 188;
const BGP: u8 = 186;
const HOLD: Duration = Duration::from_secs(30);
const DEVICE: RoutedDevice = RoutedDevice { index: 7, vpn: VpnId::DEFAULT, table: None };

fn table(most: usize) -> RoutingTable {
    let settings =
        Routing { accept: [OSPF, BGP].into(), tables: BTreeSet::new(), most, hold: HOLD, multicast: false, bfd: None };
    RoutingTable::new(settings, vec![DEVICE])
}

fn route(net: u8, hop: u8, protocol: u8) -> GatewayRoute {
    GatewayRoute {
        table: MAIN_TABLE,
        destination: [10, 64, net, 0].into(),
        prefix_len: 24,
        protocol,
        gateway: [10, 9, 0, hop].into(),
        index: DEVICE.index,
        has_object: false,
    }
}

/// A model of the packet loop (`datapath`): a map from prefix to next hop. It refuses next hops above 10.9.0.3.
#[derive(Default)]
struct Loop(BTreeMap<IpAddr, IpAddr>);

impl Loop {
    fn take_all(&mut self, table: &mut RoutingTable) -> usize {
        let (mut slice, mut count) = (Vec::new(), 0);
        loop {
            table.take_slice(&mut slice);
            if slice.is_empty() {
                return count;
            }
            assert!(slice.len() <= SLICE);
            count += slice.len();
            for (vpn, change) in &slice {
                let is_refused = change.next_hop.is_some_and(|hop| hop > IpAddr::from([10, 9, 0, 3]));
                match change.next_hop.filter(|_| !is_refused) {
                    Some(hop) => _ = self.0.insert(change.prefix.address, hop),
                    None => _ = self.0.remove(&change.prefix.address),
                }
                table.on_outcome(*vpn, change, is_refused.then_some(LearntRefusal::NoPeer));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum KernelStep {
    Add(u8, u8, u8),
    Remove(u8),
    Wait(u64),
    Take,
    Retry,
    Dump,
}

fn steps() -> impl Strategy<Value = Vec<KernelStep>> {
    let protocol = prop_oneof![Just(OSPF), Just(BGP), Just(4)];
    let step = prop_oneof![
        4 => (0u8..8, 1u8..6, protocol).prop_map(|(net, hop, protocol)| KernelStep::Add(net, hop, protocol)),
        4 => (0u8..8).prop_map(KernelStep::Remove),
        3 => (0u64..1_500).prop_map(KernelStep::Wait),
        1 => Just(KernelStep::Wait(31_000)),
        2 => Just(KernelStep::Take),
        1 => Just(KernelStep::Retry),
        1 => Just(KernelStep::Dump),
    ];
    prop::collection::vec(step, 0..150)
}

proptest! {
    /// The model of this test is the kernel's routing table.
    ///
    /// The packet loop has all routes of the model once it took every batch of changes. A route that the model lost is
    /// removed after the hold time, and never before half a second.
    #[test]
    fn follows_the_kernel_whatever_happens(steps in steps()) {
        let (mut table, mut packet_loop, mut now) = (table(1_000), Loop::default(), Instant::now());
        let mut kernel: BTreeMap<u8, GatewayRoute> = BTreeMap::new();
        let mut lost: BTreeMap<u8, Instant> = BTreeMap::new();
        for step in steps {
            match step {
                KernelStep::Add(net, hop, protocol) => {
                    let new = route(net, hop, protocol);
                    // The kernel holds one route of a daemon to each destination: a new one replaces it.
                    if protocol != 4 {
                        kernel.insert(net, new);
                        lost.remove(&net);
                    }
                    table.on_event(now, &RouteEvent::Added(new));
                }
                KernelStep::Remove(net) => if let Some(old) = kernel.remove(&net) {
                    lost.insert(net, now);
                    table.on_event(now, &RouteEvent::Removed(old));
                }
                KernelStep::Wait(ms) => {
                    now += Duration::from_millis(ms);
                    table.on_time(now);
                }
                KernelStep::Take => {
                    packet_loop.take_all(&mut table);
                    for (net, old) in &kernel {
                        let expected = Some(&old.gateway).filter(|hop| **hop <= IpAddr::from([10, 9, 0, 3]));
                        prop_assert_eq!(packet_loop.0.get(&IpAddr::from([10, 64, *net, 0])), expected);
                    }
                    for (net, at) in &lost {
                        let is_known = packet_loop.0.contains_key(&IpAddr::from([10, 64, *net, 0]));
                        prop_assert!(!is_known || now - *at <= MAX_SETTLE + HOLD + Duration::from_millis(1_500));
                    }
                }
                KernelStep::Retry => table.retry(),
                KernelStep::Dump => {
                    table.begin_dump();
                    kernel.values().for_each(|old| table.on_event(now, &RouteEvent::Added(*old)));
                    table.end_dump(now);
                }
            }
        }
        for _ in 0..3 {
            now += MAX_SETTLE + HOLD;
            table.on_time(now);
        }
        packet_loop.take_all(&mut table);
        let hops = kernel.values().map(|old| (old.destination, old.gateway));
        let expected: BTreeMap<_, _> = hops.filter(|(_, hop)| *hop <= IpAddr::from([10, 9, 0, 3])).collect();
        prop_assert_eq!(&packet_loop.0, &expected);
        let report = table.report();
        prop_assert_eq!((report.learnt, report.refused), (expected.len(), kernel.len() - expected.len()));
        prop_assert_eq!(report.shown.len(), report.refused);
        prop_assert_eq!((table.entries.len(), table.withdrawn.len(), table.next_timeout()), (kernel.len(), 0, None));
        prop_assert_eq!(packet_loop.take_all(&mut table), 0, "nothing is said twice");
    }
}

#[test]
fn a_daemon_that_restarts_moves_nothing_and_one_lost_route_goes_soon() {
    let (mut table, mut packet_loop, start) = (table(1_000), Loop::default(), Instant::now());
    for net in 0..200 {
        table.on_event(start, &RouteEvent::Added(route(net, 1 + net % 2, BGP)));
    }
    assert_eq!(packet_loop.take_all(&mut table), 200);
    let before = packet_loop.0.clone();
    table.on_event(start, &RouteEvent::Removed(route(3, 2, BGP)));
    assert_eq!((table.on_time(start + Duration::from_millis(499)), packet_loop.take_all(&mut table)), (vec![], 0));
    assert_eq!((table.on_time(start + Duration::from_millis(500)), packet_loop.take_all(&mut table)), (vec![], 1));
    table.on_event(start, &RouteEvent::Added(route(3, 2, BGP)));
    packet_loop.take_all(&mut table);

    let stop = start + Duration::from_secs(10);
    for net in 0..200 {
        table.on_event(stop, &RouteEvent::Removed(route(net, 1 + net % 2, BGP)));
    }
    assert_eq!(table.on_time(stop + SETTLE), [BGP]);
    assert_eq!((packet_loop.take_all(&mut table), table.report().held), (0, 200));
    for net in 0..199 {
        table.on_event(stop + Duration::from_secs(20), &RouteEvent::Added(route(net, 1 + net % 2, BGP)));
    }
    assert_eq!((packet_loop.take_all(&mut table), &packet_loop.0), (0, &before), "no flow moves");
    table.on_time(stop + HOLD - Duration::from_millis(1));
    assert_eq!(packet_loop.take_all(&mut table), 0);
    table.on_time(stop + HOLD);
    assert_eq!((packet_loop.take_all(&mut table), packet_loop.0.len()), (1, 199), "the one that did not return");
}

#[test]
fn a_full_table_leaves_routes_out_and_counts_them() {
    let (mut table, mut packet_loop, now) = (table(10), Loop::default(), Instant::now());
    for net in 0..15 {
        table.on_event(now, &RouteEvent::Added(route(net, 1, OSPF)));
    }
    assert_eq!((packet_loop.take_all(&mut table), table.report().left_out), (10, 5));
    table.on_event(now, &RouteEvent::Added(route(2, 2, OSPF)));
    assert_eq!(packet_loop.take_all(&mut table), 1, "a known route may change");
}

#[test]
fn routes_of_other_devices_tables_and_protocols_do_not_count() {
    let (mut table, now) = (table(10), Instant::now());
    for other in [
        GatewayRoute { index: 8, ..route(1, 1, OSPF) },
        GatewayRoute { table: 100, ..route(1, 1, OSPF) },
        route(1, 1, 4),
    ] {
        table.on_event(now, &RouteEvent::Added(other));
    }
    assert_eq!((table.entries.len(), table.report()), (0, RoutingReport::default()));
}
