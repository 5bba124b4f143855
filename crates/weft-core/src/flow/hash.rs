//! The seeded hash of flow keys.
//!
//! For each eight bytes it multiplies two 64-bit numbers, and combines the halves of the 128-bit product (folded
//! multiplication). The same seed gives the same hash on every machine. An attacker without the seed cannot produce
//! collisions at will.

use core::hash::{BuildHasher, Hash, Hasher};
use weft_units::Rng;

/// Multiplier of the last step of the hash: 2^64 divided by the golden ratio.
const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;

fn folded_product(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Builds [`SeededHasher`]s that all depend on one seed.
#[derive(Clone, Copy, Debug)]
pub struct SeededState {
    start: u64,
    fold: u64,
}

impl SeededState {
    /// Returns a builder whose hashers depend only on `seed`.
    pub fn new(seed: u64) -> SeededState {
        let mut rng = Rng::new(seed);
        SeededState { start: rng.next_u64(), fold: rng.next_u64() | 1 }
    }

    /// Returns all 64 bits of the hash of `key`.
    pub fn hash64(&self, key: &impl Hash) -> u64 {
        self.hash_one(key)
    }
}

impl BuildHasher for SeededState {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        SeededHasher { state: self.start, fold: self.fold }
    }
}

/// A hash computation in progress.
#[derive(Clone, Debug)]
pub struct SeededHasher {
    state: u64,
    fold: u64,
}

impl Hasher for SeededHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.state = folded_product(self.state ^ n, self.fold);
    }

    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        folded_product(self.state ^ FOLD, self.fold.rotate_left(32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_on_seed_and_key_only() {
        let (a, b) = (SeededState::new(1), SeededState::new(2));
        assert_eq!(a.hash64(&(1u16, [7u8; 16])), SeededState::new(1).hash64(&(1u16, [7u8; 16])));
        assert_ne!(a.hash64(&1u32), b.hash64(&1u32));
        assert_ne!(a.hash64(&1u32), a.hash64(&2u32));
    }

    #[test]
    fn neighbouring_keys_spread_evenly_over_high_and_low_bits() {
        let state = SeededState::new(9);
        let (mut high, mut low) = ([0u32; 16], [0u32; 16]);
        for port in 0..16_000u16 {
            let h = state.hash64(&(0x0a00_0001u32, 0x0a00_0002u32, port, 443u16));
            high[(h >> 60) as usize] += 1;
            low[(h & 15) as usize] += 1;
        }
        assert!(high.iter().chain(&low).all(|n| (850..1_150).contains(n)), "{high:?} {low:?}");
    }
}
