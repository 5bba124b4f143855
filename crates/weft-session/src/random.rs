use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The only source of randomness of a [`crate::Sessions`]: the ChaCha20 key stream of its seed.
///
/// Its output is unpredictable as long as the seed is secret and used once.
pub(crate) struct SecretRng(ChaCha20Rng);

impl SecretRng {
    pub(crate) fn new(seed: [u8; 32]) -> SecretRng {
        SecretRng(ChaCha20Rng::from_seed(seed))
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
