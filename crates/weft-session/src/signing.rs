//! Signatures with a node's static key.
//!
//! A node's static key is an X25519 key. XEdDSA (T. Perrin, "The XEdDSA and VXEdDSA Signature Schemes", Signal 2016)
//! converts it to an Ed25519 key, so that no second key needs a certificate. Anyone who has the node's public key can
//! check a signature. It is a valid Ed25519 signature (RFC 8032) of the converted public key.

use crate::identity::{Identity, PublicKey};
use aws_lc_rs::digest::{Context, SHA512};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use curve25519_dalek::{EdwardsPoint, MontgomeryPoint};
use weft_wire::certificate::SIGNATURE_LEN;
use zeroize::Zeroize;

/// First bytes of the input of the hash that yields a signature's nonce. Standard: `hash1` of XEdDSA, §2.5.
const OF_NONCE: [u8; 32] = {
    let mut bytes = [0xff; 32];
    bytes[0] = 0xfe;
    bytes
};

/// Returns the SHA-512 hash of all `parts` together, as a scalar of the curve.
fn hash(parts: &[&[u8]]) -> Scalar {
    let mut context = Context::new(&SHA512);
    parts.iter().for_each(|part| context.update(part));
    let mut wide = [0; 64];
    wide.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    let scalar = Scalar::from_bytes_mod_order_wide(&wide);
    wide.zeroize();
    scalar
}

impl Identity {
    /// Signs `message` with the static key. `label` keeps the signature from being valid for another kind of message.
    ///
    /// The nonce is computed from key and message, as in RFC 8032, so no random number is needed.
    pub fn sign(&self, label: &[u8], message: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut secret = Scalar::from_bytes_mod_order(clamp_integer(*self.secret()));
        let is_odd = EdwardsPoint::mul_base(&secret).compress().0[31] >> 7 == 1;
        if is_odd {
            secret = -secret;
        }
        let public = EdwardsPoint::mul_base(&secret).compress().0;
        let mut nonce = hash(&[&OF_NONCE, secret.as_bytes(), label, message]);
        let commitment = EdwardsPoint::mul_base(&nonce).compress().0;
        let response = nonce + hash(&[&commitment, &public, label, message]) * secret;
        secret.zeroize();
        nonce.zeroize();
        let mut signature = [0; SIGNATURE_LEN];
        let bytes = commitment.iter().chain(response.as_bytes());
        signature.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        signature
    }
}

impl PublicKey {
    /// True if the owner of this public key has signed `message` under `label`.
    pub fn has_signed(&self, label: &[u8], message: &[u8], signature: &[u8; SIGNATURE_LEN]) -> bool {
        let Some(public) = MontgomeryPoint(self.0).to_edwards(0) else { return false };
        let key = UnparsedPublicKey::new(&ED25519, public.compress().0);
        key.verify(&[label, message].concat(), signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an identity whose key depends only on `seed`.
    fn identity(seed: u8) -> Identity {
        Identity::from_secret(core::array::from_fn(|at| seed.wrapping_mul(31).wrapping_add(at as u8)))
    }

    #[test]
    fn only_the_key_and_the_message_that_were_signed_are_accepted() {
        for seed in 0..64 {
            let (own, other) = (identity(seed), identity(seed + 100));
            let message = [seed; 40];
            let signature = own.sign(b"label", &message);
            assert!(own.public_key().has_signed(b"label", &message, &signature), "seed {seed}");
            assert!(!other.public_key().has_signed(b"label", &message, &signature));
            assert!(!own.public_key().has_signed(b"other", &message, &signature));
            assert!(!own.public_key().has_signed(b"label", &message[1..], &signature));
        }
    }

    #[test]
    fn no_bit_of_a_signature_or_a_message_can_be_changed() {
        let own = identity(7);
        let message = *b"links of a node";
        let signature = own.sign(b"label", &message);
        for bit in 0..signature.len() * 8 {
            let mut changed = signature;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!own.public_key().has_signed(b"label", &message, &changed), "bit {bit}");
        }
        for bit in 0..message.len() * 8 {
            let mut changed = message;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!own.public_key().has_signed(b"label", &changed, &signature), "bit {bit}");
        }
    }

    #[test]
    fn a_point_that_is_not_on_the_curve_signs_nothing() {
        let own = identity(1);
        let signature = own.sign(b"label", b"message");
        for key in [[0xff; 32], [0; 32]] {
            assert!(!PublicKey(key).has_signed(b"label", b"message", &signature));
        }
    }
}
