//! Header compression between two peers: the reference headers that both ends keep for each flow.
//!
//! A *reference* is a header that both ends store. A header becomes a reference when its unit is acknowledged. Later
//! headers are sent as differences from the reference. Neither end uses a reference that the other end may lack.

use crate::units::Unit;
use alloc::vec::Vec;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, FlowId, FlowSeq, Instant};
use weft_wire::header_compression::{MAX_DIFFERENCE_LEN, Reference, header_len};
use weft_wire::inner::{HeaderForm, REFERENCE_LEN, UnitKind};

/// Number of flows whose references are kept at each end. A flow's slot is the low byte of its flow number.
const PLACES: usize = 256;
/// Time without use after which a reference may be replaced.
///
/// Units that depend on it have arrived by then, or never will.
const UNUSED: Duration = Duration::from_secs(1);

fn place(flow: FlowId) -> usize {
    usize::from(flow.0) % PLACES
}

/// A sent header that later headers of its flow can refer to, once the receiver has acknowledged it.
struct SentReference {
    flow: FlowId,
    /// Sequence number of the unit that carried the header.
    seq: FlowSeq,
    reference: Reference,
    /// Number of the session key of the unit's VPN when the unit was sent.
    key: u32,
    /// True if the receiver has acknowledged the unit.
    is_confirmed: bool,
    used_at: Instant,
}

impl SentReference {
    /// True if the receiver has the reference and can open datagrams that are sealed under `key`.
    fn holds_under(&self, key: u32) -> bool {
        self.is_confirmed && (self.key == key || planted::is(Fault::ReferenceSurvives))
    }
}

/// The form in which a header is sent.
#[derive(Clone, Copy, Debug)]
pub struct Compressed {
    pub form: HeaderForm,
    /// Sequence number of the unit that carried the reference.
    pub reference: FlowSeq,
    /// Length of the header that the form replaces, in bytes.
    pub header_len: usize,
    difference_len: usize,
    difference: [u8; MAX_DIFFERENCE_LEN],
}

impl Compressed {
    /// A header that is sent unchanged.
    pub const WHOLE: Compressed = Compressed {
        form: HeaderForm::Whole,
        reference: FlowSeq::new(0),
        header_len: 0,
        difference_len: 0,
        difference: [0; MAX_DIFFERENCE_LEN],
    };

    pub fn difference(&self) -> &[u8] {
        &self.difference[..self.difference_len]
    }

    /// Returns the bytes that a unit of `len` bytes takes in a datagram.
    pub fn unit_len(&self, len: usize) -> usize {
        match self.form {
            HeaderForm::Whole | HeaderForm::Reference => len,
            HeaderForm::Difference => REFERENCE_LEN + self.difference_len + len - self.header_len,
        }
    }
}

/// The headers that this node has sent as references.
///
/// A header becomes a reference when its unit is acknowledged. The receiver therefore has the header before a
/// difference depends on it, even if datagrams are lost or reordered.
///
/// A reference is valid under one session key. This node may not detect a restart of the receiver, if another node with
/// this node's key was its peer for a while. The receiver then has no headers, but it also cannot open datagrams under
/// an earlier key.
#[derive(Default)]
pub struct SentHeaders {
    places: Vec<Option<SentReference>>,
}

impl SentHeaders {
    /// Chooses the form for the header at the start of `packet`, which will be sealed under `key`.
    ///
    /// A unit can become a reference only when it is sent for the first time.
    pub fn compress(&mut self, now: Instant, key: u32, unit: &Unit, packet: &[u8]) -> Compressed {
        let (flow, seq) = (unit.segment.flow, unit.seq);
        let Some(header_len) = header_len(packet) else { return Compressed::WHOLE };
        if self.places.len() <= place(flow) {
            self.places.resize_with(place(flow) + 1, || None);
        }
        let (header, entry) = (&packet[..header_len], &mut self.places[place(flow)]);
        let mut compressed = Compressed { header_len, ..Compressed::WHOLE };
        if let Some(sent) = entry.as_mut().filter(|sent| sent.flow == flow) {
            if sent.seq == seq && sent.reference.header() == header {
                return Compressed { form: HeaderForm::Reference, ..compressed };
            }
            let (payload_len, is_partial) = (unit.len() - header_len, unit.kind != UnitKind::Packet);
            let out = &mut compressed.difference;
            if sent.holds_under(key)
                && let Some(difference_len) = sent.reference.difference(header, payload_len, is_partial, out)
            {
                sent.used_at = now;
                return Compressed { form: HeaderForm::Difference, reference: sent.seq, difference_len, ..compressed };
            }
        }
        let is_taken = entry.as_ref().is_some_and(|sent| now - sent.used_at < UNUSED);
        let Some(reference) = Reference::of(packet).filter(|_| !is_taken && unit.sent_bytes == 0) else {
            return compressed;
        };
        *entry = Some(SentReference { flow, seq, reference, key, is_confirmed: false, used_at: now });
        Compressed { form: HeaderForm::Reference, ..compressed }
    }

    /// Records that a unit was delivered. If it carried a reference, later headers may now depend on the reference.
    pub fn confirm(&mut self, flow: FlowId, seq: FlowSeq) {
        if let Some(Some(sent)) = self.places.get_mut(place(flow))
            && (sent.flow, sent.seq) == (flow, seq)
        {
            sent.is_confirmed = true;
        }
    }
}

/// A received reference, with the flow and sequence number of the unit that carried it.
type Known = (FlowId, FlowSeq, Reference);

/// The headers that the peer has sent as references.
///
/// Each of the slots for flows keeps the last two, because units may arrive late.
#[derive(Default)]
pub struct KnownHeaders {
    places: Vec<[Option<Known>; 2]>,
}

impl KnownHeaders {
    /// Keeps the header of `packet` as a reference.
    pub fn learn(&mut self, flow: FlowId, seq: FlowSeq, packet: &[u8]) {
        let Some(reference) = Reference::of(packet) else { return };
        if self.get(flow, seq).is_some() {
            return;
        }
        if self.places.len() <= place(flow) {
            self.places.resize(place(flow) + 1, [None; 2]);
        }
        let known = &mut self.places[place(flow)];
        *known = [Some((flow, seq, reference)), known[0].take()];
    }

    pub fn get(&self, flow: FlowId, seq: FlowSeq) -> Option<&Reference> {
        let mut known = self.places.get(place(flow))?.iter().flatten();
        known.find(|known| (known.0, known.1) == (flow, seq)).map(|known| &known.2)
    }

    /// Forgets all references, because the peer restarted.
    pub fn clear(&mut self) {
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Segment;
    use alloc::vec;
    use weft_core::pool::{Limits, Pool};
    use weft_units::{Rng, VpnId};
    use weft_wire::super_packet::SuperPacket;
    use weft_wire::virtio::VnetHeader;

    const KEY: u32 = 3;

    /// Returns a UDP packet of a flow, and the unit that carries it.
    fn unit(pool: &mut Pool, flow: u16, seq: u32, id: u16) -> (Unit, Vec<u8>) {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[3] = 40;
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[9] = 17;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..22].copy_from_slice(&flow.to_be_bytes());
        packet[25] = 20;
        let sum = weft_wire::checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let shape = SuperPacket::parse(&VnetHeader::default(), &mut packet).unwrap();
        let segment = Segment {
            state: None,
            buf: pool.alloc(packet.len()).unwrap(),
            vpn: VpnId::DEFAULT,
            flow: FlowId(flow),
            shape,
            number: 0,
            serial: 0,
            tos: 0,
            marked: false,
            born: Instant::ZERO,
            is_tcp: false,
            flow_hash: 0,
        };
        let unit = Unit {
            segment,
            kind: UnitKind::Packet,
            index: 0,
            seq: FlowSeq::new(seq),
            urgent: false,
            sent_bytes: 0,
            marker: None,
            deadline: Instant::ZERO,
            arrived: 0,
            repeating: false,
            repeats: 0,
            refs: 1,
            spares: 0,
            settled: false,
        };
        (unit, packet)
    }

    fn pool() -> Pool {
        Pool::new(Limits { small: 100, large: 0 })
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(5_000 + ms)
    }

    #[test]
    fn a_header_is_leant_on_once_it_was_delivered() {
        let (mut sent, mut pool) = (SentHeaders::default(), pool());
        let mut form = |sent: &mut SentHeaders, ms, flow, seq| {
            let (unit, packet) = unit(&mut pool, flow, seq, seq as u16);
            sent.compress(at(ms), KEY, &unit, &packet).form
        };
        assert_eq!(form(&mut sent, 0, 7, 1), HeaderForm::Reference);
        assert_eq!(form(&mut sent, 1, 7, 2), HeaderForm::Whole);
        assert_eq!(form(&mut sent, 2, 7, 1), HeaderForm::Reference, "it is repeated");
        sent.confirm(FlowId(7), FlowSeq::new(2));
        assert_eq!(form(&mut sent, 3, 7, 3), HeaderForm::Whole, "another unit was delivered");
        sent.confirm(FlowId(7), FlowSeq::new(1));
        assert_eq!(form(&mut sent, 4, 7, 4), HeaderForm::Difference);
        assert_eq!(form(&mut sent, 900, 7 + 256, 1), HeaderForm::Whole, "the place is another flow's");
        assert_eq!(form(&mut sent, 1_100, 7 + 256, 2), HeaderForm::Reference, "which did not use it for a second");
        assert_eq!(
            form(&mut sent, 2_200, 7 + 256, 3),
            HeaderForm::Reference,
            "the last one was not delivered for a second"
        );
    }

    #[test]
    fn a_header_is_leant_on_under_its_own_key_only() {
        let (mut sent, mut pool) = (SentHeaders::default(), pool());
        let mut form = |sent: &mut SentHeaders, ms, key, seq| {
            let (unit, packet) = unit(&mut pool, 7, seq, seq as u16);
            sent.compress(at(ms), key, &unit, &packet).form
        };
        assert_eq!(form(&mut sent, 0, KEY, 1), HeaderForm::Reference);
        sent.confirm(FlowId(7), FlowSeq::new(1));
        assert_eq!(form(&mut sent, 100, KEY, 2), HeaderForm::Difference);
        assert_eq!(form(&mut sent, 101, KEY + 1, 3), HeaderForm::Whole);
        assert_eq!(form(&mut sent, 102, KEY, 4), HeaderForm::Difference, "a VPN that is not open under the new one");
        assert_eq!(form(&mut sent, 1_101, KEY + 1, 5), HeaderForm::Whole, "differences may be on their way");
        assert_eq!(form(&mut sent, 1_102, KEY + 1, 6), HeaderForm::Reference);
        sent.confirm(FlowId(7), FlowSeq::new(6));
        assert_eq!(form(&mut sent, 1_200, KEY + 1, 7), HeaderForm::Difference);
    }

    /// Checks that every header is restored under loss, reordering and late acknowledgement.
    ///
    /// Units overtake each other by up to 800 ms. Several flows share each slot.
    #[test]
    fn every_header_is_restored_despite_loss_and_delay() {
        let mut rng = Rng::new(9);
        let (mut sent, mut known, mut pool) = (SentHeaders::default(), KnownHeaders::default(), pool());
        let mut way: Vec<(u64, Unit, Vec<u8>, Compressed)> = Vec::new();
        let mut acknowledged: Vec<(u64, FlowId, FlowSeq)> = Vec::new();
        let (mut seqs, mut differences) = ([0u32; 600], 0);
        for ms in 0..20_000u64 {
            // Few flows are active at a time, and after some seconds other flows are active.
            let flow = (ms / 4_000 * 100 + rng.below(3) * 256) as usize % 600;
            seqs[flow] += 1;
            let (unit, packet) = unit(&mut pool, flow as u16, seqs[flow], rng.below(1 << 16) as u16);
            pool.release(unit.segment.buf);
            let compressed = sent.compress(at(ms), KEY, &unit, &packet);
            if rng.unit() < 0.8 {
                let late = if rng.unit() < 0.1 { rng.below(800) } else { 20 };
                way.push((ms + late, unit, packet, compressed));
            }
            way.retain(|(due, unit, packet, compressed)| {
                if *due > ms {
                    return true;
                }
                acknowledged.push((ms + 20 + rng.below(30), unit.segment.flow, unit.seq));
                match compressed.form {
                    HeaderForm::Whole => {}
                    HeaderForm::Reference => known.learn(unit.segment.flow, unit.seq, packet),
                    HeaderForm::Difference => {
                        differences += 1;
                        let reference = known.get(unit.segment.flow, compressed.reference).expect("it was delivered");
                        let sent = [compressed.difference(), &packet[compressed.header_len..]].concat();
                        let mut header = [0; 128];
                        let (len, payload) = reference.restore(&sent, false, &mut header).unwrap();
                        assert_eq!([&header[..len], payload].concat(), *packet);
                    }
                }
                false
            });
            acknowledged.retain(|(due, flow, seq)| {
                if *due <= ms {
                    sent.confirm(*flow, *seq);
                }
                *due > ms
            });
        }
        assert!(differences > 3_000, "{differences}");
    }
}
