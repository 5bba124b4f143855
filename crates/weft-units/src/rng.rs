/// A random stream from a seed: xoshiro256++ (Blackman and Vigna), seeded by SplitMix64.
///
/// The same seed gives the same numbers on every machine. Independent streams can be split off. Do not use it for keys.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

fn split_mix(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Returns a stream that depends only on `seed`.
    pub fn new(seed: u64) -> Rng {
        let mut x = seed;
        Rng { state: core::array::from_fn(|_| split_mix(&mut x)) }
    }

    /// Returns an independent stream for a component of the program that the number `label` identifies.
    ///
    /// Drawing from one stream never affects another.
    pub fn split(&self, label: u64) -> Rng {
        let [a, b, c, d] = self.state;
        let mut x = label;
        Rng::new(a ^ b.rotate_left(17) ^ c.rotate_left(31) ^ d.rotate_left(47) ^ split_mix(&mut x))
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number in `0..n`, or zero for `n` = 0.
    ///
    /// It uses Lemire's multiply-shift, with a bias below 2^-32 for small `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a number in `[0, 1)`, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_are_independent() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        let (mut c, mut d) = (Rng::new(7).split(1), Rng::new(7).split(2));
        assert!((0..100).filter(|_| c.next_u64() == d.next_u64()).count() == 0);
    }

    #[test]
    fn below_is_even() {
        let mut r = Rng::new(1);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[r.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        let mean = (0..100_000).map(|_| r.unit()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }
}
