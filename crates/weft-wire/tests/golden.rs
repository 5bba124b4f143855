//! Golden vectors: these bytes are the wire format. If they change, the protocol version must change.

mod common;

use common::{hex, unhex};
use std::net::Ipv4Addr;
use weft_units::{Duration, FlowId, FlowSeq, PathId, PathTier, PathUse, VpnId};
use weft_wire::WireError;
use weft_wire::data_report;
use weft_wire::er_sig::Rate16;
use weft_wire::frame::{Frame, FrameWriter, Frames, LOOP_MARKER_LEN, MAX_FRAMES, Neighbour, ReportCounters};
use weft_wire::handshake::{
    COOKIE_REPLY_LEN, CookieReply, HandshakeResponse, INITIATION_LEN, Initiation, InitiationPayload,
    MAX_INITIATION_LEN, MAX_RESPONSE_LEN, MessageWriter, RESPONSE_LEN, ResponsePayload,
};
use weft_wire::hop::{HopHeader, PacketType};
use weft_wire::inner::{GRANULE, HeaderForm, InnerHeader, PartHeader, UnitKind, emit_reference, parse_reference};
use weft_wire::load_report::{LOAD_CLASSES, LoadReport, TransitLoad};
use weft_wire::loop_data::{Counting, IntervalCount, LoopReport, MARKER_LEN, Marker, OfRun};
use weft_wire::relay::{Label, Way, overhead};
use weft_wire::train::{Chirp, MAX_TRAIN};
use weft_wire::virtio::{GsoType, VnetHeader};

#[test]
fn hop_header() {
    let cases = [
        (PacketType::Data, "14 07 a1b2c3d4 00ff0102"),
        (PacketType::Control, "15 07 a1b2c3d4 00ff0102"),
        (PacketType::Relayed, "16 07 a1b2c3d4 00ff0102"),
        (PacketType::LoopData, "17 07 a1b2c3d4 00ff0102"),
        (PacketType::DataPart, "18 07 a1b2c3d4 00ff0102"),
        (PacketType::DataWithReport, "19 07 a1b2c3d4 00ff0102"),
    ];
    for (packet_type, text) in cases {
        let header = HopHeader { packet_type, path: PathId(7), receiver: 0xa1b2_c3d4, packet_number_low: 0x00ff_0102 };
        let mut datagram = unhex(text);
        let mut out = [0; 10];
        assert_eq!(header.emit(&mut out), Ok(10));
        assert_eq!(out[..], datagram);
        assert_eq!(HopHeader::parse(&datagram), Err(WireError::Truncated), "no tag");
        datagram.extend([0; 16]);
        assert_eq!(HopHeader::parse(&datagram), Ok(header));
        assert_eq!(PacketType::of(&datagram), Ok(packet_type));
    }
}

/// Checks the relayed datagram on the route A → B → C → D as it leaves each node, without the tag.
#[test]
fn relayed() {
    let [a, b, c, d] = [0xaaaa_0001, 0xbbbb_0002, 0xcccc_0003, 0xdddd_0004].map(Label);
    let from_a = Way::new(&[c, d]).unwrap();
    let (from_b, from_c) = (from_a.passed(a), from_a.passed(a).passed(b));
    let cases = [
        (from_a, Some(c), "16 02 a1b2c3d4 00ff0102 5555 cccc0003 dddd0004"),
        (from_b, Some(d), "16 12 a1b2c3d4 00ff0102 5555 aaaa0001 dddd0004"),
        (from_c, None, "16 22 a1b2c3d4 00ff0102 5555 aaaa0001 bbbb0002"),
        (from_c.back(), Some(b), "16 02 a1b2c3d4 00ff0102 5555 bbbb0002 aaaa0001"),
    ];
    for (way, next, text) in cases {
        let (path, receiver, packet_number_low) = (PathId(way.code()), 0xa1b2_c3d4, 0x00ff_0102);
        let header = HopHeader { packet_type: PacketType::Relayed, path, receiver, packet_number_low };
        let mut datagram = [0x55; 20];
        assert_eq!((header.emit(&mut datagram), way.emit(&mut datagram[12..])), (Ok(10), Ok(8)));
        assert_eq!((datagram[..].to_vec(), way.next()), (unhex(text), next));
        assert_eq!(Way::parse(datagram[1], &datagram), Ok(way));
    }
    assert_eq!(overhead(2), 10 + 8 + 16);
}

#[test]
fn unknown_versions_and_types_are_refused() {
    assert_eq!(PacketType::of(&[0x24]), Err(WireError::Version));
    assert_eq!(PacketType::of(&[0x04]), Err(WireError::Version));
    for reserved in [0x10, 0x1a, 0x1f] {
        assert_eq!(PacketType::of(&[reserved]), Err(WireError::UnknownType));
    }
    assert_eq!(PacketType::of(&[]), Err(WireError::Truncated));
    assert_eq!(HopHeader::parse(&[0x11; 40]), Err(WireError::UnknownType), "a handshake has no hop header");
}

#[test]
fn inner_header() {
    let (flow, seq) = (FlowId(0x1234), FlowSeq::new(0x00ab_cdef));
    let cases = [
        (InnerHeader::packet(false, flow, seq), "20 1234 abcdef"),
        (InnerHeader::packet(true, flow, seq), "60 1234 abcdef"),
        (InnerHeader::head(flow, seq), "80 1234 abcdef"),
        (InnerHeader { form: HeaderForm::Reference, ..InnerHeader::packet(true, flow, seq) }, "61 1234 abcdef"),
        (InnerHeader { form: HeaderForm::Difference, ..InnerHeader::head(flow, seq) }, "82 1234 abcdef"),
        (InnerHeader::tail(1, false, flow, seq), "c1 1234 abcdef"),
        (InnerHeader::tail(31, true, flow, seq), "ff 1234 abcdef"),
    ];
    for (header, text) in cases {
        let mut out = [0; 6];
        assert_eq!(header.emit(&mut out), Ok(6));
        assert_eq!(out[..], unhex(text), "{header:?}");
        let mut plaintext = out.to_vec();
        plaintext.push(0x99);
        assert_eq!(InnerHeader::parse(&plaintext), Ok((header, &[0x99][..])));
    }
    assert_eq!(InnerHeader::tail(31, true, flow, seq).head_seq(), FlowSeq::new(0x00ab_cdef - 31));
    assert_eq!(InnerHeader::packet(true, flow, seq).kind, UnitKind::PartialPacket);
}

#[test]
fn contradicting_inner_headers_are_refused() {
    for first in [0x00, 0x01, 0x23, 0x40, 0x63, 0xa0, 0xa1, 0x83, 0xc0, 0xe0] {
        assert_eq!(InnerHeader::parse(&[first, 0, 0, 0, 0, 0]), Err(WireError::Malformed), "{first:#x}");
    }
    assert_eq!(InnerHeader::parse(&[0x20, 0, 0, 0, 0]), Err(WireError::Truncated));
    let wrong = InnerHeader { last: true, ..InnerHeader::head(FlowId(0), FlowSeq::new(0)) };
    assert_eq!(wrong.emit(&mut [0; 6]), Err(WireError::Malformed));
    let formed = InnerHeader { form: HeaderForm::Reference, ..InnerHeader::tail(1, true, FlowId(0), FlowSeq::new(0)) };
    assert_eq!(formed.emit(&mut [0; 6]), Err(WireError::Malformed));
    let part = PartHeader {
        unit: InnerHeader { form: HeaderForm::Difference, ..InnerHeader::packet(true, FlowId(0), FlowSeq::new(0)) },
        first: 0,
        of: 2,
    };
    assert_eq!(part.emit(&mut [0; 7]), Err(WireError::Malformed));
    assert_eq!(
        PartHeader::parse(&[[0x62, 0, 0, 0, 0, 0, 0x01].as_slice(), &[0; GRANULE]].concat()),
        Err(WireError::Malformed)
    );
}

#[test]
fn the_name_of_a_reference() {
    let mut out = [0; 4];
    assert_eq!(emit_reference(FlowSeq::new(0x00ab_cdef), &mut out).map(|rest| rest.len()), Ok(1));
    assert_eq!(out[..], unhex("abcdef 00"));
    assert_eq!(parse_reference(&out), Ok((FlowSeq::new(0x00ab_cdef), &[0][..])));
    assert_eq!(parse_reference(&out[..2]), Err(WireError::Truncated));
}

#[test]
fn part_header() {
    let (flow, seq) = (FlowId(0x1234), FlowSeq::new(0x00ab_cdef));
    let packet = InnerHeader::packet(true, flow, seq);
    let tail = InnerHeader::tail(31, true, flow, seq);
    let cases = [
        (PartHeader { unit: packet, first: 0, of: 10 }, 5 * GRANULE, "60 1234 abcdef 09"),
        (PartHeader { unit: packet, first: 5, of: 10 }, 4 * GRANULE + 1, "60 1234 abcdef 59"),
        (PartHeader { unit: tail, first: 15, of: 16 }, 1, "ff 1234 abcdef ff"),
    ];
    for (header, len, text) in cases {
        let mut plaintext = vec![0x99; 7 + len];
        assert_eq!(header.emit(&mut plaintext), Ok(7));
        assert_eq!(plaintext[..7], unhex(text), "{header:?}");
        assert_eq!(PartHeader::parse(&plaintext), Ok((header, &vec![0x99; len][..])));
        assert_eq!(header.emit(&mut [0; 6]), Err(WireError::NoRoom));
    }
}

#[test]
fn parts_of_nothing_are_refused() {
    let unit = InnerHeader::packet(false, FlowId(1), FlowSeq::new(1));
    let parse = |first: u8, of: u8, len: usize| {
        let mut plaintext = vec![0; 7 + len];
        unit.emit(&mut plaintext).unwrap();
        plaintext[6] = first << 4 | (of - 1);
        PartHeader::parse(&plaintext).map(|(header, _)| header)
    };
    assert_eq!(parse(1, 3, GRANULE), Ok(PartHeader { unit, first: 1, of: 3 }));
    for (first, of, len, why) in [
        (1, 3, 0, "empty"),
        (1, 3, GRANULE - 1, "ends inside a granule"),
        (1, 3, 3 * GRANULE, "reaches behind the end"),
        (3, 3, 1, "begins behind the end"),
        (0, 3, 3 * GRANULE - 7, "is the whole unit"),
        (0, 1, 9, "is the whole unit"),
        (15, 16, 9_000, "is longer than any unit"),
    ] {
        assert_eq!(parse(first, of, len), Err(WireError::Malformed), "{why}");
    }
    assert_eq!(PartHeader::parse(&[0x20, 0, 0, 0, 0, 0]), Err(WireError::Truncated));
    assert_eq!(PartHeader::parse(&[0x00, 0, 0, 0, 0, 0, 0x01, 9]), Err(WireError::Malformed), "no such unit");
    for (first, of) in [(2, 2), (0, 0), (0, 17)] {
        assert_eq!(PartHeader { unit, first, of }.emit(&mut [0; 7]), Err(WireError::Malformed));
    }
}

const MARKER: Marker = Marker {
    sequence: 0x0102_0304,
    sent_at_us: 0x0506_0708,
    packets: 0x090a_0b0c,
    bytes: 0x0d0e_0f10,
    explained_us: 0x2526_2728,
    is_pressing: true,
    counting: None,
};
const REPORT: LoopReport = LoopReport {
    marker: MARKER,
    received_at_us: 0x1112_1314,
    held_us: 0x1516_1718,
    packets: 0x191a_1b1c,
    bytes: 0x1d1e_1f20,
    ce_packets: 0x2122_2324,
    count: None,
};

const MARKER_TEXT: &str = "01 aa 01020304 05060708 090a0b0c 0d0e0f10 25262728";
const COUNTS_TEXT: &str = "11121314 15161718 191a1b1c 1d1e1f20 21222324";

#[test]
fn marker_before_a_unit() {
    let marker = OfRun { run: 0xaa, what: MARKER };
    let mut bytes = unhex(MARKER_TEXT);
    let mut out = [0; MARKER_LEN];
    assert_eq!(marker.emit(&mut out), Ok(bytes.len()));
    assert_eq!((hex(&out), bytes.len()), (hex(&bytes), MARKER_LEN));
    for shorter in 0..bytes.len() {
        assert_eq!(OfRun::<Marker>::parse(&bytes[..shorter]), Err(WireError::Truncated));
        assert_eq!(marker.emit(&mut out[..shorter]), Err(WireError::NoRoom));
    }
    bytes.push(0x20);
    assert_eq!(OfRun::<Marker>::parse(&bytes), Ok((marker, &[0x20][..])), "a unit follows");
    for flags in [4, 5, 8, 10, 0x10, 0x80] {
        assert_eq!(OfRun::<Marker>::parse(&[flags; 40]), Err(WireError::Malformed));
    }
}

#[test]
fn marker_and_report_that_count() {
    let counting = Some(Counting { interval_us: 0x0000_d2f0, restarts: true });
    let marker = Marker { counting, ..MARKER };
    let mut out = [0; 64];
    let bytes = unhex(&format!("07{} 0000d2f0", &MARKER_TEXT[2..]));
    assert_eq!(OfRun { run: 0xaa, what: marker }.emit(&mut out), Ok(bytes.len()));
    assert_eq!((hex(&out[..bytes.len()]), bytes.len()), (hex(&bytes), marker.encoded_len()));
    assert_eq!(OfRun::<Marker>::parse(&bytes), Ok((OfRun { run: 0xaa, what: marker }, &[][..])));
    let zero = unhex(&format!("03{} 00000000", &MARKER_TEXT[2..]));
    assert_eq!(OfRun::<Marker>::parse(&zero), Err(WireError::Malformed), "an interval without length");

    let count = Some(IntervalCount { restarted_by: 3, intervals: 4, bytes: 0x0a0b_0c0d });
    let report = LoopReport { marker, count, ..REPORT };
    let frame = Frame::LoopReport { vpn: VpnId(7), report: OfRun { run: 0xaa, what: report } };
    let mut writer = FrameWriter::new(&mut out);
    writer.write(&frame).unwrap();
    let len = writer.len();
    let text = format!("0a 00000007 0f{} 0000d2f0 {COUNTS_TEXT} 00000003 00000004 0a0b0c0d", &MARKER_TEXT[2..]);
    assert_eq!(hex(&out[..len]), hex(&unhex(&text)));
    assert_eq!(Frames::new(&out[..len]).collect::<Vec<_>>(), [Ok(frame)]);
    assert_eq!(Frames::new(&out[..len - 1]).collect::<Vec<_>>(), [Err(WireError::Truncated)]);
}

#[test]
fn loop_frames() {
    let marker = Frame::LoopMarker { vpn: VpnId(7), marker: OfRun { run: 0xaa, what: MARKER } };
    let report = Frame::LoopReport { vpn: VpnId(7), report: OfRun { run: 0xaa, what: REPORT } };
    let cases =
        [(marker, format!("09 00000007 {MARKER_TEXT}")), (report, format!("0a 00000007 {MARKER_TEXT} {COUNTS_TEXT}"))];
    for (frame, text) in cases {
        let mut out = [0; 64];
        let mut writer = FrameWriter::new(&mut out);
        writer.write(&frame).unwrap();
        let len = writer.len();
        assert_eq!(hex(&out[..len]), hex(&unhex(&text)), "{frame:?}");
        assert_eq!(Frames::new(&out[..len]).collect::<Vec<_>>(), [Ok(frame)]);
        assert_eq!(Frames::new(&out[..len - 1]).collect::<Vec<_>>(), [Err(WireError::Truncated)]);
    }
    let of_default = unhex(&format!("09 00000000 {MARKER_TEXT}"));
    assert_eq!(Frames::new(&of_default).next(), Some(Err(WireError::Malformed)), "the default VPN has no loop");
    assert_eq!(LOOP_MARKER_LEN, 27);
}

fn load_of_a_port() -> TransitLoad {
    let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
    headroom[..2].copy_from_slice(&[Rate16(0x3240), Rate16(0x77a0)]);
    let (rate, queue_delay) = (Rate16(0x8435), Duration::from_micros(4_330));
    let report = LoadReport { sequence: 7, port: 0x0102, rate, flows: 1_000_000, queue_delay, classes: 2, headroom };
    TransitLoad { network: Ipv4Addr::new(10, 9, 0, 0).into(), length: 16, report }
}

#[test]
fn frames() {
    let cases = [
        (Frame::Padding, "00"),
        (Frame::Ping { token: 0x0102_0304 }, "02 01020304"),
        (Frame::Pong { token: 0x0102_0304, path: PathId(5) }, "03 01020304 05"),
        (Frame::Hold { hold_us: 250_000 }, "04 0003d090"),
        (Frame::Skip { flow: FlowId(7), first: FlowSeq::new(0xffff), count: 300 }, "05 0007 00ffff 412c"),
        (Frame::Policy { bundle_toward_me: true, path_active: false, path_use: PathUse::default() }, "06 01"),
        (Frame::Policy { bundle_toward_me: false, path_active: true, path_use: PathTier::Detour.into() }, "06 06"),
        (Frame::Policy { bundle_toward_me: false, path_active: true, path_use: PathTier::Secondary.into() }, "06 0e"),
        (Frame::Policy { bundle_toward_me: true, path_active: true, path_use: PathTier::Backup.into() }, "06 17"),
        (
            Frame::Policy {
                bundle_toward_me: false,
                path_active: true,
                path_use: PathUse { tier: PathTier::Primary, is_sparse_only: true },
            },
            "06 22",
        ),
        (
            Frame::Neighbour(Neighbour { node: Label(0x0102_0304), is_reachable: true, rtt_us: 0x1122, loss: 3 }),
            "0c 01020304 01 00001122 03",
        ),
        (Frame::Overlay(&[3, 0, 0, 0, 9]), "0d 0005 03 00 00 00 09"),
        (Frame::Link("fibre"), "11 05 6669627265"),
        (Frame::Close { reason: 2 }, "07 02"),
        (Frame::Gone { path: PathId(6) }, "10 06"),
        (Frame::Load(load_of_a_port()), "12 04 10 0a090000 12 07 0102 8435 0f4240 01b1 3240 77a0"),
        (Frame::Chirp(Chirp { train: 0x0102, index: 3, of: 60, sent_us: 0x0405_0607 }), "0e 0102 03 3c 04050607"),
        (Frame::Vpn { vpn: VpnId(0x0001_86a0), index: 0xa1b2_c3d4, wants_index: true }, "08 000186a0 a1b2c3d4 01"),
        (Frame::Vpn { vpn: VpnId(7), index: 0, wants_index: false }, "08 00000007 00000000 00"),
    ];
    let (mut all, mut expected) = (Vec::new(), Vec::new());
    for (frame, text) in cases {
        let mut out = [0; 32];
        let mut writer = FrameWriter::new(&mut out);
        writer.write(&frame).unwrap();
        let len = writer.len();
        assert_eq!(hex(&out[..len]), hex(&unhex(text)), "{frame:?}");
        all.extend(&out[..len]);
        expected.push(Ok(frame));
    }
    assert_eq!(Frames::new(&all).collect::<Vec<_>>(), expected);
}

#[test]
fn report_frame() {
    let arrivals = ReportCounters {
        path: PathId(3),
        received_at_us: 0xdead_beef,
        held_us: 900,
        packets_received: 70_000,
        bytes_received: 98_000_000,
        ce_received: 5,
    };
    let mut out = [0; 64];
    let mut writer = FrameWriter::new(&mut out);
    let ranges = [95..=100, 90..=92, 10..=10];
    assert_eq!(writer.write_report(&arrivals, ranges.clone(), 8), Ok(3));
    let len = writer.len();
    let text = "01 03 4064 deadbeef 4384 80011170 85d75c80 05 05 02 01 02 404e 00";
    assert_eq!(hex(&out[..len]), hex(&unhex(text)));
    let parsed = Frames::new(&out[..len]).collect::<Result<Vec<_>, _>>().unwrap();
    let [Frame::Report(report)] = parsed[..] else { panic!("{parsed:?}") };
    assert_eq!((report.arrivals, report.largest()), (arrivals, 100));
    assert_eq!(report.ranges().collect::<Vec<_>>(), ranges);
}

#[test]
fn a_report_before_a_unit() {
    let report = unhex("01 03 0a deadbeef 00 00 00 00 02 00");
    let unit = unhex("20 0007 000009 4500");
    let mut out = [0; 22];
    data_report::emit(&report, &mut out).unwrap().copy_from_slice(&unit);
    assert_eq!(hex(&out), hex(&unhex("0d 01030adeadbeef000000000200 200007000009 4500")));
    assert_eq!(data_report::parse(&out), Ok((&report[..], &unit[..])));
    for len in 0..20 {
        assert_eq!(data_report::parse(&out[..len]), Err(WireError::Truncated), "{len}");
    }
    for frame in ["", "02 00000001", "01 03"] {
        let datagram = [vec![unhex(frame).len() as u8], unhex(frame), unit.clone()].concat();
        assert!(data_report::parse(&datagram).is_err(), "{frame}");
    }
    assert_eq!(data_report::emit(&[], &mut out), Err(WireError::Malformed));
    assert_eq!(data_report::emit(&[1; 256], &mut [0; 300]), Err(WireError::Malformed));
    assert_eq!(data_report::emit(&report, &mut [0; 13]), Err(WireError::NoRoom));
}

#[test]
fn reports_that_lie_are_refused() {
    let head = "01 03 0a deadbeef 00 00 00 00";
    let cases = [
        ("0b 00", WireError::Malformed),       // the first range extends below zero
        ("01 01 08 00", WireError::Malformed), // the gap extends below zero
        ("01 01 00 08", WireError::Malformed), // the second range extends below zero
        ("00 4101", WireError::Malformed),     // 257 ranges, which is one too many
        ("00 02 00 00", WireError::Truncated), // two ranges announced, one present
    ];
    for (tail, error) in cases {
        let bytes = unhex(&format!("{head} {tail}"));
        assert_eq!(Frames::new(&bytes).collect::<Vec<_>>(), [Err(error)], "{tail}");
    }
    let unknown = [0x00, 0x3f, 0x00];
    assert_eq!(Frames::new(&unknown).collect::<Vec<_>>(), [Ok(Frame::Padding), Err(WireError::UnknownType)]);
    assert_eq!(Frames::new(&unhex("05 0000 000000 00")).next(), Some(Err(WireError::Malformed)), "skips nothing");
    let default_vpn = unhex("08 00000000 00000001 00");
    assert_eq!(Frames::new(&default_vpn).next(), Some(Err(WireError::Malformed)), "the session's own index is its");
}

#[test]
fn a_message_that_does_not_fit_writes_nothing() {
    let mut out = [0; 9];
    let mut writer = FrameWriter::new(&mut out);
    writer.write(&Frame::Ping { token: 1 }).unwrap();
    assert_eq!(writer.write(&Frame::Ping { token: 2 }), Err(WireError::NoRoom));
    assert_eq!((writer.len(), writer.room()), (5, 4));
    let arrivals = ReportCounters::default();
    assert_eq!(writer.write_report(&arrivals, core::iter::once(0..=1), 1), Err(WireError::NoRoom));
    assert_eq!(writer.write_report(&arrivals, [], 1), Err(WireError::Malformed), "nothing arrived");
    writer.write(&Frame::Close { reason: 1 }).unwrap();
    assert_eq!(Frames::new(&out[..7]).filter_map(Result::ok).count(), 2);
}

#[test]
fn a_report_takes_as_many_ranges_as_fit() {
    let ranges = || (0..100u64).rev().map(|n| n * 4..=n * 4 + 1);
    let mut out = [0; 40];
    let mut writer = FrameWriter::new(&mut out);
    let written = writer.write_report(&ReportCounters::default(), ranges(), 300).unwrap();
    let len = writer.len();
    assert!(written > 5 && written < 20, "{written}");
    let Some(Ok(Frame::Report(report))) = Frames::new(&out[..len]).next() else { panic!() };
    assert!(report.ranges().eq(ranges().take(written)));

    let mut out = [0; 1000];
    let mut writer = FrameWriter::new(&mut out);
    assert_eq!(writer.write_report(&ReportCounters::default(), ranges(), 7), Ok(7));
    assert_eq!(
        writer.write_report(&ReportCounters::default(), [5..=6, 4..=4], 7),
        Err(WireError::Malformed),
        "touching"
    );
}

#[test]
fn handshake_initiation() {
    let mut out = [0xee; INITIATION_LEN];
    let mut writer = MessageWriter::initiation(&mut out, 0x0a0b_0c0d).unwrap();
    writer.noise_mut().fill(0x55);
    assert_eq!(writer.noise_mut().len(), 128);
    writer.finish(|covered| [covered.len() as u8; 16], Some(|covered: &[u8]| [covered.len() as u8; 16])).unwrap();
    let text = format!("11000000 0a0b0c0d {} {} {}", "55".repeat(128), "88".repeat(16), "98".repeat(16));
    assert_eq!(hex(&out), hex(&unhex(&text)));
    assert_eq!(out.len(), 168);
    let parsed = Initiation::parse(&out).unwrap();
    assert_eq!((parsed.sender, parsed.noise), (0x0a0b_0c0d, &[0x55; 128][..]));
    assert_eq!((parsed.macs.mac1, parsed.macs.mac2), (&[0x88; 16], &[0x98; 16]));
    assert_eq!((parsed.macs.mac1_covers, parsed.macs.mac2_covers), (&out[..136], &out[..152]));
    refuses_other_lengths_and_types(&out, MAX_INITIATION_LEN, |bytes| Initiation::parse(bytes).err());
}

#[test]
fn an_initiation_is_longer_by_its_certificate() {
    let mut out = [0xee; INITIATION_LEN + 100];
    let mut writer = MessageWriter::initiation(&mut out, 1).unwrap();
    assert_eq!(writer.noise_mut().len(), 228);
    writer.noise_mut().fill(0x55);
    writer.finish(|covered| [covered.len() as u8; 16], None::<fn(&[u8]) -> [u8; 16]>).unwrap();
    let parsed = Initiation::parse(&out).unwrap();
    assert_eq!((parsed.noise, parsed.macs.mac1), (&[0x55; 228][..], &[236; 16]));
    assert_eq!(MessageWriter::initiation(&mut [0; INITIATION_LEN - 1], 1).err(), Some(WireError::Truncated));
    assert_eq!(MessageWriter::initiation(&mut [0; MAX_INITIATION_LEN + 1], 1).err(), Some(WireError::TooLong));
}

#[test]
fn handshake_response() {
    let mut out = [0xee; RESPONSE_LEN];
    let mut writer = MessageWriter::response(&mut out, 1, 2).unwrap();
    writer.noise_mut().fill(0x66);
    writer.finish(|covered| [covered.len() as u8; 16], None::<fn(&[u8]) -> [u8; 16]>).unwrap();
    let text = format!("12000000 00000001 00000002 {} {} {}", "66".repeat(64), "4c".repeat(16), "00".repeat(16));
    assert_eq!(hex(&out), hex(&unhex(&text)));
    assert_eq!(out.len(), 108);
    let parsed = HandshakeResponse::parse(&out).unwrap();
    assert_eq!((parsed.sender, parsed.receiver, parsed.noise), (1, 2, &[0x66; 64][..]));
    assert_eq!((parsed.macs.mac1_covers, parsed.macs.mac2_covers), (&out[..76], &out[..92]));
    refuses_other_lengths_and_types(&out, MAX_RESPONSE_LEN, |bytes| HandshakeResponse::parse(bytes).err());
}

#[test]
fn handshake_cookie_reply() {
    let mut out = [0xee; COOKIE_REPLY_LEN];
    let reply = CookieReply { receiver: 3, nonce: &[0x0a; 12], sealed_cookie: &[0x0b; 32] };
    reply.emit(&mut out).unwrap();
    let text = format!("13000000 00000003 {} {}", "0a".repeat(12), "0b".repeat(32));
    assert_eq!(hex(&out), hex(&unhex(&text)));
    assert_eq!(CookieReply::parse(&out), Ok(reply));
    refuses_other_lengths_and_types(&out, COOKIE_REPLY_LEN, |bytes| CookieReply::parse(bytes).err());
}

fn refuses_other_lengths_and_types(datagram: &[u8], longest: usize, error: impl Fn(&[u8]) -> Option<WireError>) {
    assert_eq!(error(&datagram[..datagram.len() - 1]), Some(WireError::Truncated));
    let mut changed = datagram.to_vec();
    changed.resize(longest + 1, 0);
    assert_eq!(error(&changed), Some(WireError::TooLong));
    changed.truncate(datagram.len());
    changed[0] ^= 0x0f;
    assert_eq!(error(&changed), Some(WireError::UnknownType));
    changed[0] = datagram[0] | 0x80;
    assert_eq!(error(&changed), Some(WireError::Version));
    changed[0] = datagram[0];
    changed[3] = 1;
    assert_eq!(error(&changed), Some(WireError::Malformed), "a reserved byte");
}

#[test]
fn handshake_payloads() {
    let initiation = InitiationPayload { stamp: 0x0102, association: 0x0304, version_min: 1, version_max: 2 };
    let text = format!("0000000000000102 0000000000000304 01 02 {}", "00".repeat(14));
    assert_eq!(hex(&initiation.emit()), hex(&unhex(&text)));
    assert_eq!(InitiationPayload::parse(&initiation.emit()), Ok(initiation));
    let none = InitiationPayload { version_min: 3, ..initiation };
    assert_eq!(InitiationPayload::parse(&none.emit()), Err(WireError::Malformed));

    let response = ResponsePayload { association: 0x0506, version: 1 };
    assert_eq!(hex(&response.emit()), "0000000000000506".to_owned() + "01" + &"00".repeat(7));
    assert_eq!(ResponsePayload::parse(&response.emit()), Ok(response));
    assert_eq!(ResponsePayload::parse(&[0; 15]), Err(WireError::Truncated));
    assert_eq!(ResponsePayload::parse(&[0; 17]), Err(WireError::TooLong));
}

#[test]
fn virtio_net_hdr() {
    let header = VnetHeader {
        flags: 1,
        gso_type: GsoType::TcpV6,
        gso_ecn: true,
        hdr_len: 0x1122,
        gso_size: 0x3344,
        csum_start: 0x5566,
        csum_offset: 0x7788,
    };
    let mut out = [0; 10];
    assert_eq!(header.emit(&mut out), Ok(10));
    let expected =
        if cfg!(target_endian = "little") { "01 84 2211 4433 6655 8877" } else { "01 84 1122 3344 5566 7788" };
    assert_eq!(out[..], unhex(expected));
    assert_eq!(VnetHeader::parse(&out), Ok((header, &[][..])));
    out[1] = 3;
    assert_eq!(VnetHeader::parse(&out), Err(WireError::UnknownType), "UFO");
}

#[test]
fn what_became_of_a_train() {
    let mut out = [0; 64];
    let mut writer = FrameWriter::new(&mut out);
    // The delays wrap around the end of the clock: the least is 2^32 − 6.
    let delays = [Some(4), None, Some(u32::MAX - 5), Some(294)];
    writer.write_chirped(PathId(2), 0x0102, &delays).unwrap();
    let len = writer.len();
    assert_eq!(hex(&out[..len]), hex(&unhex("0f 02 0102 fffffffa 04 0b 00 01 412d")));
    let Some(Ok(Frame::Chirped(chirped))) = Frames::new(&out[..len]).next() else { panic!("not a report") };
    assert_eq!(chirped.delays_us().collect::<Vec<_>>(), delays);
    for len in 1..len {
        assert_eq!(Frames::new(&out[..len]).next(), Some(Err(WireError::Truncated)), "{len}");
    }
    let mut writer = FrameWriter::new(&mut out);
    assert_eq!(writer.write_chirped(PathId(2), 0, &[]), Err(WireError::Malformed));
    assert_eq!(writer.write_chirped(PathId(2), 0, &[None; MAX_TRAIN as usize + 1]), Err(WireError::Malformed));
    for malformed in
        ["0e 0000 03 03 00000000", "0e 0000 03 41 00000000", "0f 02 0102 00000000 00", "0f 02 0102 00000000 41"]
    {
        assert_eq!(Frames::new(&unhex(malformed)).next(), Some(Err(WireError::Malformed)), "{malformed}");
    }
}

/// Writer and parser limit the number of frames in a datagram. Consecutive padding bytes are one frame.
#[test]
fn a_datagram_has_a_most_number_of_frames() {
    let mut room = [0; 1_400];
    let mut writer = FrameWriter::new(&mut room);
    let hold = Frame::Hold { hold_us: 7 };
    for _ in 0..MAX_FRAMES {
        writer.write(&hold).unwrap();
    }
    assert_eq!(writer.write(&hold), Err(WireError::NoRoom));
    let len = writer.len();
    assert_eq!(Frames::new(&room[..len]).collect::<Result<Vec<_>, _>>(), Ok(vec![hold; MAX_FRAMES]));
    let more = [&room[..len], &room[..5]].concat();
    assert_eq!(Frames::new(&more).last(), Some(Err(WireError::TooLong)));
    let padded = [&[0; 900][..], &room[..5], &[0; 30]].concat();
    assert_eq!(Frames::new(&padded).collect::<Result<Vec<_>, _>>(), Ok(vec![Frame::Padding, hold, Frame::Padding]));
}
