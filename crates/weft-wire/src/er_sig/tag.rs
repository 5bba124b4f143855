//! The tag of a [`Signal`]: a keyed MAC, truncated to 16 bits.
//!
//! The MAC covers the fields that no node may change in transit. An attacker that neither knows the key of the
//! signalling domain nor sees the flow's signals must guess one of 65,535 values.

use super::Signal;
use crate::ip::FlowKey;
use core::net::IpAddr;

/// Length of the key of a signalling domain, in bytes.
pub const KEY_LEN: usize = 32;
/// Length of the fields that the MAC covers, in bytes: two addresses, the protocol, two ports, the immutable fields.
const COVERED_LEN: usize = 16 + 16 + 1 + 4 + 8;

/// The secret key of a signalling domain: all nodes with it can make and check tags.
///
/// SipHash-2-4 uses the first 16 bytes as its key. The other 16 bytes precede the covered fields as a salt.
#[derive(Clone, PartialEq, Eq)]
pub struct SignalKey([u8; KEY_LEN]);

impl core::fmt::Debug for SignalKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SignalKey")
    }
}

impl SignalKey {
    /// Returns the key that consists of these secret bytes.
    pub const fn new(bytes: [u8; KEY_LEN]) -> SignalKey {
        SignalKey(bytes)
    }

    /// Returns the tag that a signal of `flow` must have; never 0.
    ///
    /// `flow` is the flow in the direction from its initiator, also if the signal is an answer.
    pub fn tag(&self, flow: &FlowKey, signal: &Signal) -> u16 {
        let [key, salt] = [&self.0[..16], &self.0[16..]];
        let mut covered = [0; 16 + COVERED_LEN];
        let fields = [
            salt,
            &octets(flow.src),
            &octets(flow.dst),
            &[flow.protocol],
            &flow.src_port.to_be_bytes(),
            &flow.dst_port.to_be_bytes(),
            &signal.immutable(),
        ];
        let mut rest = &mut covered[..];
        for field in fields {
            let Some((room, after)) = rest.split_at_mut_checked(field.len()) else { break };
            room.copy_from_slice(field);
            rest = after;
        }
        let hash = siphash_2_4(word(key.first_chunk()), word(key.last_chunk()), &covered);
        (hash as u16).max(1)
    }

    /// Returns the signal with its tag set.
    #[must_use]
    pub fn sign(&self, flow: &FlowKey, signal: Signal) -> Signal {
        Signal { tag: self.tag(flow, &signal), ..signal }
    }

    /// True if `signal` has the right tag. `flow` is the flow in the direction from its initiator.
    pub fn is_right(&self, flow: &FlowKey, signal: &Signal) -> bool {
        signal.tag == self.tag(flow, signal)
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn word(bytes: Option<&[u8; 8]>) -> u64 {
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// SipHash (Aumasson and Bernstein, 2012) with 2 rounds per word and 4 final rounds.
fn siphash_2_4(k0: u64, k1: u64, message: &[u8]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let words = message.chunks_exact(8);
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    last[7] = message.len() as u8;
    for m in words.map(|chunk| word(chunk.first_chunk())).chain([u64::from_le_bytes(last)]) {
        v[3] ^= m;
        (0..2).for_each(|_| round(&mut v));
        v[0] ^= m;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    let [a, b, c, d] = v;
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks two published hashes.
    ///
    /// They are the example of the paper's appendix A (bytes 0 to 14 under key bytes 0 to 15), and the empty message
    /// from the authors' test vectors.
    #[test]
    fn known_hashes() {
        let bytes: [u8; 16] = core::array::from_fn(|n| n as u8);
        let (k0, k1) = (word(bytes.first_chunk()), word(bytes.last_chunk()));
        assert_eq!(siphash_2_4(k0, k1, &bytes[..15]), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash_2_4(k0, k1, &[]), 0x726f_db47_dd0e_0e31);
    }
}
