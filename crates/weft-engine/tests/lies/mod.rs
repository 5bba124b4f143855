//! Random datagrams of an authentic but hostile peer.
//!
//! Each type of datagram causes as much work as its author could achieve.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod map;

use std::net::Ipv4Addr;
use weft_units::{FlowId, FlowSeq, PathId, PathTier, PathUse, Rng, VpnId};
use weft_wire::certificate::RevocationView;
use weft_wire::checksum::checksum;
use weft_wire::frame::{Frame, FrameWriter, Neighbour, ReportCounters};
use weft_wire::hop::PacketType;
use weft_wire::inner::{HeaderForm, InnerHeader, PartHeader};
use weft_wire::load_report::{LoadReport, TransitLoad};
use weft_wire::loop_data::{LoopReport, MARKER_LEN, Marker, OfRun};
use weft_wire::relay::Label;
use weft_wire::train::Chirp;

/// Maximum number of plaintext bytes in a datagram of 1,500 bytes.
pub const ROOM: usize = 1_440;
/// Number of flows that the adversary uses.
const FLOWS: u64 = 2_048;
/// Input for drawing a datagram of some kind.
pub struct Draw {
    pub rng: Rng,
    /// Number of earlier datagrams of the kind.
    pub n: u32,
    /// Largest packet number that the hub has sent on the liar's path.
    pub largest: u64,
    /// Maximum number of plaintext bytes of a datagram.
    pub room: usize,
    /// Tunnel addresses of the liar and of the hub.
    pub ends: [Ipv4Addr; 2],
}

impl Draw {
    fn flow(&mut self) -> FlowId {
        FlowId(self.rng.below(FLOWS) as u16)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.next_u64() as u8).collect()
    }

    fn u32(&mut self) -> u32 {
        self.rng.next_u64() as u32
    }

    fn chance(&mut self) -> bool {
        self.rng.chance(0.5)
    }
}

/// The VPN of which the liar is a member, if the hub has one.
pub const RED: VpnId = VpnId(7);

pub type Datagram = (PacketType, Vec<u8>);

/// A kind of datagram.
pub struct Kind {
    pub name: &'static str,
    pub make: fn(&mut Draw) -> Datagram,
}

/// Returns a datagram with as many frames as fit.
fn full(draw: &mut Draw, frame: impl Fn(&mut Draw, u32) -> Frame<'static>) -> Datagram {
    let mut room = vec![0; draw.room];
    let mut writer = FrameWriter::new(&mut room);
    (0..).take_while(|at| writer.write(&frame(draw, *at)).is_ok()).for_each(drop);
    let len = writer.len();
    room.truncate(len);
    (PacketType::Control, room)
}

/// Returns a datagram with as many reports as fit.
///
/// Each has the ranges returned by `ranges`, from the largest number downwards.
fn reports(draw: &mut Draw, ranges: impl Fn(&mut Draw, u64) -> Vec<(u64, u64)>) -> Datagram {
    let mut room = vec![0; draw.room];
    let mut writer = FrameWriter::new(&mut room);
    for at in 0.. {
        let arrivals = ReportCounters { path: PathId(0), packets_received: 1, ..ReportCounters::default() };
        let ranges = ranges(draw, at).into_iter().map(|(first, last)| first..=last);
        if writer.write_report(&arrivals, ranges, 257).is_err() {
            break;
        }
    }
    let len = writer.len();
    room.truncate(len);
    (PacketType::Control, room)
}

fn unit(header: InnerHeader, payload: &[u8]) -> Datagram {
    let mut bytes = vec![0; 6];
    header.emit(&mut bytes).unwrap();
    bytes.extend(payload);
    (PacketType::Data, bytes)
}

/// Returns an IPv4 packet between the two ends with `len` bytes behind its protocol header.
fn packet(ends: [Ipv4Addr; 2], protocol: u8, header: &[u8], len: usize) -> Vec<u8> {
    let total = 20 + header.len() + len;
    let mut packet = vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet.extend(ends.iter().flat_map(Ipv4Addr::octets));
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(header);
    packet.resize(total, 0);
    packet
}

pub fn udp_packet(ends: [Ipv4Addr; 2], len: usize) -> Vec<u8> {
    let bytes = (8 + len) as u16;
    packet(ends, 17, &[15, 160, 0, 9, (bytes >> 8) as u8, bytes as u8, 0, 0], len)
}

/// Returns a UDP packet of the liar, shortened to the available space.
fn udp(d: &Draw, len: usize) -> Vec<u8> {
    udp_packet(d.ends, len.min(d.room.saturating_sub(60)))
}

fn tcp(d: &Draw, len: usize) -> Vec<u8> {
    let mut header = [0; 20];
    header[12] = 0x50;
    packet(d.ends, 6, &header, len.min(d.room.saturating_sub(60)))
}

fn noise(d: &mut Draw, most: usize) -> Vec<u8> {
    d.bytes(most.min(d.room.saturating_sub(6)))
}

pub const DATA: &[Kind] = &[
    Kind {
        name: "unit, each of another flow",
        make: |d| unit(InnerHeader::packet(false, FlowId((d.n * 37 % 65_536) as u16), FlowSeq::new(0)), &udp(d, 8)),
    },
    Kind {
        name: "unit, in order",
        make: |d| unit(InnerHeader::packet(false, FlowId(0), FlowSeq::new(d.n + 1)), &udp(d, 1_380)),
    },
    Kind {
        name: "unit, far ahead in one flow",
        make: |d| unit(InnerHeader::packet(false, FlowId(1), FlowSeq::new(d.n * 16_000)), &udp(d, 8)),
    },
    Kind {
        name: "unit, far ahead in any flow",
        make: |d| {
            let far = [14, 200, 3_000, 16_380, 1 << 20][d.rng.below(5) as usize];
            unit(InnerHeader::packet(false, d.flow(), FlowSeq::new(d.n * 5_000 + far)), &udp(d, 8))
        },
    },
    Kind {
        name: "unit, random",
        make: |d| {
            let (len, flow, seq) = (d.rng.below(1_400) as usize, d.flow(), FlowSeq::new(d.u32()));
            unit(InnerHeader::packet(d.chance(), flow, seq), &udp(d, len))
        },
    },
    Kind {
        name: "head slice, each of another flow",
        make: |d| unit(InnerHeader::head(FlowId(d.n as u16), FlowSeq::new(d.n)), &tcp(d, 1_300)),
    },
    Kind {
        name: "tail slice",
        make: |d| {
            let header = InnerHeader::tail(1 + d.rng.below(31) as u8, d.chance(), d.flow(), FlowSeq::new(d.n));
            unit(header, &noise(d, 1_300))
        },
    },
    Kind {
        name: "header reference",
        make: |d| {
            let header = InnerHeader::packet(false, d.flow(), FlowSeq::new(d.n));
            unit(InnerHeader { form: HeaderForm::Reference, ..header }, &udp(d, 1_300))
        },
    },
    Kind {
        name: "header difference",
        make: |d| {
            let header = InnerHeader::packet(false, d.flow(), FlowSeq::new(d.u32()));
            unit(InnerHeader { form: HeaderForm::Difference, ..header }, &noise(d, 1_300))
        },
    },
    Kind {
        name: "part, each of another unit",
        make: |d| {
            let unit = InnerHeader::packet(false, d.flow(), FlowSeq::new(d.n));
            let (mut bytes, payload) = (vec![0; 7], udp(d, 484));
            PartHeader { unit, first: 0, of: 10 }.emit(&mut bytes).unwrap();
            bytes.extend(payload);
            (PacketType::DataPart, bytes)
        },
    },
    Kind {
        name: "unit with a marker",
        make: |d| {
            let what = Marker { sequence: d.n, packets: d.u32(), bytes: d.u32(), ..Marker::default() };
            let mut bytes = vec![0; MARKER_LEN];
            OfRun { run: d.rng.below(2) as u8, what }.emit(&mut bytes).unwrap();
            let (_, unit) = unit(InnerHeader::packet(false, d.flow(), FlowSeq::new(d.n)), &udp(d, 1_300));
            bytes.extend(unit);
            (PacketType::LoopData, bytes)
        },
    },
    Kind {
        name: "unit with a report",
        make: |d| {
            let largest = d.u32().into();
            let arrivals = ReportCounters { received_at_us: d.u32(), held_us: d.n.into(), ..ReportCounters::default() };
            let mut report = [0; 200];
            let mut writer = FrameWriter::new(&mut report);
            writer.write_report(&arrivals, [largest..=largest], 1).unwrap();
            let len = writer.len();
            let (_, unit) = unit(InnerHeader::packet(false, d.flow(), FlowSeq::new(d.n)), &udp(d, 1_300));
            (PacketType::DataWithReport, [&[len as u8], &report[..len], &unit].concat())
        },
    },
    Kind { name: "part, noise", make: |d| (PacketType::DataPart, noise(d, 1_400)) },
    Kind { name: "data, noise", make: |d| (PacketType::Data, noise(d, 1_400)) },
];

pub const CONTROL: &[Kind] = &[
    Kind { name: "padding", make: |d| full(d, |_, _| Frame::Padding) },
    Kind { name: "ping", make: |d| full(d, |_, at| Frame::Ping { token: at }) },
    Kind { name: "pong", make: |d| full(d, |d, _| Frame::Pong { token: d.u32(), path: PathId(0) }) },
    Kind { name: "hold, to and fro", make: |d| full(d, |_, at| Frame::Hold { hold_us: at % 2 * 5_000_000 }) },
    Kind {
        name: "skip, next of one flow",
        make: |d| {
            let from = d.n * 2_000;
            full(d, |_, at| Frame::Skip { flow: FlowId(0), first: FlowSeq::new(from + at * 8), count: 7 })
        },
    },
    Kind {
        name: "skip, most numbers of any flow",
        make: |d| full(d, |d, _| Frame::Skip { flow: d.flow(), first: FlowSeq::new(d.u32()), count: 1 << 23 }),
    },
    Kind {
        name: "skip, just within reach of any flow",
        make: |d| {
            let far = [3, 15, 31, 120, 1_000, 8_000, 16_382];
            full(d, |d, at| {
                let (flow, first) = (d.flow(), d.n * 4_000 + far[d.rng.below(7) as usize]);
                Frame::Skip { flow, first: FlowSeq::new(first + at), count: 1 + d.rng.below(16_384) as u32 }
            })
        },
    },
    Kind {
        name: "skip, random",
        make: |d| {
            full(d, |d, _| {
                let count = 1 + (d.u32() >> (9 + d.rng.below(23)));
                Frame::Skip { flow: d.flow(), first: FlowSeq::new(d.u32()), count }
            })
        },
    },
    Kind {
        name: "skip and hold in turn",
        make: |d| {
            full(d, |d, at| match at % 2 {
                0 => Frame::Hold { hold_us: d.rng.below(2) as u32 * 1_000_000 },
                _ => Frame::Skip { flow: d.flow(), first: FlowSeq::new(d.n * 9_000 + at * 64), count: 1 },
            })
        },
    },
    Kind { name: "report, of everything but the first", make: |d| reports(d, |d, _| vec![(1, d.largest)]) },
    Kind {
        name: "report, older and older",
        make: |d| reports(d, |d, at| vec![(1 + at, d.largest.saturating_sub(at).max(1 + at))]),
    },
    Kind {
        name: "report, most ranges",
        make: |d| reports(d, |d, _| (0..257).map(|at| d.largest.saturating_sub(at * 2)).map(|n| (n, n)).collect()),
    },
    Kind {
        name: "report, one number at a time",
        make: |d| {
            reports(d, |d, at| {
                let number = d.largest.saturating_sub(120).saturating_add(at).min(d.largest);
                vec![(number, number)]
            })
        },
    },
    Kind { name: "report, random", make: |d| reports(d, random_ranges) },
    Kind {
        name: "policy, to and fro",
        make: |d| {
            let path_active = d.n % 2 == 0;
            let path_use = if d.chance() { PathTier::Backup.into() } else { PathUse::default() };
            full(d, |_, _| Frame::Policy { bundle_toward_me: true, path_active, path_use })
        },
    },
    Kind {
        name: "vpn, unknown",
        make: |d| full(d, |d, _| Frame::Vpn { vpn: VpnId(8 + (d.u32() >> 8)), index: 1, wants_index: true }),
    },
    Kind {
        name: "vpn, known",
        make: |d| full(d, |d, _| Frame::Vpn { vpn: RED, index: d.rng.below(2) as u32, wants_index: true }),
    },
    Kind {
        name: "loop marker",
        make: |d| {
            full(d, |d, _| {
                let what = Marker { sequence: d.u32(), packets: d.u32(), bytes: d.u32(), ..Marker::default() };
                Frame::LoopMarker { vpn: RED, marker: OfRun { run: d.rng.below(2) as u8, what } }
            })
        },
    },
    Kind {
        name: "loop report",
        make: |d| {
            full(d, |d, _| {
                let marker = Marker { sequence: d.u32(), packets: d.u32(), ..Marker::default() };
                let what = LoopReport { marker, packets: d.u32(), bytes: d.u32(), ..LoopReport::default() };
                Frame::LoopReport { vpn: RED, report: OfRun { run: d.rng.below(2) as u8, what } }
            })
        },
    },
    Kind {
        name: "neighbour",
        make: |d| {
            full(d, |d, _| {
                let (node, is_reachable) = (Label(d.u32()), d.rng.chance(0.9));
                Frame::Neighbour(Neighbour { node, is_reachable, rtt_us: 1, loss: 0 })
            })
        },
    },
    Kind {
        name: "revocation, false",
        make: |d| full(d, |d, _| Frame::Revocation(RevocationView::new([d.u32() as u8; 32], 1, |_| [3; 64]))),
    },
    Kind { name: "overlay, empty", make: |d| full(d, |_, _| Frame::Overlay(&[])) },
    Kind { name: "overlay, short", make: |d| full(d, |_, _| Frame::Overlay(&[1, 1, 1, 1, 1, 1, 1, 1])) },
    Kind {
        name: "chirp, each of another train",
        make: |d| {
            let n = d.n as u16;
            full(d, |_, at| {
                let train = n.wrapping_mul(160).wrapping_add(at as u16);
                Frame::Chirp(Chirp { train, index: 63, of: 64, sent_us: at })
            })
        },
    },
    Kind {
        name: "chirp, of one train",
        make: |d| {
            let train = d.n as u16;
            full(d, |_, at| Frame::Chirp(Chirp { train, index: (at % 63) as u8, of: 64, sent_us: at }))
        },
    },
    Kind {
        name: "chirped",
        make: |d| {
            repeat(d, |d| {
                let of = 1 + d.rng.below(64) as u8;
                let mut bytes = vec![15, 0, 0, d.rng.below(4) as u8, 0, 0, 0, 0, of];
                bytes.extend((0..of).map(|_| d.rng.below(64) as u8));
                bytes
            })
        },
    },
    Kind {
        name: "overlay, of every type",
        make: |d| {
            repeat(d, |d| {
                let len = [5, 6, 8, 26, 60][d.rng.below(5) as usize];
                let mut bytes = vec![13, 0, len];
                bytes.push(d.rng.below(12) as u8);
                bytes.extend(d.bytes(usize::from(len) - 1));
                bytes
            })
        },
    },
    Kind { name: "gone", make: |d| full(d, |d, _| Frame::Gone { path: PathId(1 + d.rng.below(255) as u8) }) },
    Kind { name: "link", make: |d| full(d, |_, at| Frame::Link(if at % 2 == 0 { "wlan0" } else { "eth0" })) },
    Kind {
        name: "load, each of another prefix",
        make: |d| {
            full(d, |d, _| {
                let (network, report) = (Ipv4Addr::from(d.u32()).into(), LoadReport::default());
                Frame::Load(TransitLoad { network, length: 32, report })
            })
        },
    },
    Kind { name: "control, noise", make: |d| (PacketType::Control, without_goodbye(d.bytes(d.room))) },
    Kind {
        name: "control, small numbers",
        make: |d| {
            let small = |byte: u8| if byte < 180 { byte % 16 } else { byte };
            (PacketType::Control, without_goodbye(d.bytes(d.room).into_iter().map(small).collect()))
        },
    },
];

/// Returns a datagram with the encoded frame repeated as often as it fits.
fn repeat(d: &mut Draw, frame: impl Fn(&mut Draw) -> Vec<u8>) -> Datagram {
    let mut bytes = Vec::new();
    loop {
        let next = frame(d);
        if bytes.len() + next.len() > d.room {
            return (PacketType::Control, bytes);
        }
        bytes.extend(next);
    }
}

/// Removes CLOSE frames (type 7) from random bytes, because they end the session and discard its state.
fn without_goodbye(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.iter_mut().filter(|byte| **byte == 7).for_each(|byte| *byte = 0);
    bytes
}

fn random_ranges(d: &mut Draw, _: u64) -> Vec<(u64, u64)> {
    let mut last = d.rng.below(d.largest + 1);
    let mut ranges = Vec::new();
    for _ in 0..1 + d.rng.below(40) {
        let first = last.saturating_sub(d.rng.below(2_000));
        ranges.push((first, last));
        match first.checked_sub(2 + d.rng.below(30)) {
            Some(next) => last = next,
            None => break,
        }
    }
    ranges
}
