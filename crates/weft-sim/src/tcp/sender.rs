//! Models the sending side of a TCP connection.
//!
//! Acknowledgments enter through [`TcpSender::receive`], and segments leave through [`TcpSender::transmit`]. The submodules
//! detect losses, run the timers and choose the next segment. The sender never reads a clock.

mod acknowledge;
mod losses;
mod quick_start;
mod successor;
mod timers;
mod transmit;

use super::congestion::{CongestionKind, SenderCongestion};
use super::delivery_rate::DeliveryRate;
use super::recovery::{LossDetection, NewReno, ProportionalRate, Rack, Sack, TailProbe};
use super::rto::RttEstimator;
use super::scoreboard::Scoreboard;
use super::undo::Undo;
use super::{Flags, LossRecovery, SenderConfig, TcpSegment};
use quick_start::QuickStarted;
use std::time::Duration;
use timers::Timers;
use weft_units::{Instant, Rate};

/// Counters of what a sender did since its connection began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderCounters {
    /// Segments sent, including retransmissions.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Number of times that fast recovery began.
    pub fast_retransmits: u64,
    /// Number of times that the retransmission timer expired.
    pub timeouts: u64,
    /// Window reductions that were undone because nothing was lost.
    pub spurious: u64,
    /// Window reductions in response to a congestion mark.
    pub ecn_reductions: u64,
    /// Tail loss probes sent (RFC 8985 §7).
    pub probes: u64,
}

/// The state of the connection's handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HandshakePhase {
    /// The SYN has not been sent.
    Closed,
    /// The SYN was sent `times` times, the last time at `at`.
    SynSent { times: u32, at: Instant },
    /// The handshake is complete, and data may be sent.
    Established,
}

/// The state of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecoveryPhase {
    Open,
    FastRecovery,
    /// Recovery after the retransmission timer has expired.
    Loss,
}

/// The sending end of one direction of a TCP connection.
#[derive(Clone, Debug)]
pub struct TcpSender {
    config: SenderConfig,
    mss: u64,
    congestion: SenderCongestion,
    scoreboard: Scoreboard,
    rtt: RttEstimator,
    delivery_rate: Option<DeliveryRate>,
    detection: LossDetection,
    /// Proportional rate reduction of the last recovery. `None` if the window is reduced at once.
    reduction: Option<ProportionalRate>,
    undo: Undo,
    timers: Timers,
    counters: SenderCounters,
    opening: HandshakePhase,
    phase: RecoveryPhase,
    /// Sequence number of the first unacknowledged byte (SND.UNA).
    una: u64,
    /// Sequence number of the next byte to send for the first time (SND.NXT).
    nxt: u64,
    /// Sequence number after the last byte that the application has written.
    written: u64,
    closed: bool,
    fin_sent: bool,
    /// Sequence number of the first byte beyond the receive window.
    right_edge: u64,
    peer_window: u32,
    /// Maximum number of bytes in the pipe: congestion window, inflation and limited transmit.
    window: u64,
    /// Limit of the window after recovery, in bytes, or `u64::MAX` for none.
    ///
    /// The window grows from the bytes in flight instead of opening at once (RFC 6582 §3.2 step 3, first choice).
    opening_window: u64,
    /// Value of SND.NXT when the last recovery began (recover of RFC 6582, RecoveryPoint of RFC 6675).
    recovery_point: Option<u64>,
    /// Sequence number after the last byte of the highest selectively acknowledged segment.
    high_sacked: u64,
    dup_thresh: u32,
    /// Bytes that limited transmit sent since the last cumulative acknowledgment.
    ///
    /// They are not part of FlightSize (RFC 5681 §3.2 step 2).
    limited_bytes: u64,
    /// True if the first lost segment is sent next, even if the window has no space for it.
    retransmit_first: bool,
    /// True if a tail loss probe is sent next, even if the window has no space for it.
    probe_due: bool,
    ecn: bool,
    /// Until this sequence number is acknowledged, the sender ignores further congestion marks.
    ecn_until: Option<u64>,
    send_cwr: bool,
    last_sent_at: Instant,
    quick_started: Option<QuickStarted>,
    /// Value of SND.UNA at the last retransmission timeout.
    timed_out_at: u64,
}

impl TcpSender {
    /// Returns a sender to which the application has not written any data.
    pub fn new(config: SenderConfig, now: Instant) -> TcpSender {
        let mss = config.mss.max(1);
        let initial_window = u64::from(config.initial_window_segments.max(1)) * u64::from(mss);
        let max_window = config.max_window_segments.max(1).saturating_mul(mss);
        let detection = match config.recovery {
            LossRecovery::NewReno => LossDetection::NewReno(NewReno::default()),
            LossRecovery::Sack => LossDetection::Sack(Sack::default()),
            LossRecovery::RackTlp => LossDetection::RackTlp(Rack::default(), TailProbe::default()),
        };
        TcpSender {
            mss: u64::from(mss),
            congestion: SenderCongestion::new(config.congestion, mss, initial_window),
            scoreboard: Scoreboard::default(),
            rtt: RttEstimator::new(config.initial_rto, config.min_rto, config.max_rto),
            delivery_rate: wants_delivery_rate(config.congestion).then(DeliveryRate::default),
            detection,
            reduction: None,
            undo: Undo::default(),
            timers: Timers::default(),
            counters: SenderCounters::default(),
            opening: if config.handshake { HandshakePhase::Closed } else { HandshakePhase::Established },
            phase: RecoveryPhase::Open,
            una: 0,
            nxt: 0,
            written: 0,
            closed: false,
            fin_sent: false,
            right_edge: u64::from(max_window),
            peer_window: max_window,
            window: initial_window,
            opening_window: u64::MAX,
            recovery_point: None,
            high_sacked: 0,
            dup_thresh: config.dup_thresh.max(1),
            limited_bytes: 0,
            retransmit_first: false,
            probe_due: false,
            ecn: config.ecn && !config.handshake,
            ecn_until: None,
            send_cwr: false,
            last_sent_at: now,
            quick_started: None,
            timed_out_at: u64::MAX,
            config: SenderConfig { mss, ..config },
        }
    }

    /// Adds `bytes` bytes that the application writes to the stream.
    ///
    /// `u64::MAX` means an endless stream.
    pub fn write(&mut self, bytes: u64) {
        if !self.closed {
            self.written = self.written.saturating_add(bytes);
        }
    }

    /// Sets the rate that the routers along the route grant, including IP headers.
    ///
    /// Only TCP-ER uses it.
    pub fn grant(&mut self, now: Instant, rate: Rate) {
        self.congestion.on_grant(now, rate, self.srtt());
        self.update_window(0);
    }

    /// Closes the stream: a FIN follows the data.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Sets the explicit rate of this connection and of later connections between the same ends.
    ///
    /// It has no effect on a sender with another congestion control.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        if let CongestionKind::ExplicitRate { rate: fixed } = &mut self.config.congestion {
            *fixed = rate;
            self.congestion.set_rate(now, rate);
        }
    }

    /// Returns the number of written bytes that are not sent yet.
    pub fn unsent_bytes(&self) -> u64 {
        self.written.saturating_sub(self.nxt)
    }

    /// Returns the number of payload bytes acknowledged in order.
    pub fn acked_bytes(&self) -> u64 {
        self.una.min(self.written)
    }

    /// Returns true if the stream is closed and all data and the FIN are acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin_sent && self.scoreboard.is_empty()
    }

    /// Returns the congestion window in bytes, without the inflation of loss recovery.
    pub fn cwnd_bytes(&self) -> u64 {
        self.congestion.cwnd_bytes()
    }

    /// Returns the slow-start threshold in bytes, which is `u64::MAX` before the first loss.
    pub fn ssthresh_bytes(&self) -> u64 {
        self.congestion.ssthresh_bytes()
    }

    /// Returns the number of bytes that are probably in the network (pipe of RFC 6675).
    pub fn flight_bytes(&self) -> u64 {
        self.scoreboard.pipe_bytes()
    }

    /// Returns the maximum number of bytes in flight.
    ///
    /// It is the congestion window plus NewReno's inflation and limited transmit. A retransmission that begins recovery
    /// and a tail loss probe may exceed it.
    pub fn window_bytes(&self) -> u64 {
        self.window
    }

    /// Returns the smoothed round-trip time, or `None` before the first measurement.
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// Returns the retransmission timeout, including its exponential backoff.
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.rtt.rto_nanos())
    }

    /// Returns the present DupThresh: the number of later segments that must arrive before a segment counts as lost.
    pub fn dup_thresh(&self) -> u32 {
        self.dup_thresh
    }

    /// Returns the counters of the sender's actions.
    pub fn counters(&self) -> &SenderCounters {
        &self.counters
    }

    /// Returns true if the packet that carries `segment` is marked as ECN-capable.
    ///
    /// This holds only for new data (RFC 3168 §6.1.5).
    pub fn is_ecn_capable(&self, segment: &TcpSegment) -> bool {
        self.ecn && segment.len > 0 && !segment.flags.has(Flags::RETRANSMIT)
    }

    /// Returns FlightSize: the number of bytes sent and not cumulatively acknowledged, at most the congestion window.
    ///
    /// It excludes the bytes of limited transmit (RFC 5681 §2 and §3.2). The limit is there because data sent on
    /// duplicate acknowledgments does not justify a larger window.
    fn flight_size(&self) -> u64 {
        let outstanding = (self.nxt - self.una).saturating_sub(self.limited_bytes);
        outstanding.min(self.congestion.cwnd_bytes())
    }

    /// Returns true if bytes before `recovery_point` are still unacknowledged.
    fn is_before_recovery_point(&self) -> bool {
        self.recovery_point.is_some_and(|point| self.una < point)
    }

    /// Computes `window`, the maximum number of bytes in the pipe, again.
    ///
    /// `delivered` is the number of bytes that the acknowledgment in progress newly covers.
    fn update_window(&mut self, delivered: u64) {
        let cwnd = self.congestion.cwnd_bytes().min(self.opening_window);
        let limited = self.config.limited_transmit;
        if let (RecoveryPhase::FastRecovery, Some(reduction)) = (self.phase, &mut self.reduction) {
            let pipe = self.scoreboard.pipe_bytes();
            self.window = pipe + reduction.allowance(delivered, pipe, cwnd, self.mss);
            return;
        }
        self.window = match (&self.detection, self.phase) {
            (LossDetection::NewReno(new_reno), RecoveryPhase::FastRecovery) => new_reno.inflated(cwnd),
            (LossDetection::NewReno(new_reno), RecoveryPhase::Open) if limited => {
                cwnd + new_reno.limited_transmit(self.dup_thresh, self.mss)
            }
            (LossDetection::Sack(_) | LossDetection::RackTlp(..), RecoveryPhase::Open) if !limited => {
                cwnd.saturating_sub(self.scoreboard.sacked_bytes())
            }
            _ => cwnd,
        };
    }
}

fn wants_delivery_rate(congestion: CongestionKind) -> bool {
    matches!(congestion, CongestionKind::Bbr { .. } | CongestionKind::ExplicitRate { .. })
}
