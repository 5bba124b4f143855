//! State of a VPN in an ingress: a small permanent part, and a part that exists only while the VPN has a queue.

use super::{BoxedLoop, VpnNo};
use crate::control_loop::aimd_window::AimdConfig;
use crate::control_loop::{ControlLoop, LoopConfig, LoopStatus};
use crate::queue::drop_tail::DropTail;
use crate::queue::{FlowQueue, QueueConfig, QueueCounters, QueueKind};
use crate::service::Share;
use alloc::boxed::Box;
use alloc::sync::Arc;
use weft_units::{Duration, Instant, Rate, Rng};

/// Time without packets after which a VPN's queue is freed.
pub const RETIRE_AFTER: Duration = Duration::from_secs(10);
/// Minimum time until a timer that has just expired expires again.
pub(super) const A_MOMENT: Duration = Duration::from_micros(1);
/// Value that stands for no index of `Ingress::awake`, and for no VPN.
pub(super) const NONE: u32 = u32::MAX;

/// Maximum time since a VPN's last turn that counts for its promised rate.
///
/// In each turn a VPN may send, in addition to its quantum, its promised rate times the time since its last turn, but
/// at most times this limit. If the promises exceed the capacity, a round of turns takes longer than the limit. Each
/// VPN then sends its promised rate times the limit in a round, so the rates stay in proportion to the promises.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// Minimum and maximum weight for a VPN's turns.
///
/// A VPN with the lower limit need not wait many rounds until it may send a packet. A VPN with the upper limit sends
/// only a few packets in its turn.
const WEIGHTS: (f64, f64) = (1.0 / 16.0, 64.0);

/// Queue and control law of a VPN. Many VPNs can share one profile.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Discipline of the VPN's queue.
    pub queue: QueueKind,
    /// Limits and times of the VPN's queue.
    pub sizes: QueueConfig,
    /// Control law of the VPN's loop.
    ///
    /// Without a control law the VPN sends whenever the caller asks for a packet.
    pub control: Option<LoopConfig>,
}

/// State of a VPN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VpnStatus {
    /// Weight and service of the VPN.
    pub share: Share,
    /// Number of packets in the VPN's queue.
    pub queued_packets: usize,
    /// Backlog of the VPN's queue in bytes.
    pub queued_bytes: u64,
    /// Total number of packets that the VPN sent.
    pub sent_packets: u64,
    /// Total number of bytes that the VPN sent.
    pub sent_bytes: u64,
    /// Total counts of packets that the VPN's queues dropped and marked.
    pub counters: QueueCounters,
    /// State of the VPN's loop; `None` if the VPN has no loop, or has never sent.
    pub control: Option<LoopStatus>,
}

/// The part of a VPN's state that exists as long as the VPN does.
#[derive(Debug)]
pub(super) struct IngressVpn {
    pub share: Share,
    profile: Arc<Profile>,
    /// Index of the VPN in `Ingress::awake`, or [`NONE`] while the VPN has no queue.
    pub slot: u32,
    /// The VPN's loop while the VPN has no queue.
    pub parked: BoxedLoop,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// Counts of packets that the VPN's earlier queues, which were freed, dropped and marked.
    pub counters: QueueCounters,
}

impl IngressVpn {
    pub fn new(share: Share, profile: Arc<Profile>) -> IngressVpn {
        let counters = QueueCounters::default();
        IngressVpn { share, profile, slot: NONE, parked: None, sent_packets: 0, sent_bytes: 0, counters }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Replaces the profile. Returns true if it differs from the previous one.
    pub fn set_profile(&mut self, profile: Arc<Profile>) -> bool {
        let differs = !Arc::ptr_eq(&self.profile, &profile) && self.profile != profile;
        self.profile = profile;
        differs
    }

    /// Sets the increase `a` and the decrease `b` for windows that the VPN starts from now on.
    pub fn set_window(&mut self, increase: f64, decrease: f64) {
        let Some(LoopConfig::AimdWindow(law)) = self.profile.control else { return };
        let (increase_packets, decrease) = (increase as f32, decrease as f32);
        let control = Some(LoopConfig::AimdWindow(AimdConfig { increase_packets, decrease, ..law }));
        self.profile = Arc::new(Profile { control, ..Profile::clone(&self.profile) });
    }
}

/// Target and interval of CoDel that replace those of the profiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    pub target: Duration,
    pub interval: Duration,
}

impl Delays {
    pub fn within(self, sizes: QueueConfig) -> QueueConfig {
        QueueConfig { target: self.target, interval: self.interval, ..sizes }
    }
}

/// State of a VPN with a queue, which determines when it gets its next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TurnState {
    /// The VPN has no packets.
    Empty,
    /// The VPN is in the ring of VPNs that get their turns in order.
    Ring,
    /// The VPN's loop permits no packet before this time.
    UntilTime(Instant),
    /// The VPN's loop permits no packet before the next report.
    UntilReport,
}

/// State of a VPN that has a queue.
#[derive(Debug)]
pub(super) struct Awake<T> {
    pub vpn: VpnNo,
    pub queue: FlowQueue<T>,
    pub control: BoxedLoop,
    pub quantum: i64,
    pub deficit: i64,
    pub promised: Rate,
    /// Start of the VPN's last turn, or the time when a packet arrived at its empty queue, if that is later.
    pub turn_at: Instant,
    pub place: TurnState,
    /// True if the VPN is in the list of VPNs whose loop must send a marker by itself.
    pub asks: bool,
    /// Number of loss events shared by all loops (`Ingress::events`) that this VPN's loop has applied.
    pub applied_events: u32,
    /// Time when a packet last arrived or left.
    pub used_at: Instant,
}

impl<T> Awake<T> {
    pub fn new(vpn: VpnNo, entry: &mut IngressVpn, quantum_bytes: u32, now: Instant, rng: Rng) -> Awake<T> {
        let Profile { queue, sizes, control } = &*entry.profile;
        let begun = || control.clone().map(|config| Box::new(ControlLoop::new(config, entry.share)));
        Awake {
            vpn,
            queue: FlowQueue::with_rng(*queue, *sizes, rng),
            control: entry.parked.take().or_else(begun),
            quantum: quantum(quantum_bytes, entry.share),
            deficit: 0,
            promised: entry.share.service().rate(),
            turn_at: now,
            place: TurnState::Empty,
            asks: false,
            applied_events: 0,
            used_at: now,
        }
    }

    /// Returns the bytes of the promised rate since the VPN's last turn, of at most [`LONGEST_TURN`].
    pub fn promised_bytes(&mut self, now: Instant) -> i64 {
        let since = (now - self.turn_at).min(LONGEST_TURN);
        self.turn_at = now;
        self.promised.bytes_in(since) as i64
    }

    /// Records that the queue is empty. What is left of the turn is lost.
    pub fn rest(&mut self) {
        self.place = TurnState::Empty;
        self.deficit = self.deficit.min(0);
    }

    /// Applies the loss events of other loops of the edge pair since the last call.
    ///
    /// `events` is the number of such events so far.
    pub fn on_congestion_events(&mut self, now: Instant, events: u32) {
        if self.applied_events != events {
            self.applied_events = events;
            if let Some(control) = &mut self.control {
                control.on_congestion(now);
            }
        }
    }

    /// True if the entry is unused, because its VPN no longer has a queue or was removed.
    pub fn is_free(&self) -> bool {
        self.vpn.0 == NONE
    }

    /// Returns the time at which the VPN must be examined next.
    pub fn next_time(&self) -> Instant {
        if self.is_free() {
            return Instant::FAR_FUTURE;
        }
        let asks = self.control.as_ref().and_then(|control| control.deadline());
        let waits = if let TurnState::UntilTime(at) = self.place { Some(at) } else { None };
        // A VPN with data in flight keeps its queue. The report that settles the data causes this function to be called
        // again.
        let retires = (self.place == TurnState::Empty && asks.is_none()).then(|| self.used_at + RETIRE_AFTER);
        [asks, waits, retires].into_iter().flatten().min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// True if the VPN has been idle for long and none of its data is in flight.
    pub fn may_retire(&self, now: Instant) -> bool {
        let on_its_way = self.control.as_ref().is_some_and(|control| control.deadline().is_some());
        !self.is_free() && self.place == TurnState::Empty && !on_its_way && now >= self.used_at + RETIRE_AFTER
    }

    /// Marks the entry as unused.
    pub fn empty(&mut self) {
        (self.vpn, self.queue) = (VpnNo(NONE), FlowQueue::DropTail(DropTail::new(0, 0)));
    }
}

/// Returns the bytes that a VPN may send in one round, given its weight.
pub(super) fn quantum(quantum_bytes: u32, share: Share) -> i64 {
    ((f64::from(quantum_bytes) * share.weight().clamp(WEIGHTS.0, WEIGHTS.1)) as i64).max(1)
}
