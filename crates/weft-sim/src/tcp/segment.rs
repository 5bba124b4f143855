//! Defines the TCP segment of the model.

/// Bits of a segment's header, and two bits that exist only in the model.
///
/// The header bits are those of RFC 9293 §3.1 and RFC 3168 §6.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u8);

impl Flags {
    /// Synchronizes sequence numbers.
    pub const SYN: Flags = Flags(1);
    /// Indicates that the sender has no more data.
    pub const FIN: Flags = Flags(2);
    /// Indicates that the acknowledgment number is valid.
    pub const ACK: Flags = Flags(4);
    /// Echoes to the sender that a packet carried a congestion mark.
    pub const ECE: Flags = Flags(8);
    /// Indicates that the sender has reduced its congestion window.
    pub const CWR: Flags = Flags(16);
    /// Marks a retransmission.
    ///
    /// It exists only in the model: a real header has no such bit.
    pub const RETRANSMIT: Flags = Flags(32);
    /// Indicates that the first SACK block reports a duplicate (RFC 2883).
    ///
    /// It exists only in the model.
    pub const DSACK: Flags = Flags(64);

    /// Returns true if all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns flags in which every bit of `self` and `other` is set.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns the bits of `self` except those of `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// A range of bytes that the receiver has (RFC 2018 §3), at an offset from the acknowledgment number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlock {
    /// Offset of the first byte from the acknowledgment number.
    ///
    /// It is negative in a DSACK below that number.
    pub offset: i32,
    /// Length of the range in bytes.
    pub len: u32,
}

/// A TCP segment.
///
/// Sequence numbers begin at 0 and do not wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpSegment {
    /// Sequence number of the first payload byte.
    pub seq: u64,
    /// Acknowledgment number: the sequence number that its sender expects next.
    pub ack: u64,
    /// Number of payload bytes.
    pub len: u32,
    /// Receive window: the bytes after `ack` that the receiver can take.
    pub window: u32,
    /// Header bits, and the two bits that exist only in the model.
    pub flags: Flags,
    /// Number of valid entries in `sacks`.
    pub sack_count: u8,
    /// SACK blocks, of which the first `sack_count` are valid.
    ///
    /// A DSACK comes first, and then the ranges, the most recent one first.
    pub sacks: [SackBlock; 3],
}

impl TcpSegment {
    /// Returns the valid SACK blocks.
    pub fn sacks(&self) -> &[SackBlock] {
        self.sacks.get(..usize::from(self.sack_count)).unwrap_or(&[])
    }
}
