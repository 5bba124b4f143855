//! TCP-ER's law: a sender that was granted a rate (paper 001 §IV-A). In integers throughout, so that the kernel's half can be compared with it
//! bit by bit.
//!
//! There is no slow start where there is a grant: it is the pace from the first packet on, and the window what it sends in a round trip. Loss does not lower
//! it, only a lower grant does. What the paper leaves out is when to stop believing: a grant that was not renewed for four round trips (and 200 ms), or
//! more than 30 % lost in one, is no grant; then the window goes by AIMD (RFC 5681's congestion avoidance), under the grant as a
//! ceiling, until another comes, or for some round trips without such a loss: more of them each time it turns out wrong again.

/// Round trips for which a grant holds.
const GRANT_ROUNDS: u64 = 4;
/// It is not renewed more often than that.
const LEAST_GRANT_US: u64 = 200_000;
/// More lost than this, in percent of a round trip's packets, and the grant is wrong.
const MOST_LOST_PERCENT: u64 = 30;
/// Round trips without such a loss until it is believed again, at first,
const FIRST_DOUBT_ROUNDS: u32 = 4;
/// and at most.
const MOST_DOUBT_ROUNDS: u32 = 256;
/// Fewer packets than this say nothing of a share.
const LEAST_ROUND_PACKETS: u64 = 8;
/// A round trip is never taken for less.
const LEAST_RTT_US: u64 = 100;
/// What acknowledgements may be held up by, beside a quarter of a round trip: reordering, repeats below TCP.
const ALLOWANCE_US: u64 = 10_000;
/// Nobody has less in flight.
const LEAST_WINDOW: u32 = 4;
/// Nor more.
const MOST_WINDOW: u64 = 1 << 24;

/// How a sender goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// At the granted rate.
    Granted,
    /// By AIMD: there is no grant, or none to be believed.
    Aimd,
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpEr {
    segment_bytes: u32,
    mode: Mode,
    /// Bytes a second, IP headers included.
    granted: u64,
    granted_at_us: u64,
    /// So much was lost that no grant is believed for a while.
    is_distrusted: bool,
    /// Round trips without such a loss until one is.
    doubt_rounds: u32,
    /// Such round trips so far.
    good_rounds: u32,
    srtt_us: u64,
    /// Of AIMD, in packets.
    window: u32,
    /// Below it the window grows by what arrives (slow start), which only a sender does that was never granted anything.
    threshold: u32,
    /// Packets acknowledged toward the next one of AIMD's growth.
    grown: u32,
    /// The window has given way to what is still being reported lost.
    has_given_way: bool,
    round: Round,
    /// Packets that arrived in the round trip before.
    delivered_before: u64,
}

/// What a round trip has shown so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Round {
    began_us: u64,
    delivered: u64,
    lost: u64,
}

impl TcpEr {
    /// A sender of segments of so many bytes that knows of no grant, with the window that plain TCP starts with (RFC 6928).
    pub fn new(segment_bytes: u32) -> TcpEr {
        TcpEr {
            segment_bytes: segment_bytes.max(1),
            mode: Mode::Aimd,
            granted: 0,
            granted_at_us: 0,
            is_distrusted: false,
            doubt_rounds: FIRST_DOUBT_ROUNDS,
            good_rounds: FIRST_DOUBT_ROUNDS,
            srtt_us: 0,
            window: 10,
            threshold: u32::MAX,
            grown: 0,
            has_given_way: false,
            round: Round::default(),
            delivered_before: 0,
        }
    }

    /// The path takes other segments now.
    pub fn set_segment_bytes(&mut self, bytes: u32) {
        self.segment_bytes = bytes.max(1);
    }

    /// So many bytes a second were granted; zero takes the grant back.
    pub fn on_grant(&mut self, now_us: u64, bytes_per_s: u64) {
        (self.granted, self.granted_at_us) = (bytes_per_s, now_us);
        if bytes_per_s == 0 {
            self.leave_grant();
        } else if !self.is_distrusted {
            self.mode = Mode::Granted;
        }
    }

    /// An acknowledgement: packets newly delivered, packets newly taken for lost, and the smoothed round trip.
    pub fn on_ack(&mut self, now_us: u64, delivered: u32, lost: u32, srtt_us: u64) {
        self.srtt_us = srtt_us.max(LEAST_RTT_US);
        self.round.delivered = self.round.delivered.saturating_add(delivered.into());
        self.round.lost = self.round.lost.saturating_add(lost.into());
        let is_stale =
            now_us.saturating_sub(self.granted_at_us) > self.srtt_us.saturating_mul(GRANT_ROUNDS).max(LEAST_GRANT_US);
        if self.loses_much() {
            self.distrust();
        }
        if is_stale || self.is_distrusted {
            self.leave_grant();
        }
        if self.mode == Mode::Aimd {
            self.aimd(delivered);
        }
        if now_us.saturating_sub(self.round.began_us) >= self.srtt_us {
            self.end_round(now_us);
        }
    }

    /// How it goes.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The pace, in bytes a second; zero: none (before the first round trip is known, and without a grant).
    pub fn pacing_rate(&self) -> u64 {
        match self.mode {
            Mode::Granted => self.granted,
            Mode::Aimd => {
                // A fifth more than the window needs, as Linux paces congestion avoidance.
                let bytes = u64::from(self.window) * u64::from(self.segment_bytes);
                let pace = bytes.saturating_mul(1_200_000).checked_div(self.srtt_us).unwrap_or(0);
                if self.granted > 0 && (pace == 0 || pace > self.granted) { self.granted } else { pace }
            }
        }
    }

    /// The window in packets: what the rate sends in a round trip and a quarter, for what comes out of order (RFC 8985's reordering
    /// window), and 10 ms, and a few.
    pub fn window(&self) -> u32 {
        match self.mode {
            Mode::Granted => (self.in_flight_at_grant() as u32).max(LEAST_WINDOW),
            Mode::Aimd if self.granted > 0 && self.srtt_us > 0 => {
                self.window.min(self.in_flight_at_grant() as u32).max(LEAST_WINDOW)
            }
            Mode::Aimd => self.window,
        }
    }

    fn in_flight_at_grant(&self) -> u64 {
        let time_us = (self.srtt_us.max(LEAST_RTT_US).saturating_mul(5) / 4).saturating_add(ALLOWANCE_US);
        let bytes = self.granted.saturating_mul(time_us) / 1_000_000;
        (bytes / u64::from(self.segment_bytes) + u64::from(LEAST_WINDOW)).min(MOST_WINDOW)
    }

    fn loses_much(&self) -> bool {
        let Round { delivered, lost, .. } = self.round;
        let all = delivered.saturating_add(lost);
        all >= LEAST_ROUND_PACKETS && lost.saturating_mul(100) > all.saturating_mul(MOST_LOST_PERCENT)
    }

    /// The first time, or again: then for longer.
    fn distrust(&mut self) {
        if !self.is_distrusted && self.good_rounds < self.doubt_rounds {
            self.doubt_rounds = (self.doubt_rounds.saturating_mul(2)).min(MOST_DOUBT_ROUNDS);
        } else if !self.is_distrusted {
            self.doubt_rounds = FIRST_DOUBT_ROUNDS;
        }
        self.is_distrusted = true;
        self.good_rounds = 0;
    }

    fn end_round(&mut self, now_us: u64) {
        let gives_way = self.mode == Mode::Aimd && self.round.lost > 0 && !self.has_given_way;
        if gives_way {
            self.window = (self.window / 2).max(LEAST_WINDOW);
            self.threshold = self.window;
        }
        self.has_given_way = gives_way;
        self.good_rounds = self.good_rounds.saturating_add(1);
        if self.is_distrusted && self.good_rounds >= self.doubt_rounds {
            (self.is_distrusted, self.good_rounds) = (false, 0);
        }
        self.delivered_before = self.round.delivered;
        self.round = Round { began_us: now_us, ..Round::default() };
    }

    /// AIMD begins with what arrived in a round trip, which the network can carry.
    fn leave_grant(&mut self) {
        if self.mode == Mode::Granted {
            self.mode = Mode::Aimd;
            let arrived = self.round.delivered.max(self.delivered_before);
            self.window = (arrived.min(MOST_WINDOW) as u32).max(LEAST_WINDOW);
            self.threshold = self.window;
            self.grown = 0;
            self.has_given_way = true;
        }
    }

    /// A packet more for each window that arrived.
    fn aimd(&mut self, delivered: u32) {
        if self.window < self.threshold {
            self.window = self.window.saturating_add(delivered).min(self.threshold).min(MOST_WINDOW as u32);
            return;
        }
        self.grown = self.grown.saturating_add(delivered);
        if self.grown >= self.window {
            self.grown -= self.window;
            self.window = self.window.saturating_add(1).min(MOST_WINDOW as u32);
        }
        self.grown = self.grown.min(self.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1_500;
    /// 100 Mbit/s.
    const GRANT: u64 = 12_500_000;
    const RTT_US: u64 = 100_000;

    /// Round trips of `packets` each, acknowledged in tenths; a share of them is lost. The grant is renewed if `renews`.
    fn rounds(this: &mut TcpEr, from_us: u64, rounds: u64, packets: u32, lost: u32, renews: bool) -> u64 {
        let mut now = from_us;
        for _ in 0..rounds * 10 {
            now += RTT_US / 10;
            if renews {
                this.on_grant(now, GRANT);
            }
            this.on_ack(now, (packets - lost) / 10, lost / 10, RTT_US);
        }
        now
    }

    #[test]
    fn a_grant_is_the_pace_at_once_whatever_is_lost() {
        let mut this = TcpEr::new(SEGMENT);
        assert_eq!((this.mode(), this.window(), this.pacing_rate()), (Mode::Aimd, 10, 0));
        this.on_grant(1_000, GRANT);
        this.on_ack(1_500, 1, 0, RTT_US);
        assert_eq!((this.mode(), this.pacing_rate()), (Mode::Granted, GRANT));
        let in_round_trip = (GRANT / 10 / u64::from(SEGMENT)) as u32;
        assert!((in_round_trip..in_round_trip * 3 / 2).contains(&this.window()), "{}", this.window());
        rounds(&mut this, 2_000, 20, 800, 160, true);
        assert_eq!((this.mode(), this.pacing_rate()), (Mode::Granted, GRANT), "a fifth lost");
        this.on_grant(9_000_000, GRANT / 2);
        assert_eq!(this.pacing_rate(), GRANT / 2, "a lower one is obeyed at once");
    }

    #[test]
    fn a_third_lost_or_four_round_trips_without_news_and_it_is_not_believed() {
        for (lost, renews) in [(320, true), (0, false)] {
            let mut this = TcpEr::new(SEGMENT);
            this.on_grant(1_000, GRANT);
            let now = rounds(&mut this, 1_000, 6, 800, lost, renews);
            assert_eq!(this.mode(), Mode::Aimd, "{lost}");
            assert!(this.pacing_rate() <= GRANT, "never above the grant");
            if lost > 0 {
                let now = rounds(&mut this, now, 6, 800, lost, false);
                assert!(this.window() <= 60, "AIMD gives way: {}", this.window());
                let _ = rounds(&mut this, now, 1, 800, 0, false);
            } else {
                let before = this.window();
                let now = rounds(&mut this, now, 10, before, 0, false);
                assert!(this.window() > before && this.window() < before + 20, "{before} {}", this.window());
                this.on_grant(now, GRANT);
                assert_eq!(this.mode(), Mode::Granted, "and a new one is believed");
            }
        }
    }

    #[test]
    fn taken_back_it_goes_on_with_what_arrived() {
        let mut this = TcpEr::new(SEGMENT);
        this.on_grant(1_000, GRANT);
        this.on_ack(2_000, 50, 0, RTT_US);
        this.on_grant(3_000, 0);
        assert_eq!((this.mode(), this.window()), (Mode::Aimd, 50));
    }

    #[test]
    fn nonsense_stays_within_bounds() {
        let mut this = TcpEr::new(0);
        for value in [0, 1, u64::from(u32::MAX), u64::MAX] {
            this.on_grant(value, value);
            this.on_ack(value, u32::MAX, u32::MAX, value);
            this.on_ack(0, 0, 0, 0);
            assert!(this.window() >= LEAST_WINDOW && u64::from(this.window()) <= MOST_WINDOW);
            let _ = this.pacing_rate();
        }
    }
}
