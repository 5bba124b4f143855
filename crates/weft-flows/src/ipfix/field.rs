//! The information elements of the exported flow records (RFC 7012), in their order.

/// Private enterprise number of weft's own elements.
///
/// It is not registered. IANA assigns these numbers upward from 1 and has no range for experiments. The assigned ones
/// are below 2^17. A number of the last 2^16 cannot meet an assigned one for decades. 4,294,967,295 itself is reserved.
/// If a number is registered for weft, only this constant changes.
pub const PRIVATE_ENTERPRISE: u32 = 0xffff_7766;

/// Element of weft: guaranteed rate that the flow asked for, in bit/s, 64 bits.
pub const ASKED_RATE: u16 = 1;
/// Element of weft: guaranteed rate that the flow was granted, in bit/s, 64 bits.
pub const GRANTED_RATE: u16 = 2;
/// Element of weft: rate that the flow had during the record's time, in bit/s, 64 bits.
pub const ACHIEVED_RATE: u16 = 3;
/// Element of weft: number of the flow's class, 16 bits. [`CLASS_NAME`] carries its name.
pub const CLASS: u16 = 4;
/// Element of weft: precedence of the flow, 0 (lowest) to 15, 8 bits.
pub const PRECEDENCE: u16 = 5;
/// Element of weft: 1 if the flow is on its alternate route, 0 if it is on the primary, 8 bits.
pub const ALTERNATE: u16 = 6;
/// Element of weft: the decision of admission, 8 bits. The values are those of [`super::ExportVerdict`].
pub const VERDICT: u16 = 7;
/// Element of weft: number of the path that carried the flow's last packet, 32 bits.
pub const PATH: u16 = 8;
/// Element of weft: name of a class, UTF-8 of variable length.
pub const CLASS_NAME: u16 = 9;

/// Value that stands in a template for the length of a field with variable length.
///
/// *Standard*: RFC 7011 §7.
pub const VARIABLE: u16 = 0xffff;

/// An element in a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    /// Number of the information element, assigned by IANA or by weft.
    pub id: u16,
    /// Length of its value, in bytes.
    pub bytes: u16,
    /// True if it is an element of weft.
    pub is_own: bool,
}

const fn iana(id: u16, bytes: u16) -> Element {
    Element { id, bytes, is_own: false }
}

const fn own(id: u16, bytes: u16) -> Element {
    Element { id, bytes, is_own: true }
}

/// Addresses of a record of IPv4: sourceIPv4Address, destinationIPv4Address.
pub const IPV4: &[Element] = &[iana(8, 4), iana(12, 4)];

/// Addresses of a record of IPv6: sourceIPv6Address, destinationIPv6Address, flowLabelIPv6.
pub const IPV6: &[Element] = &[iana(27, 16), iana(28, 16), iana(31, 4)];

/// Elements of every record, behind the addresses.
///
/// The total counts precede the delta counts, because nfdump keeps the last of them as the flow's bytes and packets.
pub const COMMON: &[Element] = &[
    iana(4, 1),   // protocolIdentifier
    iana(5, 1),   // ipClassOfService
    iana(7, 2),   // sourceTransportPort
    iana(11, 2),  // destinationTransportPort
    iana(234, 4), // ingressVRFID: the VPN
    iana(10, 4),  // ingressInterface
    iana(14, 4),  // egressInterface
    iana(61, 1),  // flowDirection
    iana(136, 1), // flowEndReason
    iana(152, 8), // flowStartMilliseconds
    iana(153, 8), // flowEndMilliseconds
    iana(85, 8),  // octetTotalCount
    iana(86, 8),  // packetTotalCount
    iana(1, 8),   // octetDeltaCount
    iana(2, 8),   // packetDeltaCount
];

/// Elements of weft in every record of IPFIX, behind [`COMMON`].
pub const OWN: &[Element] = &[
    own(ASKED_RATE, 8),
    own(GRANTED_RATE, 8),
    own(ACHIEVED_RATE, 8),
    own(CLASS, 2),
    own(PRECEDENCE, 1),
    own(ALTERNATE, 1),
    own(VERDICT, 1),
    own(PATH, 4),
];

/// Scope element of the statistics' template: exportingProcessId.
pub const STATISTICS_SCOPE: Element = iana(144, 4);

/// Elements of the statistics (RFC 7011 §4.3).
pub const STATISTICS: &[Element] = &[
    iana(166, 8), // notSentFlowTotalCount
    iana(167, 8), // notSentPacketTotalCount
    iana(168, 8), // notSentOctetTotalCount
    iana(152, 8), // flowStartMilliseconds: when the first record was dropped
    iana(153, 8), // flowEndMilliseconds: when the last record was dropped
];

/// Scope element of the template for class names: the number of the class.
pub const CLASS_SCOPE: Element = own(CLASS, 2);

/// Elements of the template for class names, after the scope.
pub const CLASS_NAMES: &[Element] = &[own(CLASS_NAME, VARIABLE)];

/// Returns the bytes of a record of these elements. None has a variable length.
pub const fn record_bytes(elements: &[Element]) -> usize {
    let (mut bytes, mut rest) = (0, elements);
    while let [element, others @ ..] = rest {
        bytes += element.bytes as usize;
        rest = others;
    }
    bytes
}
