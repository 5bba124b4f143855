//! First bytes of a connection. They prove that the node that connects has learnt the other node's public key.
//!
//! The proof is keying material of the TLS connection (RFC 8446 §7.5) with that public key as context. It is different
//! for each connection. Nobody can thus replay it, nor use it on another connection as a man in the middle. The first
//! bytes of a stranger differ from it, except with a probability of 2^−128. The node then treats the stranger as a
//! client of its web server.

use rustls::Connection;

/// Length of the proof in bytes.
const PROOF: usize = 16;
/// Length of a bundle's id in bytes.
const ID: usize = 16;
/// Length of a greeting in bytes.
pub const LEN: usize = PROOF + ID + 1;
/// Label with which TLS derives the proof (the label of the exporter, RFC 8446 §7.5).
const LABEL: &[u8] = b"EXPORTER-weft-carrier-1";

/// Number that the connections of one bundle share. It is random, and only the two nodes know it.
pub type BundleId = [u8; ID];

/// Kind of the datagrams that a connection of a bundle carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Short datagrams, which do not wait behind long ones.
    Short,
    /// Long datagrams.
    Bulk,
}

/// Contents of a valid greeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// The bundle that the connection joins.
    pub bundle: BundleId,
    /// Kind of the datagrams that the connection carries.
    pub lane: Lane,
}

/// Judgement about the first bytes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GreetingVerdict {
    /// All bytes so far are those of a greeting. More must follow.
    Unfinished,
    /// The greeting is valid.
    Valid(Greeting),
    /// The bytes are not a greeting, so their sender is a stranger.
    Stranger,
}

/// Returns the proof for this connection. Returns `None` during the TLS handshake.
///
/// `key` is the public key of the node that accepts the connection.
pub fn proof(tls: &Connection, key: &[u8; 32]) -> Option<[u8; PROOF]> {
    tls.export_keying_material([0; PROOF], LABEL, Some(key)).ok()
}

/// Returns the bytes of a greeting, which begin with `proof`.
pub fn encode(proof: &[u8; PROOF], greeting: &Greeting) -> [u8; LEN] {
    let mut out = [0; LEN];
    out[..PROOF].copy_from_slice(proof);
    out[PROOF..PROOF + ID].copy_from_slice(&greeting.bundle);
    out[LEN - 1] = u8::from(greeting.lane == Lane::Bulk);
    out
}

/// Judges the first bytes of a connection, of which more may follow.
///
/// The comparison need not take constant time: each connection has another proof, so its duration helps no attacker.
pub fn judge(proof: &[u8; PROOF], bytes: &[u8]) -> GreetingVerdict {
    if bytes.iter().zip(proof).any(|(byte, wanted)| byte != wanted) {
        return GreetingVerdict::Stranger;
    }
    let Some(rest) = bytes.get(PROOF..LEN) else { return GreetingVerdict::Unfinished };
    let lane = match rest[ID] {
        0 => Lane::Short,
        1 => Lane::Bulk,
        _ => return GreetingVerdict::Stranger,
    };
    let mut bundle = [0; ID];
    bundle.copy_from_slice(&rest[..ID]);
    GreetingVerdict::Valid(Greeting { bundle, lane })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_the_whole_proof_is_a_greeting(
            proof: [u8; PROOF], bundle: [u8; ID], is_bulk: bool, cut in 0..=LEN, at in 0..PROOF, change in 1..=255u8,
        ) {
            let lane = if is_bulk { Lane::Bulk } else { Lane::Short };
            let greeting = Greeting { bundle, lane };
            let mut bytes = encode(&proof, &greeting);
            let expected = if cut == LEN { GreetingVerdict::Valid(greeting) } else { GreetingVerdict::Unfinished };
            prop_assert_eq!(judge(&proof, &bytes[..cut]), expected);
            bytes[at] ^= change;
            let expected = if cut > at { GreetingVerdict::Stranger } else { GreetingVerdict::Unfinished };
            prop_assert_eq!(judge(&proof, &bytes[..cut]), expected);
        }

        #[test]
        fn a_request_of_a_web_client_is_a_strangers(proof: [u8; PROOF]) {
            prop_assume!(proof[0] != b'G');
            prop_assert_eq!(judge(&proof, b"GET"), GreetingVerdict::Stranger);
        }
    }
}
