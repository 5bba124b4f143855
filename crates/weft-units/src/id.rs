use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A local interface on which a node can send.
    ///
    /// The number is the kernel's interface index, or the simulator's link number.
    LinkId(u32)
}
id! {
    /// A path: one link of this node and one address of the peer, within one session.
    ///
    /// The nonce of each encrypted datagram contains it, widened to 32 bits.
    PathId(u8)
}
id! {
    /// An adjacent node. The number is its position in the configuration's list of peers.
    PeerId(u16)
}
id! {
    /// Number that an ingress edge assigns to a flow toward one egress edge for the life of the flow.
    FlowId(u16)
}
id! {
    /// Number of a VPN. All its members use the same number.
    VpnId(u32)
}

impl VpnId {
    /// The default VPN of the peers' own prefixes. Every session has it.
    pub const DEFAULT: VpnId = VpnId(0);
}
