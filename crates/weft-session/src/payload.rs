//! The encrypted payloads of the two handshake messages.
//!
//! Each starts with a payload that the crate `weft_wire` defines. The remaining bytes hold the parameters that this
//! crate negotiates: the cipher and the base of the packet numbers.

use crate::keys::Cipher;
use crate::stamps::{RefusedStamp, StampFault};
use weft_wire::WireError;
use weft_wire::handshake::{INITIATION_PAYLOAD_LEN, InitiationPayload, RESPONSE_PAYLOAD_LEN, ResponsePayload};

/// The lowest protocol version that this program supports.
pub(crate) const LOWEST_VERSION: u8 = 1;
/// The highest protocol version that this program supports.
pub(crate) const HIGHEST_VERSION: u8 = 2;
/// The lowest protocol version whose nodes accept reports in datagrams with data.
pub(crate) const REPORTS_WITH_DATA: u8 = 2;

/// An initiation's payload.
///
/// Layout: 18 bytes of the wire payload | preferred cipher u8 | 0 | base u16 | certificate length u16 | 8 zero bytes.
///
/// The certificate follows. Zero bytes then pad every initiation with a certificate to the same length. The length
/// therefore does not reveal the sender. A response with a certificate is then never longer than its initiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InitiationFields {
    pub(crate) wire: InitiationPayload,
    pub(crate) preferred_cipher: Cipher,
    /// Base of the sender's packet numbers (see [`crate::numbers`]).
    pub(crate) base: u16,
    /// Length of the certificate behind the payload, in bytes; 0 without a certificate.
    pub(crate) certificate_len: u16,
}

/// A response's payload.
///
/// Layout: 9 bytes of the wire payload | cipher u8 | base u16 | responder's index u32. The highest bit of the cipher
/// byte means that another node uses the initiator's key.
///
/// The encrypted payload repeats the index, so that a change of the index in the unencrypted header is detected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ResponseFields {
    pub(crate) wire: ResponsePayload,
    pub(crate) cipher: Cipher,
    /// Base of the sender's packet numbers (see [`crate::numbers`]).
    pub(crate) base: u16,
    /// Receiver index that the initiator must use to address the responder.
    pub(crate) index: u32,
    /// True if another running node uses the initiator's static key.
    pub(crate) is_shared: bool,
}

/// Value of the cipher byte that stands for ChaCha20-Poly1305.
const CHACHA20_POLY1305: u8 = 1;
/// Value of the cipher byte that stands for AES-256-GCM.
const AES_256_GCM: u8 = 2;
/// Bit of the cipher byte of a response which states that another node uses the initiator's static key.
const KEY_IS_SHARED: u8 = 0x80;

fn cipher_byte(cipher: Cipher) -> u8 {
    match cipher {
        Cipher::ChaCha20Poly1305 => CHACHA20_POLY1305,
        Cipher::Aes256Gcm => AES_256_GCM,
    }
}

impl InitiationFields {
    pub(crate) fn new(
        stamp: u64,
        association: u64,
        preferred_cipher: Cipher,
        base: u16,
        certificate_len: u16,
    ) -> InitiationFields {
        let wire = InitiationPayload { stamp, association, version_min: LOWEST_VERSION, version_max: HIGHEST_VERSION };
        InitiationFields { wire, preferred_cipher, base, certificate_len }
    }

    pub(crate) fn encode(&self) -> [u8; INITIATION_PAYLOAD_LEN] {
        let mut bytes = self.wire.emit();
        bytes[18] = cipher_byte(self.preferred_cipher);
        bytes[20..22].copy_from_slice(&self.base.to_be_bytes());
        bytes[22..24].copy_from_slice(&self.certificate_len.to_be_bytes());
        bytes
    }

    /// Decodes an initiation's payload. An unknown cipher is read as ChaCha20-Poly1305, which every version supports.
    pub(crate) fn decode(bytes: &[u8; INITIATION_PAYLOAD_LEN]) -> Result<InitiationFields, WireError> {
        let preferred_cipher = if bytes[18] == AES_256_GCM { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
        let [base, certificate_len] = [20, 22].map(|at| u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        Ok(InitiationFields { wire: InitiationPayload::parse(bytes)?, preferred_cipher, base, certificate_len })
    }

    /// Returns the highest version that both nodes support. Returns `None` if there is none.
    pub(crate) fn common_version(&self) -> Option<u8> {
        let version = self.wire.version_max.min(HIGHEST_VERSION);
        (version >= self.wire.version_min.max(LOWEST_VERSION)).then_some(version)
    }

    /// Returns the cipher that both nodes must use, if this node prefers `own`.
    pub(crate) fn common_cipher(&self, own: Cipher) -> Cipher {
        match (self.preferred_cipher, own) {
            (Cipher::Aes256Gcm, Cipher::Aes256Gcm) => Cipher::Aes256Gcm,
            _ => Cipher::ChaCha20Poly1305,
        }
    }
}

impl ResponseFields {
    pub(crate) fn encode(&self) -> [u8; RESPONSE_PAYLOAD_LEN] {
        let mut bytes = self.wire.emit();
        bytes[9] = cipher_byte(self.cipher) | if self.is_shared { KEY_IS_SHARED } else { 0 };
        bytes[10..12].copy_from_slice(&self.base.to_be_bytes());
        bytes[12..].copy_from_slice(&self.index.to_be_bytes());
        bytes
    }

    /// Decodes a response's payload, at a node that prefers the cipher `own`.
    ///
    /// Returns `None` if this node did not offer the version or the cipher.
    pub(crate) fn decode(bytes: &[u8; RESPONSE_PAYLOAD_LEN], own: Cipher) -> Option<ResponseFields> {
        let wire = ResponsePayload::parse(bytes).ok()?;
        let is_shared = bytes[9] & KEY_IS_SHARED != 0;
        let cipher = match (bytes[9] & !KEY_IS_SHARED, own) {
            (CHACHA20_POLY1305, _) => Cipher::ChaCha20Poly1305,
            (AES_256_GCM, Cipher::Aes256Gcm) => Cipher::Aes256Gcm,
            _ => return None,
        };
        let base = u16::from_be_bytes([bytes[10], bytes[11]]);
        let index = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        (LOWEST_VERSION..=HIGHEST_VERSION).contains(&wire.version).then_some(ResponseFields {
            wire,
            cipher,
            base,
            index,
            is_shared,
        })
    }
}

/// Value of the version byte in a response that refuses the initiation. Such a response establishes no session.
const REFUSES: u8 = 0;

/// Returns the payload of a response that refuses the initiation because of its stamp.
///
/// Layout: highest accepted stamp u64 | 0 | reason u8 | 6 zero bytes.
pub(crate) fn refusal(refused: &RefusedStamp) -> [u8; RESPONSE_PAYLOAD_LEN] {
    let mut bytes = ResponsePayload { association: refused.accepted, version: REFUSES }.emit();
    bytes[9] = refused.fault.byte();
    bytes
}

/// Returns the highest accepted stamp and the reason, if the payload refuses the initiation. Otherwise `None`.
pub(crate) fn parse_refusal(bytes: &[u8; RESPONSE_PAYLOAD_LEN]) -> Option<(u64, StampFault)> {
    let wire = ResponsePayload::parse(bytes).ok().filter(|wire| wire.version == REFUSES)?;
    Some((wire.association, StampFault::of(bytes[9])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(version_min: u8, version_max: u8) -> InitiationFields {
        let mut offer = InitiationFields::new(0x0102_0304_0506_0708, u64::MAX, Cipher::Aes256Gcm, 0x0a0b, 300);
        (offer.wire.version_min, offer.wire.version_max) = (version_min, version_max);
        offer
    }

    fn answer(version: u8) -> ResponseFields {
        ResponseFields {
            wire: ResponsePayload { association: 7, version },
            cipher: Cipher::Aes256Gcm,
            base: 3,
            index: 0x1122_3344,
            is_shared: version == 1,
        }
    }

    #[test]
    fn payloads_survive_the_wire() {
        assert_eq!(InitiationFields::decode(&offer(1, 9).encode()), Ok(offer(1, 9)));
        assert_eq!(ResponseFields::decode(&answer(1).encode(), Cipher::Aes256Gcm), Some(answer(1)));
    }

    #[test]
    fn a_refusal_is_no_answer_and_the_reverse() {
        for fault in [StampFault::NotRising, StampFault::TooFarAhead] {
            let bytes = refusal(&RefusedStamp { stamp: 3, accepted: 0x0102_0304_0506_0708, fault });
            assert_eq!(parse_refusal(&bytes), Some((0x0102_0304_0506_0708, fault)));
            assert_eq!(ResponseFields::decode(&bytes, Cipher::Aes256Gcm), None);
        }
        assert_eq!(parse_refusal(&answer(1).encode()), None);
    }

    #[test]
    fn the_highest_common_version_and_the_cipher_both_prefer() {
        assert_eq!(offer(1, 9).common_version(), Some(2));
        assert_eq!(offer(1, 1).common_version(), Some(1), "a node of the version before");
        assert_eq!(offer(3, 9).common_version(), None);
        assert_eq!(offer(0, 0).common_version(), None);
        assert_eq!(offer(1, 1).common_cipher(Cipher::Aes256Gcm), Cipher::Aes256Gcm);
        assert_eq!(offer(1, 1).common_cipher(Cipher::ChaCha20Poly1305), Cipher::ChaCha20Poly1305);
    }

    #[test]
    fn a_cipher_that_was_not_offered_is_refused() {
        assert_eq!(ResponseFields::decode(&answer(1).encode(), Cipher::ChaCha20Poly1305), None);
        assert_eq!(ResponseFields::decode(&answer(3).encode(), Cipher::Aes256Gcm), None);
    }
}
