//! TCP segments that only acknowledge.

use super::tcp::OPTION_TIMESTAMPS;
use super::{IpView, TcpFlags, TcpOption};

/// What a segment acknowledges that has no data, no flag but ACK, and no options but timestamps and SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PureAck {
    ack: u32,
    has_sack: bool,
}

impl PureAck {
    /// Whether this one, sent later in the same connection, says all that `older` says. Duplicates are counted by senders, and SACK blocks
    /// are news: neither is replaced.
    pub fn replaces(&self, older: &PureAck) -> bool {
        !older.has_sack && self.ack.wrapping_sub(older.ack) as i32 > 0
    }
}

/// Reads an IP packet that only acknowledges; `None` for any other. Options of the IP header may be signals. A segment with ECN flags or reserved bits carries an echo or
/// a counter of marks (AccECN): it is no pure acknowledgment here.
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
