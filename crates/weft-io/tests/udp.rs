//! UDP sockets with the real kernel, over loopback and over veth.

mod namespace;

use std::net::{IpAddr, SocketAddr};

use namespace::{Namespace, in_namespace, ip, wait_for, wait_for_local_route};
use std::time::{SystemTime, UNIX_EPOCH};
use weft_io::udp::{
    BounceReason, MAX_SEGMENTS, Outgoing, ReceiveSlot, ReceivedBatch, SendError, SendOutcome, UdpConfig, UdpLink,
};

/// TOS byte: expedited forwarding with ECT(1).
const TOS: u8 = 0xb9;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn bind(local: &str) -> UdpLink {
    UdpLink::bind(&UdpConfig { local: Some(address(local)), ..UdpConfig::default() }).unwrap()
}

fn bind_device(device: &str, port: u16) -> UdpLink {
    let config = UdpConfig { device: Some(device.into()), local: Some(address("0.0.0.0")), port, v6only: false };
    UdpLink::bind(&config).unwrap()
}

fn outgoing(destination: SocketAddr, contents: &[u8]) -> Outgoing<'_> {
    Outgoing { destination, source: None, tos: TOS, contents, segment_size: None }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

/// Waits for datagrams of `len` bytes in total. Returns the properties of their batches and the datagrams.
fn receive(link: &mut UdpLink, len: usize) -> (Vec<ReceivedBatch>, Vec<Vec<u8>>) {
    let mut slots: Vec<_> = (0..4).map(|_| ReceiveSlot::new()).collect();
    let (mut received, mut datagrams) = (Vec::new(), Vec::<Vec<u8>>::new());
    wait_for("datagrams", || {
        let filled = link.receive(&mut slots).unwrap();
        for slot in &mut slots[..filled] {
            received.push(*slot.received().unwrap());
            datagrams.extend(slot.datagrams().map(|datagram| datagram.to_vec()));
        }
        (datagrams.iter().map(Vec::len).sum::<usize>() >= len).then_some(())
    });
    (received, datagrams)
}

/// A batch with a short last datagram arrives with the same lengths, addresses and TOS byte.
fn batch_passes(from: &UdpLink, source: &str, to: &mut UdpLink, destination: &str) {
    let contents = pattern(5 * 1200 + 700);
    let destination = SocketAddr::new(address(destination), to.local_address().port());
    let batch =
        Outgoing { source: Some(address(source)), segment_size: Some(1200), ..outgoing(destination, &contents) };
    assert!(from.has_gso());
    assert_eq!(from.send(&batch).unwrap(), SendOutcome::Sent);
    let (received, datagrams) = receive(to, contents.len());
    assert!(datagrams.iter().eq(contents.chunks(1200)));
    let stamp = received.first().and_then(|batch| batch.received_unix_ns);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    assert!(stamp.is_some_and(|at| now - u128::from(at) < 60_000_000_000), "the kernel's time: {stamp:?}");
    let expected = ReceivedBatch {
        received_unix_ns: stamp,
        source: SocketAddr::new(address(source), from.local_address().port()),
        destination: Some(destination.ip()),
        tos: TOS,
        len: contents.len(),
        segment_size: 1200,
    };
    assert_eq!(received, [expected], "one batch, joined");
}

#[test]
fn a_batch_passes_over_ipv4() {
    in_namespace(|_| batch_passes(&bind("0.0.0.0"), "127.0.0.2", &mut bind("0.0.0.0"), "127.0.0.3"));
}

#[test]
fn a_batch_passes_over_ipv6() {
    in_namespace(|_| {
        for address in ["fd00::2", "fd00::3"] {
            ip(&format!("addr add {address}/128 dev lo nodad"));
            wait_for_local_route(address);
        }
        batch_passes(&bind("::"), "fd00::2", &mut bind("::"), "fd00::3");
    });
}

#[test]
fn a_dual_stack_socket_speaks_ipv4() {
    in_namespace(|_| {
        let dual = || UdpLink::bind(&UdpConfig::default()).unwrap();
        batch_passes(&dual(), "127.0.0.2", &mut dual(), "127.0.0.3");
        batch_passes(&dual(), "127.0.0.2", &mut bind("0.0.0.0"), "127.0.0.3");
        batch_passes(&bind("0.0.0.0"), "127.0.0.2", &mut dual(), "127.0.0.3");
    });
}

#[test]
fn a_datagram_above_the_mtu_is_too_big() {
    in_namespace(|_| {
        ip("link set lo mtu 1300");
        for (local, destination) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1")] {
            let mut link = bind(local);
            let destination = SocketAddr::new(address(destination), link.local_address().port());
            let contents = pattern(2800);
            let one = outgoing(destination, &contents[..1400]);
            assert!(matches!(link.send(&one), Err(SendError::TooBig)));
            let batch = Outgoing { segment_size: Some(1400), ..outgoing(destination, &contents) };
            assert!(matches!(link.send(&batch), Err(SendError::TooBig)));
            let tiny = Outgoing { segment_size: Some(1), ..outgoing(destination, &contents[..MAX_SEGMENTS + 1]) };
            assert!(matches!(link.send(&tiny), Err(SendError::TooBig)));
            assert!(link.has_gso());
            assert_eq!(link.send(&outgoing(destination, &contents[..1200])).unwrap(), SendOutcome::Sent);
            assert_eq!(receive(&mut link, 1200).1, [&contents[..1200]]);
        }
    });
}

#[test]
fn unread_datagrams_are_counted() {
    in_namespace(|_| {
        let (from, mut to) = (bind("127.0.0.1"), bind("127.0.0.1"));
        let contents = pattern(60_000);
        let batch = Outgoing { segment_size: Some(1000), ..outgoing(to.local_address(), &contents) };
        for _ in 0..600 {
            assert_eq!(from.send(&batch).unwrap(), SendOutcome::Sent);
        }
        let mut slots: Vec<_> = (0..40).map(|_| ReceiveSlot::new()).collect();
        let mut largest = 0;
        while let filled @ 1.. = to.receive(&mut slots).unwrap() {
            largest = filled.max(largest);
        }
        assert_eq!(largest, 16, "slots beyond the most of one call stay empty");
        assert_eq!(from.send(&batch).unwrap(), SendOutcome::Sent);
        receive(&mut to, contents.len());
        assert!(to.dropped_total() > 0);
    });
}

#[test]
fn sockets_keep_to_their_device() {
    in_namespace(|here| {
        let there = Namespace::new().unwrap();
        for (left, right, net) in [("l1", "r1", 1), ("l2", "r2", 2)] {
            ip(&format!("link add {right} type veth peer name {left} netns {}", here.path()));
            ip(&format!("addr add 10.0.{net}.2/24 dev {right}"));
            ip(&format!("link set {right} up"));
        }
        let remote = bind("0.0.0.0");
        here.enter();
        for (left, net) in [("l1", 1), ("l2", 2)] {
            ip(&format!("addr add 10.0.{net}.1/24 dev {left}"));
            ip(&format!("link set {left} up"));
        }
        let (mut first, mut second) = (bind_device("l1", 7000), bind_device("l2", 7000));
        batch_passes(&remote, "10.0.1.2", &mut first, "10.0.1.1");
        batch_passes(&remote, "10.0.2.2", &mut second, "10.0.2.1");
        assert_eq!(first.receive(&mut [ReceiveSlot::new()]).unwrap(), 0);

        let astray = outgoing("203.0.113.1:9".parse().unwrap(), b"?");
        let unbound = bind("0.0.0.0").send(&astray);
        assert!(
            matches!(&unbound, Err(SendError::Unreachable(error)) if error.raw_os_error() == Some(libc::ENETUNREACH)),
            "no route: {unbound:?}"
        );
        let foreign = Outgoing { source: Some(address("192.0.2.1")), ..outgoing("10.0.1.2:9".parse().unwrap(), b"?") };
        assert!(matches!(first.send(&foreign), Err(SendError::Unreachable(_))), "not our address");
        ip("link set l1 down");
        let down = first.send(&outgoing("10.0.1.2:9".parse().unwrap(), b"?"));
        assert!(matches!(down, Err(SendError::Unreachable(_))), "{down:?}");
        there.enter();
        let missing = UdpLink::bind(&UdpConfig { device: Some("l1".into()), ..UdpConfig::default() });
        assert_eq!(missing.unwrap_err().raw_os_error(), Some(libc::ENODEV));
    });
}

/// Waits for the next ICMP error at a socket.
fn bounce(link: &UdpLink) -> (SocketAddr, BounceReason, Option<IpAddr>) {
    let bounce = wait_for("an ICMP error", || link.take_bounce());
    (bounce.destination, bounce.error, bounce.reporter)
}

/// Errors name the datagram's address. They make no other datagram fail, neither in sending nor in receiving.
#[test]
fn icmp_errors_are_reported_and_cost_no_other_datagram() {
    in_namespace(|here| {
        let there = Namespace::new().unwrap();
        ip(&format!("link add r1 type veth peer name l1 netns {}", here.path()));
        ip("addr add 10.0.1.2/24 dev r1");
        ip("-6 addr add fd00:1::2/64 dev r1 nodad");
        ip("link set r1 up");
        let mut remote = bind("::");
        // By default a host sends only one error per second.
        for limit in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
            std::fs::write(format!("/proc/sys/net/{limit}"), "0").unwrap();
        }
        here.enter();
        ip("addr add 10.0.1.1/24 dev l1");
        ip("-6 addr add fd00:1::1/64 dev l1 nodad");
        ip("link set l1 up");
        let config = UdpConfig { device: Some("l1".into()), ..UdpConfig::default() };
        let mut link = UdpLink::bind(&config).unwrap();
        link.keep_bounces().unwrap();
        wait_for_local_route("fd00:1::1");
        for closed in ["10.0.1.2:9", "[fd00:1::2]:9"] {
            let closed: SocketAddr = closed.parse().unwrap();
            let open = SocketAddr::new(closed.ip(), remote.local_address().port());
            for round in 0..20u8 {
                link.send(&outgoing(closed, b"?")).unwrap();
                let expected = (closed, BounceReason::Port, Some(closed.ip()));
                assert_eq!(bounce(&link), expected, "round {round}");
                // The error about this datagram is pending when the next one is sent, and when the answer is received.
                link.send(&outgoing(closed, b"?")).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
                assert_eq!(link.send(&outgoing(open, &[round])).unwrap(), SendOutcome::Sent);
                let (received, datagrams) = receive(&mut remote, 1);
                assert_eq!(datagrams, [[round]]);
                link.send(&outgoing(closed, b"?")).unwrap();
                remote.send(&outgoing(received[0].source, &[round, 1])).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
                assert_eq!(receive(&mut link, 2).1, [[round, 1]]);
                while link.take_bounce().is_some() {}
            }
        }
        drop(there);
    });
}
