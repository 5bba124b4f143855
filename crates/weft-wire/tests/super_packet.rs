//! Cutting, loss and joining of super-packets, compared with the kernel's segmentation.
//!
//! All surviving segments must equal the sent ones.

mod common;

use common::{Flow, L4, Segment, flows, hex};
use proptest::prelude::*;
use weft_wire::inner::{MAX_SLICE_INDEX, UnitKind};
use weft_wire::super_packet::{Run, SegmentRole, SuperPacket, partial_l4_checksum};
use weft_wire::virtio::VnetHeader;

/// A unit in transit, and the segment that it carries.
#[derive(Debug)]
struct Unit {
    kind: UnitKind,
    last: bool,
    index: u8,
    bytes: Vec<u8>,
    expected: Vec<u8>,
}

/// Fate of a segment in the simulated tunnel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Delivered,
    /// Sent as a packet of its own, and delivered.
    Alone,
    /// Dropped by the AQM, before it got a sequence number.
    Dropped,
    Lost,
}

/// Cuts a super-packet into slices and packets. Each lost slice or packet is `None`.
fn cut(flow: &Flow, whole: &Segment, gso_size: usize, fates: &[Fate]) -> Vec<Option<Unit>> {
    let mut packet = flow.partial(whole);
    let (vnet, _) = VnetHeader::parse(&flow.vnet(gso_size)).unwrap();
    let plan = SuperPacket::parse(&vnet, &mut packet).unwrap();
    let expected = flow.segments(whole, gso_size);
    assert_eq!(plan.segments(), expected.len());
    let mut units = Vec::new();
    let mut next_index = 0;
    for (k, (fate, expected)) in fates.iter().cycle().zip(expected).enumerate() {
        let is_last = k + 1 == plan.segments();
        if *fate == Fate::Dropped {
            next_index = 0;
            continue;
        }
        let is_tail = next_index > 0 && *fate != Fate::Alone;
        let role = if is_last || *fate == Fate::Alone { SegmentRole::Alone } else { SegmentRole::Head };
        let mut bytes = vec![0; plan.header_len()];
        let kind = match role {
            _ if is_tail => UnitKind::TailSlice,
            SegmentRole::Alone => UnitKind::PartialPacket,
            SegmentRole::Head => UnitKind::HeadSlice,
        };
        if is_tail {
            bytes.clear();
        } else {
            assert_eq!(plan.segment_header(&packet, k, role, &mut bytes), Ok(plan.header_len()));
        }
        bytes.extend(&packet[plan.payload(k)]);
        let index = if is_tail { next_index } else { 0 };
        next_index = match kind {
            UnitKind::HeadSlice => 1,
            UnitKind::TailSlice if index < MAX_SLICE_INDEX => index + 1,
            _ => 0,
        };
        let unit = Unit { kind, last: !is_tail && kind != UnitKind::HeadSlice || is_last, index, bytes, expected };
        units.push((*fate != Fate::Lost).then_some(unit));
    }
    units
}

/// An egress edge that joins units and collects the TUN writes.
#[derive(Default)]
struct Egress {
    /// The last head slice and its sequence number.
    head: Option<(usize, Vec<u8>)>,
    run: Option<(Run, Vec<u8>, Vec<u8>)>,
    writes: Vec<Vec<u8>>,
}

impl Egress {
    fn flush(&mut self) {
        if let Some((run, first, payload)) = self.run.take() {
            let mut write = vec![0; Run::MAX_EMITTED_LEN];
            let len = run.emit(&first, &mut write).unwrap();
            write.truncate(len);
            write.extend(payload);
            self.writes.push(write);
        }
    }

    /// Processes a unit. Returns `false` for a tail slice whose head slice was lost.
    fn take(&mut self, seq: usize, unit: &Unit) -> bool {
        if unit.kind == UnitKind::TailSlice {
            return self.take_tail(seq, unit);
        }
        if unit.kind == UnitKind::HeadSlice {
            self.head = Some((seq, unit.bytes.clone()));
        }
        if let Some((run, first, payload)) = &mut self.run {
            let predicted = run.continues(first, unit.kind, &unit.bytes);
            let joined = run.join(first, unit.kind, &unit.bytes);
            assert_eq!(predicted, joined);
            if joined {
                payload.extend(&unit.bytes[run.header_len()..]);
                return true;
            }
        }
        self.flush();
        let run = Run::begin(unit.kind, &unit.bytes).unwrap();
        self.run = Some((run, unit.bytes.clone(), unit.bytes[run.header_len()..].to_vec()));
        true
    }

    fn take_tail(&mut self, seq: usize, unit: &Unit) -> bool {
        let head_seq = seq.checked_sub(unit.index.into());
        let Some((_, head)) = self.head.clone().filter(|(seq, _)| Some(*seq) == head_seq) else { return false };
        if let Some((run, _, payload)) = &mut self.run {
            run.push_tail(unit.bytes.len(), unit.last).unwrap();
            payload.extend(&unit.bytes);
        } else {
            let run = Run::begin_with_tail(&head, unit.index, unit.bytes.len(), unit.last).unwrap();
            self.run = Some((run, head, unit.bytes.clone()));
        }
        true
    }
}

/// Passes units through an egress edge.
///
/// Returns the TUN writes, the packets that the kernel receives by them, and the expected packets.
fn deliver(flow: &Flow, units: Vec<Option<Unit>>) -> (Vec<Vec<u8>>, Vec<String>, Vec<String>) {
    let mut egress = Egress::default();
    let mut expected = Vec::new();
    for (seq, unit) in units.iter().enumerate() {
        match unit {
            Some(unit) if egress.take(seq, unit) => expected.push(hex(&unit.expected)),
            _ => egress.flush(),
        }
    }
    egress.flush();
    let received = egress.writes.iter().flat_map(|write| flow.receive(write)).map(|p| hex(&p)).collect();
    (egress.writes, received, expected)
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Delivered), 1 => Just(Fate::Alone), 1 => Just(Fate::Dropped), 1 => Just(Fate::Lost)
    ];
    prop::collection::vec(fate, 1..60)
}

fn flags() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![0x10, 0x18, 0x11, 0x19, 0x90, 0x98, 0x50, 0xd9])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn delivered_segments_equal_the_sent_ones(
        flow in flows(),
        id in any::<u16>(),
        seq in any::<u32>(),
        gso_size in 1usize..50,
        supers in prop::collection::vec((flags(), prop::collection::vec(any::<u8>(), 1..2000), fates()), 1..4),
    ) {
        let (mut id, mut seq) = (if flow.v6 { 0 } else { id }, seq);
        let mut units = Vec::new();
        for (flags, payload, fates) in supers {
            let whole = Segment { id, seq, flags, payload };
            units.extend(cut(&flow, &whole, gso_size, &fates));
            if !flow.v6 {
                id = id.wrapping_add(whole.payload.len().div_ceil(gso_size) as u16);
            }
            seq = seq.wrapping_add(whole.payload.len() as u32);
        }
        let (_, received, expected) = deliver(&flow, units);
        prop_assert_eq!(received, expected);
    }

    #[test]
    fn without_loss_one_write_gives_the_super_packet_back(
        flow in flows(), id in any::<u16>(), seq in any::<u32>(), flags in flags(),
        gso_size in 20usize..50, payload in prop::collection::vec(any::<u8>(), 51..1600),
    ) {
        let whole = Segment { id: if flow.v6 { 0 } else { id }, seq, flags, payload };
        let one_group = whole.payload.len().div_ceil(gso_size) <= 32;
        let units = cut(&flow, &whole, gso_size, &[Fate::Delivered]);
        let (writes, received, expected) = deliver(&flow, units);
        prop_assert_eq!(received, expected);
        if one_group {
            prop_assert_eq!(writes.len(), 1);
            prop_assert_eq!(hex(&writes[0][10..]), hex(&flow.partial(&whole)));
        }
    }

    /// Every segment with URG points at the same byte of the stream.
    ///
    /// No segment after that byte has URG.
    #[test]
    fn the_urgent_pointer_stays_on_its_byte(
        flow in flows().prop_filter("TCP", |flow| flow.l4 == L4::Tcp),
        seq in any::<u32>(), pointer in 1..3000u16, gso_size in 1usize..500,
        payload in prop::collection::vec(any::<u8>(), 2..3000),
    ) {
        let (urg, pointer_at) = (0x20, flow.l4_at() + 18);
        let mut packet = flow.partial(&Segment { id: 0, seq, flags: 0x10 | urg, payload });
        packet[pointer_at..pointer_at + 2].copy_from_slice(&pointer.to_be_bytes());
        let (vnet, _) = VnetHeader::parse(&flow.vnet(gso_size)).unwrap();
        let plan = SuperPacket::parse(&vnet, &mut packet).unwrap();
        prop_assert!(!plan.may_be_sliced());
        for k in 0..plan.segments() {
            let mut header = vec![0; plan.header_len()];
            plan.segment_header(&packet, k, SegmentRole::Alone, &mut header).unwrap();
            let is_urgent = header[flow.l4_at() + 13] & urg != 0;
            prop_assert_eq!(is_urgent, k * gso_size < usize::from(pointer));
            let there = u16::from_be_bytes([header[pointer_at], header[pointer_at + 1]]);
            prop_assert_eq!(usize::from(there), usize::from(pointer).saturating_sub(k * gso_size));
        }
    }

    #[test]
    fn the_partial_checksum_is_the_pseudo_header_sum(flow in flows(), payload in prop::collection::vec(any::<u8>(), 0..99)) {
        let packet = flow.partial(&Segment { id: 1, seq: 2, flags: 0x10, payload });
        let l4_len = packet.len() - flow.l4_at();
        prop_assert_eq!(partial_l4_checksum(&packet), Ok(flow.pseudo_sum(l4_len)));
    }
}

fn tcp4() -> Flow {
    Flow { v6: false, l4: L4::Tcp, ip_options: false, tcp_options: vec![], tos: 2, ttl: 64, window: 500 }
}

fn segment(id: u16, seq: u32, flags: u8, len: usize) -> Segment {
    Segment { id, seq, flags, payload: vec![7; len] }
}

#[test]
fn a_long_super_packet_of_two_groups_is_joined_again() {
    let whole = segment(9, 1000, 0x18, 60_000);
    let units = cut(&tcp4(), &whole, 1400, &[Fate::Delivered]);
    assert_eq!(units.iter().flatten().filter(|unit| unit.kind == UnitKind::HeadSlice).count(), 2);
    let (writes, received, expected) = deliver(&tcp4(), units);
    assert_eq!(writes.len(), 1);
    assert_eq!(received, expected);
}

#[test]
fn only_the_next_segment_of_the_same_flow_continues_a_run() {
    let flow = tcp4();
    let first = flow.partial(&segment(1, 100, 0x10, 50));
    let run = Run::begin(UnitKind::PartialPacket, &first).unwrap();
    let continues = |flow: &Flow, s: &Segment| run.continues(&first, UnitKind::PartialPacket, &flow.partial(s));
    assert!(continues(&flow, &segment(2, 150, 0x10, 50)));
    assert!(continues(&flow, &segment(2, 150, 0x18, 20)), "a shorter one with PSH may end it");
    assert!(!continues(&flow, &segment(2, 150, 0x10, 51)), "longer");
    assert!(!continues(&flow, &segment(2, 150, 0x10, 0)), "no payload");
    assert!(!continues(&flow, &segment(2, 151, 0x10, 50)), "a gap");
    assert!(!continues(&flow, &segment(3, 150, 0x10, 50)), "another identification");
    for flags in [0x90, 0x50, 0x12, 0x14, 0x30] {
        assert!(!continues(&flow, &segment(2, 150, flags, 50)), "flags {flags:#x}");
    }
    let changes: [fn(&mut Flow); 5] =
        [|f| f.tos = 3, |f| f.ttl = 63, |f| f.window = 501, |f| f.tcp_options = vec![1; 4], |f| f.l4 = L4::Udp];
    for change in changes {
        let mut other = flow.clone();
        change(&mut other);
        assert!(!continues(&other, &segment(2, 150, 0x10, 50)), "{other:?}");
    }
    let complete = flow.packet(&segment(2, 150, 0x10, 50));
    assert!(!run.continues(&first, UnitKind::Packet, &complete), "a complete checksum");
}

#[test]
fn other_options_of_the_same_length_end_a_run() {
    let flow = Flow { tcp_options: vec![1; 4], ..tcp4() };
    let first = flow.partial(&segment(1, 100, 0x10, 50));
    let run = Run::begin(UnitKind::PartialPacket, &first).unwrap();
    let next = segment(2, 150, 0x10, 50);
    assert!(run.continues(&first, UnitKind::PartialPacket, &flow.partial(&next)));
    let other = Flow { tcp_options: vec![1, 1, 1, 0], ..tcp4() };
    assert!(!run.continues(&first, UnitKind::PartialPacket, &other.partial(&next)));
}

#[test]
fn a_head_slice_continues_a_run_of_its_own_segment_size() {
    let flow = tcp4();
    let head = flow.partial(&segment(1, 100, 0x10, 50));
    // Segments 2 and 3 of the super-packet: sequence numbers 200..300, identifications 3 and 4.
    let mut run = Run::begin_with_tail(&head, 2, 50, false).unwrap();
    run.push_tail(50, true).unwrap();
    let continues = |s: &Segment| run.continues(&head, UnitKind::HeadSlice, &flow.partial(s));
    assert!(continues(&segment(5, 300, 0x10, 50)));
    assert!(!continues(&segment(5, 300, 0x10, 49)), "its tails would be shorter than the run's segments");
    assert!(!continues(&segment(5, 200, 0x10, 50)) && !continues(&segment(3, 300, 0x10, 50)));
}

#[test]
fn a_run_ends_with_psh_fin_or_a_short_segment() {
    for (flags, len) in [(0x18, 50), (0x11, 50), (0x10, 49)] {
        let flow = tcp4();
        let first = flow.partial(&segment(1, 100, 0x10, 50));
        let mut run = Run::begin(UnitKind::PartialPacket, &first).unwrap();
        assert!(run.join(&first, UnitKind::PartialPacket, &flow.partial(&segment(2, 150, flags, len))));
        let after = flow.partial(&segment(3, 150 + len as u32, 0x10, 20));
        assert!(!run.continues(&first, UnitKind::PartialPacket, &after));
        assert_eq!(run.segments(), 2);
    }
}

#[test]
fn a_complete_packet_is_written_as_it_is() {
    let flow = Flow { l4: L4::Udp, ..tcp4() };
    let packet = flow.packet(&segment(1, 0, 0, 30));
    let mut plain = packet.clone();
    let plan = SuperPacket::parse(&VnetHeader::default(), &mut plain).unwrap();
    assert_eq!((plan.segments(), plan.unit_kind(), plan.header_len()), (1, UnitKind::Packet, packet.len()));
    assert!(plan.payload(0).is_empty() && !plan.may_be_sliced());
    let mut out = vec![0; packet.len()];
    plan.segment_header(&plain, 0, SegmentRole::Alone, &mut out).unwrap();
    assert_eq!(out, packet);
    let run = Run::begin(UnitKind::Packet, &packet).unwrap();
    let mut emitted = [0xff; Run::MAX_EMITTED_LEN];
    assert_eq!((run.emit(&packet, &mut emitted), run.header_len()), (Ok(10), 0));
    assert_eq!(emitted[..10], [0; 10]);
}

#[test]
fn a_partial_packet_passes_as_partial() {
    for l4 in [L4::Tcp, L4::Udp] {
        let flow = Flow { l4, ..tcp4() };
        let mut packet = flow.partial(&segment(1, 0, 0x18, 30));
        let (vnet, _) = VnetHeader::parse(&flow.vnet(0)).unwrap();
        let plan = SuperPacket::parse(&vnet, &mut packet).unwrap();
        assert_eq!(plan.unit_kind(), UnitKind::PartialPacket);
        let unit = Unit { kind: plan.unit_kind(), last: true, index: 0, bytes: packet, expected: vec![] };
        let (_, received, _) = deliver(&flow, vec![Some(unit)]);
        assert_eq!(received, [hex(&flow.packet(&segment(1, 0, 0x18, 30)))]);
    }
}

#[test]
fn a_checksum_in_an_odd_place_is_finished_at_the_ingress() {
    // A UDP packet in IP-in-IP: the partial checksum is the inner one.
    let flow = Flow { l4: L4::Udp, ..tcp4() };
    let inner = flow.partial(&segment(1, 0, 0, 30));
    let mut outer = vec![0x45, 0, 0, (20 + inner.len()) as u8, 0, 0, 0, 0, 64, 4, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
    outer.extend(&inner);
    let vnet = VnetHeader { flags: 1, csum_start: 40, csum_offset: 6, ..VnetHeader::default() };
    let plan = SuperPacket::parse(&vnet, &mut outer).unwrap();
    assert_eq!(plan.unit_kind(), UnitKind::Packet);
    assert_eq!(outer[20..], flow.packet(&segment(1, 0, 0, 30)));
}

#[test]
fn contradictions_are_refused() {
    let flow = tcp4();
    let mut packet = flow.partial(&segment(1, 100, 0x10, 50));
    let (vnet, _) = VnetHeader::parse(&flow.vnet(10)).unwrap();
    let udp = VnetHeader { gso_type: weft_wire::virtio::GsoType::UdpL4, ..vnet };
    let v6 = VnetHeader { gso_type: weft_wire::virtio::GsoType::TcpV6, ..vnet };
    for wrong in [udp, v6, VnetHeader { gso_size: 0, ..vnet }] {
        assert!(SuperPacket::parse(&wrong, &mut packet).is_err(), "{wrong:?}");
    }
    let in_the_ip_header = VnetHeader { flags: 1, csum_start: 0, csum_offset: 10, ..VnetHeader::default() };
    assert!(SuperPacket::parse(&in_the_ip_header, &mut packet).is_err());
    let mut run = Run::begin(UnitKind::HeadSlice, &packet).unwrap();
    assert!(run.push_tail(51, false).is_err() && run.push_tail(49, false).is_err() && run.push_tail(0, true).is_err());
    assert!(run.push_tail(49, true).is_ok());
    assert!(run.push_tail(50, false).is_err(), "after the last");
    assert!(Run::begin(UnitKind::TailSlice, &packet).is_err());
    packet.push(0);
    assert!(Run::begin(UnitKind::HeadSlice, &packet).is_err(), "bytes after the end");
}
