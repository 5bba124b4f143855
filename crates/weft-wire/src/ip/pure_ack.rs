//! Recognises pure TCP acknowledgments: segments that carry nothing but an acknowledgment.

use super::tcp::OPTION_TIMESTAMPS;
use super::{IpView, TcpFlags, TcpOption};

/// The acknowledgment of a TCP segment that carries nothing else.
///
/// The segment has no data, no flag other than ACK, and no option other than timestamps and SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PureAck {
    /// Acknowledgement number of the segment.
    ack: u32,
    /// True if the segment has SACK blocks.
    has_sack: bool,
}

impl PureAck {
    /// True if this acknowledgment, sent later on the same connection, makes `older` redundant.
    ///
    /// A sender counts duplicate acknowledgments and learns from SACK blocks, so neither is ever redundant.
    pub fn replaces(&self, older: &PureAck) -> bool {
        !older.has_sack && self.ack.wrapping_sub(older.ack) as i32 > 0
    }
}

/// Returns the acknowledgment of a pure ACK packet, or `None` for any other packet.
///
/// A packet with IP options is rejected, because an option may be a rate signal. A segment with ECN flags or reserved
/// bits is rejected, because it carries an ECN echo or an AccECN counter.
pub fn pure_ack(packet: &[u8]) -> Option<PureAck> {
    let ip = IpView::parse(packet).ok()?;
    if ip.header_len != if ip.src.is_ipv4() { 20 } else { 40 } {
        return None;
    }
    let tcp = ip.tcp().filter(|tcp| tcp.flags.0 == TcpFlags::ACK && tcp.payload().is_empty())?;
    if *ip.payload().get(12)? & 0x0f != 0 {
        return None;
    }
    let mut has_sack = false;
    for option in tcp.options() {
        match option {
            TcpOption::Sack(_) => has_sack = true,
            TcpOption::Other { kind: OPTION_TIMESTAMPS, .. } => {}
            _ => return None,
        }
    }
    Some(PureAck { ack: tcp.ack, has_sack })
}
