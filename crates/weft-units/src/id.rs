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
    /// A local interface a node can send on: the kernel's interface index, or the simulator's link number.
    LinkId(u32)
}
id! {
    /// One link here, one address there, within one secure session. Widened to 32 bits in the nonce.
    PathId(u8)
}
id! {
    /// An adjacent node: its position in the configuration's list of peers.
    PeerId(u16)
}
id! {
    /// The number an ingress edge gives a flow toward one egress edge, while the flow lives.
    FlowId(u16)
}
id! {
    /// A VPN, as all its members number it.
    VpnId(u32)
}

impl VpnId {
    /// The VPN of the peers' own prefixes, which every session has.
    pub const DEFAULT: VpnId = VpnId(0);
}
