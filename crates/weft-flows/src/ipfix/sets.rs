//! The message header, templates and records of both dialects.

use super::field::{
    CLASS_NAMES, CLASS_SCOPE, COMMON, Element, IPV4, IPV6, OWN, PRIVATE_ENTERPRISE, STATISTICS, STATISTICS_SCOPE,
    record_bytes,
};
use super::record::ExportRecord;
use super::retained::NotSent;
use super::writer::ExportWriter;
use core::net::IpAddr;
use weft_units::Duration;

/// Format of the messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dialect {
    /// IPFIX (RFC 7011).
    #[default]
    Ipfix,
    /// NetFlow version 9 (RFC 3954). It has no elements of weft and no names of classes.
    NetflowV9,
}

/// Number of the template for records of IPv4 flows.
const TEMPLATE_IPV4: u16 = 256;
/// Number of the template for records of IPv6 flows.
const TEMPLATE_IPV6: u16 = 257;
/// Number of the template for the statistics of dropped records.
const TEMPLATE_STATISTICS: u16 = 258;
/// Number of the template for the names of classes.
const TEMPLATE_CLASS: u16 = 259;
/// Bit that marks an element of an enterprise (RFC 7011 §3.2).
const ENTERPRISE_BIT: u16 = 0x8000;
/// Bytes of a set's header.
const SET_HEADER: usize = 4;
/// Longest name of a class in a record, in bytes: its length is one byte (RFC 7011 §7).
const NAME_BYTES: usize = 254;
/// Scope of an option that concerns the whole exporter (RFC 3954 §6.1).
const SCOPE_SYSTEM: u16 = 1;

/// Fields of a message header.
#[derive(Clone, Copy, Debug)]
pub struct MessageHeader {
    /// Time at which the message is made, in seconds since 1970.
    pub unix_s: u32,
    /// Time since the exporter was made.
    pub uptime: Duration,
    /// Sequence number of the message: a count of records in IPFIX, and of messages in NetFlow.
    pub sequence: u32,
    /// Observation domain in IPFIX, or source id in NetFlow.
    pub domain: u32,
    /// Records in the message, templates included.
    pub records: u16,
}

impl Dialect {
    /// Returns the length of a message's header in bytes.
    pub const fn header_bytes(self) -> usize {
        match self {
            Dialect::Ipfix => 16,
            Dialect::NetflowV9 => 20,
        }
    }

    /// Writes the message's header to `w`, which must be empty. `len` is the length of the whole message in bytes.
    pub fn header(self, w: &mut ExportWriter<'_>, header: &MessageHeader, len: usize) {
        match self {
            Dialect::Ipfix => {
                w.u16(10);
                w.u16(len as u16);
            }
            Dialect::NetflowV9 => {
                w.u16(9);
                w.u16(header.records);
                w.u32(header.uptime.as_millis() as u32);
            }
        }
        w.u32(header.unix_s);
        w.u32(header.sequence);
        w.u32(header.domain);
    }

    const fn template_set(self) -> u16 {
        match self {
            Dialect::Ipfix => 2,
            Dialect::NetflowV9 => 0,
        }
    }

    const fn options_set(self) -> u16 {
        match self {
            Dialect::Ipfix => 3,
            Dialect::NetflowV9 => 1,
        }
    }

    /// Returns weft's own elements, if the dialect has them.
    const fn own(self) -> &'static [Element] {
        match self {
            Dialect::Ipfix => OWN,
            Dialect::NetflowV9 => &[],
        }
    }

    /// Returns true if the dialect carries the names of classes.
    pub const fn has_class_names(self) -> bool {
        matches!(self, Dialect::Ipfix)
    }

    /// Writes all templates and returns their number.
    pub fn templates(self, w: &mut ExportWriter<'_>) -> u16 {
        let set = OpenSet::begin(w, self.template_set());
        for (id, addresses) in [(TEMPLATE_IPV4, IPV4), (TEMPLATE_IPV6, IPV6)] {
            w.u16(id);
            w.u16((addresses.len() + COMMON.len() + self.own().len()) as u16);
            self.elements(w, addresses);
            self.elements(w, COMMON);
            self.elements(w, self.own());
        }
        set.end(w);
        let set = OpenSet::begin(w, self.options_set());
        let options = match self {
            Dialect::Ipfix => {
                self.options(w, TEMPLATE_STATISTICS, STATISTICS_SCOPE, STATISTICS);
                self.options(w, TEMPLATE_CLASS, CLASS_SCOPE, CLASS_NAMES);
                2
            }
            Dialect::NetflowV9 => {
                w.u16(TEMPLATE_STATISTICS);
                w.u16(4);
                w.u16(4 * STATISTICS.len() as u16);
                w.u16(SCOPE_SYSTEM);
                w.u16(STATISTICS_SCOPE.bytes);
                self.elements(w, STATISTICS);
                1
            }
        };
        set.end(w);
        2 + options
    }

    fn options(self, w: &mut ExportWriter<'_>, id: u16, scope: Element, elements: &[Element]) {
        w.u16(id);
        w.u16(1 + elements.len() as u16);
        w.u16(1);
        self.elements(w, &[scope]);
        self.elements(w, elements);
    }

    fn elements(self, w: &mut ExportWriter<'_>, elements: &[Element]) {
        for element in elements {
            w.u16(if element.is_own { element.id | ENTERPRISE_BIT } else { element.id });
            w.u16(element.bytes);
            if element.is_own {
                w.u32(PRIVATE_ENTERPRISE);
            }
        }
    }

    /// Writes the counts of records that were dropped. Returns false if they do not fit.
    pub fn statistics(self, w: &mut ExportWriter<'_>, domain: u32, not_sent: &NotSent) -> bool {
        let bytes = record_bytes(&[STATISTICS_SCOPE]) + record_bytes(STATISTICS);
        if w.room() < SET_HEADER + bytes.next_multiple_of(4) {
            return false;
        }
        let set = OpenSet::begin(w, TEMPLATE_STATISTICS);
        w.u32(domain);
        for value in [not_sent.records, not_sent.packets, not_sent.bytes, not_sent.first_ms, not_sent.last_ms] {
            w.u64(value);
        }
        set.end(w);
        true
    }

    /// Writes the name of a class. Returns false if it does not fit.
    pub fn class_name(self, w: &mut ExportWriter<'_>, class: u16, name: &str) -> bool {
        let name = name.get(..name.floor_char_boundary(NAME_BYTES)).unwrap_or_default();
        if w.room() < SET_HEADER + 3 + name.len() {
            return false;
        }
        let set = OpenSet::begin(w, TEMPLATE_CLASS);
        w.u16(class);
        w.u8(name.len() as u8);
        w.put(name.as_bytes());
        // Three bytes of padding would read as a record with an empty name (RFC 7011 §3.3.1).
        set.end_without_padding(w);
        true
    }

    /// Writes records until one does not fit, and returns their number.
    pub fn flows<'r>(self, w: &mut ExportWriter<'_>, records: impl Iterator<Item = &'r ExportRecord>) -> u32 {
        let (mut open, mut count) = (None, 0);
        for record in records {
            let is_ipv4 = record.key.src.is_ipv4() && record.key.dst.is_ipv4();
            let (id, addresses) = if is_ipv4 { (TEMPLATE_IPV4, IPV4) } else { (TEMPLATE_IPV6, IPV6) };
            let is_open = open.as_ref().is_some_and(|set: &OpenSet| set.id == id);
            let bytes = record_bytes(addresses) + record_bytes(COMMON) + record_bytes(self.own());
            // Each set may end with three bytes of padding: the open one, if a new set begins, and the set of this
            // record.
            if w.room() < bytes + 2 * 3 + if is_open { 0 } else { SET_HEADER } {
                break;
            }
            if !is_open {
                if let Some(set) = open.take() {
                    set.end(w);
                }
                open = Some(OpenSet::begin(w, id));
            }
            self.flow(w, record);
            count += 1;
        }
        if let Some(set) = open {
            set.end(w);
        }
        count
    }

    /// Writes one record: the values of the addresses, of [`COMMON`] and of [`OWN`], in their order.
    #[inline]
    fn flow(self, w: &mut ExportWriter<'_>, record: &ExportRecord) {
        let key = &record.key;
        match (key.src, key.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                w.put(&src.octets());
                w.put(&dst.octets());
            }
            (src, dst) => {
                w.put(&octets(src));
                w.put(&octets(dst));
                w.u32(key.flow_label);
            }
        }
        w.u8(key.protocol);
        w.u8(record.dscp << 2);
        w.u16(key.src_port);
        w.u16(key.dst_port);
        w.u32(record.vpn.0);
        w.u32(record.ingress_interface);
        w.u32(record.egress_interface);
        w.u8(record.direction as u8);
        w.u8(record.end_reason as u8);
        w.u64(record.start_ms);
        w.u64(record.end_ms);
        w.u64(record.total_bytes);
        w.u64(record.total_packets);
        w.u64(record.bytes);
        w.u64(record.packets);
        if self == Dialect::Ipfix {
            w.u64(record.asked.bps());
            w.u64(record.granted.bps());
            w.u64(record.achieved.bps());
            w.u16(record.class.0);
            w.u8(record.precedence);
            w.u8(record.is_on_alternate.into());
            w.u8(record.verdict as u8);
            w.u32(record.path);
        }
    }
}

/// Returns the bytes of an address as IPv6: an IPv4 address in its mapped form (RFC 4291 §2.5.5.2).
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// A set whose length is not written yet.
struct OpenSet {
    id: u16,
    start: usize,
}

impl OpenSet {
    fn begin(w: &mut ExportWriter<'_>, id: u16) -> OpenSet {
        let start = w.len();
        w.u16(id);
        w.u16(0);
        OpenSet { id, start }
    }

    /// Pads the set to four bytes and writes its length.
    fn end(self, w: &mut ExportWriter<'_>) {
        while !(w.len() - self.start).is_multiple_of(4) {
            w.u8(0);
        }
        self.end_without_padding(w);
    }

    fn end_without_padding(self, w: &mut ExportWriter<'_>) {
        w.patch_u16(self.start + 2, (w.len() - self.start) as u16);
    }
}
