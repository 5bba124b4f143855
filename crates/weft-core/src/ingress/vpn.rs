//! What an ingress keeps of a VPN: a little always, the rest while it is awake.

use super::{Kept, VpnNo};
use crate::control_loop::aimd_window::AimdConfig;
use crate::control_loop::{ControlLoop, LoopConfig, Status};
use crate::queue::drop_tail::DropTail;
use crate::queue::{FlowQueue, QueueConfig, QueueCounters, QueueKind};
use crate::service::Share;
use alloc::boxed::Box;
use alloc::sync::Arc;
use weft_units::{Duration, Instant, Rate, Rng};

/// A VPN that sent nothing for so long gives its queue back.
pub const RETIRE_AFTER: Duration = Duration::from_secs(10);
/// A time that has passed is not looked at again before.
pub(super) const A_MOMENT: Duration = Duration::from_micros(1);
pub(super) const NONE: u32 = u32::MAX;

/// What a promise makes in a longer time is forgone: where promises exceed what there is, they are kept in proportion.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// Weights beyond these share as if they were these, so that a turn comes after few rounds and ends after few packets.
const WEIGHTS: (f64, f64) = (1.0 / 16.0, 64.0);

/// What many VPNs have in common.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// The discipline of the VPN's queue.
    pub queue: QueueKind,
    /// Its sizes and times.
    pub sizes: QueueConfig,
    /// The law of its loop; without one it leaves as fast as it is asked to.
    pub control: Option<LoopConfig>,
}

/// How a VPN stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VpnStatus {
    /// Its share.
    pub share: Share,
    /// Packets that wait.
    pub queued_packets: usize,
    /// Bytes that wait.
    pub queued_bytes: u64,
    /// Packets that left, ever.
    pub sent_packets: u64,
    /// Bytes that left, ever.
    pub sent_bytes: u64,
    /// What its queue dropped and marked, ever.
    pub counters: QueueCounters,
    /// What its loop does, if it has one and ever sent.
    pub control: Option<Status>,
}

/// A VPN's entry.
#[derive(Debug)]
pub(super) struct Vpn {
    pub share: Share,
    profile: Arc<Profile>,
    /// Its place among those awake.
    pub slot: u32,
    /// Its loop while it sleeps.
    pub parked: Kept,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// Those of queues given back.
    pub counters: QueueCounters,
}

impl Vpn {
    pub fn new(share: Share, profile: Arc<Profile>) -> Vpn {
        let counters = QueueCounters::default();
        Vpn { share, profile, slot: NONE, parked: None, sent_packets: 0, sent_bytes: 0, counters }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Takes another profile; gives back whether it differs.
    pub fn set_profile(&mut self, profile: Arc<Profile>) -> bool {
        let differs = !Arc::ptr_eq(&self.profile, &profile) && self.profile != profile;
        self.profile = profile;
        differs
    }

    /// A window that begins from now on has this a and b.
    pub fn set_window(&mut self, increase: f64, decrease: f64) {
        let Some(LoopConfig::AimdWindow(law)) = self.profile.control else { return };
        let (increase_packets, decrease) = (increase as f32, decrease as f32);
        let control = Some(LoopConfig::AimdWindow(AimdConfig { increase_packets, decrease, ..law }));
        self.profile = Arc::new(Profile { control, ..Profile::clone(&self.profile) });
    }
}

/// CoDel's times, in place of those of the profiles.
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

/// Where a VPN stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It has no packets.
    Empty,
    /// It has its turn when it comes.
    Ring,
    /// Its loop lets nothing go before.
    UntilTime(Instant),
    /// Its loop lets nothing go before a report.
    UntilReport,
}

/// What a VPN has while it is awake.
#[derive(Debug)]
pub(super) struct Awake<T> {
    pub vpn: VpnNo,
    pub queue: FlowQueue<T>,
    pub control: Kept,
    pub quantum: i64,
    pub deficit: i64,
    pub promised: Rate,
    /// When its last turn began, or it came to have packets.
    pub turn_at: Instant,
    pub place: Place,
    /// Whether it is among those who ask.
    pub asks: bool,
    /// The congestion events it has heard of.
    pub heard: u32,
    /// When it last had a packet come or go.
    pub used_at: Instant,
}

impl<T> Awake<T> {
    pub fn new(vpn: VpnNo, entry: &mut Vpn, quantum_bytes: u32, now: Instant, rng: Rng) -> Awake<T> {
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
            place: Place::Empty,
            asks: false,
            heard: 0,
            used_at: now,
        }
    }

    /// What the promised rate makes since the last turn.
    pub fn promised_bytes(&mut self, now: Instant) -> i64 {
        let since = (now - self.turn_at).min(LONGEST_TURN);
        self.turn_at = now;
        self.promised.bytes_in(since) as i64
    }

    /// Out of packets: a turn not used is lost.
    pub fn rest(&mut self) {
        self.place = Place::Empty;
        self.deficit = self.deficit.min(0);
    }

    /// Heeds the congestion events that other loops of the pair met since it was last looked at.
    pub fn hear(&mut self, now: Instant, events: u32) {
        if self.heard != events {
            self.heard = events;
            if let Some(control) = &mut self.control {
                control.on_congestion(now);
            }
        }
    }

    /// Whether the place is nobody's: its VPN sleeps or was removed.
    pub fn is_free(&self) -> bool {
        self.vpn.0 == NONE
    }

    /// When it must be looked at next.
    pub fn next_time(&self) -> Instant {
        if self.is_free() {
            return Instant::FAR_FUTURE;
        }
        let asks = self.control.as_ref().and_then(|control| control.deadline());
        let waits = if let Place::UntilTime(at) = self.place { Some(at) } else { None };
        let retires = (self.place == Place::Empty).then(|| self.used_at + RETIRE_AFTER);
        [asks, waits, retires].into_iter().flatten().min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Whether it has long been idle and nothing of it is on its way.
    pub fn may_retire(&self, now: Instant) -> bool {
        let on_its_way = self.control.as_ref().is_some_and(|control| control.deadline().is_some());
        !self.is_free() && self.place == Place::Empty && !on_its_way && now >= self.used_at + RETIRE_AFTER
    }

    /// Nobody's any more.
    pub fn empty(&mut self) {
        (self.vpn, self.queue) = (VpnNo(NONE), FlowQueue::DropTail(DropTail::new(0, 0)));
    }
}

/// Bytes a VPN may send in a round.
pub(super) fn quantum(quantum_bytes: u32, share: Share) -> i64 {
    ((f64::from(quantum_bytes) * share.weight().clamp(WEIGHTS.0, WEIGHTS.1)) as i64).max(1)
}
