use super::chirp::SPREAD;
use alloc::vec::Vec;
use weft_units::{Duration, Rate, Rng};

/// Packets of the chirp at a train's end.
const CHIRP_PACKETS: u32 = 20;
/// Gaps of the chirp that become shorter; the last one is none, which makes the last two a pair.
const CHIRP_GAPS: i32 = CHIRP_PACKETS as i32 - 2;

/// A packet of a train.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// When it leaves, after the train's beginning.
    pub after: Duration,
    /// Its IP bytes.
    pub bytes: u32,
}

/// What is sent within one interval: packets on their own, at random times, then a chirp whose last two leave together.
#[derive(Clone, PartialEq, Debug)]
pub struct Train {
    departures: Vec<Departure>,
    singles: usize,
}

impl Train {
    /// `singles` packets of `single_bytes` over `interval`, one at a random time in each part of it; within it, at a random time, a
    /// chirp of packets of `chirp_bytes` up to the rate `top`.
    pub fn new(interval: Duration, singles: u32, single_bytes: u32, chirp_bytes: u32, top: Rate, rng: &mut Rng) -> Train {
        let part = interval / singles.max(1);
        let single = |i: u32| Departure { after: part * i + part.mul_f64(rng.unit()), bytes: single_bytes };
        let mut departures: Vec<Departure> = (0..singles).map(single).collect();
        let shortest = top.time_for(u64::from(chirp_bytes));
        let gap = |k: i32| if k == CHIRP_GAPS { Duration::ZERO } else { shortest.mul_f64(libm::pow(SPREAD, f64::from(CHIRP_GAPS - 1 - k))) };
        let long: Duration = (0..=CHIRP_GAPS).map(gap).sum();
        let mut after = interval.saturating_sub(long).mul_f64(rng.unit());
        departures.push(Departure { after, bytes: chirp_bytes });
        for k in 0..=CHIRP_GAPS {
            after += gap(k);
            departures.push(Departure { after, bytes: chirp_bytes });
        }
        Train { departures, singles: singles as usize }
    }

    /// Its packets: first those on their own, then the chirp.
    pub fn departures(&self) -> &[Departure] {
        &self.departures
    }

    /// How many of its packets are on their own.
    pub fn singles(&self) -> usize {
        self.singles
    }

    /// All its IP bytes.
    pub fn bytes(&self) -> u64 {
        self.departures.iter().map(|departure| u64::from(departure.bytes)).sum()
    }
}
