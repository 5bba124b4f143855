//! The sending side: what leaves, when, and what acknowledgments say about it.

mod acknowledge;
mod losses;
mod quick_start;
mod successor;
mod timers;
mod transmit;

use super::congestion::{Congestion, CongestionKind};
use super::delivery_rate::DeliveryRate;
use super::recovery::{LossDetection, NewReno, ProportionalRate, Rack, Sack, TailProbe};
use super::rto::RttEstimator;
use super::scoreboard::Scoreboard;
use super::undo::Undo;
use super::{Flags, Recovery, Segment, SenderConfig};
use quick_start::QuickStarted;
use std::time::Duration;
use timers::Timers;
use weft_units::{Instant, Rate};

/// What a sender has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderCounters {
    /// Segments sent, retransmissions included.
    pub segments: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Times that fast recovery began.
    pub fast_retransmits: u64,
    /// Times that the retransmission timer expired.
    pub timeouts: u64,
    /// Window reductions that were undone, because nothing had been lost.
    pub spurious: u64,
    /// Window reductions for a congestion mark.
    pub ecn_reductions: u64,
    /// Tail loss probes sent (RFC 8985 §7).
    pub probes: u64,
}

/// Where the connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opening {
    /// SYN has to leave.
    Closed,
    /// SYN left, so many times.
    SynSent { times: u32, at: Instant },
    /// Data may leave.
    Established,
}

/// Whether a loss is being repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    FastRecovery,
    /// After a timeout.
    Loss,
}

/// The sender of one direction of one connection.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    mss: u64,
    congestion: Congestion,
    scoreboard: Scoreboard,
    rtt: RttEstimator,
    delivery_rate: Option<DeliveryRate>,
    detection: LossDetection,
    /// While a law that asks for it recovers.
    reduction: Option<ProportionalRate>,
    undo: Undo,
    timers: Timers,
    counters: SenderCounters,
    opening: Opening,
    phase: Phase,
    /// The first byte not acknowledged (SND.UNA).
    una: u64,
    /// The next byte to send for the first time (SND.NXT).
    nxt: u64,
    /// Where the application's data ends.
    written: u64,
    closed: bool,
    fin_sent: bool,
    /// The first byte that the receiver has no room for.
    right_edge: u64,
    peer_window: u32,
    /// What may be in the pipe: congestion window, inflation, limited transmit.
    window: u64,
    /// After recovery the window opens from what is in flight, not at once (RFC 6582 §3.2 step 3, first choice). `u64::MAX` for none.
    opening_window: u64,
    /// Where SND.NXT was when the last recovery began (recover, RecoveryPoint).
    recovery_point: Option<u64>,
    /// One byte after the highest that was selectively acknowledged.
    high_sacked: u64,
    dup_thresh: u32,
    /// Bytes that limited transmit sent since the acknowledgment moved; no part of FlightSize (RFC 5681 §3.2 step 2).
    limited_bytes: u64,
    /// The first lost segment leaves whatever the window says.
    retransmit_first: bool,
    /// A tail loss probe leaves next, whatever the window says.
    probe_due: bool,
    ecn: bool,
    /// A congestion mark counts once until this is acknowledged.
    ecn_until: Option<u64>,
    send_cwr: bool,
    last_sent_at: Instant,
    quick_started: Option<QuickStarted>,
}

impl Sender {
    /// A sender that has nothing to send yet.
    pub fn new(config: SenderConfig, now: Instant) -> Sender {
        let mss = config.mss.max(1);
        let initial_window = u64::from(config.initial_window_segments.max(1)) * u64::from(mss);
        let max_window = config.max_window_segments.max(1).saturating_mul(mss);
        let detection = match config.recovery {
            Recovery::NewReno => LossDetection::NewReno(NewReno::default()),
            Recovery::Sack => LossDetection::Sack(Sack::default()),
            Recovery::RackTlp => LossDetection::RackTlp(Rack::default(), TailProbe::default()),
        };
        Sender {
            mss: u64::from(mss),
            congestion: Congestion::new(config.congestion, mss, initial_window),
            scoreboard: Scoreboard::default(),
            rtt: RttEstimator::new(config.initial_rto, config.min_rto, config.max_rto),
            delivery_rate: wants_delivery_rate(config.congestion).then(DeliveryRate::default),
            detection,
            reduction: None,
            undo: Undo::default(),
            timers: Timers::default(),
            counters: SenderCounters::default(),
            opening: if config.handshake { Opening::Closed } else { Opening::Established },
            phase: Phase::Open,
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
            config: SenderConfig { mss, ..config },
        }
    }

    /// The application has `bytes` more to send; `u64::MAX` for an endless stream.
    pub fn write(&mut self, bytes: u64) {
        if !self.closed {
            self.written = self.written.saturating_add(bytes);
        }
    }

    /// The network grants the connection so much, IP headers included; only TCP-ER listens.
    pub fn grant(&mut self, now: Instant, rate: Rate) {
        self.congestion.on_grant(now, rate, self.srtt());
        self.update_window(0);
    }

    /// The application writes no more: FIN follows the data.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Its explicit rate is `rate` from now on, that of a successor too; a sender with another congestion control has none.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        if let CongestionKind::ExplicitRate { rate: fixed } = &mut self.config.congestion {
            *fixed = rate;
            self.congestion.set_rate(now, rate);
        }
    }

    /// Bytes written and not sent yet.
    pub fn unsent_bytes(&self) -> u64 {
        self.written.saturating_sub(self.nxt)
    }

    /// Payload bytes acknowledged in order.
    pub fn acked_bytes(&self) -> u64 {
        self.una.min(self.written)
    }

    /// The stream was closed, and all of it and the FIN are acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin_sent && self.scoreboard.is_empty()
    }

    /// The congestion window, without what loss recovery adds.
    pub fn cwnd_bytes(&self) -> u64 {
        self.congestion.cwnd_bytes()
    }

    /// The slow-start threshold; `u64::MAX` before the first loss.
    pub fn ssthresh_bytes(&self) -> u64 {
        self.congestion.ssthresh_bytes()
    }

    /// Bytes believed to be in the network (RFC 6675's pipe).
    pub fn flight_bytes(&self) -> u64 {
        self.scoreboard.pipe_bytes()
    }

    /// How many bytes may be in flight: the congestion window with what NewReno's inflation and limited transmit add. A retransmission
    /// that opens recovery and a tail loss probe leave beyond it.
    pub fn window_bytes(&self) -> u64 {
        self.window
    }

    /// The smoothed round-trip time.
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// The retransmission timeout, backed off.
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.rtt.rto_nanos())
    }

    /// DupThresh as it is now.
    pub fn dup_thresh(&self) -> u32 {
        self.dup_thresh
    }

    /// What it has done so far.
    pub fn counters(&self) -> &SenderCounters {
        &self.counters
    }

    /// Whether the packet of `segment` says that it is ECN-capable: new data does, nothing else (RFC 3168 §6.1.5).
    pub fn is_ecn_capable(&self, segment: &Segment) -> bool {
        self.ecn && segment.len > 0 && !segment.flags.has(Flags::RETRANSMIT)
    }

    /// FlightSize: sent and not cumulatively acknowledged, without what limited transmit added (RFC 5681 §2, §3.2). Not more than
    /// the congestion window: what left on duplicate acknowledgments is no sign of a greater one.
    fn flight_size(&self) -> u64 {
        let outstanding = (self.nxt - self.una).saturating_sub(self.limited_bytes);
        outstanding.min(self.congestion.cwnd_bytes())
    }

    /// Bytes up to `recovery_point` are missing still.
    fn is_before_recovery_point(&self) -> bool {
        self.recovery_point.is_some_and(|point| self.una < point)
    }

    /// `delivered`: bytes that the acknowledgment at hand brought.
    fn update_window(&mut self, delivered: u64) {
        let cwnd = self.congestion.cwnd_bytes().min(self.opening_window);
        let limited = self.config.limited_transmit;
        if let (Phase::FastRecovery, Some(reduction)) = (self.phase, &mut self.reduction) {
            let pipe = self.scoreboard.pipe_bytes();
            self.window = pipe + reduction.allowance(delivered, pipe, cwnd, self.mss);
            return;
        }
        self.window = match (&self.detection, self.phase) {
            (LossDetection::NewReno(new_reno), Phase::FastRecovery) => new_reno.inflated(cwnd),
            (LossDetection::NewReno(new_reno), Phase::Open) if limited => {
                cwnd + new_reno.limited_transmit(self.dup_thresh, self.mss)
            }
            (LossDetection::Sack(_) | LossDetection::RackTlp(..), Phase::Open) if !limited => {
                cwnd.saturating_sub(self.scoreboard.sacked_bytes())
            }
            _ => cwnd,
        };
    }
}

fn wants_delivery_rate(congestion: CongestionKind) -> bool {
    matches!(congestion, CongestionKind::Bbr { .. } | CongestionKind::ExplicitRate { .. })
}
