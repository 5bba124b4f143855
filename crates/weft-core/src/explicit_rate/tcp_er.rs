//! TCP-ER's control law: a TCP sender with a granted rate (paper 001 §IV-A).
//!
//! All arithmetic uses integers, so that tests can compare it bit by bit with the kernel's implementation. With a grant
//! there is no slow start. The grant is the pacing rate from the first packet on, and the window is its bandwidth-delay
//! product. Loss does not lower the rate. Only a lower grant does.
//!
//! The paper does not define when to distrust a grant. Here a grant ends if it is not renewed for four round trips
//! and 200 ms. It also ends if more than 30 % of a round trip's packets are lost. The window then follows AIMD (RFC
//! 5681's congestion avoidance) with the grant as its ceiling. AIMD ends with the next grant, or after some round
//! trips without such a loss. Their number doubles each time the grant proves wrong again.

/// Number of round trips for which a grant is valid.
const GRANT_ROUNDS: u64 = 4;
/// Minimum validity of a grant in microseconds.
///
/// With a short RTT, four round trips would be less than the time between two renewals of the grant.
const LEAST_GRANT_US: u64 = 200_000;
/// Fraction of a round trip's packets whose loss ends the trust in a grant, in percent.
const MOST_LOST_PERCENT: u64 = 30;
/// Initial number of round trips without an excessive loss until a grant is trusted again.
const FIRST_DOUBT_ROUNDS: u32 = 4;
/// Maximum number of round trips without an excessive loss until a grant is trusted again.
const MOST_DOUBT_ROUNDS: u32 = 256;
/// Number of packets in a round trip from which on the loss percentage counts.
const LEAST_ROUND_PACKETS: u64 = 8;
/// Lower limit of the RTT in calculations, in microseconds.
const LEAST_RTT_US: u64 = 100;
/// Delay of acknowledgements for which the window has space, besides a quarter of an RTT, in microseconds.
///
/// The causes are reordering and retransmissions below TCP.
const ALLOWANCE_US: u64 = 10_000;
/// Minimum window in packets.
const LEAST_WINDOW: u32 = 4;
/// Maximum window in packets.
const MOST_WINDOW: u64 = 1 << 24;

/// Source of a sender's rate: the grant, or AIMD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The sender uses the granted rate.
    Granted,
    /// The sender uses AIMD, because it has no grant or does not trust its grant.
    Aimd,
}

/// State of one TCP-ER sender, which sends at a granted rate or by AIMD. See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpErSender {
    segment_bytes: u32,
    mode: Mode,
    /// Granted rate in bytes per second, IP headers included.
    granted: u64,
    granted_at_us: u64,
    /// True if too many packets were lost, so that no grant is used for some round trips.
    is_distrusted: bool,
    /// Number of round trips without heavy loss that must pass until a grant is used again.
    doubt_rounds: u32,
    /// Number of round trips without heavy loss since the last one with heavy loss.
    good_rounds: u32,
    srtt_us: u64,
    /// Window of AIMD in packets.
    window: u32,
    /// Window size in packets below which the window grows by one packet per acknowledged packet (slow start).
    ///
    /// Only a sender that never had a grant uses slow start.
    threshold: u32,
    /// Number of packets acknowledged since AIMD's window last grew by one packet.
    grown: u32,
    /// True if the window has already been halved for losses that may still be reported.
    has_given_way: bool,
    round: DeliveryRound,
    /// Number of packets that arrived in the previous round trip.
    delivered_before: u64,
}

/// Packets delivered and lost in the current round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct DeliveryRound {
    began_us: u64,
    delivered: u64,
    lost: u64,
}

impl TcpErSender {
    /// Returns a sender without a grant, with plain TCP's initial window (RFC 6928).
    ///
    /// `segment_bytes` is the size of its segments.
    pub fn new(segment_bytes: u32) -> TcpErSender {
        TcpErSender {
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
            round: DeliveryRound::default(),
            delivered_before: 0,
        }
    }

    /// Changes the size of the sender's segments, in bytes.
    pub fn set_segment_bytes(&mut self, bytes: u32) {
        self.segment_bytes = bytes.max(1);
    }

    /// Sets the granted rate in bytes per second. Zero revokes the grant.
    pub fn on_grant(&mut self, now_us: u64, bytes_per_s: u64) {
        (self.granted, self.granted_at_us) = (bytes_per_s, now_us);
        if bytes_per_s == 0 {
            self.leave_grant();
        } else if !self.is_distrusted {
            self.mode = Mode::Granted;
        }
    }

    /// Processes an acknowledgement.
    ///
    /// `delivered` packets are newly delivered, `lost` packets are newly declared lost, and `srtt_us` is the smoothed
    /// RTT.
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

    /// Current mode of the sender.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Pacing rate in bytes per second.
    ///
    /// Zero means no pacing: no RTT is known yet, and there is no grant.
    pub fn pacing_rate(&self) -> u64 {
        match self.mode {
            Mode::Granted => self.granted,
            Mode::Aimd => {
                // The pacing rate is a fifth higher than the window needs, as in Linux during congestion avoidance.
                let bytes = u64::from(self.window) * u64::from(self.segment_bytes);
                let pace = bytes.saturating_mul(1_200_000).checked_div(self.srtt_us).unwrap_or(0);
                if self.granted > 0 && (pace == 0 || pace > self.granted) { self.granted } else { pace }
            }
        }
    }

    /// Window in packets.
    ///
    /// In granted mode it holds the data of one and a quarter RTT plus 10 ms at the granted rate, and a few packets.
    /// The quarter is for reordering (RFC 8985's reordering window).
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
        let DeliveryRound { delivered, lost, .. } = self.round;
        let all = delivered.saturating_add(lost);
        all >= LEAST_ROUND_PACKETS && lost.saturating_mul(100) > all.saturating_mul(MOST_LOST_PERCENT)
    }

    /// Stops using the grant for some round trips, because too many packets were lost.
    ///
    /// If the grant had been used again only recently, the number of round trips doubles.
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
        self.round = DeliveryRound { began_us: now_us, ..DeliveryRound::default() };
    }

    /// Changes from the granted rate to AIMD.
    ///
    /// The window starts at the number of packets that arrived in one round trip, because the route can carry them.
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

    /// Grows the window by one packet per acknowledged window.
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
    /// 100 Mbit/s in bytes per second.
    const GRANT: u64 = 12_500_000;
    const RTT_US: u64 = 100_000;

    /// Simulates round trips of `packets` packets each, of which `lost` are lost. Each has ten acknowledgements.
    ///
    /// It renews the grant if `renews` is true, and returns the time at the end.
    fn rounds(this: &mut TcpErSender, from_us: u64, rounds: u64, packets: u32, lost: u32, renews: bool) -> u64 {
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
        let mut this = TcpErSender::new(SEGMENT);
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
            let mut this = TcpErSender::new(SEGMENT);
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
        let mut this = TcpErSender::new(SEGMENT);
        this.on_grant(1_000, GRANT);
        this.on_ack(2_000, 50, 0, RTT_US);
        this.on_grant(3_000, 0);
        assert_eq!((this.mode(), this.window()), (Mode::Aimd, 50));
    }

    #[test]
    fn nonsense_stays_within_bounds() {
        let mut this = TcpErSender::new(0);
        for value in [0, 1, u64::from(u32::MAX), u64::MAX] {
            this.on_grant(value, value);
            this.on_ack(value, u32::MAX, u32::MAX, value);
            this.on_ack(0, 0, 0, 0);
            assert!(this.window() >= LEAST_WINDOW && u64::from(this.window()) <= MOST_WINDOW);
            let _ = this.pacing_rate();
        }
    }
}
