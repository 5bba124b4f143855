//! The ingress toward one egress edge: a queue and a loop for each VPN, and their order.
//!
//! [`Ingress::enqueue`] adds a packet to the queue of its VPN. [`Ingress::head`] selects the next packet that its
//! loop permits. [`Ingress::pop`] removes it, with the marker that travels with it. Reports return through
//! [`Ingress::on_report`]. A VPN without a loop sends whenever the caller asks for a packet.
//!
//! **Order.** Deficit round robin (Shreedhar and Varghese 1995) by weight, in bytes, serves the VPNs that have
//! packets and credit. Only these VPNs are in the ring. A VPN that waits for a time is in a heap of times. A VPN that
//! waits for a report is in no list. The cost of a packet is thus independent of the number of VPNs, except for the
//! logarithm of the awake VPNs. If the paths behind the ingress are the bottleneck, no loop detects congestion. The
//! ingress itself then keeps promised rates ([`IngressConfig::promises`]). It lengthens a VPN's turn by the bytes of
//! the promised rate since the VPN's last turn. The VPN thus gets its promised rate and its share of the rest.
//!
//! **Cost of an idle VPN.** The ingress creates queue, loop and ring entry with the first packet. A VPN with a queue
//! is *awake*. After [`RETIRE_AFTER`] without a packet the ingress frees the queue. The loop stays, in a few hundred
//! bytes, because ingress and egress must continue the packet counts that began with its first packet.
//!
//! **Shared congestion events.** Loops of one edge pair share every bottleneck. With
//! [`IngressConfig::shared_events`], a loss event of one loop applies to all of them
//! ([`crate::fair::aimd::shared_event_kappa`]). Each loop applies it when the ingress next uses the loop, so this
//! adds no cost per packet.

mod backlog;
mod change;
mod grants;
pub mod timers;
mod vpn;

pub use vpn::{Profile, RETIRE_AFTER, VpnStatus};

use crate::control_loop::{ControlLoop, Credit, LoopReport, Marker};
use crate::queue::{Arrival, Dequeued, Expiry, FlowQueue, HeadView, QueueCounters};
use crate::service::Share;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use backlog::Backlog;
use timers::SlotTimers;
use vpn::{Awake, Delays, IngressVpn, TurnState};
use weft_units::{Instant, Rng};

/// Number of a VPN within an ingress. New VPNs get the number of a removed one, or the next number from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VpnNo(pub u32);

/// Parameters of an ingress that apply to all its VPNs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IngressConfig {
    /// Bytes that a VPN of weight one may send in one round of the deficit round robin.
    pub quantum_bytes: u32,
    /// If set, all loops react to a loss event of one of them.
    ///
    /// Use it with the window law, if all loops take the same route.
    pub shared_events: bool,
    /// If set, the ingress itself ensures that VPNs get their promised rates.
    ///
    /// Use it if the paths behind the ingress may be the bottleneck.
    pub promises: bool,
}

impl Default for IngressConfig {
    fn default() -> IngressConfig {
        IngressConfig { quantum_bytes: 1_514, shared_events: false, promises: false }
    }
}

/// The packet that leaves next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IngressHead {
    /// VPN of the packet.
    pub vpn: VpnNo,
    /// Properties of the packet according to its queue.
    pub view: HeadView,
}

/// A packet that leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IngressDeparture<T> {
    /// VPN of the packet.
    pub vpn: VpnNo,
    /// The packet, as it left its queue.
    pub unit: Dequeued<T>,
    /// Marker that travels with the packet, if one is due.
    pub marker: Option<Marker>,
}

/// The ingress toward one egress edge. See the module.
#[derive(Debug)]
pub struct Ingress<T> {
    config: IngressConfig,
    vpns: Vec<IngressVpn>,
    awake: Vec<Awake<T>>,
    /// Packets and bytes in all queues.
    backlog: Backlog,
    /// Indices of `awake` whose entry is not used.
    free: Vec<u32>,
    /// Indices in `awake` of the VPNs that have packets and may have credit, in the order of their turns.
    ring: VecDeque<u32>,
    /// Indices in `awake` of the VPNs whose loop must send a marker by itself.
    asking: VecDeque<u32>,
    timers: SlotTimers,
    selected: Option<u32>,
    /// Numbers of removed VPNs, which new VPNs will get.
    vacant: Vec<u32>,
    delays: Option<Delays>,
    /// Number of loss events so far that apply to all loops, modulo 2^32.
    events: u32,
    rng: Rng,
}

impl<T> Ingress<T> {
    /// Returns an ingress without VPNs. Random drops in its queues depend only on `rng`.
    pub fn new(config: IngressConfig, rng: Rng) -> Ingress<T> {
        Ingress {
            config,
            vpns: Vec::new(),
            awake: Vec::new(),
            backlog: Backlog::default(),
            free: Vec::new(),
            ring: VecDeque::new(),
            asking: VecDeque::new(),
            timers: SlotTimers::default(),
            selected: None,
            vacant: Vec::new(),
            delays: None,
            events: 0,
            rng,
        }
    }

    /// Adds a VPN and returns its number. Until its first packet it uses only the memory of its entry.
    pub fn add(&mut self, share: Share, profile: Arc<Profile>) -> VpnNo {
        let vpn = IngressVpn::new(share, profile);
        match self.vacant.pop() {
            Some(number) => {
                self.vpns[number as usize] = vpn;
                VpnNo(number)
            }
            None => {
                self.vpns.push(vpn);
                VpnNo(self.vpns.len() as u32 - 1)
            }
        }
    }

    /// Adds a packet to the queue of its VPN.
    ///
    /// Passes every packet that must be dropped, perhaps this one, to `dropped`. A packet of an unknown VPN is
    /// dropped too.
    pub fn enqueue(&mut self, now: Instant, vpn: VpnNo, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        let Some(slot) = self.wake(now, vpn) else { return dropped(item) };
        let this = &mut self.awake[slot as usize];
        this.used_at = now;
        self.backlog.follow(&mut this.queue, |queue| queue.enqueue(now, arrival, item, dropped));
        if this.place == TurnState::Empty && !this.queue.is_empty() {
            (this.place, this.turn_at) = (TurnState::Ring, now);
            self.ring.push_back(slot);
        }
    }

    /// Replaces the last packet of the same flow and VPN by `item`, see [`crate::queue::FlowQueue::replace_last`].
    ///
    /// # Errors
    ///
    /// Returns `item` itself if it replaced nothing.
    pub fn replace_last(
        &mut self,
        now: Instant,
        vpn: VpnNo,
        arrival: Arrival,
        item: T,
        is_superfluous: impl FnOnce(&T) -> bool,
    ) -> Result<T, T> {
        let slot = self.vpns.get(vpn.0 as usize).map_or(u32::MAX, |entry| entry.slot);
        match self.awake.get_mut(slot as usize) {
            Some(this) => {
                let replace = |queue: &mut FlowQueue<T>| queue.replace_last(now, arrival, item, is_superfluous);
                self.backlog.follow(&mut this.queue, replace)
            }
            None => Err(item),
        }
    }

    /// Selects the packet that leaves next, and drops the packets before it that an AQM rejects.
    ///
    /// The selection stays valid until [`Ingress::pop`]. Returns `None` if no VPN has both packets and credit.
    pub fn head(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<IngressHead> {
        self.advance(now);
        self.selected = None;
        while let Some(slot) = self.ring.front().copied() {
            let this = &mut self.awake[slot as usize];
            if this.deficit <= 0 {
                this.deficit += this.quantum;
                if self.config.promises {
                    this.deficit += this.promised_bytes(now);
                }
                self.ring.rotate_left(1);
                continue;
            }
            let Some(view) = self.backlog.follow(&mut this.queue, |queue| queue.head(now, dropped)) else {
                self.ring.pop_front();
                this.rest();
                self.timers.pull(slot, this.next_time());
                continue;
            };
            this.on_congestion_events(now, self.events);
            match this.control.as_ref().map_or(Credit::Now, |control| control.credit(now, view.bytes)) {
                Credit::Now => {
                    self.selected = Some(slot);
                    return Some(IngressHead { vpn: this.vpn, view });
                }
                Credit::At(at) => {
                    this.place = TurnState::UntilTime(at);
                    self.timers.pull(slot, at);
                }
                Credit::OnReport => this.place = TurnState::UntilReport,
            }
            self.ring.pop_front();
        }
        None
    }

    /// Returns the packet that the last [`Ingress::head`] selected.
    pub fn head_item(&self) -> Option<&T> {
        self.awake.get(self.selected? as usize)?.queue.head_item()
    }

    /// Removes and returns the packet that the last [`Ingress::head`] selected.
    ///
    /// Returns `None` if no packet is selected or the selected one was dropped since.
    pub fn pop(&mut self, now: Instant) -> Option<IngressDeparture<T>> {
        let slot = self.selected.take()?;
        let this = self.awake.get_mut(slot as usize)?;
        let unit = self.backlog.follow(&mut this.queue, |queue| queue.pop(now))?;
        this.used_at = now;
        this.deficit -= i64::from(unit.bytes);
        let more = !this.queue.is_empty();
        let control = this.control.as_mut();
        let marker = control.and_then(|control| control.on_sent(now, unit.bytes, more));
        if !more {
            self.ring.pop_front();
            this.rest();
        }
        self.timers.pull(slot, this.next_time());
        let vpn = this.vpn;
        if let Some(entry) = self.vpns.get_mut(vpn.0 as usize) {
            entry.sent_packets += 1;
            entry.sent_bytes += u64::from(unit.bytes);
        }
        Some(IngressDeparture { vpn, unit, marker })
    }

    /// Removes the packet that the last [`Ingress::head`] selected without sending it.
    ///
    /// The VPN's loop does not count it.
    pub fn discard(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let slot = self.selected.take()?;
        let this = self.awake.get_mut(slot as usize)?;
        let unit = self.backlog.follow(&mut this.queue, |queue| queue.pop(now))?;
        if this.queue.is_empty() {
            self.ring.pop_front();
            this.rest();
            self.timers.pull(slot, this.next_time());
        }
        Some(unit)
    }

    /// Records that the selected packet cannot leave now, although a packet of a sparse flow could.
    ///
    /// Returns true if another packet of the same VPN can be selected instead.
    pub fn on_hold(&mut self, now: Instant) -> bool {
        let this = self.selected.and_then(|slot| self.awake.get_mut(slot as usize));
        this.is_some_and(|this| this.queue.on_hold(now))
    }

    /// Drops some packets of the VPN with the most packets, to free memory for another queue.
    pub fn shed(&mut self, now: Instant, dropped: &mut impl FnMut(T)) {
        self.selected = None;
        let longest = (0u32..).zip(&self.awake).max_by_key(|(_, this)| this.queue.len());
        if let Some((slot, _)) = longest {
            self.drop_some(slot, |queue| queue.shed(now, dropped));
        }
    }

    /// Drops the packets of all VPNs that have become too old.
    ///
    /// `expiry` returns the times from which a packet is too old.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        self.selected = None;
        if self.backlog.packets() == 0 {
            return;
        }
        for slot in 0..self.awake.len() as u32 {
            self.drop_some(slot, |queue| queue.expire(now, expiry, dropped));
        }
    }

    /// Drops the packets of one VPN that have become too old, see [`Ingress::expire`].
    pub fn expire_vpn(
        &mut self,
        now: Instant,
        vpn: VpnNo,
        expiry: &impl Fn(&T) -> Expiry,
        dropped: &mut impl FnMut(T),
    ) {
        self.selected = None;
        let slot = self.vpns.get(vpn.0 as usize).map_or(vpn::NONE, |entry| entry.slot);
        self.drop_some(slot, |queue| queue.expire(now, expiry, dropped));
    }

    /// Applies `work`, which drops packets, to the queue of the VPN with this index in `awake`.
    ///
    /// The loop may permit the packet that is now the first, so the VPN gets a turn.
    fn drop_some(&mut self, slot: u32, work: impl FnOnce(&mut FlowQueue<T>)) {
        let Some(this) = self.awake.get_mut(slot as usize).filter(|this| !this.queue.is_empty()) else { return };
        let before = this.queue.len();
        self.backlog.follow(&mut this.queue, work);
        if this.queue.len() != before {
            self.give_turn(slot);
        }
    }

    /// Adds a VPN that waits for its loop to the ring. `slot` is its index in `awake`.
    fn give_turn(&mut self, slot: u32) {
        let Some(this) = self.awake.get_mut(slot as usize) else { return };
        if matches!(this.place, TurnState::UntilTime(_) | TurnState::UntilReport) {
            this.place = TurnState::Ring;
            self.ring.push_back(slot);
        }
        self.timers.pull(slot, this.next_time());
    }

    /// Applies a report on one of a VPN's markers.
    pub fn on_report(&mut self, now: Instant, vpn: VpnNo, report: &LoopReport) {
        self.with_loop(now, vpn, |control| control.on_report(now, report));
    }

    /// Records that the first transmission of a VPN's packet was lost or arrived with a CE mark.
    ///
    /// The lower layers report this.
    pub fn on_congestion(&mut self, now: Instant, vpn: VpnNo) {
        self.with_loop(now, vpn, |control| control.on_congestion(now));
    }

    /// Records packets of a VPN that the lower layers report as lost after recovery.
    pub fn on_loss(&mut self, now: Instant, vpn: VpnNo, packets: u32) {
        self.with_loop(now, vpn, |control| control.on_loss(now, packets));
    }

    /// Changes the weight and service of a running VPN.
    pub fn set_share(&mut self, now: Instant, vpn: VpnNo, share: Share) {
        let Some(entry) = self.vpns.get_mut(vpn.0 as usize) else { return };
        entry.share = share;
        if let Some(parked) = &mut entry.parked {
            parked.set_share(now, share);
        }
        if let Some(this) = self.awake.get_mut(entry.slot as usize) {
            this.quantum = vpn::quantum(self.config.quantum_bytes, share);
            this.promised = share.service().rate();
        }
        self.with_loop(now, vpn, |control| control.set_share(now, share));
    }

    /// Sets the increase `a` (packets per round trip) and the decrease `b` of a VPN's window.
    ///
    /// This also works if the VPN has no queue now, or has not sent yet. The call has no effect if the VPN's loop has
    /// no window.
    pub fn set_window(&mut self, vpn: VpnNo, increase: f64, decrease: f64) {
        let Some(entry) = self.vpns.get_mut(vpn.0 as usize) else { return };
        entry.set_window(increase, decrease);
        let awake = self.awake.get_mut(entry.slot as usize).and_then(|this| this.control.as_deref_mut());
        if let Some(ControlLoop::AimdWindow(window)) = awake.or(entry.parked.as_deref_mut()) {
            window.set_parameters(increase, decrease);
        }
    }

    /// Selects whether all loops react to a loss event of one of them.
    pub fn share_events(&mut self, shared_events: bool) {
        self.config.shared_events = shared_events;
    }

    /// Returns the time at which to call [`Ingress::next_marker`] and [`Ingress::head`] again.
    ///
    /// A packet or a report that arrives may make an earlier call necessary.
    pub fn deadline(&self) -> Option<Instant> {
        let first = self.timers.first().map(|(at, _)| at).filter(|at| *at != Instant::FAR_FUTURE);
        if self.asking.is_empty() { first } else { Some(Instant::ZERO) }
    }

    /// Returns one marker that must be sent by itself, because a loop received no report for too long.
    pub fn next_marker(&mut self, now: Instant) -> Option<(VpnNo, Marker)> {
        self.advance(now);
        while let Some(slot) = self.asking.pop_front() {
            let Some(this) = self.awake.get_mut(slot as usize) else { continue };
            this.asks = false;
            let marker = this.control.as_mut().and_then(|control| control.on_deadline(now));
            self.timers.pull(slot, this.next_time());
            if let Some(marker) = marker {
                return Some((this.vpn, marker));
            }
        }
        None
    }

    /// Returns the state of a VPN.
    pub fn status(&self, vpn: VpnNo) -> Option<VpnStatus> {
        let entry = self.vpns.get(vpn.0 as usize)?;
        let this = self.awake.get(entry.slot as usize);
        let control = this.map_or(entry.parked.as_deref(), |this| this.control.as_deref());
        let mut counters = entry.counters;
        if let Some(this) = this {
            add(&mut counters, this.queue.counters());
        }
        Some(VpnStatus {
            share: entry.share,
            queued_packets: this.map_or(0, |this| this.queue.len()),
            queued_bytes: this.map_or(0, |this| this.queue.backlog_bytes()),
            sent_packets: entry.sent_packets,
            sent_bytes: entry.sent_bytes,
            counters,
            control: control.map(ControlLoop::status),
        })
    }

    /// Returns the loops of all VPNs that have a queue, each with the VPN's number and share.
    ///
    /// The controller that corrects them uses this ([`crate::fair::controller`]).
    pub fn loops_mut(&mut self) -> impl Iterator<Item = (VpnNo, Share, &mut ControlLoop)> {
        let vpns = &self.vpns;
        self.awake.iter_mut().filter_map(|this| {
            let share = vpns.get(this.vpn.0 as usize)?.share;
            Some((this.vpn, share, this.control.as_deref_mut()?))
        })
    }

    /// Number of VPNs that have a queue now.
    pub fn awake(&self) -> usize {
        self.awake.len() - self.free.len()
    }

    /// Number of packets in all queues.
    pub fn backlog_packets(&self) -> usize {
        self.backlog.packets()
    }

    /// Backlog of all queues in bytes.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    /// True if the VPN has a queue now and a loop with the window law.
    pub fn has_window(&self, vpn: VpnNo) -> bool {
        let this = self.vpns.get(vpn.0 as usize).and_then(|entry| self.awake.get(entry.slot as usize));
        matches!(this.and_then(|this| this.control.as_deref()), Some(ControlLoop::AimdWindow(_)))
    }

    /// True if some VPN has packets and may have credit.
    pub fn is_ready(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Returns the index in `awake` of a VPN's queue. Creates the queue if there is none.
    fn wake(&mut self, now: Instant, vpn: VpnNo) -> Option<u32> {
        let entry = self.vpns.get_mut(vpn.0 as usize)?;
        if entry.slot != vpn::NONE {
            return Some(entry.slot);
        }
        let rng = self.rng.split(u64::from(vpn.0));
        let mut this = Awake::new(vpn, entry, self.config.quantum_bytes, now, rng);
        this.applied_events = self.events;
        if let Some(delays) = self.delays {
            this.queue.configure(delays.within(entry.profile().sizes));
        }
        entry.slot = match self.free.pop() {
            Some(slot) => {
                self.awake[slot as usize] = this;
                slot
            }
            None => {
                self.awake.push(this);
                self.awake.len() as u32 - 1
            }
        };
        Some(entry.slot)
    }

    /// Applies `work` to a VPN's loop.
    ///
    /// Afterwards the loop may have credit, so the VPN gets a turn. If the loop had a loss event, it may apply to the
    /// other loops.
    fn with_loop(&mut self, now: Instant, vpn: VpnNo, work: impl FnOnce(&mut ControlLoop)) {
        let Some(slot) = self.vpns.get(vpn.0 as usize).map(|entry| entry.slot) else { return };
        let Some(this) = self.awake.get_mut(slot as usize) else { return };
        this.on_congestion_events(now, self.events);
        let Some(control) = this.control.as_deref_mut() else { return };
        let before = control.loss_events();
        work(control);
        if self.config.shared_events && control.loss_events() != before {
            self.events = self.events.wrapping_add(1);
            this.applied_events = self.events;
        }
        self.give_turn(slot);
    }

    /// Processes the timers of VPNs that have expired by `now`.
    fn advance(&mut self, now: Instant) {
        while let Some((_, slot)) = self.timers.first().filter(|(at, _)| *at <= now) {
            let Some(this) = self.awake.get_mut(slot as usize) else { return };
            if matches!(this.place, TurnState::UntilTime(at) if at <= now) {
                this.place = TurnState::Ring;
                self.ring.push_back(slot);
            }
            if !this.asks && this.control.as_ref().and_then(|c| c.deadline()).is_some_and(|at| at <= now) {
                this.asks = true;
                self.asking.push_back(slot);
            }
            if this.may_retire(now) {
                self.retire(slot);
            } else {
                self.timers.set(slot, this.next_time().max(now + vpn::A_MOMENT));
            }
        }
    }

    /// Frees the queue of a VPN. Its loop stays in the VPN's entry.
    fn retire(&mut self, slot: u32) {
        self.timers.clear(slot);
        // An index of `awake` must not be freed twice: two VPNs would then get the same queue.
        let Some(this) = self.awake.get_mut(slot as usize).filter(|this| !this.is_free()) else { return };
        if let Some(entry) = self.vpns.get_mut(this.vpn.0 as usize) {
            add(&mut entry.counters, this.queue.counters());
            entry.parked = this.control.take();
            entry.slot = vpn::NONE;
        }
        this.empty();
        self.free.push(slot);
    }
}

fn add(sum: &mut QueueCounters, more: QueueCounters) {
    sum.dropped_full += more.dropped_full;
    sum.dropped_aqm += more.dropped_aqm;
    sum.dropped_stale += more.dropped_stale;
    sum.replaced += more.replaced;
    sum.marked += more.marked;
}

/// A loop as it is stored. Moving it copies only a pointer.
type BoxedLoop = Option<Box<ControlLoop>>;

#[cfg(test)]
mod tests;
