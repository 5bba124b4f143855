//! pathChirp (Ribeiro et al., PAM 2003): estimates the available bandwidth.
//!
//! It sends one train of ever shorter gaps. The shrinking gaps probe a range of rates. The available bandwidth is the
//! rate from which the queueing delay of the packets rises without falling again.

use super::Crossing;
use alloc::vec;
use weft_units::Rate;

/// Numerator of pathChirp's decrease factor F = 1.5.
///
/// An excursion (a rise and fall of the delay) ends when the queueing delay has fallen to its maximum divided by F.
const DECREASE: i64 = 3;
/// Denominator of pathChirp's decrease factor F.
const DECREASE_OF: i64 = 2;
/// Minimum length of an excursion (a rise and fall of the delay), in packets: pathChirp's L. A shorter one is noise.
const BUSY_PACKETS: usize = 5;

/// Returns the available bandwidth that one chirp shows; `None` with fewer than three packets.
///
/// The packets are in order of departure, without the lost ones.
pub fn available(chirp: &[Crossing]) -> Option<Rate> {
    let gaps: usize = chirp.len().checked_sub(1).filter(|gaps| *gaps >= 2)?;
    let gap_us = |k: usize| (chirp[k + 1].sent_us - chirp[k].sent_us).max(1) as f64;
    let rate = |k: usize| f64::from(chirp[k + 1].bytes) * 8e6 / gap_us(k);
    let (rising, last) = excursions(chirp);
    let otherwise = rate(last.unwrap_or(gaps - 1));
    let of_gap = |k: usize| if rising[k] && last.is_none_or(|start| k < start) { rate(k) } else { otherwise };
    let (bits, us) = (0..gaps).fold((0.0, 0.0), |(bits, us), k| (bits + of_gap(k) * gap_us(k), us + gap_us(k)));
    Some(Rate::from_bps((bits / us) as u64))
}

/// Returns, for each gap, whether the delay rises over it within an excursion (a rise and fall) that ends.
///
/// The second value is the packet at which the last excursion starts, if it does not end within the chirp.
fn excursions(chirp: &[Crossing]) -> (alloc::vec::Vec<bool>, Option<usize>) {
    let delay = |k: usize| chirp[k].delay_us;
    let mut rising = vec![false; chirp.len() - 1];
    let mut start = 0;
    while start + 1 < chirp.len() {
        if delay(start + 1) <= delay(start) {
            start += 1;
            continue;
        }
        let Some(end) = end_of_excursion(chirp, start) else { return (rising, Some(start)) };
        if end - start >= BUSY_PACKETS {
            (start..end).for_each(|k| rising[k] = delay(k) <= delay(k + 1));
        }
        start = end;
    }
    (rising, None)
}

fn end_of_excursion(chirp: &[Crossing], start: usize) -> Option<usize> {
    let mut highest = 0;
    (start + 1..chirp.len()).find(|k| {
        let height = chirp[*k].delay_us - chirp[start].delay_us;
        highest = highest.max(height);
        height * DECREASE < highest * DECREASE_OF
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SPREAD: f64 = 1.2;

    /// Returns a chirp of 1000-byte packets whose first gap has the rate `lowest_bps`.
    ///
    /// `queue` computes each packet's delay from its index, its rate and the previous delay.
    fn chirp(lowest_bps: f64, queue: impl Fn(usize, f64, i64) -> i64) -> Vec<Crossing> {
        let (mut sent, mut delay, mut rate) = (0.0, 0, lowest_bps);
        let mut crossings = Vec::from([Crossing { sent_us: 0, delay_us: 7_000, bytes: 1_000 }]);
        for k in 1..20 {
            sent += 8e9 / rate;
            delay = queue(k, rate, delay);
            crossings.push(Crossing { sent_us: sent as i64, delay_us: 7_000 + delay, bytes: 1_000 });
            rate *= SPREAD;
        }
        crossings
    }

    /// Returns a function for the queue of a 10 Mbit/s link that also carries a constant flow of `cross_bps`.
    ///
    /// The queue grows at the rate by which the traffic exceeds the capacity.
    fn fluid(cross_bps: f64) -> impl Fn(usize, f64, i64) -> i64 {
        move |_, rate, delay| {
            let gap_us = 8e9 / rate;
            let growth = ((cross_bps + rate) / 10e6 - 1.0) * gap_us;
            (delay + growth as i64).max(0)
        }
    }

    #[test]
    fn a_fluid_leaves_what_the_chirp_finds() {
        for load in [0.0, 0.3, 0.5, 0.8] {
            let found = available(&chirp(0.6e6, fluid(load * 10e6))).unwrap().bps() as f64;
            let free = (1.0 - load) * 10e6;
            assert!((found / free - 1.0).abs() < 0.2, "{load}: {found} of {free}");
        }
    }

    #[test]
    fn without_queue_the_highest_rate_is_available() {
        let train = chirp(1e6, |_, _, _| 0);
        let last = train[19].sent_us - train[18].sent_us;
        assert_eq!(available(&train).unwrap().bps(), (8e9 / last as f64) as u64);
    }

    #[test]
    fn a_short_excursion_is_noise_and_a_long_one_gives_rates() {
        let bump = |from: usize, to: usize| {
            move |k: usize, _: f64, delay: i64| if (from..to).contains(&k) { delay + 500 } else { 0 }
        };
        let flat = available(&chirp(1e6, |_, _, _| 0)).unwrap();
        assert_eq!(available(&chirp(1e6, bump(3, 6))).unwrap(), flat);
        let disturbed = available(&chirp(1e6, bump(3, 12))).unwrap();
        assert!(disturbed < flat.scaled(0.7), "{disturbed} {flat}");
    }

    #[test]
    fn few_packets_say_nothing() {
        assert_eq!(available(&chirp(1e6, |_, _, _| 0)[..2]), None);
        assert_eq!(available(&[]), None);
    }
}
