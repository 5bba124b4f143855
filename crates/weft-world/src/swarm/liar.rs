//! A member that sends arbitrary datagrams, sealed under its own key.

use super::packet::{self, VNET, host};
use super::site::{identity, public_key};
use std::net::{IpAddr, Ipv4Addr};
use weft_session::{Cipher, SessionPeerConfig, Sessions};
use weft_units::{FlowId, FlowSeq, Instant, PathId, PathTier, PathUse, PeerId, Rng, VpnId};
use weft_wire::frame::{Frame, FrameWriter, ReportCounters};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::inner::{INNER_LEN, InnerHeader};
use weft_wire::train::Chirp;

const TIERS: [PathTier; 4] = [PathTier::Primary, PathTier::Secondary, PathTier::Backup, PathTier::Detour];

/// The hub, the liar's only peer, in the liar's own session table.
const HUB: PeerId = PeerId(0);
/// Maximum length of the plaintext of a datagram that the liar sends, in bytes.
const MOST: u64 = 1_300;

/// The state of a lying member: its session with the hub.
pub(super) struct Liar {
    node: usize,
    sessions: Sessions,
    rng: Rng,
    stamp: u64,
}

impl Liar {
    pub(super) fn new(node: usize, hub: usize, mut rng: Rng, now: Instant) -> Option<Liar> {
        let seed = std::array::from_fn(|_| rng.next_u64() as u8);
        let hub = SessionPeerConfig::from(public_key(hub));
        let sessions = Sessions::new(identity(node), &[hub], Cipher::Aes256Gcm, seed, now).ok()?;
        Some(Liar { node, sessions, rng, stamp: 1 })
    }

    /// Processes a datagram from the hub.
    pub(super) fn receive(&mut self, now: Instant, datagram: &mut [u8]) {
        let mut out = [0; 1_500];
        if self.sessions.open(datagram).is_err() {
            let _ = self.sessions.handle(now, datagram, b"", false, &mut out);
        }
    }

    /// Returns the next datagram: a handshake initiation, or sealed arbitrary content. `None` if its session refuses.
    pub(super) fn send(&mut self, now: Instant) -> Option<Vec<u8>> {
        // `handle_timeout` deletes session keys that have ended.
        let _ = self.sessions.handle_timeout(now);
        if !self.sessions.is_established(HUB) || self.rng.chance(0.01) {
            let mut out = [0; 1_500];
            self.stamp += 1;
            let len = self.sessions.initiate(now, HUB, self.stamp, &mut out).ok()?;
            return Some(out[..len].to_vec());
        }
        let packet_type = match self.rng.below(9) {
            0..4 => PacketType::Control,
            4..6 => PacketType::Data,
            6 => PacketType::DataPart,
            7 => PacketType::DataWithReport,
            _ => PacketType::LoopData,
        };
        let plaintext = match packet_type {
            PacketType::Control => self.frames(),
            PacketType::Data => self.unit(),
            PacketType::DataWithReport => self.unit_with_frames(),
            _ => self.bytes(MOST),
        };
        let mut datagram = [&[0; HOP_HEADER_LEN], plaintext.as_slice(), &[0; TAG_LEN]].concat();
        let path = PathId(self.rng.below(6) as u8);
        self.sessions.seal(HUB, path, packet_type, &mut datagram).ok()?;
        Some(datagram)
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.rng.below(most)).map(|_| self.rng.next_u64() as u8).collect()
    }

    /// Returns a unit with a small packet. Its source is an address of the liar or of another node.
    fn unit(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        let flow = FlowId(rng.below(64) as u16);
        let seq = FlowSeq::new(if rng.chance(0.8) { rng.below(200) as u32 } else { rng.next_u64() as u32 });
        let header = match rng.below(4) {
            0 => InnerHeader::head(flow, seq),
            1 => InnerHeader::tail(1 + rng.below(31) as u8, rng.chance(0.3), flow, seq),
            _ => InnerHeader::packet(false, flow, seq),
        };
        let (from, to) = (if rng.chance(0.5) { self.node } else { rng.below(12) as usize }, rng.below(4) as usize);
        let mut packet = packet::invented(rng, host(from), host(to));
        if rng.chance(0.2) {
            let at = rng.below(packet.len() as u64) as usize;
            packet[at] = rng.next_u64() as u8;
        }
        let mut unit = vec![0; INNER_LEN];
        let _ = header.emit(&mut unit);
        [unit, packet].concat()
    }

    /// Returns a unit after frames of any kind, of which a node accepts only a report.
    fn unit_with_frames(&mut self) -> Vec<u8> {
        let mut frames = self.frames();
        frames.truncate(u8::MAX.into());
        let len = if self.rng.chance(0.9) { frames.len() as u8 } else { self.rng.next_u64() as u8 };
        [vec![len], frames, self.unit()].concat()
    }

    /// Returns well-formed frames of any kind, and sometimes random bytes after them.
    fn frames(&mut self) -> Vec<u8> {
        let mut out = vec![0; MOST as usize];
        let mut writer = FrameWriter::new(&mut out);
        for _ in 0..1 + self.rng.below(6) {
            write_frame(&mut self.rng, &mut writer);
        }
        let len = writer.len();
        out.truncate(len);
        if self.rng.chance(0.1) {
            out.extend(self.bytes(40));
        }
        out
    }
}

/// Returns a random number. Its number of bits is random too.
fn any(rng: &mut Rng) -> u64 {
    let bits = rng.below(62);
    rng.next_u64() >> (63 - bits)
}

fn write_frame(rng: &mut Rng, writer: &mut FrameWriter<'_>) {
    let paths = if rng.chance(0.8) { 6 } else { 256 };
    let path = PathId(rng.below(paths) as u8);
    let overlay: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
    let frame = match rng.below(12) {
        0 => Frame::Ping { token: rng.next_u64() as u32 },
        1 => Frame::Pong { token: rng.below(200) as u32, path },
        2 => Frame::Hold { hold_us: any(rng) as u32 },
        3 => {
            let (first, count) = (FlowSeq::new(any(rng) as u32), 1 + rng.below(1 << 23) as u32);
            Frame::Skip { flow: FlowId(rng.below(64) as u16), first, count }
        }
        4 => Frame::Policy {
            bundle_toward_me: rng.chance(0.5),
            path_active: rng.chance(0.5),
            path_use: PathUse { tier: TIERS[rng.below(4) as usize], is_sparse_only: rng.chance(0.5) },
        },
        5 => Frame::Gone { path },
        6 => Frame::Link("eth\u{7f}0"),
        7 => Frame::Vpn { vpn: VpnId(rng.below(5) as u32), index: any(rng) as u32, wants_index: rng.chance(0.5) },
        8 => Frame::Overlay(&overlay),
        9 => {
            let of = 1 + rng.below(64) as u8;
            Frame::Chirp(Chirp {
                train: rng.below(4) as u16,
                index: rng.below(of.into()) as u8,
                of,
                sent_us: any(rng) as u32,
            })
        }
        10 if rng.chance(0.02) => Frame::Close { reason: 0 },
        _ => return write_report(rng, path, writer),
    };
    let _ = writer.write(&frame);
}

/// Writes a report on packets, of which some were never sent.
fn write_report(rng: &mut Rng, path: PathId, writer: &mut FrameWriter<'_>) {
    let arrivals = ReportCounters {
        path,
        received_at_us: any(rng) as u32,
        held_us: any(rng),
        packets_received: any(rng),
        bytes_received: any(rng),
        ce_received: any(rng),
    };
    let newest = if rng.chance(0.7) { rng.below(400) } else { any(rng) };
    let first = newest.saturating_sub(rng.below(80));
    let older = first.checked_sub(2 + rng.below(4)).map(|end| end.saturating_sub(rng.below(9))..=end);
    let _ = writer.write_report(&arrivals, [first..=newest].into_iter().chain(older), 4);
}

/// True if a delivered packet has a source address behind `node`.
pub(super) fn is_from(node: usize, written: &[u8]) -> bool {
    let source = written.get(VNET + 12..VNET + 16).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    source.is_some_and(|source| super::site::behind(node).contains(IpAddr::V4(Ipv4Addr::from(source))))
}
