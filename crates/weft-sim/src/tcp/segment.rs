//! What a TCP segment says.

/// Bits of a segment's header (RFC 9293 §3.1, RFC 3168 §6.1), and two that only the model has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u8);

impl Flags {
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(1);
    /// The sender has no more data.
    pub const FIN: Flags = Flags(2);
    /// The acknowledgment field counts.
    pub const ACK: Flags = Flags(4);
    /// Congestion was experienced on the way here.
    pub const ECE: Flags = Flags(8);
    /// The congestion window was reduced.
    pub const CWR: Flags = Flags(16);
    /// Sent before: an oracle, no such bit is on the wire.
    pub const RETRANSMIT: Flags = Flags(32);
    /// The first SACK block reports a duplicate (RFC 2883).
    pub const DSACK: Flags = Flags(64);

    /// Whether all of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and `other`.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These but for `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// A run of bytes that arrived, relative to the acknowledgment (RFC 2018 §3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlock {
    /// Its first byte, counted from the acknowledgment number; negative in a DSACK below it.
    pub offset: i32,
    /// Its length in bytes.
    pub len: u32,
}

/// A TCP segment. Sequence numbers count from 0 and do not wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Number of the first payload byte.
    pub seq: u64,
    /// The next byte expected.
    pub ack: u64,
    /// Payload bytes.
    pub len: u32,
    /// Bytes the receiver has room for after `ack`.
    pub window: u32,
    /// Header bits.
    pub flags: Flags,
    /// How many of `sacks` count.
    pub sack_count: u8,
    /// Selective acknowledgments, the most recent first.
    pub sacks: [SackBlock; 3],
}

impl Segment {
    /// The selective acknowledgments.
    pub fn sacks(&self) -> &[SackBlock] {
        self.sacks.get(..usize::from(self.sack_count)).unwrap_or(&[])
    }
}
