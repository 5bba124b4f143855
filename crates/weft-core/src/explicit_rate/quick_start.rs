//! Quick-Start (RFC 4782): a router's algorithm (appendix D), and the sender's check of an answer.

use alloc::collections::VecDeque;
use weft_units::{Duration, Instant, Rate};
use weft_wire::quick_start::{QuickRate, QuickStart, QuickStartResponse, nonces_agree};

/// S: time over which the utilisation is measured once, and a slot of time in which approved rates are added up.
const SLOT: Duration = Duration::from_millis(150);
/// N: number of recent measurements whose maximum counts as the utilisation. Standard: 3 to 20 (RFC 4782).
const SAMPLES: usize = 10;
/// qs_thresh: fraction of the capacity up to which the router approves rates.
const THRESHOLD: f64 = 0.9;
/// Longest time after the arrival of a grant in which it may be used. One RTT applies if that is shorter.
const MOST_WAIT: Duration = Duration::from_secs(3);

/// State of one link, which grants its free capacity while it is underused.
#[derive(Clone, Debug)]
pub struct QuickStartLink {
    slot_began: Instant,
    sent_bytes: u64,
    /// Measured rates of the link, in bit/s, the newest last.
    samples_bps: VecDeque<u64>,
    /// Sum of the rates approved in the present slot of [`SLOT`] and in the previous one, in bit/s.
    approved_bps: [u64; 2],
}

impl QuickStartLink {
    /// Returns the state of a link that has sent `sent_bytes` in total. It approves nothing for the first [`SLOT`].
    pub fn new(now: Instant, sent_bytes: u64) -> QuickStartLink {
        QuickStartLink {
            slot_began: now,
            sent_bytes,
            samples_bps: VecDeque::with_capacity(SAMPLES),
            approved_bps: [0; 2],
        }
    }

    /// Measures the link's rate if at least one [`SLOT`] has passed. `sent_bytes` is the total that the link sent.
    ///
    /// If the call is late, the measurement covers a longer time.
    pub fn sample(&mut self, now: Instant, sent_bytes: u64) {
        let elapsed = now - self.slot_began;
        if elapsed < SLOT {
            return;
        }
        if self.samples_bps.len() == SAMPLES {
            self.samples_bps.pop_front();
        }
        if elapsed >= SLOT * SAMPLES as u32 {
            self.samples_bps.clear();
        }
        let rate = Rate::from_bytes_over(sent_bytes.saturating_sub(self.sent_bytes), elapsed);
        self.samples_bps.push_back(rate.bps());
        self.approved_bps = if elapsed < SLOT * 2 { [0, self.approved_bps[0]] } else { [0; 2] };
        (self.slot_began, self.sent_bytes) = (now, sent_bytes);
    }

    /// Returns the rate that the link approves for a request for `asked`, and counts it as approved.
    pub fn approve(&mut self, capacity: Rate, asked: QuickRate) -> QuickRate {
        let Some(used) = self.samples_bps.iter().max() else { return QuickRate::ZERO };
        let taken = self.approved_bps.iter().fold(*used, |sum, bps| sum.saturating_add(*bps));
        let left = capacity.scaled(THRESHOLD).bps().saturating_sub(taken);
        let granted = QuickRate::floor(Rate::from_bps(left)).min(asked);
        self.approved_bps[0] = self.approved_bps[0].saturating_add(granted.rate().bps());
        granted
    }
}

/// A request in progress, as its sender stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingQuickStart {
    /// Time of the request.
    pub at: Instant,
    /// Rate that the sender requested.
    pub rate: QuickRate,
    /// TTL of the packet that carried the request, minus the TTL in its Quick-Start option.
    pub ttl_difference: u8,
    /// Nonce of the request's option.
    pub nonce: u32,
}

impl PendingQuickStart {
    /// Records a request that leaves now in a packet with this TTL.
    pub fn new(now: Instant, option: &QuickStart, ttl: u8) -> PendingQuickStart {
        let QuickStart { rate, nonce, .. } = *option;
        PendingQuickStart { at: now, rate, ttl_difference: ttl.wrapping_sub(option.ttl), nonce }
    }

    /// Returns the granted rate, or `None` unless every router approved it and none raised it (RFC 4782 §4.4).
    ///
    /// `round_trip` is the RTT of the exchange.
    pub fn accept(&self, now: Instant, response: &QuickStartResponse, round_trip: Duration) -> Option<Rate> {
        let is_sound = response.ttl_difference == self.ttl_difference
            && response.rate <= self.rate
            && nonces_agree(self.nonce, response.nonce, response.rate);
        let is_fresh = now - self.at <= round_trip.min(MOST_WAIT) + round_trip;
        (is_sound && is_fresh && response.rate > QuickRate::ZERO).then(|| response.rate.rate())
    }
}

/// Returns QS-cwnd, the window in segments: the granted rate times the RTT (RFC 4782 §4.4).
///
/// The size of each segment is `mss` plus `header` bytes.
pub fn window(granted: Rate, round_trip: Duration, mss: u32, header: u32) -> u64 {
    granted.bytes_in(round_trip) / u64::from((mss + header).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_wire::quick_start::Function;

    const MBPS: u64 = 1_000_000;

    fn rate(mbps: u64) -> QuickRate {
        QuickRate::floor(Rate::from_mbps(mbps))
    }

    #[test]
    fn a_link_approves_what_is_left_and_counts_it_for_two_slots() {
        let mut link = QuickStartLink::new(Instant::ZERO, 0);
        assert_eq!(link.approve(Rate::from_mbps(100), QuickRate::MOST), QuickRate::ZERO, "nothing is known yet");
        // 20 Mbit/s are in use, and 70 Mbit/s are free. Quick-Start can express only some rates, so the link approves
        // 40.96, and then 20.48 Mbit/s of them.
        link.sample(Instant::from_millis(150), 375_000);
        let granted: [u64; 4] =
            core::array::from_fn(|_| link.approve(Rate::from_mbps(100), QuickRate::MOST).rate().bps() / MBPS);
        assert_eq!(granted, [40, 20, 5, 2]);
        link.sample(Instant::from_millis(300), 750_000);
        assert_eq!(link.approve(Rate::from_mbps(100), rate(10)).rate().bps(), 640_000, "others may come to use theirs");
        link.sample(Instant::from_millis(450), 1_125_000);
        assert_eq!(link.approve(Rate::from_mbps(100), QuickRate::MOST), rate(41));
    }

    #[test]
    fn the_busiest_sample_counts_and_is_forgotten() {
        let mut link = QuickStartLink::new(Instant::ZERO, 0);
        let mut sent = 0;
        for slot in 1..=11 {
            sent += if slot == 1 { 1_875_000 } else { 0 };
            link.sample(Instant::from_millis(150 * slot), sent);
            let granted = link.approve(Rate::from_mbps(100), rate(1));
            assert_eq!(granted > QuickRate::ZERO, slot == 11, "{slot}");
        }
    }

    proptest! {
        /// RFC 4782 §4.4: only a rate that every router approved, and that is not above the request, is accepted.
        #[test]
        fn only_what_every_router_approved_is_accepted(
            asked in 1..16u8,
            steps in proptest::collection::vec((0..16u8, any::<u32>(), prop::sample::select(&["approves", "is deaf", "raises"][..])), 1..4),
            nonce in 0..1u32 << 30,
        ) {
            let (ttl, now) = (64u8, Instant::from_millis(5));
            let mut option = QuickStart { function: Function::Request, rate: QuickRate::new(asked), ttl: 7, nonce };
            let sent = PendingQuickStart::new(now, &option, ttl);
            let (mut is_sound, mut left) = (true, ttl);
            for (to, random, what) in steps {
                left -= 1;
                match what {
                    "approves" => {
                        option.ttl = option.ttl.wrapping_sub(1);
                        option.lower(QuickRate::new(to), random);
                    }
                    // A router that lowers the rate makes bits of the nonce random. A later router that raises the rate
                    // cannot have learnt the original bits, but it may guess them.
                    "raises" => {
                        option.ttl = option.ttl.wrapping_sub(1);
                        is_sound &= option.rate.get() >= to;
                        option.rate = option.rate.max(QuickRate::new(to));
                    }
                    _ => is_sound = false,
                }
            }
            let response =
                QuickStartResponse { rate: option.rate, ttl_difference: left.wrapping_sub(option.ttl), nonce: option.nonce };
            let accepted = sent.accept(now + Duration::from_millis(40), &response, Duration::from_millis(40));
            if let Some(rate) = accepted {
                prop_assert!(rate <= sent.rate.rate());
                prop_assert!(is_sound || nonces_agree(nonce, option.nonce, option.rate));
                prop_assert_eq!(response.ttl_difference, sent.ttl_difference);
            } else {
                prop_assert!(!is_sound || option.rate == QuickRate::ZERO);
            }
            prop_assert_eq!(sent.accept(now + Duration::from_secs(9), &response, Duration::from_millis(40)), None, "late");
        }
    }

    #[test]
    fn a_window_is_what_the_rate_sends_in_a_round_trip() {
        assert_eq!(window(QuickRate::new(9).rate(), Duration::from_millis(100), 1_460, 40), 170);
    }
}
