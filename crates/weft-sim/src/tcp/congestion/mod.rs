//! Controls congestion: determines how many bytes may be in flight and how fast they may be sent.
//!
//! The sender reports acknowledgments, losses and congestion marks. [`SenderCongestion`] returns a window and, for
//! some algorithms, a pacing rate. The sender itself decides which segment is lost and when it is retransmitted. It
//! also computes NewReno's window inflation.

mod bbr;
mod bic;
mod cubic;
mod explicit_rate;
mod hystart;
mod reno;
#[cfg(test)]
mod testing;
mod window;

use bbr::Bbr;
use bic::Bic;
use cubic::Cubic;
use explicit_rate::ExplicitRate;
use reno::Reno;
use std::time::Duration;
use weft_units::{Instant, Rate};
use window::CongestionWindow;

/// The congestion control algorithm of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionKind {
    /// Reno: slow start, additive increase and multiplicative decrease (RFC 5681).
    ///
    /// The window grows by the number of acknowledged bytes (RFC 3465).
    Reno {
        /// Maximum growth for one acknowledgment in slow start, in segments.
        ///
        /// It is L of RFC 3465, which is 1 or 2. With 0 the window grows by one segment for each acknowledgment (RFC
        /// 5681 equation 3), as in ns-2. Delayed acknowledgments then open the window half as fast.
        abc_limit_segments: u32,
    },
    /// CUBIC: a cubic function of the time since the last loss (RFC 9438).
    Cubic {
        /// The way in which slow start ends before a loss.
        hystart: HyStartKind,
        /// True if a loss below the last W_max reduces W_max further, which leaves capacity to new flows.
        ///
        /// Standard: fast convergence of RFC 9438 §4.7.
        fast_convergence: bool,
        /// Whether the window grows continuously or by whole segments.
        growth: CubicGrowth,
    },
    /// BIC: a binary search for the window of the last loss, with Linux's constants.
    Bic,
    /// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00).
    ///
    /// It requires pacing and delivery rates.
    Bbr {
        /// Seed of the random number that selects the phase of the gain cycle in which BBR begins to probe.
        seed: u64,
    },
    /// TCP-ER: sends at an explicit rate that routers or edges grant (paper 001 §IV-A).
    ///
    /// It requires pacing.
    ExplicitRate {
        /// Explicit rate, which includes the IP and TCP headers.
        ///
        /// If it is zero, only the rates of [`SenderCongestion::on_grant`] are used.
        rate: Rate,
    },
}

/// The way in which slow start ends before a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HyStartKind {
    /// Slow start ends only at a loss.
    Off,
    /// HyStart++ (RFC 9406): ends on rising delay, through conservative slow start.
    #[default]
    PlusPlus,
    /// Classic HyStart, as in Linux's CUBIC.
    ///
    /// It ends on rising delay, or when acknowledgments arrive without a gap for half of the RTT.
    Classic,
}

/// The way in which CUBIC's window grows between two losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CubicGrowth {
    /// With each acknowledgment.
    ///
    /// In the Reno-friendly region α becomes 1 once the window reaches that of the last loss (RFC 9438 §4.3).
    #[default]
    Continuous,
    /// By whole segments, as Linux's `tcp_cubic` does.
    ///
    /// The growth is computed again when the window has changed or a 32nd of a second has passed. It always uses the
    /// smaller α of 0.53. Over short round trips this growth is slower than that of the RFC.
    Linux,
}

/// The delivery rate that an acknowledgment shows (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateSample {
    /// Number of bytes delivered in `interval`, divided by `interval`.
    pub rate: Rate,
    /// True if the application limited the sender when the segment of this sample was sent.
    pub app_limited: bool,
    /// Bytes delivered on the connection so far, including this acknowledgment.
    pub delivered: u64,
    /// Bytes that had been delivered when the sample's segment was sent.
    pub prior_delivered: u64,
    /// Duration of the sample.
    ///
    /// It is the longer of the time in which the bytes were sent and the time in which they were acknowledged.
    pub interval: Duration,
}

/// An acknowledgment, as the sender reports it to the congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckEvent {
    /// Time at which the acknowledgment arrived.
    pub now: Instant,
    /// Number of newly acknowledged bytes.
    ///
    /// Algorithms with a window get cumulatively acknowledged bytes only (RFC 5681 §3.1). For BBR and TCP-ER,
    /// selectively acknowledged bytes are included.
    pub acked_bytes: u64,
    /// Number of bytes declared lost while the acknowledgment was processed.
    pub lost_bytes: u64,
    /// Bytes that are probably in the network after this acknowledgment (pipe of RFC 6675).
    pub flight_bytes: u64,
    /// Smoothed round-trip time, including this acknowledgment.
    pub srtt: Option<Duration>,
    /// Round-trip time of the last segment that this acknowledgment newly covers.
    ///
    /// `None` if it covers a retransmission (Karn's algorithm), or no new data.
    pub rtt: Option<Duration>,
    /// Least round-trip time so far.
    pub min_rtt: Option<Duration>,
    /// Delivery rate that this acknowledgment shows, if the algorithm uses delivery rates.
    pub delivery: Option<RateSample>,
    /// True if the window had space for a segment before this acknowledgment: the sender did not use all of it.
    ///
    /// If it is true, the congestion window must not grow.
    pub app_limited: bool,
    /// True if the sender is in recovery, or was just before this acknowledgment.
    pub in_recovery: bool,
}

/// The congestion control of a sender.
///
/// For an acknowledgment that reveals a loss, the sender calls [`on_congestion`](Self::on_congestion) first. It then
/// calls [`on_ack`](Self::on_ack) with `in_recovery`.
#[derive(Clone, Debug)]
pub struct SenderCongestion(Laws);

#[derive(Clone, Debug)]
enum Laws {
    Reno(Reno),
    Cubic(Cubic),
    Bic(Bic),
    Bbr(Bbr),
    ExplicitRate(ExplicitRate),
}

/// The interface of a congestion control algorithm; [`SenderCongestion`] documents each method.
trait Law {
    fn on_ack(&mut self, ack: &AckEvent);
    fn on_congestion(&mut self, now: Instant, flight_bytes: u64);
    fn on_ecn(&mut self, now: Instant, flight_bytes: u64) {
        self.on_congestion(now, flight_bytes);
    }
    fn on_timeout(&mut self, now: Instant, flight_bytes: u64);
    fn on_recovery_exit(&mut self, _now: Instant) {}
    fn on_spurious(&mut self);
    fn on_restart(&mut self, now: Instant, idle: Duration, rto: Duration);
    fn cwnd_bytes(&self) -> u64;
    fn ssthresh_bytes(&self) -> u64;
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
    fn reduces_in_proportion(&self) -> bool {
        false
    }
    fn on_grant(&mut self, _now: Instant, _rate: Rate, _srtt: Option<Duration>) {}
    /// Returns the congestion window, if the algorithm has one.
    fn window_mut(&mut self) -> Option<&mut CongestionWindow> {
        None
    }
}

macro_rules! law {
    ($laws:expr) => {
        match $laws {
            Laws::Reno(law) => law,
            Laws::Cubic(law) => law,
            Laws::Bic(law) => law,
            Laws::Bbr(law) => law,
            Laws::ExplicitRate(law) => law,
        }
    };
}

impl SenderCongestion {
    /// Creates a congestion control for segments of `mss` payload bytes.
    ///
    /// `initial_window_bytes` is the initial window.
    pub fn new(kind: CongestionKind, mss: u32, initial_window_bytes: u64) -> SenderCongestion {
        SenderCongestion(match kind {
            CongestionKind::Reno { abc_limit_segments } => {
                Laws::Reno(Reno::new(abc_limit_segments, mss, initial_window_bytes))
            }
            CongestionKind::Cubic { hystart, fast_convergence, growth } => {
                Laws::Cubic(Cubic::new(hystart, fast_convergence, growth, mss, initial_window_bytes))
            }
            CongestionKind::Bic => Laws::Bic(Bic::new(mss, initial_window_bytes)),
            CongestionKind::Bbr { seed } => Laws::Bbr(Bbr::new(seed, mss, initial_window_bytes)),
            CongestionKind::ExplicitRate { rate } => Laws::ExplicitRate(ExplicitRate::new(rate, mss)),
        })
    }

    /// Replaces the explicit rate of [`CongestionKind::ExplicitRate`].
    ///
    /// It has no effect on other algorithms.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        if let Laws::ExplicitRate(law) = &mut self.0 {
            law.set_rate(now, rate);
        }
    }

    /// Reports the rate that routers or edges grant, which includes the IP and TCP headers, and the smoothed RTT.
    ///
    /// Only TCP-ER uses it.
    pub fn on_grant(&mut self, now: Instant, rate: Rate, srtt: Option<Duration>) {
        self.law_mut().on_grant(now, rate, srtt);
    }

    /// Sets the window and begins a limited slow start (RFC 3742), as after Quick-Start.
    ///
    /// It returns false and has no effect if the algorithm has no window.
    pub fn begin_at(&mut self, window_bytes: u64) -> bool {
        self.law_mut().window_mut().map(|window| window.begin_at(window_bytes as f64)).is_some()
    }

    /// Reduces the congestion window to `window_bytes` if it is larger.
    pub fn limit(&mut self, window_bytes: u64) {
        if let Some(window) = self.law_mut().window_mut() {
            window.cwnd = window.cwnd.min((window_bytes as f64).max(window.mss));
        }
    }

    /// Limits the slow-start threshold to `bytes`, at least two segments.
    pub fn limit_threshold(&mut self, bytes: u64) {
        if let Some(window) = self.law_mut().window_mut() {
            let cwnd = window.cwnd;
            window.reduce(window.ssthresh.min(bytes as f64));
            window.cwnd = window.cwnd.min(cwnd);
        }
    }

    /// Processes an acknowledgment that delivered data or revealed a loss.
    pub fn on_ack(&mut self, ack: &AckEvent) {
        self.law_mut().on_ack(ack);
    }

    /// Processes the start of fast recovery.
    ///
    /// `flight_bytes` is FlightSize of RFC 5681: the bytes sent and not cumulatively acknowledged, without those of
    /// limited transmit.
    pub fn on_congestion(&mut self, now: Instant, flight_bytes: u64) {
        self.law_mut().on_congestion(now, flight_bytes);
    }

    /// Processes an echo of a congestion mark.
    ///
    /// The sender calls it at most once in a window of data (RFC 3168 §6.1.2). `flight_bytes` is as in
    /// [`on_congestion`](Self::on_congestion).
    pub fn on_ecn(&mut self, now: Instant, flight_bytes: u64) {
        self.law_mut().on_ecn(now, flight_bytes);
    }

    /// Processes the first expiry of the retransmission timer for a segment.
    ///
    /// RFC 5681 §3.1 requires that a further expiry leaves ssthresh unchanged.
    pub fn on_timeout(&mut self, now: Instant, flight_bytes: u64) {
        self.law_mut().on_timeout(now, flight_bytes);
    }

    /// Processes the end of recovery: all data that was outstanding when recovery began is acknowledged.
    pub fn on_recovery_exit(&mut self, now: Instant) {
        self.law_mut().on_recovery_exit(now);
    }

    /// Restores the window from before the last loss or timeout, because it was spurious.
    ///
    /// The sender must have reported that loss through [`on_congestion`](Self::on_congestion) or that timeout through
    /// [`on_timeout`](Self::on_timeout).
    pub fn on_spurious(&mut self) {
        self.law_mut().on_spurious();
    }

    /// Processes the first transmission after nothing was in flight for `idle` (RFC 5681 §4.1, RFC 2861).
    ///
    /// `rto` is the retransmission timeout.
    pub fn on_restart(&mut self, now: Instant, idle: Duration, rto: Duration) {
        self.law_mut().on_restart(now, idle, rto);
    }

    /// Returns the congestion window in bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        self.law().cwnd_bytes()
    }

    /// Returns the window in bytes at which slow start ends, which is `u64::MAX` before the first loss.
    pub fn ssthresh_bytes(&self) -> u64 {
        self.law().ssthresh_bytes()
    }

    /// Returns the rate of payload bytes at which segments should be sent.
    ///
    /// `None` means that acknowledgments alone determine when segments are sent.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.law().pacing_rate()
    }

    /// Returns true if recovery reduces the rate in proportion to delivered data (RFC 6937).
    ///
    /// The algorithms of Linux require this. For other algorithms the sender fills the reduced window (RFC 6675).
    pub fn reduces_in_proportion(&self) -> bool {
        self.law().reduces_in_proportion()
    }

    fn law(&self) -> &dyn Law {
        law!(&self.0)
    }

    fn law_mut(&mut self) -> &mut dyn Law {
        law!(&mut self.0)
    }
}
