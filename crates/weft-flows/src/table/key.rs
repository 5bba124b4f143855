//! The identity of a flow: VPN and 5-tuple, with the two ends in a canonical order.
//!
//! Both directions of a flow have the same identity, so one hash finds both. The order of the ends gives the direction.
//! A flow label is part of the identity only where the packets show no ports (RFC 6437). Elsewhere hosts change labels
//! during a connection, and each end chooses its own.

use core::hash::{BuildHasher, Hasher};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::flow::hash::SeededState;
use weft_units::VpnId;
use weft_wire::ip::FlowKey;

/// The addresses of the two ends of a flow: first that of the lower end, with the lower address (and port).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndAddresses {
    /// Two IPv4 addresses.
    V4([u32; 2]),
    /// Two IPv6 addresses, each as its upper and its lower 64 bits.
    V6([[u64; 2]; 2]),
}

/// Identity of a flow, the same for both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowIdentity {
    /// Addresses of the ends.
    pub addresses: EndAddresses,
    /// Ports of the ends.
    pub ports: [u16; 2],
    /// Upper-layer protocol number.
    pub protocol: u8,
    /// VPN that the flow belongs to.
    pub vpn: u32,
    /// Flow label, or zero where it is no part of the identity.
    pub label: u32,
}

impl FlowIdentity {
    /// An identity that no packet has, to fill arrays with.
    pub const NONE: FlowIdentity =
        FlowIdentity { addresses: EndAddresses::V4([0; 2]), ports: [0; 2], protocol: 0, vpn: 0, label: 0 };

    /// Returns the identity of the flow of `key`, and true if its source has the lower address (and port).
    #[inline]
    pub fn of(vpn: VpnId, key: &FlowKey) -> (FlowIdentity, bool) {
        let (addresses, from_lower) = match (key.src, key.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst) = (src.to_bits(), dst.to_bits());
                let from_lower = (src, key.src_port) <= (dst, key.dst_port);
                (EndAddresses::V4(if from_lower { [src, dst] } else { [dst, src] }), from_lower)
            }
            (src, dst) => {
                let (src, dst) = (to_v6_words(src), to_v6_words(dst));
                let from_lower = (src, key.src_port) <= (dst, key.dst_port);
                (EndAddresses::V6(if from_lower { [src, dst] } else { [dst, src] }), from_lower)
            }
        };
        let ports = if from_lower { [key.src_port, key.dst_port] } else { [key.dst_port, key.src_port] };
        let label = if ports == [0, 0] { key.flow_label } else { 0 };
        (FlowIdentity { addresses, ports, protocol: key.protocol, vpn: vpn.0, label }, from_lower)
    }

    /// True if the addresses are IPv6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        matches!(self.addresses, EndAddresses::V6(_))
    }

    /// Returns the key of the packets from one end of the flow, with the flow label of these packets.
    ///
    /// If `from_lower` is true, it is the end with the lower address (and port).
    pub fn key(&self, from_lower: bool, flow_label: u32) -> FlowKey {
        let [low, high] = match self.addresses {
            EndAddresses::V4(ends) => ends.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
            EndAddresses::V6(ends) => {
                ends.map(|[upper, lower]| IpAddr::V6(Ipv6Addr::from_bits(u128::from(upper) << 64 | u128::from(lower))))
            }
        };
        let [low_port, high_port] = self.ports;
        let (src, dst, src_port, dst_port) =
            if from_lower { (low, high, low_port, high_port) } else { (high, low, high_port, low_port) };
        FlowKey { src, dst, protocol: self.protocol, src_port, dst_port, flow_label }
    }

    /// Returns the seeded hash of the identity.
    #[inline]
    pub fn hash(&self, state: &SeededState) -> u64 {
        let mut hasher = state.build_hasher();
        match self.addresses {
            EndAddresses::V4([low, high]) => hasher.write_u64(u64::from(low) << 32 | u64::from(high)),
            EndAddresses::V6(ends) => ends.as_flattened().iter().for_each(|word| hasher.write_u64(*word)),
        }
        let ports = u64::from(self.ports[0]) << 16 | u64::from(self.ports[1]);
        hasher.write_u64(u64::from(self.vpn) << 32 | ports);
        hasher.write_u64(u64::from(self.label) << 8 | u64::from(self.protocol));
        hasher.finish()
    }
}

#[inline]
fn to_v6_words(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}
