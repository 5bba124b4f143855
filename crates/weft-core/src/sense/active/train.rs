use alloc::vec::Vec;
use core::ops::Range;
use weft_units::{Duration, Rate, Rng};

/// Number of packets in the chirp of a train.
pub const CHIRP_PACKETS: u32 = 20;
/// Number of gaps between a chirp's packets of which each is shorter than the one before.
///
/// One more gap, of zero, makes the last two packets a pair that leaves back to back.
const GAPS: u32 = CHIRP_PACKETS - 2;

/// Departure of one packet of a probe train.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChirpDeparture {
    /// Time from the start of the train to the departure of the packet.
    pub after: Duration,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
}

/// A probe train: the probe packets that one path gets in one interval.
///
/// They are single packets at random times, and a chirp whose last two packets leave back to back.
#[derive(Clone, PartialEq, Debug)]
pub struct Train {
    departures: Vec<ChirpDeparture>,
    singles: usize,
}

impl Train {
    /// Returns a train of `singles` single packets and one chirp.
    ///
    /// One packet of `single_bytes` leaves at a random time in each of `singles` equal parts of `interval`. A chirp of
    /// packets of `chirp_bytes` starts at a random time. Its gaps run through `rates` in equal steps on a logarithmic
    /// scale. `rates` must start above zero.
    pub fn new(
        interval: Duration,
        singles: u32,
        single_bytes: u32,
        chirp_bytes: u32,
        rates: Range<Rate>,
        rng: &mut Rng,
    ) -> Train {
        let part = interval / singles.max(1);
        let single = |i: u32| ChirpDeparture { after: part * i + part.mul_f64(rng.unit()), bytes: single_bytes };
        let mut departures: Vec<ChirpDeparture> = (0..singles).map(single).collect();
        let gaps = gaps(chirp_bytes, rates);
        let long: Duration = gaps.iter().sum();
        let mut after = interval.saturating_sub(long).mul_f64(rng.unit());
        departures.push(ChirpDeparture { after, bytes: chirp_bytes });
        for gap in gaps {
            after += gap;
            departures.push(ChirpDeparture { after, bytes: chirp_bytes });
        }
        Train { departures, singles: singles as usize }
    }

    /// Returns the train's packets: first the single packets, then the chirp.
    pub fn departures(&self) -> &[ChirpDeparture] {
        &self.departures
    }

    /// Returns the number of the train's packets that leave alone, at random times. All others are the chirp.
    pub fn singles(&self) -> usize {
        self.singles
    }
}

fn gaps(bytes: u32, rates: Range<Rate>) -> Vec<Duration> {
    let longest = rates.start.time_for(u64::from(bytes));
    let spread = rates.end.bps() as f64 / rates.start.bps().max(1) as f64;
    let gap = |k: u32| longest.mul_f64(libm::pow(spread, -f64::from(k) / f64::from(GAPS - 1)));
    (0..GAPS).map(gap).chain([Duration::ZERO]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singles_are_spread_and_the_chirp_runs_through_its_rates() {
        let second = Duration::from_secs(1);
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let train = Train::new(second, 10, 64, 1_000, Rate::from_mbps(1)..Rate::from_mbps(14), &mut rng);
            let (singles, chirp) = train.departures().split_at(train.singles());
            assert!((0..).zip(singles).all(|(i, single)| single.after.as_millis() / 100 == i && single.bytes == 64));
            let gaps: Vec<f64> = chirp.windows(2).map(|pair| (pair[1].after - pair[0].after).as_secs_f64()).collect();
            assert_eq!((gaps.len(), gaps[GAPS as usize]), (19, 0.0));
            assert!((gaps[0] - 8e-3).abs() < 1e-6 && (gaps[17] - 8e-3 / 14.0).abs() < 1e-6, "{gaps:?}");
            assert!(gaps.windows(3).take(16).all(|g| (g[0] / g[1] - g[1] / g[2]).abs() < 1e-3));
            assert!(chirp[19].after <= second);
        }
    }
}
