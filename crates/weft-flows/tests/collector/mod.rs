//! A collector for tests: decodes IPFIX and NetFlow version 9 by the templates that it received.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_flows::ipfix::{ExportRecord, PRIVATE_ENTERPRISE};

/// Element of a template: number, enterprise (zero: IANA), and length.
type Element = (u16, u32, u16);

/// A decoded record: the values by element, and whether it is an option.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    pub is_option: bool,
    values: BTreeMap<(u16, u32), Vec<u8>>,
}

impl Decoded {
    /// Returns the value of an element of IANA as a number.
    pub fn number(&self, id: u16) -> u64 {
        self.value(id, 0)
    }

    /// Returns the value of an element of weft as a number.
    pub fn own(&self, id: u16) -> u64 {
        self.value(id, PRIVATE_ENTERPRISE)
    }

    pub fn has(&self, id: u16) -> bool {
        self.values.contains_key(&(id, 0))
    }

    fn value(&self, id: u16, enterprise: u32) -> u64 {
        let bytes = self.values.get(&(id, enterprise)).unwrap_or_else(|| panic!("no element {id} of {enterprise}"));
        assert!(bytes.len() <= 8);
        bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Returns the text of an element of weft.
    pub fn text(&self, id: u16) -> Option<String> {
        self.values.get(&(id, PRIVATE_ENTERPRISE)).map(|bytes| String::from_utf8(bytes.clone()).unwrap())
    }

    fn address(&self, v4: u16, v6: u16) -> IpAddr {
        match self.values.get(&(v4, 0)) {
            Some(bytes) => <[u8; 4]>::try_from(bytes.as_slice()).unwrap().into(),
            None => <[u8; 16]>::try_from(self.values[&(v6, 0)].as_slice()).unwrap().into(),
        }
    }

    /// Asserts that this is `record`. `has_own` is false for NetFlow.
    pub fn assert_is(&self, record: &ExportRecord, has_own: bool) {
        let key = &record.key;
        assert_eq!((self.address(8, 27), self.address(12, 28)), (key.src, key.dst));
        if key.src.is_ipv6() {
            assert_eq!(self.number(31), u64::from(key.flow_label));
        }
        let found = [4, 5, 7, 11, 234, 10, 14, 61, 136, 152, 153, 85, 86, 1, 2].map(|id| self.number(id));
        let expected = [
            u64::from(key.protocol),
            u64::from(record.dscp) * 4,
            key.src_port.into(),
            key.dst_port.into(),
            record.vpn.0.into(),
            record.ingress_interface.into(),
            record.egress_interface.into(),
            record.direction as u64,
            record.end_reason as u64,
            record.start_ms,
            record.end_ms,
            record.total_bytes,
            record.total_packets,
            record.bytes,
            record.packets,
        ];
        assert_eq!(found, expected);
        if has_own {
            let found = [1, 2, 3, 4, 5, 6, 7, 8].map(|id| self.own(id));
            let expected = [
                record.asked.bps(),
                record.granted.bps(),
                record.achieved.bps(),
                record.class.0.into(),
                record.precedence.into(),
                record.is_on_alternate.into(),
                record.verdict as u64,
                record.path.into(),
            ];
            assert_eq!(found, expected);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(len);
        self.0 = tail;
        head
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn element(&mut self) -> Element {
        let (id, len) = (self.u16(), self.u16());
        let enterprise = if id & 0x8000 != 0 { self.u32() } else { 0 };
        (id & 0x7fff, enterprise, len)
    }

    fn elements(&mut self, count: u16) -> Vec<Element> {
        (0..count).map(|_| self.element()).collect()
    }
}

/// Returns the sequence number of a message.
pub fn sequence_of(message: &[u8]) -> u32 {
    let at = if message[1] == 9 { 12 } else { 8 };
    u32::from_be_bytes(message[at..at + 4].try_into().unwrap())
}

/// A collector. It panics at a message that breaks the RFCs.
#[derive(Default)]
pub struct Collector {
    templates: BTreeMap<u16, (bool, Vec<Element>)>,
    /// Sequence number that the next message must have, if one came before.
    pub expected_sequence: Option<u32>,
    pub records: Vec<Decoded>,
    /// Templates that were received.
    pub template_records: usize,
}

impl Collector {
    /// Forgets the templates and the sequence number, as a program does that starts again. The records stay.
    pub fn restart(&mut self) {
        self.templates.clear();
        self.expected_sequence = None;
    }

    /// Decodes a message and returns its sequence number.
    pub fn receive(&mut self, message: &[u8]) -> u32 {
        let (before, mut reader) = (self.records.len(), Reader(message));
        let version = reader.u16();
        let (counted, templates) = (reader.u16(), self.template_records);
        match version {
            10 => assert_eq!(usize::from(counted), message.len()),
            9 => {
                reader.u32();
            }
            other => panic!("version {other}"),
        }
        let (_time, sequence, _domain) = (reader.u32(), reader.u32(), reader.u32());
        while !reader.0.is_empty() {
            let (id, len) = (reader.u16(), reader.u16());
            let set = Reader(reader.take(usize::from(len) - 4));
            match (version, id) {
                (10, 2) | (9, 0) => self.templates(set),
                (10, 3) => self.options(set),
                (9, 1) => self.options_v9(set),
                (_, 256..) => self.data(id, set),
                other => panic!("set {other:?}"),
            }
        }
        let data = (self.records.len() - before) as u32;
        if version == 9 {
            assert_eq!(u32::from(counted), data + (self.template_records - templates) as u32);
        }
        if let Some(expected) = self.expected_sequence {
            assert_eq!(sequence, expected, "sequence number");
        }
        self.expected_sequence = Some(sequence.wrapping_add(if version == 10 { data } else { 1 }));
        sequence
    }

    fn learn(&mut self, id: u16, is_option: bool, elements: Vec<Element>) {
        self.template_records += 1;
        if let Some(known) = self.templates.insert(id, (is_option, elements)) {
            assert_eq!(known, self.templates[&id], "template {id} changed");
        }
    }

    fn templates(&mut self, mut set: Reader<'_>) {
        while set.0.len() > 3 {
            let (id, count) = (set.u16(), set.u16());
            let elements = set.elements(count);
            self.learn(id, false, elements);
        }
    }

    fn options(&mut self, mut set: Reader<'_>) {
        while set.0.len() > 3 {
            let (id, count, scopes) = (set.u16(), set.u16(), set.u16());
            assert!(scopes > 0);
            let elements = set.elements(count);
            self.learn(id, true, elements);
        }
    }

    fn options_v9(&mut self, mut set: Reader<'_>) {
        while set.0.len() > 3 {
            let (id, scope_bytes, option_bytes) = (set.u16(), set.u16(), set.u16());
            let elements = set.elements((scope_bytes + option_bytes) / 4);
            self.learn(id, true, elements);
        }
    }

    fn data(&mut self, id: u16, mut set: Reader<'_>) {
        let (is_option, elements) = self.templates.get(&id).unwrap_or_else(|| panic!("no template {id}")).clone();
        let shortest: usize = elements.iter().map(|(.., len)| if *len == 0xffff { 1 } else { usize::from(*len) }).sum();
        let mut count = 0;
        while set.0.len() >= shortest {
            let mut decoded = Decoded { is_option, ..Decoded::default() };
            for (id, enterprise, len) in &elements {
                let len = if *len == 0xffff { usize::from(set.take(1)[0]) } else { usize::from(*len) };
                decoded.values.insert((*id, *enterprise), set.take(len).to_vec());
            }
            self.records.push(decoded);
            count += 1;
        }
        assert!(count > 0 && set.0.len() < 4 && set.0.iter().all(|byte| *byte == 0), "padding");
    }

    /// Returns the records of flows.
    pub fn flows(&self) -> impl Iterator<Item = &Decoded> {
        self.records.iter().filter(|record| !record.is_option)
    }

    /// Returns the sums of the delta counts: bytes, packets, records.
    pub fn sums(&self) -> (u64, u64, u64) {
        self.flows().fold((0, 0, 0), |(bytes, packets, records), flow| {
            (bytes + flow.number(1), packets + flow.number(2), records + 1)
        })
    }

    /// Returns the latest counts of dropped records: bytes, packets, records.
    pub fn not_sent(&self) -> (u64, u64, u64) {
        let latest = self.records.iter().rev().find(|record| record.is_option && record.has(166));
        latest.map_or((0, 0, 0), |record| (record.number(168), record.number(167), record.number(166)))
    }
}
