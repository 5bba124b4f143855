//! ER-SIG v1: its exact bytes, the changes that nodes may make, and its position in packets.

use proptest::prelude::*;
use weft_units::Rate;
use weft_wire::WireError;
use weft_wire::checksum::checksum;
use weft_wire::er_sig::carriage::{ADDED_LEN, insert, locate, parse, remove, update};
use weft_wire::er_sig::{
    BurstTolerance, DelayVariance, Direction, KEY_LEN, Message, Rate16, Rates, SIGNAL_LEN, Signal, SignalKey,
    SignalService, ttl_difference,
};
use weft_wire::ip::{FlowKey, IpView};

/// The example of paper 001: 82 kbit/s guaranteed, and up to 32 Mbit/s available.
///
/// The requested delay variance is below 10 ms.
const CALL: Signal = Signal {
    message: Message::Request,
    service: SignalService::Guaranteed,
    receiver_pays: true,
    is_lowered: false,
    preemption: 5,
    delay_priority: 15,
    burst: BurstTolerance(0x18),
    delay_variance: DelayVariance(0x9f),
    forward: Rates { available: Rate16(0x77a0), guaranteed: Rate16(0x3240) },
    reverse: Rates { available: Rate16::UNLIMITED, guaranteed: Rate16(0x3240) },
    echoed: Rates { available: Rate16::ZERO, guaranteed: Rate16::ZERO },
    nonce: 0x0102_0304,
    hops: 2,
    qttl: 0x40,
    lowered_by: 0xabcd,
    must_be_met: true,
    is_overlay: false,
    tag: 0x5a5a,
};

const CALL_BYTES: [u8; SIGNAL_LEN] = [
    0x16, 0x5f, 0x18, 0x9f, 0x77, 0xa0, 0x32, 0x40, 0xff, 0xff, 0x32, 0x40, 0, 0, 0, 0, 1, 2, 3, 4, 2, 0x40, 0xab,
    0xcd, 0x00, 0x11, 0x5a, 0x5a,
];

/// Returns a UDP packet with four payload bytes.
///
/// `options` are the IPv4 options, or the IPv6 hop-by-hop header if it is not empty.
fn packet(is_ipv6: bool, options: &[u8]) -> Vec<u8> {
    let udp = [0x12, 0x34, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
    let mut packet = if is_ipv6 {
        let mut header =
            vec![0x60, 0, 0, 0, 0, (options.len() + udp.len()) as u8, if options.is_empty() { 17 } else { 0 }, 64];
        header.extend([0xfd; 32]);
        header
    } else {
        let total = (20 + options.len() + udp.len()) as u16;
        let [high, low] = total.to_be_bytes();
        let mut header =
            vec![0x45 + (options.len() / 4) as u8, 0, high, low, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        header.extend(options);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header.extend(udp);
        return header;
    };
    packet.extend(options);
    packet.extend(udp);
    packet
}

#[test]
fn bytes_of_a_call() {
    let mut out = [0; SIGNAL_LEN];
    assert_eq!(CALL.emit(&mut out), Ok(SIGNAL_LEN));
    assert_eq!(out, CALL_BYTES);
    assert_eq!(Signal::parse(&CALL_BYTES), Ok(CALL));
    assert_eq!(CALL.burst.bytes(), 768);
    assert_eq!(CALL.delay_variance.bound().map(|bound| bound.as_micros()), Some(9_920), "below 10 ms");
    assert_eq!(DelayVariance(0).bound(), None);
    for shorter in 0..SIGNAL_LEN {
        assert_eq!(Signal::parse(&CALL_BYTES[..shorter]), Err(WireError::Truncated));
        assert_eq!(CALL.emit(&mut out[..shorter]), Err(WireError::NoRoom));
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = CALL_BYTES;
        bytes[at] = byte;
        Signal::parse(&bytes)
    };
    assert_eq!(with(0, 0x06), Err(WireError::UnknownType));
    assert_eq!(with(0, 0x76), Err(WireError::UnknownType));
    assert_eq!(with(25, 0x21), Err(WireError::Version));
    assert_eq!(with(25, 0x14), Err(WireError::Malformed));
    assert_eq!(Signal { preemption: 16, ..CALL }.emit(&mut out), Err(WireError::Malformed));
}

#[test]
fn nodes_lower_and_never_raise() {
    let grant = |mbps: u64| Rates { available: Rate16::floor(Rate::from_mbps(mbps)), guaranteed: Rate16::UNLIMITED };
    let mut signal = CALL;
    signal.pass(Direction::Forward, grant(100), 1);
    assert_eq!((signal.forward, signal.is_lowered, signal.lowered_by), (CALL.forward, false, CALL.lowered_by));
    signal.pass(Direction::Forward, grant(10), 2);
    signal.pass(Direction::Forward, grant(20), 3);
    assert_eq!(signal.forward, Rates { available: grant(10).available, ..CALL.forward });
    assert_eq!((signal.is_lowered, signal.lowered_by, signal.hops), (true, 2, CALL.hops + 3));
    assert_eq!(signal.reverse, CALL.reverse);
    assert_eq!(ttl_difference(64, CALL.qttl), ttl_difference(61, signal.qttl), "all routers took part");
    signal.pass(Direction::Reverse, Rates::default(), 4);
    assert_eq!((signal.reverse, signal.forward.guaranteed), (Rates::default(), CALL.forward.guaranteed));
    assert_eq!(signal.immutable(), CALL.immutable(), "what the tag is over");
    assert_ne!(Signal { nonce: 1, ..CALL }.immutable(), CALL.immutable());
    assert_ne!(Signal { delay_priority: 0, ..CALL }.immutable(), CALL.immutable());
}

#[test]
fn packets_carry_it() {
    // A router alert and an end of the option list, then a PadN of six bytes.
    let (router_alert, pad) = ([0x94, 4, 0, 0, 0, 0, 0, 0], [17, 0, 1, 4, 0, 0, 0, 0]);
    for (is_ipv6, options) in [(false, &[][..]), (false, &router_alert), (true, &[]), (true, &pad)] {
        let plain = packet(is_ipv6, options);
        assert_eq!(locate(&plain), Ok(None));
        let mut out = [0xee; 200];
        let len = insert(&plain, &CALL, &mut out).unwrap();
        assert_eq!(len, plain.len() + ADDED_LEN);
        let carried = &mut out[..len];
        let (at, signal) = parse(carried).unwrap().unwrap();
        assert_eq!(signal, CALL);
        let (before, after) = (IpView::parse(&plain).unwrap(), IpView::parse(carried).unwrap());
        assert_eq!(
            (after.payload(), after.protocol, after.ports()),
            (before.payload(), before.protocol, before.ports())
        );
        assert_eq!((after.total_len, after.src, after.dst), (len, before.src, before.dst));
        if !is_ipv6 {
            assert_eq!(checksum(&carried[..after.header_len]), 0);
        }
        let lower = Signal { hops: 9, ..CALL };
        update(carried, at, &lower).unwrap();
        assert_eq!(parse(carried).unwrap(), Some((at, lower)));
        if !is_ipv6 {
            assert_eq!(checksum(&carried[..20 + options.len() + ADDED_LEN]), 0);
        }
        assert_eq!(insert(&out[..len], &CALL, &mut [0; 300]), Err(WireError::Malformed), "it has one");
        assert_eq!(insert(&plain, &CALL, &mut [0; 50]), Err(WireError::NoRoom));
    }
    let mut fragment = packet(false, &[]);
    fragment[7] = 1;
    assert_eq!(insert(&fragment, &CALL, &mut [0; 200]), Err(WireError::Malformed), "not of a later fragment");
    assert_eq!(
        insert(&packet(false, &[1; 12]), &CALL, &mut [0; 200]),
        Err(WireError::NoRoom),
        "an IPv4 header is full at 60"
    );
}

#[test]
fn options_that_lie_are_refused() {
    for options in [[30, 1, 0, 0], [30, 9, 0, 0], [7, 0, 0, 0]] {
        assert_eq!(locate(&packet(false, &options)), Err(WireError::Malformed), "{options:?}");
    }
    assert_eq!(locate(&packet(false, &[1, 1, 1, 30])), Err(WireError::Truncated));
    assert_eq!(locate(&packet(true, &[17, 0, 0x3e, 9, 0, 0, 0, 0])), Err(WireError::Malformed));
    assert_eq!(
        locate(&packet(true, &[17, 9, 1, 4, 0, 0, 0, 0])),
        Err(WireError::Truncated),
        "a header longer than the packet"
    );
    assert_eq!(locate(&[]), Err(WireError::Truncated));
    assert_eq!(locate(&[0x50; 40]), Err(WireError::Version));
    assert_eq!(locate(&[0x44; 40]), Err(WireError::Malformed));
    assert_eq!(locate(&packet(false, &[0, 30, 30, 0])), Ok(None), "the list ended before");
}

proptest! {
    #[test]
    fn signals_are_emitted_as_they_were_parsed(bytes in any::<[u8; SIGNAL_LEN]>(), kind in 0u8..8, flags in 0u8..8) {
        let mut bytes = bytes;
        bytes[0] = bytes[0] & 0x0f | kind << 4;
        (bytes[24], bytes[25]) = (0, 0x10 | flags);
        if let Ok(signal) = Signal::parse(&bytes) {
            let mut out = [0; SIGNAL_LEN];
            prop_assert_eq!(signal.emit(&mut out), Ok(SIGNAL_LEN));
            prop_assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_floor_is_below_by_less_than_one_in_2048(bps in 1_000u64..4_000_000_000_000) {
        let floor = Rate16::floor(Rate::from_bps(bps));
        // A rate of 1 kbit/s has no encoding of its own.
        let rate = if floor == Rate16::ZERO { 1_000 } else { floor.rate().unwrap().bps() };
        prop_assert!(rate <= bps && (bps - rate) as f64 <= bps as f64 / 2048.0 + 1.0, "{} {}", rate, bps);
    }

    #[test]
    fn no_packet_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), version in 0u8..3, ihl in 0u8..16) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = [0x40, 0x60, 0][usize::from(version)] | ihl;
        }
        if let Ok(Some((at, signal))) = parse(&bytes) {
            prop_assert!(update(&mut bytes, at, &signal).is_ok());
        }
        let mut out = [0; 200];
        if let Ok(len) = insert(&bytes, &CALL, &mut out) {
            prop_assert_eq!(parse(&out[..len]).map(|found| found.map(|(_, signal)| signal)), Ok(Some(CALL)));
        }
    }
}

#[test]
fn an_inserted_signal_can_be_removed() {
    let pad = [1, 1, 1, 1];
    for (is_ipv6, options) in [(false, &[][..]), (false, &pad[..]), (true, &[][..])] {
        let bare = packet(is_ipv6, options);
        let mut out = [0; 160];
        let len = insert(&bare, &CALL, &mut out).unwrap();
        let taken = remove(&mut out[..len]).unwrap();
        assert_eq!((taken, &out[taken..len]), (ADDED_LEN, &bare[..]), "IPv6 {is_ipv6}");
        assert_eq!(remove(&mut out[taken..len]), Ok(0));
    }
    // A router alert (RFC 2711) in the same header as the signal must stay.
    let bare = packet(true, &[17, 0, 5, 2, 0, 0, 1, 0]);
    let mut out = [0; 160];
    let len = insert(&bare, &CALL, &mut out).unwrap();
    assert_eq!((remove(&mut out[..len]), locate(&out[..len])), (Ok(0), Ok(None)));
    assert_eq!(IpView::parse(&out[..len]).unwrap().ports(), (0x1234, 53));
    // Between other IPv4 options there is no padding that could be removed with the signal.
    let mut options = vec![30, 30];
    options.extend(CALL_BYTES);
    options.extend([7, 6, 4, 0, 0, 0]);
    let mut tight = packet(false, &options);
    assert_eq!((remove(&mut tight), locate(&tight)), (Ok(0), Ok(None)));
    assert_eq!((checksum(&tight[..56]), tight[50]), (0, 7), "the other option stays");
}

#[test]
fn a_tag_is_of_one_key_one_flow_and_one_request() {
    let key = SignalKey::new([7; KEY_LEN]);
    let flow = FlowKey::of(&packet(false, &[])).unwrap();
    let signed = key.sign(&flow, CALL);
    assert!(key.is_right(&flow, &signed) && signed.tag != 0);
    let lowered = Signal { forward: Rates::default(), hops: 9, qttl: 1, message: Message::Confirm, ..signed };
    assert!(key.is_right(&flow, &lowered), "what nodes and answers change");
    let mut wrong = 0;
    for (of, signal) in [
        (flow.reversed(), signed),
        (FlowKey { src_port: 1, ..flow }, signed),
        (flow, Signal { nonce: 1, ..signed }),
        (flow, Signal { service: SignalService::Available, ..signed }),
        (flow, Signal { receiver_pays: false, ..signed }),
        (flow, Signal { preemption: 6, ..signed }),
        (flow, Signal { delay_priority: 1, ..signed }),
        (flow, Signal { tag: 0, ..signed }),
    ] {
        wrong += usize::from(!key.is_right(&of, &signal));
    }
    assert_eq!(wrong, 8);
    let mut secret = [7; KEY_LEN];
    for at in [0, 15, 16, 31] {
        secret[at] = 8;
        assert!(!SignalKey::new(secret).is_right(&flow, &signed), "byte {at} of the key");
        secret[at] = 7;
    }
}
