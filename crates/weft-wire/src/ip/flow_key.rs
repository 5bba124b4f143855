use super::IpView;
use crate::WireError;
use core::net::IpAddr;

/// Identifies a flow by its addresses, protocol and ports, and in IPv6 also by its flow label.
///
/// Later fragments have no ports. All fragments of a protocol between two addresses are therefore one flow and keep
/// their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Source address of the flow.
    pub src: IpAddr,
    /// Destination address of the flow.
    pub dst: IpAddr,
    /// Upper-layer protocol number of the flow.
    pub protocol: u8,
    /// Source port, or the identifier of an ICMP echo, or zero if there is neither.
    pub src_port: u16,
    /// Destination port, or the identifier of an ICMP echo, or zero if there is neither.
    pub dst_port: u16,
    /// IPv6 flow label, or zero in IPv4.
    pub flow_label: u32,
}

impl FlowKey {
    /// Returns the key of the flow to which `packet` belongs.
    ///
    /// # Errors
    /// As [`IpView::parse`].
    pub fn of(packet: &[u8]) -> Result<FlowKey, WireError> {
        IpView::parse(packet).map(|view| view.flow_key())
    }

    /// Returns the key of the opposite direction, without the flow label.
    ///
    /// Each end chooses its flow label on its own.
    #[must_use]
    pub const fn reversed(&self) -> FlowKey {
        let FlowKey { src, dst, protocol, src_port, dst_port, .. } = *self;
        FlowKey { src: dst, dst: src, protocol, src_port: dst_port, dst_port: src_port, flow_label: 0 }
    }

    /// Returns the key without the flow label: addresses, protocol and ports.
    #[must_use]
    pub const fn five_tuple(&self) -> FlowKey {
        FlowKey { flow_label: 0, ..*self }
    }
}

impl IpView<'_> {
    /// Returns the key of the flow to which this packet belongs.
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
