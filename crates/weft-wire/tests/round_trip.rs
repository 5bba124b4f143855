//! Each parser restores the written value, and no input makes a decoder panic.

use core::net::IpAddr;
use core::ops::RangeInclusive;
use proptest::prelude::*;
use weft_units::{Duration, FlowId, FlowSeq, PathId, PathTier, PathUse, VpnId};
use weft_wire::certificate::{RevocationView, SIGNATURE_LEN};
use weft_wire::er_sig::Rate16;
use weft_wire::frame::{Frame, FrameWriter, Frames, MAX_FRAMES, Neighbour, ReportCounters};
use weft_wire::handshake::{CookieReply, HandshakeResponse, Initiation, InitiationPayload, ResponsePayload};
use weft_wire::hop::{HopHeader, MAX_PACKET_NUMBER, PacketType, reconstruct_packet_number};
use weft_wire::inner::{InnerHeader, PartHeader, UnitKind};
use weft_wire::ip::{self, Ecn, FlowKey, IpView, L4Checksum, TcpOption, clamp_mss};
use weft_wire::load_report::{LOAD_CLASSES, LOAD_FRAME_MAX, LoadReport, TransitLoad};
use weft_wire::loop_data::{Counting, IntervalCount, LoopReport, MARKER_LEN, Marker, OfRun};
use weft_wire::prefix::network_of;
use weft_wire::relay::Label;
use weft_wire::super_packet::{Run, SegmentRole, SuperPacket, partial_l4_checksum};
use weft_wire::train::{Chirp, MAX_TRAIN};
use weft_wire::virtio::VnetHeader;
use weft_wire::{WireError, varint};

const TIERS: [PathTier; 4] = [PathTier::Primary, PathTier::Secondary, PathTier::Backup, PathTier::Detour];

fn varints() -> impl Strategy<Value = u64> {
    (0..=varint::MAX, 0u32..62).prop_map(|(value, shift)| value >> shift)
}

fn plain_frames() -> impl Strategy<Value = Frame<'static>> {
    prop_oneof![
        Just(Frame::Padding),
        any::<u32>().prop_map(|token| Frame::Ping { token }),
        (any::<u32>(), any::<u8>()).prop_map(|(token, path)| Frame::Pong { token, path: PathId(path) }),
        any::<u32>().prop_map(|hold_us| Frame::Hold { hold_us }),
        (any::<u16>(), any::<u32>(), 1..=1u32 << 23).prop_map(|(flow, first, count)| Frame::Skip {
            flow: FlowId(flow),
            first: FlowSeq::new(first),
            count
        }),
        (any::<[bool; 3]>(), 0..TIERS.len()).prop_map(|([bundle_toward_me, path_active, is_sparse_only], tier)| {
            Frame::Policy { bundle_toward_me, path_active, path_use: PathUse { tier: TIERS[tier], is_sparse_only } }
        }),
        any::<(u32, bool, u32, u8)>().prop_map(|(node, is_reachable, rtt_us, loss)| Frame::Neighbour(Neighbour {
            node: Label(node),
            is_reachable,
            rtt_us,
            loss
        })),
        (1usize..=32).prop_map(|len| Frame::Link(&"wwan0-and-other-names-of-32-bytes"[..len])),
        (0usize..40).prop_map(|len| Frame::Overlay(&[7; 40][..len])),
        (any::<u16>(), 0..MAX_TRAIN, any::<u8>(), any::<u32>()).prop_map(|(train, index, more, sent_us)| {
            let of = index + 1 + more % (MAX_TRAIN - index);
            Frame::Chirp(Chirp { train, index, of, sent_us })
        }),
        any::<u8>().prop_map(|reason| Frame::Close { reason }),
        any::<u8>().prop_map(|path| Frame::Gone { path: PathId(path) }),
        loads().prop_map(Frame::Load),
        (1u32.., any::<u32>(), any::<bool>()).prop_map(|(vpn, index, wants_index)| Frame::Vpn {
            vpn: VpnId(vpn),
            index,
            wants_index
        }),
        (1u32.., markers()).prop_map(|(vpn, marker)| Frame::LoopMarker { vpn: VpnId(vpn), marker }),
        (1u32.., markers(), any::<[u32; 5]>(), any::<Option<[u32; 3]>>()).prop_map(|(vpn, of_run, counts, count)| {
            let OfRun { run, what: marker } = of_run;
            let [received_at_us, held_us, packets, bytes, ce_packets] = counts;
            let count = count.filter(|_| marker.counting.is_some());
            let count = count.map(|[restarted_by, intervals, bytes]| IntervalCount { restarted_by, intervals, bytes });
            let report = LoopReport { marker, received_at_us, held_us, packets, bytes, ce_packets, count };
            Frame::LoopReport { vpn: VpnId(vpn), report: OfRun { run, what: report } }
        }),
        (any::<[u8; 32]>(), any::<u64>(), any::<u8>())
            .prop_map(|(key, at, byte)| Frame::Revocation(RevocationView::new(key, at, |_| [byte; SIGNATURE_LEN]))),
    ]
}

fn loads() -> impl Strategy<Value = TransitLoad> {
    let rates = prop::collection::vec(0..u16::MAX, 0..=LOAD_CLASSES);
    let fields = (any::<u8>(), any::<u16>(), 0..u16::MAX, 0u32..1 << 24, any::<u16>());
    (any::<IpAddr>(), any::<u8>(), fields, rates).prop_map(|(address, length, fields, rates)| {
        let length = length % if address.is_ipv4() { 33 } else { 129 };
        let (sequence, port, rate, flows, delay) = fields;
        let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
        headroom.iter_mut().zip(&rates).for_each(|(to, from)| *to = Rate16(*from));
        let (rate, queue_delay) = (Rate16(rate), Duration::from_micros(10) * u32::from(delay));
        let classes = rates.len() as u8;
        let report = LoadReport { sequence, port, rate, flows, queue_delay, classes, headroom };
        TransitLoad { network: network_of(address, length).unwrap(), length, report }
    })
}

fn markers() -> impl Strategy<Value = OfRun<Marker>> {
    let counting = proptest::option::of((1u32.., any::<bool>()));
    (any::<u8>(), any::<[u32; 5]>(), any::<bool>(), counting).prop_map(|(run, counts, is_pressing, counting)| {
        let [sequence, sent_at_us, packets, bytes, explained_us] = counts;
        let counting = counting.map(|(interval_us, restarts)| Counting { interval_us, restarts });
        OfRun { run, what: Marker { sequence, sent_at_us, packets, bytes, explained_us, is_pressing, counting } }
    })
}

fn arrivals() -> impl Strategy<Value = ReportCounters> {
    (any::<u8>(), any::<u32>(), varints(), varints(), varints(), varints()).prop_map(
        |(path, received_at_us, held_us, packets_received, bytes_received, ce_received)| ReportCounters {
            path: PathId(path),
            received_at_us,
            held_us,
            packets_received,
            bytes_received,
            ce_received,
        },
    )
}

/// Draws ranges in descending order with at least one missing number between any two.
fn ranges() -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
    let steps = prop::collection::vec((varints().prop_map(|n| n >> 20), 0u64..1000), 1..300);
    (varints(), steps).prop_map(|(largest, steps)| {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for (gap, length) in steps {
            let end = match ranges.last() {
                None => Some(largest),
                Some(above) => above.start().checked_sub(gap + 2),
            };
            let Some(end) = end else { break };
            ranges.push(end.saturating_sub(length)..=end);
        }
        ranges
    })
}

proptest! {
    #[test]
    fn what_became_of_a_train(
        path in any::<u8>(),
        train in any::<u16>(),
        delays in proptest::collection::vec(any::<Option<u32>>(), 1..=usize::from(MAX_TRAIN)),
    ) {
        let mut out = [0; 1_000];
        let mut writer = FrameWriter::new(&mut out);
        writer.write_chirped(PathId(path), train, &delays).unwrap();
        let len = writer.len();
        let Some(Ok(Frame::Chirped(chirped))) = Frames::new(&out[..len]).next() else { panic!("not a report") };
        prop_assert_eq!((chirped.path, chirped.train), (PathId(path), train));
        prop_assert_eq!(chirped.delays_us().collect::<Vec<_>>(), delays);
        let mut again = [0; 1_000];
        let mut writer = FrameWriter::new(&mut again);
        writer.write(&Frame::Chirped(chirped)).unwrap();
        prop_assert_eq!(writer.len(), len);
        prop_assert_eq!(&again[..len], &out[..len]);
    }

    #[test]
    fn varints_round_trip(value in varints(), after in any::<[u8; 3]>()) {
        let mut out = [0; 11];
        let len = varint::emit(value, &mut out).unwrap();
        out[len..len + 3].copy_from_slice(&after);
        prop_assert_eq!(len, varint::len(value));
        prop_assert_eq!(varint::parse(&out[..len + 3]), Ok((value, &after[..])));
        prop_assert!(varint::parse(&out[..len - 1]).is_err());
    }

    #[test]
    fn hop_headers_round_trip(data in any::<bool>(), path in any::<u8>(), receiver in any::<u32>(), low in any::<u32>()) {
        let packet_type = if data { PacketType::Data } else { PacketType::Control };
        let header = HopHeader { packet_type, path: PathId(path), receiver, packet_number_low: low };
        let mut out = [0; 26];
        header.emit(&mut out).unwrap();
        prop_assert_eq!(HopHeader::parse(&out), Ok(header));
    }

    #[test]
    fn packet_numbers_near_the_highest_are_reconstructed(highest in 0..MAX_PACKET_NUMBER >> 1, off in -(1i64 << 31) + 1..1 << 31) {
        let number = (highest + 1).saturating_add_signed(off);
        prop_assert_eq!(reconstruct_packet_number(number as u32, highest), number);
    }

    #[test]
    fn inner_headers_are_emitted_as_they_were_parsed(bytes in any::<[u8; 6]>()) {
        if let Ok((header, rest)) = InnerHeader::parse(&bytes) {
            prop_assert!(rest.is_empty());
            let mut out = [0; 6];
            header.emit(&mut out).unwrap();
            prop_assert_eq!(out, bytes);
        }
    }

    #[test]
    fn markers_are_emitted_as_they_were_parsed(bytes in prop::collection::vec(any::<u8>(), 0..80), flags in 0u8..8) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = flags;
        }
        if let Ok((marker, rest)) = OfRun::<Marker>::parse(&bytes) {
            let mut out = [0; MARKER_LEN + 4];
            let len = marker.emit(&mut out).unwrap();
            prop_assert_eq!(len + rest.len(), bytes.len());
            prop_assert_eq!(&out[..len], &bytes[..len]);
        }
    }

    #[test]
    fn frames_round_trip(frames in prop::collection::vec(plain_frames(), 0..80), room in 0usize..600) {
        let mut out = vec![0; room];
        let mut writer = FrameWriter::new(&mut out);
        let mut written: Vec<_> = frames.iter().take_while(|frame| writer.write(frame).is_ok()).copied().collect();
        let len = writer.len();
        prop_assert!(written.len() <= MAX_FRAMES);
        written.dedup_by(|a, b| *a == Frame::Padding && *b == Frame::Padding);
        prop_assert_eq!(Frames::new(&out[..len]).collect::<Result<Vec<_>, _>>(), Ok(written));
    }

    /// A load frame has one encoding, fails at each shorter length, and any change of its prefix's form is refused.
    #[test]
    fn load_frames_are_canonical_and_bounded(load in loads(), flip in any::<usize>()) {
        let mut out = [0; LOAD_FRAME_MAX];
        let mut writer = FrameWriter::new(&mut out);
        writer.write(&Frame::Load(load)).unwrap();
        let len = writer.len();
        for short in 1..len {
            prop_assert_eq!(Frames::new(&out[..short]).next(), Some(Err(WireError::Truncated)));
        }
        let at = 1 + flip / 8 % (len - 1);
        out[at] ^= 1 << (flip % 8);
        if let Some(Ok(frame)) = Frames::new(&out[..len]).next() {
            let mut again = [0; LOAD_FRAME_MAX];
            let mut writer = FrameWriter::new(&mut again);
            writer.write(&frame).unwrap();
            let written = writer.len();
            prop_assert_eq!(&again[..written], &out[..written]);
        }
    }

    #[test]
    fn malformed_load_frames_are_refused(load in loads(), address in any::<IpAddr>(), length: u8) {
        let is_canonical = network_of(address, length) == Some(address);
        let mut out = [0; LOAD_FRAME_MAX];
        let mut writer = FrameWriter::new(&mut out);
        let written = writer.write(&Frame::Load(TransitLoad { network: address, length, ..load }));
        prop_assert_eq!(written.is_ok(), is_canonical);
        let mut bytes = vec![0x12, if address.is_ipv4() { 4 } else { 6 }, length];
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
        let mut report = [0; 32];
        let len = load.report.write(&mut report).unwrap();
        bytes.extend(&report[..len]);
        prop_assert_eq!(matches!(Frames::new(&bytes).next(), Some(Ok(Frame::Load(_)))), is_canonical);
        for family in (0..=u8::MAX).filter(|family| ![4, 6].contains(family)) {
            bytes[1] = family;
            prop_assert_eq!(Frames::new(&bytes).next(), Some(Err(WireError::UnknownType)));
        }
    }

    #[test]
    fn reports_round_trip(arrivals in arrivals(), ranges in ranges(), max_ranges in 1usize..400, room in 0usize..1500) {
        let mut out = vec![0; room];
        let mut writer = FrameWriter::new(&mut out);
        let result = writer.write_report(&arrivals, ranges.iter().cloned(), max_ranges);
        let len = writer.len();
        let Ok(count) = result else {
            prop_assert!(len == 0 && room < 60);
            return Ok(());
        };
        prop_assert!(count <= max_ranges);
        let parsed = Frames::new(&out[..len]).collect::<Result<Vec<_>, _>>().unwrap();
        let [Frame::Report(report)] = parsed[..] else { panic!("{parsed:?}") };
        prop_assert_eq!(report.arrivals, arrivals);
        prop_assert_eq!(report.ranges().collect::<Vec<_>>(), &ranges[..count]);

        let mut copy = vec![0; 3000];
        let mut writer = FrameWriter::new(&mut copy);
        writer.write(&Frame::Report(report)).unwrap();
        let len = writer.len();
        let again = Frames::new(&copy[..len]).collect::<Result<Vec<_>, _>>().unwrap();
        let [Frame::Report(again)] = again[..] else { panic!("{again:?}") };
        prop_assert!(again.arrivals == arrivals && again.ranges().eq(report.ranges()));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        first in prop::sample::select(vec![0x00, 0x01, 0x05, 0x11, 0x12, 0x13, 0x14, 0x15, 0x45, 0x4f, 0x60]),
        vnet in any::<[u8; 9]>(), gso_type in prop::sample::select(vec![0, 1, 4, 5, 0x81]),
        next in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = bytes;
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        let _ = (PacketType::of(&bytes), HopHeader::parse(&bytes), InnerHeader::parse(&bytes), PartHeader::parse(&bytes), varint::parse(&bytes));
        let _ = (Initiation::parse(&bytes), HandshakeResponse::parse(&bytes), CookieReply::parse(&bytes));
        let _ = (InitiationPayload::parse(&bytes), ResponsePayload::parse(&bytes), FlowKey::of(&bytes));
        for frame in Frames::new(&bytes).flatten() {
            if let Frame::Report(report) = frame {
                prop_assert!(report.ranges().count() >= 1);
            }
        }
        if let Some(tcp) = IpView::parse(&bytes).ok().and_then(|view| view.tcp()) {
            for option in tcp.options() {
                if let TcpOption::Sack(blocks) = option {
                    prop_assert!(blocks.count() <= 4);
                }
            }
        }
        let header = [&vnet[..1], &[gso_type], &vnet[1..]].concat();
        if let Ok((header, _)) = VnetHeader::parse(&header) {
            let mut packet = bytes.clone();
            if let Ok(plan) = SuperPacket::parse(&header, &mut packet) {
                let mut out = [0; 200];
                for k in [0, 1, plan.segments() - 1, plan.segments()] {
                    let _ = (plan.segment_header(&packet, k, SegmentRole::Head, &mut out), plan.payload(k));
                }
            }
        }
        for kind in [UnitKind::Packet, UnitKind::PartialPacket, UnitKind::HeadSlice, UnitKind::TailSlice] {
            if let Ok(mut run) = Run::begin(kind, &bytes) {
                run.join(&bytes, UnitKind::PartialPacket, &next);
                let _ = (run.push_tail(next.len(), true), run.emit(&bytes, &mut [0; 100]));
            }
        }
        let _ = (Run::begin_with_tail(&bytes, 31, next.len(), false), partial_l4_checksum(&bytes));
        let _ = (ip::tos(&bytes), ip::set_ecn(&mut bytes, Ecn::Ce), clamp_mss(&mut bytes, 1200, L4Checksum::Complete));
    }
}
