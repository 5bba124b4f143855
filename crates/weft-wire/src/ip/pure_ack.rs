//! Recognises pure TCP acknowledgments: segments that carry nothing but an acknowledgment.

use super::tcp::OPTION_TIMESTAMPS;
use super::{IpView, TcpFlags, TcpOption};

/// Maximum number of SACK blocks in one segment. Standard: as many as fit into the TCP options (RFC 2018 §3).
const MAX_SACK_BLOCKS: usize = 4;

/// The acknowledgment in a TCP segment that carries nothing else.
///
/// The segment has no data, no flag other than ACK, and no option other than timestamps and SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PureAck {
    /// Acknowledgement number of the segment.
    ack: u32,
    sack: [(u32, u32); MAX_SACK_BLOCKS],
    /// Number of SACK blocks.
    blocks: usize,
}

impl PureAck {
    /// True if `older` need not be sent, because this acknowledgment is sent later on the same connection.
    ///
    /// It must acknowledge everything that `older` acknowledges, cumulatively or by SACK, and more. A duplicate of
    /// `older` therefore does not replace it, because a sender without SACK counts duplicates. A D-SACK block (RFC
    /// 2883) is sent once, so its segment is kept until another one with a D-SACK block follows. If all were kept,
    /// spurious retransmissions would fill a narrow link with D-SACKs.
    pub fn replaces(&self, older: &PureAck) -> bool {
        let (duplicate, blocks) = older.sack().split_at(usize::from(older.has_duplicate_sack()));
        if is_before(self.ack, older.ack) || !duplicate.is_empty() && !self.has_duplicate_sack() {
            return false;
        }
        let is_more = self.ack != older.ack || older.blocks > 0 && self.sack() != older.sack();
        is_more && blocks.iter().all(|block| self.acknowledges(*block))
    }

    fn sack(&self) -> &[(u32, u32)] {
        &self.sack[..self.blocks]
    }

    /// True if the segment reports data that arrived twice (D-SACK, RFC 2883).
    ///
    /// The first block then lies below the acknowledgement number or within the second block.
    fn has_duplicate_sack(&self) -> bool {
        let Some(first) = self.sack().first() else { return false };
        is_before(first.0, self.ack) || self.sack().get(1).is_some_and(|second| contains(*second, *first))
    }

    /// True if this acknowledgment covers all data of the SACK block `block`, cumulatively or by SACK.
    fn acknowledges(&self, block: (u32, u32)) -> bool {
        !is_before(self.ack, block.1) || self.sack().iter().any(|own| contains(*own, block))
    }
}

/// True if sequence number `a` comes before `b`, in 32-bit serial-number arithmetic.
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

fn contains(outer: (u32, u32), inner: (u32, u32)) -> bool {
    !is_before(inner.0, outer.0) && !is_before(outer.1, inner.1)
}

/// Returns the acknowledgment of a pure ACK packet, or `None` for any other packet.
///
/// Returns `None` for a packet with IP options, because an option may be a rate signal. Also returns `None` for a
/// segment with ECN flags or reserved bits, because it carries an ECN echo or an AccECN counter.
pub fn pure_ack(packet: &[u8]) -> Option<PureAck> {
    let ip = IpView::parse(packet).ok()?;
    if ip.header_len != if ip.src.is_ipv4() { 20 } else { 40 } {
        return None;
    }
    let tcp = ip.tcp().filter(|tcp| tcp.flags.0 == TcpFlags::ACK && tcp.payload().is_empty())?;
    if *ip.payload().get(12)? & 0x0f != 0 {
        return None;
    }
    let (mut sack, mut blocks) = ([(0, 0); MAX_SACK_BLOCKS], 0);
    for option in tcp.options() {
        match option {
            TcpOption::Sack(reported) => {
                for (place, block) in sack.get_mut(blocks..)?.iter_mut().zip(reported) {
                    *place = block;
                    blocks += 1;
                }
            }
            TcpOption::Other { kind: OPTION_TIMESTAMPS, .. } => {}
            _ => return None,
        }
    }
    Some(PureAck { ack: tcp.ack, sack, blocks })
}
