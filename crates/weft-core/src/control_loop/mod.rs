//! Closed loops from edge to edge: how much may this VPN send toward that egress? ([`aimd_window`], paper 003; [`accumulation`],
//! paper 004; [`explicit_rate`], what the nodes on the way grant.)
//!
//! **Who measures what, where.** A loop is one VPN's traffic from one ingress edge to one egress edge. The egress ([`LoopEgress`])
//! only counts what came and answers markers; it has no timer and knows no law. Everything is decided at the ingress
//! ([`ControlLoop`]), before the path is chosen, so that the queue stands there, where an AQM can see whose it is.
//!
//! **What travels.** Forward a [`Marker`]: its number, when it was sent, packets and bytes sent so far, on a packet of the loop or
//! by itself. Back a [`Report`]: the marker again, when it came, packets, bytes and CE marks received so far. Four measures follow: the
//! round trip from the echo, the one-way delay's change from the two times, loss from the difference of the counts, the rate
//! that arrived from the difference of two reports; and from the last two the accumulation. All counts are cumulative: a lost
//! marker or report costs time and nothing else, and a marker settles everything before it, so that nothing is kept per packet.
//!
//! **Time scales.** Markers: every Δ packets (window), every T ≈ RTT (accumulation), every RTT/4 (explicit rate); half as often for a loop that holds nothing back,
//! where losses are told. The law: a window changes by a ≪ 1 packet a round trip and by b ≪ ½ at a loss event, a rate by α each τ ≥ RTT, so
//! a loop takes tens of round trips and stays slower than TCP inside and paths below. Weights become b and α; [`crate::fair`] corrects them every 20 to 100 round trips.
//!
//! **Loops of one edge pair** share every bottleneck. Under the window law tell all of them by `on_congestion` when one answers a
//! loss event ([`ControlLoop::loss_events`] moves): then it is not chance whose packet was dropped, and shares settle within seconds
//! ([`crate::fair::aimd::shared_event_kappa`]). Not at every loss: one that came by the same overflow as an event before, but was
//! reported later, would make the others back off twice.
//!
//! **With several paths** packets overtake one another, so that counts say nothing of losses: while a slow path is in use some are always
//! missing. The paths know theirs, and tell ([`Losses::Told`], [`ControlLoop::on_loss`]); a marker without an answer may be the one that
//! was overtaken, and is none then. What recovery below repeats is no loss here; the first transmission's loss still is congestion
//! ([`ControlLoop::on_congestion`]). How much longer a marker's path is than the shortest, and how long it waited for it, is no queue of
//! the network's: who sends the marker writes it into [`Marker::explained_us`].
//!
//! **How to drive it.** `credit` before a packet leaves its VPN queue; `on_sent` when it does, and the marker it gives goes with
//! the packet; `on_report` for reports; `on_deadline` when `deadline` comes, and the marker it gives goes by itself, past the
//! credit and outside all counts. Both halves are made anew with the keys of their VPN and edge pair.

pub mod accumulation;
pub mod aimd_window;
mod egress;
pub mod explicit_rate;
mod ledger;
mod loss_intervals;
mod marker;
mod round_trip;
mod token_bucket;

pub use egress::LoopEgress;
pub use marker::{Marker, Report};

use crate::service::Share;
use accumulation::{Accumulation, AccumulationConfig};
use aimd_window::{AimdConfig, AimdWindow};
use alloc::sync::Arc;
use explicit_rate::{Ask, ExplicitRate, ExplicitRateConfig, Grant};
use weft_units::{Duration, Instant, Rate};

/// Whether a packet may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Credit {
    /// It may.
    Now,
    /// Not before then.
    At(Instant),
    /// Not before a report, or the deadline.
    OnReport,
}

/// How a loop comes to know of lost packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Losses {
    /// By counts and by markers that have no answer: all packets take one path, in order.
    #[default]
    Counted,
    /// It is told ([`ControlLoop::on_loss`], [`ControlLoop::on_congestion`]).
    Told,
}

impl Losses {
    /// Whether a loop asks as soon as it can: where losses are told, one that holds nothing back has time.
    fn hurries(self, holds_back: bool) -> bool {
        self == Losses::Counted || holds_back
    }

    /// How much later than expected a report may come.
    fn patience(self, holds_back: bool) -> Duration {
        if self.hurries(holds_back) { Duration::ZERO } else { LEISURE * 4 }
    }
}

/// How long a marker that is not pressing may wait for company before it leaves, and so its report.
pub const LEISURE: Duration = Duration::from_millis(10);

/// What a loop does, for the fair-share controller and for display.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Status {
    /// What it may send: λ, or the window over the round trip.
    pub rate: Rate,
    /// Its window, or what the rate sends in a round trip.
    pub window_bytes: u64,
    /// What arrived lately.
    pub delivered: Rate,
    /// Smoothed round trip, egress's holding excluded.
    pub rtt: Duration,
    /// The least of the last 10 to 20 seconds.
    pub rtt_min: Duration,
    /// Loss events a packet; none so far, or a law that does not go by loss.
    pub loss_event_rate: Option<f64>,
    /// Packets found lost, ever, modulo 2^32.
    pub lost_packets: u32,
    /// Bytes sent, neither received nor lost.
    pub in_flight_bytes: u32,
    /// Bytes in queues on the way, of a law that measures them.
    pub accumulation_bytes: u64,
    /// Whether the last packet left others waiting.
    pub backlogged: bool,
}

/// Which law a loop obeys, and its numbers.
#[derive(Clone, PartialEq, Debug)]
pub enum LoopConfig {
    /// Paper 003.
    AimdWindow(AimdConfig),
    /// Paper 004. Shared by its loops, so that each stays small.
    Accumulation(Arc<AccumulationConfig>),
    /// What nodes grant; likewise.
    ExplicitRate(Arc<ExplicitRateConfig>),
}

/// The ingress's half of a loop.
#[derive(Clone, Debug)]
pub enum ControlLoop {
    /// Paper 003.
    AimdWindow(AimdWindow),
    /// Paper 004.
    Accumulation(Accumulation),
    /// What nodes grant.
    ExplicitRate(ExplicitRate),
}

impl ControlLoop {
    /// A loop that has sent nothing yet.
    pub fn new(config: LoopConfig, share: Share) -> ControlLoop {
        match config {
            LoopConfig::AimdWindow(config) => ControlLoop::AimdWindow(AimdWindow::new(config, share)),
            LoopConfig::Accumulation(config) => ControlLoop::Accumulation(Accumulation::new(config, share)),
            LoopConfig::ExplicitRate(config) => ControlLoop::ExplicitRate(ExplicitRate::new(config, share)),
        }
    }

    /// Whether a packet of `bytes` may leave now.
    pub fn credit(&self, now: Instant, bytes: u32) -> Credit {
        match self {
            ControlLoop::AimdWindow(law) => law.credit(bytes),
            ControlLoop::Accumulation(law) => law.credit(now, bytes),
            ControlLoop::ExplicitRate(law) => law.credit(now, bytes),
        }
    }

    /// Counts a packet that leaves; `more` says whether others of the VPN wait behind it. The marker goes with it.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, more: bool) -> Option<Marker> {
        match self {
            ControlLoop::AimdWindow(law) => law.on_sent(now, bytes, more),
            ControlLoop::Accumulation(law) => law.on_sent(now, bytes, more),
            ControlLoop::ExplicitRate(law) => law.on_sent(now, bytes, more),
        }
    }

    /// Takes in a report. One that is old, or answers no marker of this loop, changes nothing.
    pub fn on_report(&mut self, now: Instant, report: &Report) {
        match self {
            ControlLoop::AimdWindow(law) => law.on_report(now, report),
            ControlLoop::Accumulation(law) => law.on_report(now, report),
            ControlLoop::ExplicitRate(law) => law.on_report(now, report),
        }
    }

    /// A first transmission was lost, or came with a CE mark, as known from below the loop; as often as it happens.
    pub fn on_congestion(&mut self, now: Instant) {
        match self {
            ControlLoop::AimdWindow(law) => law.on_congestion(),
            ControlLoop::Accumulation(law) => law.on_congestion(now),
            ControlLoop::ExplicitRate(_) => {}
        }
    }

    /// Packets were lost for good, as known from below ([`Losses::Told`]).
    pub fn on_loss(&mut self, now: Instant, packets: u32) {
        match self {
            ControlLoop::AimdWindow(law) => law.on_loss(packets),
            ControlLoop::Accumulation(law) => law.on_loss(now, packets),
            ControlLoop::ExplicitRate(law) => law.on_loss(packets),
        }
    }

    /// What a loop that goes by grants tells the nodes on its way, with each marker; `None` of one that does not.
    pub fn ask(&self) -> Option<Ask> {
        if let ControlLoop::ExplicitRate(law) = self { Some(law.ask()) } else { None }
    }

    /// What the nodes on the way grant; nothing to a loop that did not ask.
    pub fn on_grant(&mut self, now: Instant, grant: Grant) {
        if let ControlLoop::ExplicitRate(law) = self {
            law.on_grant(now, grant);
        }
    }

    /// When to call [`ControlLoop::on_deadline`]; none while nothing is in flight.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            ControlLoop::AimdWindow(law) => law.deadline(),
            ControlLoop::Accumulation(law) => law.deadline(),
            ControlLoop::ExplicitRate(law) => law.deadline(),
        }
    }

    /// At the deadline: a marker to send by itself. Before it: nothing.
    pub fn on_deadline(&mut self, now: Instant) -> Option<Marker> {
        match self {
            ControlLoop::AimdWindow(law) => law.on_deadline(now),
            ControlLoop::Accumulation(law) => law.on_deadline(now),
            ControlLoop::ExplicitRate(law) => law.on_deadline(now),
        }
    }

    /// Changes weight and service while it runs.
    pub fn set_share(&mut self, now: Instant, share: Share) {
        match self {
            ControlLoop::AimdWindow(law) => law.set_share(share),
            ControlLoop::Accumulation(law) => law.set_share(now, share),
            ControlLoop::ExplicitRate(law) => law.set_share(now, share),
        }
    }

    /// Loss events the loop answered, ever, modulo 2^32; none of a law that does not go by loss.
    pub fn loss_events(&self) -> u32 {
        match self {
            ControlLoop::AimdWindow(law) => law.loss_events(),
            ControlLoop::Accumulation(_) | ControlLoop::ExplicitRate(_) => 0,
        }
    }

    /// What the loop does now.
    pub fn status(&self) -> Status {
        match self {
            ControlLoop::AimdWindow(law) => law.status(),
            ControlLoop::Accumulation(law) => law.status(),
            ControlLoop::ExplicitRate(law) => law.status(),
        }
    }
}
