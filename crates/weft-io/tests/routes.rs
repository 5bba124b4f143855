//! Routes with a gateway, with the real kernel: their watch, and the filter that hides them from the watch of links.

mod namespace;

use namespace::{PATIENCE, in_namespace, ip};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};
use weft_io::netlink::{GatewayRoute, LinkWatch, MAIN_TABLE, NetlinkEvent, Polled, RouteEvent, RouteWatch};

/// Creates a device, and returns its index.
fn device(name: &str, network: &str) -> u32 {
    ip(&format!("link add {name} type veth peer name {name}x"));
    ip(&format!("addr add {network} dev {name}"));
    ip(&format!("link set {name} up"));
    ip(&format!("link set {name}x up"));
    let shown = ip(&format!("-o link show {name}"));
    shown.split(':').next().unwrap().trim().parse().unwrap()
}

/// Polls until `count` events have arrived.
fn events(watch: &mut RouteWatch, index: u32, count: usize) -> Vec<RouteEvent> {
    let (mut found, end) = (Vec::new(), Instant::now() + PATIENCE);
    while found.len() < count && Instant::now() < end {
        assert_ne!(watch.poll(&[index], |event| found.push(event)).unwrap(), Polled::Lost);
        thread::sleep(Duration::from_millis(5));
    }
    found
}

#[test]
fn changes_and_dumps_contain_the_routes_of_the_device_alone() {
    in_namespace(|_| {
        let (index, _other) = (device("w0", "10.9.0.1/24"), device("w1", "10.8.0.1/24"));
        let mut watch = RouteWatch::open().unwrap();
        ip("route add 10.64.1.0/24 via 10.9.0.2 proto 188 metric 20");
        ip("route add 10.64.2.0/24 via 10.8.0.2 proto 188 metric 20");
        ip("route add 10.64.3.0/24 via 10.9.0.3 proto 186 table 100");
        ip("route replace 10.64.1.0/24 via 10.9.0.4 proto 188 metric 20");
        ip("nexthop add id 9 via 10.9.0.5 dev w0");
        ip("route add 10.64.4.0/24 nhid 9 proto 188");
        ip("route del 10.64.1.0/24 metric 20");
        let route = |net: u8, hop: u8, protocol: u8, table: u32| GatewayRoute {
            table,
            destination: [10, 64, net, 0].into(),
            prefix_len: 24,
            protocol,
            gateway: [10, 9, 0, hop].into(),
            index,
            has_object: false,
        };
        let met = events(&mut watch, index, 5);
        let by_object = GatewayRoute { has_object: true, ..route(4, 5, 188, MAIN_TABLE) };
        let expected = [
            RouteEvent::Added(route(1, 2, 188, MAIN_TABLE)),
            RouteEvent::Added(route(3, 3, 186, 100)),
            RouteEvent::Added(route(1, 4, 188, MAIN_TABLE)),
            RouteEvent::Added(by_object),
            RouteEvent::Removed(route(1, 4, 188, MAIN_TABLE)),
        ];
        assert_eq!(met, expected);
        let mut dumped = Vec::new();
        watch.dump(&[index], |event| dumped.push(event)).unwrap();
        dumped.sort_by_key(|event| format!("{event:?}"));
        let mut expected = [RouteEvent::Added(by_object), RouteEvent::Added(route(3, 3, 186, 100))];
        expected.sort_by_key(|event| format!("{event:?}"));
        assert_eq!(dumped, expected);
    });
}

#[test]
fn ten_thousand_routes_wake_no_watch_of_links_that_ignores_their_device() {
    in_namespace(|_| {
        let (index, _other) = (device("w0", "10.9.0.1/24"), device("w1", "10.8.0.1/24"));
        let mut watch = RouteWatch::open().unwrap();
        let mut links = LinkWatch::open().unwrap();
        links.ignore_routes_by(&[999, index, 998]).unwrap();
        let mut changes = Vec::new();
        links.poll(&mut changes).unwrap();
        let routes: String = (0..10_000u32)
            .map(|n| format!("route add {}/24 via 10.9.0.2 proto 186\n", Ipv4Addr::from(0x1400_0000 + n * 256)))
            .collect();
        let batch = std::env::temp_dir().join(format!("weft-routes-{}", std::process::id()));
        std::fs::write(&batch, routes).unwrap();
        ip(&format!("-batch {}", batch.display()));
        std::fs::remove_file(&batch).unwrap();
        let met = events(&mut watch, index, 10_000);
        let destinations: BTreeSet<IpAddr> = met
            .iter()
            .map(|event| match event {
                RouteEvent::Added(route) => route.destination,
                RouteEvent::Removed(route) => panic!("{route:?}"),
            })
            .collect();
        assert_eq!(destinations.len(), 10_000);
        changes.clear();
        links.poll(&mut changes).unwrap();
        assert_eq!(changes, []);
        ip("route add 10.65.0.0/24 via 10.8.0.2 proto 186");
        links.poll(&mut changes).unwrap();
        assert_eq!(changes, [NetlinkEvent::Routes], "routes of other devices still count");
        links.ignore_routes_by(&[]).unwrap();
        ip("route add 10.66.0.0/24 via 10.9.0.2 proto 186");
        changes.clear();
        links.poll(&mut changes).unwrap();
        assert_eq!(changes, [NetlinkEvent::Routes]);
    });
}
