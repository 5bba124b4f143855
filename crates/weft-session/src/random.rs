//! Random numbers with forward secrecy: a copy of the state does not reveal earlier output.

use crate::stack;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit as _, StreamCipher as _};
use zeroize::{Zeroize as _, Zeroizing};

/// The only source of randomness of a [`crate::Sessions`]: ChaCha20 with fast key erasure.
///
/// Each draw runs ChaCha20 once under the current key. The first 32 bytes become the next key, and the rest is the
/// output. A copy of the state therefore reveals no earlier output (D. J. Bernstein, "Fast-key-erasure random-number
/// generators", 2017). [`SecretRng::reseed`] adds fresh entropy; without it, equal seeds give equal streams. The output
/// is unpredictable as long as the seed is secret and used once. The key is boxed, so that moving this value in memory
/// leaves no copy of the key behind.
pub(crate) struct SecretRng(Box<Zeroizing<[u8; 32]>>);

impl SecretRng {
    pub(crate) fn new(seed: [u8; 32]) -> SecretRng {
        SecretRng(Box::new(Zeroizing::new(seed)))
    }

    /// Mixes `entropy` into the state. To predict later output, one then needs both the earlier state and `entropy`.
    pub(crate) fn reseed(&mut self, mut entropy: [u8; 32]) {
        self.0.iter_mut().zip(&entropy).for_each(|(key, fresh)| *key ^= fresh);
        entropy.zeroize();
        self.fill(&mut []);
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        self.draw(out);
        stack::wipe::<{ stack::OF_A_CIPHER }>();
    }

    #[inline(never)]
    fn draw(&mut self, out: &mut [u8]) {
        #[cfg(test)]
        crate::traces::note(self.0.as_slice());
        // Each key is used once, so the nonce may stay constant.
        let mut stream = ChaCha20::new((&**self.0).into(), &[0; 12].into());
        self.0.fill(0);
        stream.apply_keystream(self.0.as_mut_slice());
        out.fill(0);
        stream.apply_keystream(out);
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_draw_is_rfc_8439_after_the_next_key() {
        let mut rng = SecretRng::new([0; 32]);
        // RFC 8439, appendix A.1, test vector 1: bytes 0 to 31 become the next key, bytes 32 to 63 are the output.
        assert_eq!(rng.array::<4>(), [0xda, 0x41, 0x59, 0x7c]);
        assert_eq!(rng.0[..4], [0x76, 0xb8, 0xe0, 0xad]);
    }

    #[test]
    fn the_state_after_a_draw_is_that_of_another_stream() {
        let mut rng = SecretRng::new([7; 32]);
        let drawn: Vec<[u8; 32]> = (0..100).map(|_| rng.array()).collect();
        let mut later = SecretRng::new(**rng.0);
        let after: Vec<[u8; 32]> = (0..1_000).map(|_| later.array()).collect();
        assert!(drawn.iter().all(|bytes| !after.contains(bytes) && *bytes != **rng.0));
    }

    #[test]
    fn entropy_parts_two_copies_and_the_same_seed_stays_the_same_stream() {
        let [mut a, mut b, mut c] = [(); 3].map(|()| SecretRng::new([9; 32]));
        assert_eq!(a.next_u64(), b.next_u64());
        c.next_u64();
        a.reseed([1; 32]);
        b.reseed([2; 32]);
        let [from_a, from_b, from_c] = [&mut a, &mut b, &mut c].map(SecretRng::next_u64);
        assert!(from_a != from_b && from_b != from_c && from_a != from_c);
    }
}
