//! Congestion control: how much may be in flight, and how fast it may leave.
//!
//! The sender tells what happened; [`Congestion`] answers with a window and perhaps a pace. Loss recovery (which segment is lost,
//! when to send it again, NewReno's window inflation) is the sender's.

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
use window::Window;

/// Which law a sender follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionKind {
    /// Slow start and additive increase, multiplicative decrease (RFC 5681), counting bytes (RFC 3465).
    Reno {
        /// RFC 3465's L: an acknowledgment opens the window in slow start by at most so many segments; 1 or 2. With 0 the window counts
        /// acknowledgments, each for a segment (RFC 5681 equation 3), as ns-2 does: delayed ones then open it half as fast.
        abc_limit_segments: u32,
    },
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic {
        /// How slow start ends before a loss.
        hystart: HyStartKind,
        /// Release more after a loss below the last maximum (RFC 9438 §4.7).
        fast_convergence: bool,
        /// How the window follows the curve.
        growth: CubicGrowth,
    },
    /// Binary search for the window at which the last loss came, with Linux's constants.
    Bic,
    /// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00). It needs pacing and delivery rates.
    Bbr {
        /// Where in its gain cycle the flow begins depends on it.
        seed: u64,
    },
    /// TCP-ER: at a rate that it was told (paper 001 §IV-A). It needs pacing.
    ExplicitRate {
        /// IP bytes; zero: none but what [`Congestion::on_grant`] says.
        rate: Rate,
    },
}

/// How slow start ends before a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HyStartKind {
    /// It does not.
    Off,
    /// HyStart++ (RFC 9406), on rising delay, by way of conservative slow start.
    #[default]
    PlusPlus,
    /// As Linux's CUBIC, on rising delay or on acknowledgments that come without a gap for half of the round-trip time.
    Classic,
}

/// How CUBIC's window grows between two losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CubicGrowth {
    /// With each acknowledgment; as Reno with α = 1 once it has the window of the last loss (RFC 9438 §4.3).
    #[default]
    Continuous,
    /// As Linux's `tcp_cubic`: by whole segments, at a pace worked out when the window has changed or a 32nd of a second has passed,
    /// and with the smaller α throughout. Over short round trips it lags behind the RFC's.
    Linux,
}

/// The delivery rate that an acknowledgment shows (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateSample {
    /// Bytes delivered over `interval`, as a rate.
    pub rate: Rate,
    /// The sample's segment left when the application had nothing more to send.
    pub app_limited: bool,
    /// Bytes delivered on the connection so far, with this acknowledgment.
    pub delivered: u64,
    /// Bytes that had been delivered when the sample's segment left.
    pub prior_delivered: u64,
    /// What the sample spans: the longer of its sending and its acknowledging time.
    pub interval: Duration,
}

/// An acknowledgment, as a congestion control sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckEvent {
    /// When it arrived.
    pub now: Instant,
    /// Bytes that it newly acknowledges: cumulatively, as window laws count them (RFC 5681 §3.1); for BBR and TCP-ER the selective ones, too.
    pub acked_bytes: u64,
    /// Bytes that were declared lost while it was processed.
    pub lost_bytes: u64,
    /// Bytes believed to be in the network after it (RFC 6675's pipe).
    pub flight_bytes: u64,
    /// The smoothed round-trip time, with this acknowledgment.
    pub srtt: Option<Duration>,
    /// The round-trip time that it shows; none if it is for a retransmission (Karn).
    pub rtt: Option<Duration>,
    /// The shortest round-trip time so far.
    pub min_rtt: Option<Duration>,
    /// The delivery rate that it shows.
    pub delivery: Option<RateSample>,
    /// Lately something else than the congestion window limited what was sent (application, receive window): the window must not grow.
    pub app_limited: bool,
    /// A loss is being repaired, now or just before this acknowledgment.
    pub in_recovery: bool,
}

/// A sender's congestion control.
///
/// For an acknowledgment that reveals a loss call [`on_congestion`](Self::on_congestion) first, then [`on_ack`](Self::on_ack) with
/// `in_recovery`.
#[derive(Clone, Debug)]
pub struct Congestion(Laws);

#[derive(Clone, Debug)]
enum Laws {
    Reno(Reno),
    Cubic(Cubic),
    Bic(Bic),
    Bbr(Bbr),
    ExplicitRate(ExplicitRate),
}

/// What a law has to answer; [`Congestion`] documents each.
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
    /// Of a law that goes by one.
    fn window_mut(&mut self) -> Option<&mut Window> {
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

impl Congestion {
    /// A congestion control for segments of `mss` payload bytes that begins with a window of `initial_window_bytes`.
    pub fn new(kind: CongestionKind, mss: u32, initial_window_bytes: u64) -> Congestion {
        Congestion(match kind {
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

    /// Another rate holds for a law that goes by one; others do not listen.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        if let Laws::ExplicitRate(law) = &mut self.0 {
            law.set_rate(now, rate);
        }
    }

    /// The network grants so much, IP headers included, and the round trip is smoothed so far; only TCP-ER listens.
    pub fn on_grant(&mut self, now: Instant, rate: Rate, srtt: Option<Duration>) {
        self.law_mut().on_grant(now, rate, srtt);
    }

    /// The window is this and slow start a limited one (RFC 3742), as after Quick-Start; false for a law without a window, which goes on.
    pub fn begin_at(&mut self, window_bytes: u64) -> bool {
        self.law_mut().window_mut().map(|window| window.begin_at(window_bytes as f64)).is_some()
    }

    /// The window is at most this.
    pub fn limit(&mut self, window_bytes: u64) {
        if let Some(window) = self.law_mut().window_mut() {
            window.cwnd = window.cwnd.min((window_bytes as f64).max(window.mss));
        }
    }

    /// Slow start ends at this, at the latest, and two segments at least.
    pub fn limit_threshold(&mut self, bytes: u64) {
        if let Some(window) = self.law_mut().window_mut() {
            let cwnd = window.cwnd;
            window.reduce(window.ssthresh.min(bytes as f64));
            window.cwnd = window.cwnd.min(cwnd);
        }
    }

    /// An acknowledgment delivered something or declared something lost.
    pub fn on_ack(&mut self, ack: &AckEvent) {
        self.law_mut().on_ack(ack);
    }

    /// Fast recovery begins. `flight_bytes` is RFC 5681's FlightSize: sent and not cumulatively acknowledged, without what limited
    /// transmit added.
    pub fn on_congestion(&mut self, now: Instant, flight_bytes: u64) {
        self.law_mut().on_congestion(now, flight_bytes);
    }

    /// The receiver echoes a congestion mark, the first in this window of data (RFC 3168 §6.1.2).
    pub fn on_ecn(&mut self, now: Instant, flight_bytes: u64) {
        self.law_mut().on_ecn(now, flight_bytes);
    }

    /// The retransmission timer expired for a segment, the first time: RFC 5681 §3.1 wants ssthresh held when it does so again.
    pub fn on_timeout(&mut self, now: Instant, flight_bytes: u64) {
        self.law_mut().on_timeout(now, flight_bytes);
    }

    /// All that was outstanding when recovery began is acknowledged.
    pub fn on_recovery_exit(&mut self, now: Instant) {
        self.law_mut().on_recovery_exit(now);
    }

    /// The last [`on_congestion`](Self::on_congestion) or [`on_timeout`](Self::on_timeout) was for a segment that was not lost: back
    /// to the state before it.
    pub fn on_spurious(&mut self) {
        self.law_mut().on_spurious();
    }

    /// Data leaves again after nothing had been in flight for `idle` (RFC 5681 §4.1, RFC 2861); `rto` is the retransmission timeout.
    pub fn on_restart(&mut self, now: Instant, idle: Duration, rto: Duration) {
        self.law_mut().on_restart(now, idle, rto);
    }

    /// How many bytes may be in flight.
    pub fn cwnd_bytes(&self) -> u64 {
        self.law().cwnd_bytes()
    }

    /// The window where slow start ends; `u64::MAX` before the first loss.
    pub fn ssthresh_bytes(&self) -> u64 {
        self.law().ssthresh_bytes()
    }

    /// The rate of payload bytes at which segments should leave; none if acknowledgments alone clock them.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.law().pacing_rate()
    }

    /// Whether recovery sends in proportion to what arrives (RFC 6937), as Linux's laws expect, instead of filling the reduced window
    /// (RFC 6675).
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
