use super::IpView;
use crate::WireError;
use core::net::IpAddr;

/// What tells one flow from another: addresses, protocol and ports; in IPv6 the flow label too.
///
/// Fragments have no ports, so all fragments between two addresses are one flow and keep their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Source port, or the identifier of an ICMP echo, or zero.
    pub src_port: u16,
    /// Destination port, or the identifier of an ICMP echo, or zero.
    pub dst_port: u16,
    /// IPv6 flow label, zero in IPv4.
    pub flow_label: u32,
}

impl FlowKey {
    /// The flow a packet belongs to.
    ///
    /// # Errors
    /// As [`IpView::parse`].
    pub fn of(packet: &[u8]) -> Result<FlowKey, WireError> {
        IpView::parse(packet).map(|view| view.flow_key())
    }

    /// The same five-tuple from the other end, without the flow label, which each end chooses for itself.
    #[must_use]
    pub const fn reversed(&self) -> FlowKey {
        let FlowKey { src, dst, protocol, src_port, dst_port, .. } = *self;
        FlowKey { src: dst, dst: src, protocol, src_port: dst_port, dst_port: src_port, flow_label: 0 }
    }

    /// Addresses, protocol and ports alone.
    #[must_use]
    pub const fn five_tuple(&self) -> FlowKey {
        FlowKey { flow_label: 0, ..*self }
    }
}

impl IpView<'_> {
    /// The flow this packet belongs to.
    pub fn flow_key(&self) -> FlowKey {
        let (src_port, dst_port) = self.ports();
        FlowKey {
            src: self.src,
            dst: self.dst,
            protocol: self.protocol,
            src_port,
            dst_port,
            flow_label: self.flow_label,
        }
    }
}
