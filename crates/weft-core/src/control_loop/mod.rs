//! Closed-loop rate control from edge to edge: how much may a VPN send toward an egress edge?
//!
//! A control law is the algorithm that sets the rate or window of a loop. Three exist: [`aimd_window`] (paper 003),
//! [`accumulation`] (paper 004) and [`explicit_rate`] (the nodes on the route grant rates).
//!
//! **Division of work.** A loop is one VPN's traffic from one ingress edge to one egress edge. The egress
//! ([`LoopEgress`]) only counts arriving packets and answers markers. It has no timer and does not depend on the law.
//! The ingress ([`ControlLoop`]) decides everything, before it chooses a path. The queue thus stands at the ingress,
//! where an AQM sees its flows.
//!
//! **Messages.** A [`Marker`] travels forward, on a packet of the loop or by itself. It contains its number, its
//! departure time, and the packets and bytes sent so far. A [`LoopReport`] travels back. It contains the marker, its
//! arrival time, and the packets, bytes and CE marks received so far. The ingress derives the RTT from the echo, and
//! the change of the one-way delay from the two times. It derives losses from the difference of the counts, and the
//! arriving rate from two reports. The accumulation follows from the rate and the one-way delay. All counts are
//! cumulative: a lost marker or report costs only time. A marker settles everything before it, so no state per packet
//! is kept.
//!
//! **Time scales.** A loop sends a marker every Δ packets (window), every T ≈ RTT (accumulation), or every RTT/4
//! (explicit rate). If lower layers report losses, a loop without a backlog sends half as many. A window grows by `a`
//! ≪ 1 packet per round trip and shrinks by the fraction `b` ≪ ½ at a loss event. A rate changes by α each τ ≥ RTT. A
//! loop thus needs tens of round trips, and stays slower than TCP inside it and the paths below it. Weights become
//! `b` and α; [`crate::fair`] corrects them every 20 to 100 round trips.
//!
//! **Loops of one edge pair** share every bottleneck. Under the window law, call `on_congestion` on all of them when
//! one reacts to a loss event ([`ControlLoop::loss_events`] changes). Then the shares do not depend on which loop's
//! packet was dropped, and they settle within seconds ([`crate::fair::aimd::shared_event_kappa`]). Do not call it at
//! every loss. A loss from the same overflow that is reported later would make the other loops back off twice.
//!
//! **Several paths.** Packets overtake each other, so some are always missing while a slow path is in use, and counts
//! do not show losses. The paths know their losses and report them ([`Losses::Told`], [`ControlLoop::on_loss`]). An
//! unanswered marker may then only be overtaken, so it is not taken as a loss. A packet that recovery retransmits
//! is not lost for the loop, but the loss of its first transmission is congestion ([`ControlLoop::on_congestion`]).
//! Two parts of a marker's delay are not queueing in the network: the extra delay of its path over the shortest, and
//! its wait for that path. The sender of the marker writes them into [`Marker::explained_us`].
//!
//! **Use.** Call `credit` before a packet leaves its VPN queue, and `on_sent` when it leaves. Send the returned
//! marker with the packet. Call `on_report` for reports. Call `on_deadline` when `deadline` is reached, and send the
//! returned marker by itself, regardless of credit and outside all counts. Create both halves anew with the keys of
//! their VPN and edge pair.

pub mod accumulation;
pub mod aimd_window;
mod egress;
pub mod explicit_rate;
mod intervals;
mod ledger;
mod loss_intervals;
mod marker;
mod round_trip;
mod show;
mod token_bucket;

pub use egress::LoopEgress;
pub use marker::{Counting, IntervalCount, LoopReport, Marker};

use crate::service::Share;
use accumulation::{Accumulation, AccumulationConfig};
use aimd_window::{AimdConfig, AimdWindow};
use alloc::sync::Arc;
use explicit_rate::{Ask, ExplicitRateConfig, ExplicitRateLoop, LoopGrant};
use weft_units::{Duration, Instant, Rate};

/// Permission for a packet to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Credit {
    /// The packet may leave now.
    Now,
    /// The packet may leave at this time.
    At(Instant),
    /// The packet may leave after the next report, or after [`ControlLoop::on_deadline`].
    OnReport,
}

/// Source from which a loop learns of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Losses {
    /// The packet counts in reports, and markers that are not answered.
    ///
    /// Only for loops whose packets all take one path and stay in order.
    #[default]
    Counted,
    /// The lower layers report losses ([`ControlLoop::on_loss`], [`ControlLoop::on_congestion`]).
    Told,
}

impl Losses {
    /// True if the loop sends its markers without delay.
    ///
    /// A loop may delay its markers only if it has no backlog (`holds_back` is false) and the lower layers report
    /// losses.
    fn hurries(self, holds_back: bool) -> bool {
        self == Losses::Counted || holds_back
    }

    /// Returns the time by which a report may be later than the time-out. `holds_back` is true if there is a backlog.
    fn patience(self, holds_back: bool) -> Duration {
        if self.hurries(holds_back) { Duration::ZERO } else { LEISURE * 4 }
    }
}

/// Maximum time for which a marker waits for other frames, if the marker is not pressing.
///
/// The report on this marker may wait for the same time.
pub const LEISURE: Duration = Duration::from_millis(10);

/// State of a loop, for the fair-share controller and for display.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoopStatus {
    /// Rate that the loop may send: λ, or the window divided by the RTT.
    pub rate: Rate,
    /// Window of the loop. Without a window: the bytes that its rate sends in a round trip.
    pub window_bytes: u64,
    /// Rate at which the loop's traffic recently arrived at the egress.
    pub delivered: Rate,
    /// Smoothed RTT, without the time for which the egress holds reports.
    pub rtt: Duration,
    /// Minimum RTT of the last 10 to 20 seconds.
    pub rtt_min: Duration,
    /// Loss events per packet. `None` before the first loss event, or if the law does not use losses.
    pub loss_event_rate: Option<f64>,
    /// Number of packets found lost since the start, modulo 2^32.
    pub lost_packets: u32,
    /// Bytes sent, but neither received nor lost.
    pub in_flight_bytes: u32,
    /// Bytes in queues on the route, if the law measures them.
    pub accumulation_bytes: u64,
    /// Number of congestion epochs since the start, modulo 2^32. Zero if the law has none.
    pub epochs: u32,
    /// True if other packets of the VPN waited when the last packet left.
    pub backlogged: bool,
}

/// The control law of a loop, and its parameters.
#[derive(Clone, PartialEq, Debug)]
pub enum LoopConfig {
    /// The window law of paper 003.
    AimdWindow(AimdConfig),
    /// The accumulation law of paper 004.
    ///
    /// Its loops share the parameters, so that each loop stays small.
    Accumulation(Arc<AccumulationConfig>),
    /// The explicit-rate law. Its loops share the parameters, so that each loop stays small.
    ExplicitRate(Arc<ExplicitRateConfig>),
}

/// The part of a loop at the ingress edge, which decides when packets may leave.
#[derive(Clone, Debug)]
pub enum ControlLoop {
    /// A loop under the window law of paper 003.
    AimdWindow(AimdWindow),
    /// A loop under the accumulation law of paper 004.
    Accumulation(Accumulation),
    /// A loop under the explicit-rate law.
    ExplicitRate(ExplicitRateLoop),
}

impl ControlLoop {
    /// Returns a loop that has sent nothing yet.
    pub fn new(config: LoopConfig, share: Share) -> ControlLoop {
        match config {
            LoopConfig::AimdWindow(config) => ControlLoop::AimdWindow(AimdWindow::new(config, share)),
            LoopConfig::Accumulation(config) => ControlLoop::Accumulation(Accumulation::new(config, share)),
            LoopConfig::ExplicitRate(config) => ControlLoop::ExplicitRate(ExplicitRateLoop::new(config, share)),
        }
    }

    /// Returns whether and when a packet of `bytes` may leave.
    pub fn credit(&self, now: Instant, bytes: u32) -> Credit {
        match self {
            ControlLoop::AimdWindow(law) => law.credit(bytes),
            ControlLoop::Accumulation(law) => law.credit(now, bytes),
            ControlLoop::ExplicitRate(law) => law.credit(now, bytes),
        }
    }

    /// Counts a packet that leaves. `more` is true if other packets of the VPN wait behind it.
    ///
    /// Returns a marker to send with the packet, if one is due.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, more: bool) -> Option<Marker> {
        match self {
            ControlLoop::AimdWindow(law) => law.on_sent(now, bytes, more),
            ControlLoop::Accumulation(law) => law.on_sent(now, bytes, more),
            ControlLoop::ExplicitRate(law) => law.on_sent(now, bytes, more),
        }
    }

    /// Applies a report. A report that is old, or answers no marker of this loop, changes nothing.
    pub fn on_report(&mut self, now: Instant, report: &LoopReport) {
        match self {
            ControlLoop::AimdWindow(law) => law.on_report(now, report),
            ControlLoop::Accumulation(law) => law.on_report(now, report),
            ControlLoop::ExplicitRate(law) => law.on_report(now, report),
        }
    }

    /// Records congestion: the first transmission of a packet was lost, or its outer header arrived with a CE mark.
    ///
    /// Call it for every such event that the lower layers detect.
    pub fn on_congestion(&mut self, now: Instant) {
        match self {
            ControlLoop::AimdWindow(law) => law.on_congestion(),
            ControlLoop::Accumulation(law) => law.on_congestion(now),
            ControlLoop::ExplicitRate(_) => {}
        }
    }

    /// Records packets that the lower layers report as lost after recovery ([`Losses::Told`]).
    pub fn on_loss(&mut self, now: Instant, packets: u32) {
        match self {
            ControlLoop::AimdWindow(law) => law.on_loss(packets),
            ControlLoop::Accumulation(law) => law.on_loss(now, packets),
            ControlLoop::ExplicitRate(law) => law.on_loss(packets),
        }
    }

    /// Returns the request to send to the nodes on the route with each marker.
    ///
    /// Returns `None` unless the loop uses the explicit-rate law.
    pub fn ask(&self) -> Option<Ask> {
        if let ControlLoop::ExplicitRate(law) = self { Some(law.ask()) } else { None }
    }

    /// Applies the grant of the nodes on the route. A loop under another law than explicit rate ignores it.
    pub fn on_grant(&mut self, now: Instant, grant: LoopGrant) {
        if let ControlLoop::ExplicitRate(law) = self {
            law.on_grant(now, grant);
        }
    }

    /// Returns the time at which to call [`ControlLoop::on_deadline`]; `None` while nothing is in flight.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            ControlLoop::AimdWindow(law) => law.deadline(),
            ControlLoop::Accumulation(law) => law.deadline(),
            ControlLoop::ExplicitRate(law) => law.deadline(),
        }
    }

    /// At the deadline, returns a marker to send by itself. Before it, returns `None`.
    pub fn on_deadline(&mut self, now: Instant) -> Option<Marker> {
        match self {
            ControlLoop::AimdWindow(law) => law.on_deadline(now),
            ControlLoop::Accumulation(law) => law.on_deadline(now),
            ControlLoop::ExplicitRate(law) => law.on_deadline(now),
        }
    }

    /// Changes weight and service of a running loop.
    pub fn set_share(&mut self, now: Instant, share: Share) {
        match self {
            ControlLoop::AimdWindow(law) => law.set_share(share),
            ControlLoop::Accumulation(law) => law.set_share(now, share),
            ControlLoop::ExplicitRate(law) => law.set_share(now, share),
        }
    }

    /// Number of loss events since the start, modulo 2^32.
    ///
    /// Zero under a law that does not use losses.
    pub fn loss_events(&self) -> u32 {
        match self {
            ControlLoop::AimdWindow(law) => law.loss_events(),
            ControlLoop::Accumulation(_) | ControlLoop::ExplicitRate(_) => 0,
        }
    }

    /// Returns the loop's current state.
    pub fn status(&self) -> LoopStatus {
        match self {
            ControlLoop::AimdWindow(law) => law.status(),
            ControlLoop::Accumulation(law) => law.status(),
            ControlLoop::ExplicitRate(law) => law.status(),
        }
    }
}
