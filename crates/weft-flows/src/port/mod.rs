//! The queue of one egress: the bundle toward a peer, or the TUN device toward the hosts.
//!
//! [`Port`] offers the operations of [`weft_core::queue::FlowQueue`] with the same meaning. The caller sets the grant
//! of each flow with [`Port::set_flow`], and then enqueues packets by flow number. The port serves packets in this
//! order:
//!
//! 1. Packets within a guarantee, by the earliest virtual deadline.
//! 2. All others by user, in deficit round robin with weights. Within a round, flows of a higher delay priority come
//!    first, then sparse flows.
//! 3. Within a user, by flow as in FQ-CoDel (RFC 8290). CoDel's target follows the number of the user's flows.
//!
//! A rate can limit the port ([`Port::pace`]). Then flows that are not sparse wait, except within their guarantee.
//!
//! Packets of a flow above its guarantee belong to its user's share. A flow above its ceiling is policed: its first
//! packet in excess is marked with CE, or dropped if it cannot be marked. The second one is marked or dropped one
//! interval later. While the flow stays too fast, the interval is divided by √n after n packets (RFC 8289 §4.2). No
//! other flow is touched.
//!
//! Guarantees never starve anything else, because admission grants only a part of the capacity. Control frames of the
//! engine do not pass through a port. The port never sends, never chooses a path and never reads a clock.

mod contract;
mod fair;
mod flows;
mod held;
mod list;
mod load;
mod overflow;
mod pace;
mod packets;
mod registry;
mod rounds;
mod target_use;

pub use load::PortLoad;
pub use target_use::TargetUse;

use crate::ClassId;
use alloc::vec::Vec;
use contract::Judgement;
use flows::{FlowPlace, FlowState};
use load::PortMeter;
use pace::Pace;
use packets::{PacketSlab, StoredPacket};
use rounds::ServiceRounds;
use weft_core::ingress::timers::SlotTimers;
use weft_core::queue::{Arrival, Dequeued, HeadView, QueueConfig, QueueCounters};
use weft_units::{Duration, FlowId, Instant, Rate};

/// Least quantum in bytes. It bounds the number of rounds until a large packet may leave.
///
/// Derived: a packet of 64 KiB leaves after at most 256 rounds.
const MIN_QUANTUM: u32 = 256;
/// Default target use of a port, as a fraction of its capacity.
///
/// Standard: the utilisation η of the explicit-rate algorithms, see [`weft_core::explicit_rate::pi::PiConfig`].
pub const DEFAULT_TARGET_USE: f64 = 0.95;

/// The rule by which a packet was selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SelectedBy {
    /// The flow's guarantee covers the packet.
    Deadline,
    /// It is the turn of the flow's user, and the flow is sparse.
    NewFlow,
    /// It is the turn of the flow's user, and the flow is not sparse.
    OldFlow,
}

/// Counts of packets that were policed because their flow exceeded its ceiling.
///
/// [`Port::counters`] contains them too, among the packets marked and dropped by the AQM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PolicingCounters {
    /// Number of packets above their flow's ceiling that were marked with CE.
    pub marked: u64,
    /// Number of packets above their flow's ceiling that were dropped.
    pub dropped: u64,
}

/// The queue of one egress, as the module describes it.
#[derive(Debug)]
pub struct Port<T> {
    config: QueueConfig,
    pace: Pace,
    packets: PacketSlab<T>,
    flows: Vec<FlowState>,
    rounds: ServiceRounds,
    /// Flows whose first packet may leave now within the flow's guarantee, by the packet's deadline.
    ready: SlotTimers,
    /// Flows whose first packet may leave within the flow's guarantee only later, by that time.
    later: SlotTimers,
    selected: Option<(u32, SelectedBy)>,
    /// Time when [`Port::head`] last selected a packet.
    selected_at: Instant,
    /// Time when a packet of an old flow last left.
    old_left_at: Instant,
    renew_at: Instant,
    backlogged: u32,
    counters: QueueCounters,
    policing: PolicingCounters,
    load: PortMeter,
}

impl<T> Port<T> {
    /// Returns an empty port. All flows belong to the anonymous user until [`Port::set_flow`] names them.
    pub fn new(config: QueueConfig) -> Port<T> {
        Port {
            config,
            pace: Pace::default(),
            packets: PacketSlab::new(),
            flows: Vec::new(),
            rounds: ServiceRounds::new(config.quantum_bytes.max(MIN_QUANTUM)),
            ready: SlotTimers::default(),
            later: SlotTimers::default(),
            selected: None,
            selected_at: Instant::ZERO,
            old_left_at: Instant::ZERO,
            renew_at: Instant::ZERO,
            backlogged: 0,
            counters: QueueCounters::default(),
            policing: PolicingCounters::default(),
            load: PortMeter::new(),
        }
    }

    /// Replaces the limits, the quantum and CoDel's times. Packets that wait stay in the port.
    ///
    /// A smaller limit takes effect at the next arrival.
    pub fn configure(&mut self, config: QueueConfig) {
        self.config = config;
        self.rounds.set_quantum(config.quantum_bytes.max(MIN_QUANTUM));
    }

    /// Sets CoDel's target and interval. The interval is also that of policing: the worst round trip of the flows.
    pub fn set_delays(&mut self, target: Duration, interval: Duration) {
        self.configure(QueueConfig { target, interval, ..self.config });
    }

    /// Limits the rate at which packets leave. `None` removes the limit.
    ///
    /// Packets within a guarantee and those of sparse flows leave at once. They count toward the rate.
    pub fn pace(&mut self, rate: Option<Rate>) {
        self.pace.set_rate(rate);
    }

    /// Returns the time at which [`Port::head`] can select a packet again, if the port's rate is used up.
    pub fn held_until(&self) -> Option<Instant> {
        self.pace.held_until().filter(|_| !self.is_empty())
    }

    /// Appends `item` to its flow's packets.
    ///
    /// Passes every item that must be dropped, perhaps this one, to `dropped`. A flow above its ceiling is policed
    /// here. Over a limit, the port drops from the user with the largest backlog.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        let Arrival { flow: FlowId(id), bytes, ecn_capable } = arrival;
        let id = u32::from(id);
        if self.flows.len() <= id as usize {
            self.flows.resize(id as usize + 1, FlowState::UNNAMED);
        }
        let flow = &mut self.flows[id as usize];
        self.load.on_arrival(flow.class, bytes, &mut flow.active_in);
        let interval = self.config.interval;
        let judged = match &mut flow.contract {
            Some(contract) => contract.judge(now, bytes, interval),
            None => Judgement { is_exposed: true, is_condemned: false },
        };
        if judged.is_condemned && !ecn_capable {
            self.policing.dropped += 1;
            self.counters.dropped_aqm += 1;
            return dropped(item);
        }
        if judged.is_condemned {
            self.policing.marked += 1;
            self.counters.marked += 1;
        }
        self.append(now, id, StoredPacket::new(item, now, &arrival, judged));
        self.keep_limits(id, dropped);
    }

    /// Selects the packet that leaves next, if any, and drops the packets before it that CoDel rejects.
    ///
    /// The selection stays valid until [`Port::pop`].
    pub fn head(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<HeadView> {
        (self.selected, self.selected_at) = (None, now);
        while let Some((at, id)) = self.later.first()
            && at <= now
        {
            self.later.clear(id);
            self.set_ready(id);
        }
        self.selected = match self.ready.first() {
            Some((_, id)) => Some((id, SelectedBy::Deadline)),
            // If nothing else waits, a packet leaves although its flow's guarantee would let it leave only later.
            None => self.next_in_shares(now, dropped).or_else(|| Some((self.later.first()?.1, SelectedBy::Deadline))),
        };
        let (id, by) = self.selected?;
        if by == SelectedBy::OldFlow && !self.pace.allows(now) {
            self.selected = None;
            return None;
        }
        let head = self.packets.get(self.flows[id as usize].fifo.head)?;
        Some(HeadView { flow: FlowId(id as u16), bytes: head.bytes, sparse: self.is_sparse(id, by) })
    }

    /// Returns the item of the packet that the last [`Port::head`] selected, or `None` if none is selected.
    pub fn head_item(&self) -> Option<&T> {
        let (id, _) = self.selected?;
        self.packets.get(self.flows[id as usize].fifo.head)?.item.as_ref()
    }

    /// Removes and returns the packet that the last [`Port::head`] selected.
    ///
    /// Returns `None` if no packet is selected or the selected one was dropped since.
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let (id, by) = self.selected.take()?;
        let sparse = self.is_sparse(id, by);
        let flow = &mut self.flows[id as usize];
        let head = self.packets.get(flow.fifo.head)?;
        let (since, bytes) = (head.since, head.bytes);
        match by {
            SelectedBy::Deadline => flow.contract.iter_mut().for_each(|contract| contract.on_served(since, bytes)),
            SelectedBy::NewFlow | SelectedBy::OldFlow => {
                flow.deficit -= i64::from(bytes);
                self.rounds.charge(flow.user, bytes);
            }
        }
        if by == SelectedBy::OldFlow {
            self.old_left_at = now;
        }
        self.pace.on_left(now, bytes);
        let packet = self.remove_head(id)?;
        let sojourn = now.since(since);
        self.load.on_departure(self.flows[id as usize].class, bytes, sojourn);
        let flow = FlowId(id as u16);
        Some(Dequeued { item: packet.item?, flow, bytes, sparse, mark_ce: packet.marked, sojourn })
    }

    /// Selects the packet that leaves next, and removes it from the port. Returns `None` if no packet waits.
    pub fn dequeue(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<Dequeued<T>> {
        self.head(now, dropped)?;
        self.pop(now)
    }

    /// Number of packets in the port.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if the port holds no packet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Backlog of all flows in bytes.
    pub fn backlog_bytes(&self) -> u64 {
        self.packets.bytes()
    }

    /// Backlog of one flow in bytes.
    pub fn flow_bytes(&self, flow: FlowId) -> u64 {
        self.flows.get(usize::from(flow.0)).map_or(0, |flow| flow.fifo.bytes)
    }

    /// Returns the counts of packets dropped, marked and replaced so far.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }

    /// Returns the counts of packets that were policed.
    pub fn policing(&self) -> PolicingCounters {
        self.policing
    }

    /// Ends a load interval. Call it each 20 ms with the rate that the port should carry.
    ///
    /// [`PortLoad::headroom`] is relative to that rate.
    pub fn end_interval(&mut self, now: Instant, target: Rate) {
        self.load.end_interval(now, target);
    }

    /// Returns the port's load in the last interval.
    pub fn load(&self) -> PortLoad {
        self.load.total()
    }

    /// Returns the load of each class in the last interval.
    pub fn class_loads(&self) -> impl Iterator<Item = (ClassId, PortLoad)> {
        self.load.classes()
    }

    /// True if the selected packet of the flow `id` should leave at once, by whichever path delivers it first.
    fn is_sparse(&self, id: u32, by: SelectedBy) -> bool {
        match by {
            SelectedBy::Deadline => self.flows[id as usize].contract.as_ref().is_some_and(|c| c.is_urgent),
            SelectedBy::NewFlow => true,
            SelectedBy::OldFlow => false,
        }
    }

    fn append(&mut self, now: Instant, id: u32, packet: StoredPacket<T>) {
        let (bytes, is_exposed) = (packet.bytes, packet.is_exposed);
        let flow = &mut self.flows[id as usize];
        let is_first = flow.fifo.is_empty();
        self.packets.append(&mut flow.fifo, packet);
        self.load.on_backlog(flow.class, bytes.into(), is_first.into());
        self.backlogged += u32::from(is_first);
        if is_exposed {
            let user = self.rounds.user_mut(flow.user);
            user.exposed_bytes += u64::from(bytes);
            user.exposed_flows += u32::from(flow.fifo.exposed == 1);
            self.activate(now, id);
        }
        if !is_exposed || self.flows[id as usize].place == FlowPlace::New {
            self.pace.look_again();
        }
        if is_first {
            self.on_new_head(id);
        }
    }

    /// Removes and returns the first packet of a flow.
    fn remove_head(&mut self, id: u32) -> Option<StoredPacket<T>> {
        let packet = self.packets.remove_head(&mut self.flows[id as usize].fifo)?;
        self.on_removed(id, &packet);
        self.on_new_head(id);
        Some(packet)
    }

    /// Updates the sums over a flow's packets after one of them left.
    fn on_removed(&mut self, id: u32, packet: &StoredPacket<T>) {
        let flow = &self.flows[id as usize];
        let is_last = flow.fifo.is_empty();
        self.load.on_backlog(flow.class, -i64::from(packet.bytes), -i32::from(is_last));
        self.backlogged -= u32::from(is_last);
        if packet.is_exposed {
            let user = self.rounds.user_mut(flow.user);
            user.exposed_bytes -= u64::from(packet.bytes);
            user.exposed_flows -= u32::from(flow.fifo.exposed == 0);
        }
    }

    /// Sets when the first packet of a flow may leave within the flow's guarantee, if it has one.
    fn on_new_head(&mut self, id: u32) {
        let flow = &self.flows[id as usize];
        let Some(contract) = flow.contract.as_ref().filter(|contract| contract.is_guaranteed()) else { return };
        let Some(head) = self.packets.get(flow.fifo.head) else {
            self.ready.clear(id);
            self.later.clear(id);
            return;
        };
        let Some((eligible_at, deadline)) = contract.schedule(head.since, head.bytes, head.is_exposed) else { return };
        if head.is_exposed && eligible_at > self.selected_at {
            self.ready.clear(id);
            self.later.set(id, eligible_at);
        } else {
            self.later.clear(id);
            self.ready.set(id, deadline);
        }
    }

    /// Adds a flow to those whose first packet may leave now within the flow's guarantee.
    fn set_ready(&mut self, id: u32) {
        let flow = &self.flows[id as usize];
        let (Some(contract), Some(head)) = (&flow.contract, self.packets.get(flow.fifo.head)) else { return };
        if let Some((_, deadline)) = contract.schedule(head.since, head.bytes, head.is_exposed) {
            self.ready.set(id, deadline);
        }
    }
}
