//! The ingress queue: where packets wait for the paths to a peer.
//!
//! Without VPNs it is one flow queue, or a port if flow state is kept. With VPNs, each VPN has a queue of its own and a
//! loop that paces it, if configured. A segment enters by `enqueue`. `head` selects the next one, and `pop` or
//! `discard` takes it out. The queue never chooses a path and numbers no units.

use crate::units::Segment;
use crate::vpn::Admitted;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashMap;
use weft_core::control_loop::explicit_rate::{Ask, LoopGrant};
use weft_core::control_loop::{ControlLoop, LoopConfig, LoopReport, Marker};
use weft_core::flow::hash::SeededState;
use weft_core::ingress::{Ingress, IngressConfig, Profile, VpnNo, VpnStatus};
use weft_core::queue::{Arrival, Dequeued, Expiry, FlowQueue, HeadView, QueueConfig, QueueKind};
use weft_core::service::Share;
use weft_flows::port::Port;
use weft_flows::router::Standing;
use weft_units::{Duration, FlowId, Instant, Rate, Rng, VpnId};

/// Number of the default VPN in the queue, where VPNs are numbered from 0.
const DEFAULT: VpnNo = VpnNo(0);
/// Number of FQ-CoDel queues of a VPN to which its flows are hashed (RFC 8290 §4.1).
///
/// The number is small to limit the memory of each VPN.
const FLOW_QUEUES: u32 = 128;

/// The ingress queue of one peer, without or with VPNs.
#[expect(clippy::large_enum_variant, reason = "each peer has one, and it is on every packet's way")]
pub enum IngressQueue {
    /// No VPN other than the default one has this peer as a member.
    Alone(FlowQueue<Segment>),
    /// No other VPN has this peer as a member, and flow state is kept. Each flow gets its granted rate.
    Port(Box<Port<Segment>>),
    /// VPNs have this peer as a member, in addition to the default VPN.
    Shared(Box<Shared>),
}

/// The queues and loops of all VPNs toward the peer.
pub struct Shared {
    ingress: Ingress<Segment>,
    numbers: HashMap<VpnId, VpnNo, SeededState>,
    /// Ids of the VPNs. The index is the VPN's number in `ingress`.
    ///
    /// The entry of a removed VPN stays until its number is reused.
    vpns: Vec<VpnId>,
    /// Number of VPNs with a window-based loop.
    ///
    /// Such a loop reacts to the loss of a first transmission even if the unit is retransmitted (paper 003).
    windows: usize,
    /// Number of VPNs whose loop follows the rates that this node grants on the paths.
    granted: usize,
}

impl IngressQueue {
    pub fn new(kind: QueueKind) -> IngressQueue {
        IngressQueue::Alone(FlowQueue::new(kind, QueueConfig::default()))
    }

    /// True if VPNs other than the default one have this peer as a member.
    pub fn has_vpns(&self) -> bool {
        matches!(self, IngressQueue::Shared(_))
    }

    /// Queues a segment. The queue may pass this segment or others to `dropped`.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, segment: Segment, dropped: &mut impl FnMut(Segment)) {
        match self {
            IngressQueue::Alone(queue) if segment.vpn == VpnId::DEFAULT => {
                queue.enqueue(now, arrival, segment, dropped)
            }
            IngressQueue::Port(port) if segment.vpn == VpnId::DEFAULT => port.enqueue(now, arrival, segment, dropped),
            IngressQueue::Alone(_) | IngressQueue::Port(_) => dropped(segment),
            IngressQueue::Shared(shared) => shared.enqueue(now, arrival, segment, dropped),
        }
    }

    /// Replaces the last waiting segment of a flow with `segment`, if `is_superfluous` returns true for it.
    ///
    /// Returns the segment that was replaced.
    ///
    /// # Errors
    /// Returns `segment` itself if it replaced nothing.
    pub fn replace_last(
        &mut self,
        now: Instant,
        arrival: Arrival,
        segment: Segment,
        is_superfluous: impl FnOnce(&Segment) -> bool,
    ) -> Result<Segment, Segment> {
        match self {
            IngressQueue::Alone(queue) => queue.replace_last(now, arrival, segment, is_superfluous),
            IngressQueue::Port(port) => port.replace_last(now, arrival, segment, is_superfluous),
            IngressQueue::Shared(shared) => match shared.place(&segment, arrival) {
                Some((number, arrival)) => shared.ingress.replace_last(now, number, arrival, segment, is_superfluous),
                None => Err(segment),
            },
        }
    }

    /// Selects the segment that leaves next. Returns its size and flow, or `None` if no segment may leave now.
    ///
    /// Segments that the AQM drops are passed to `dropped`.
    pub fn head(&mut self, now: Instant, dropped: &mut impl FnMut(Segment)) -> Option<HeadView> {
        match self {
            IngressQueue::Alone(queue) => queue.head(now, dropped),
            IngressQueue::Port(port) => port.head(now, dropped),
            IngressQueue::Shared(shared) => shared.ingress.head(now, dropped).map(|head| head.view),
        }
    }

    /// Returns the segment that [`IngressQueue::head`] selected.
    pub fn head_item(&self) -> Option<&Segment> {
        match self {
            IngressQueue::Alone(queue) => queue.head_item(),
            IngressQueue::Port(port) => port.head_item(),
            IngressQueue::Shared(shared) => shared.ingress.head_item(),
        }
    }

    /// Removes and returns the segment that [`IngressQueue::head`] selected, because it leaves.
    ///
    /// The second value is the loop marker that travels with it, if any.
    pub fn pop(&mut self, now: Instant) -> Option<(Dequeued<Segment>, Option<Marker>)> {
        match self {
            IngressQueue::Alone(queue) => queue.pop(now).map(|taken| (taken, None)),
            IngressQueue::Port(port) => port.pop(now).map(|taken| (taken, None)),
            IngressQueue::Shared(shared) => shared.ingress.pop(now).map(|gone| (gone.unit, gone.marker)),
        }
    }

    /// Moves the flow of the selected segment ([`IngressQueue::head`]) behind all other flows.
    ///
    /// Returns false if there is no such flow, or if the queue does not distinguish flows.
    pub fn pass_over(&mut self) -> bool {
        match self {
            IngressQueue::Alone(queue) => queue.pass_over(),
            IngressQueue::Port(port) => port.pass_over(),
            IngressQueue::Shared(_) => false,
        }
    }

    /// Records that no path can take the segment that [`IngressQueue::head`] selected.
    ///
    /// A path may still have space for a segment of a sparse flow. Returns true if the queue can select such a segment
    /// instead.
    pub fn on_hold(&mut self, now: Instant) -> bool {
        match self {
            IngressQueue::Alone(queue) => queue.on_hold(now),
            IngressQueue::Port(port) => port.on_hold(now),
            IngressQueue::Shared(shared) => shared.ingress.on_hold(now),
        }
    }

    /// Removes and returns the segment that [`IngressQueue::head`] selected. It is not sent.
    pub fn discard(&mut self, now: Instant) -> Option<Dequeued<Segment>> {
        match self {
            IngressQueue::Alone(queue) => queue.pop(now),
            IngressQueue::Port(port) => port.pop(now),
            IngressQueue::Shared(shared) => shared.ingress.discard(now),
        }
    }

    /// Drops a batch of waiting segments to `dropped`, because buffers are short.
    pub fn shed(&mut self, now: Instant, dropped: &mut impl FnMut(Segment)) {
        match self {
            IngressQueue::Alone(queue) => queue.shed(now, dropped),
            IngressQueue::Port(port) => port.shed(dropped),
            IngressQueue::Shared(shared) => shared.ingress.shed(now, dropped),
        }
    }

    /// Drops the segments whose [`Expiry`] has passed, and passes them to `dropped`.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&Segment) -> Expiry, dropped: &mut impl FnMut(Segment)) {
        match self {
            IngressQueue::Alone(queue) => queue.expire(now, expiry, dropped),
            IngressQueue::Port(port) => port.expire(now, expiry, dropped),
            IngressQueue::Shared(shared) => shared.ingress.expire(now, expiry, dropped),
        }
    }

    /// Drops the segments of one VPN whose [`Expiry`] has passed, and passes them to `dropped`.
    ///
    /// Without a queue for each VPN it drops those of all.
    pub fn expire_vpn(
        &mut self,
        now: Instant,
        vpn: VpnId,
        expiry: &impl Fn(&Segment) -> Expiry,
        dropped: &mut impl FnMut(Segment),
    ) {
        match self {
            IngressQueue::Shared(shared) => {
                if let Some(number) = shared.numbers.get(&vpn) {
                    shared.ingress.expire_vpn(now, *number, expiry, dropped);
                }
            }
            IngressQueue::Alone(_) | IngressQueue::Port(_) => self.expire(now, expiry, dropped),
        }
    }

    /// True if a segment waits that may leave as soon as a path has space for it.
    pub fn is_ready(&self, now: Instant) -> bool {
        match self {
            IngressQueue::Alone(queue) => !queue.is_empty(),
            IngressQueue::Port(port) => !port.is_empty() && !self.is_paced(now),
            IngressQueue::Shared(shared) => shared.ingress.is_ready(),
        }
    }

    /// Returns the time at which a loop or a queue of a VPN next has work, or at which a port has used up its rate no
    /// longer.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            IngressQueue::Alone(_) => None,
            IngressQueue::Port(port) => port.held_until(),
            IngressQueue::Shared(shared) => shared.ingress.deadline(),
        }
    }

    /// Removes and returns a loop marker that must leave without a unit, and its VPN. `None` if there is none.
    pub fn next_marker(&mut self, now: Instant) -> Option<(VpnId, Marker)> {
        let IngressQueue::Shared(shared) = self else { return None };
        let (number, marker) = shared.ingress.next_marker(now)?;
        Some((*shared.vpns.get(number.0 as usize)?, marker))
    }

    /// Passes a loop report from the peer to the loop of its VPN.
    pub fn on_report(&mut self, now: Instant, vpn: VpnId, report: &LoopReport) {
        if let IngressQueue::Shared(shared) = self
            && let Some(number) = shared.numbers.get(&vpn)
        {
            shared.ingress.on_report(now, *number, report);
        }
    }

    /// Informs a VPN's loop that a unit was lost and will not be retransmitted.
    pub fn on_loss(&mut self, now: Instant, vpn: VpnId) {
        if let IngressQueue::Shared(shared) = self
            && let Some(number) = shared.numbers.get(&vpn)
        {
            shared.ingress.on_loss(now, *number, 1);
        }
    }

    /// Informs a VPN's window-based loop that the first transmission of a unit was lost.
    ///
    /// The unit may be retransmitted. A window-based loop takes the loss for congestion. A rate-based loop detects
    /// congestion by the number of its bytes in queues.
    pub fn on_congestion(&mut self, now: Instant, vpn: VpnId) {
        let IngressQueue::Shared(shared) = self else { return };
        if shared.windows == 0 {
            return;
        }
        if let Some(number) = shared.numbers.get(&vpn).copied()
            && shared.ingress.has_window(number)
        {
            shared.ingress.on_congestion(now, number);
        }
    }

    /// True if some VPN that is active now may have a window-based loop.
    pub fn has_windows(&self) -> bool {
        matches!(self, IngressQueue::Shared(shared) if shared.windows > 0 && shared.ingress.awake() > 0)
    }

    /// True if some VPN's loop follows the rates that this node grants on the paths.
    pub fn goes_by_grants(&self) -> bool {
        matches!(self, IngressQueue::Shared(shared) if shared.granted > 0)
    }

    /// Returns the rate requests of those VPNs that have a queue now and whose loop follows granted rates.
    pub fn asks(&self) -> impl Iterator<Item = Ask> {
        self.ingress().into_iter().flat_map(Ingress::asks)
    }

    /// Returns the shares of the VPNs that have packets waiting, with or without a loop.
    pub fn waiting(&self) -> impl Iterator<Item = Share> {
        self.ingress().into_iter().flat_map(Ingress::waiting)
    }

    fn ingress(&self) -> Option<&Ingress<Segment>> {
        if let IngressQueue::Shared(shared) = self { Some(&shared.ingress) } else { None }
    }

    /// Gives the same grant to all loops that follow granted rates.
    pub fn grant_all(&mut self, now: Instant, grant: LoopGrant) {
        if let IngressQueue::Shared(shared) = self {
            shared.ingress.grant_all(now, grant);
        }
    }

    /// Restarts the loops of all VPNs toward the peer.
    pub fn restart_loops(&mut self) {
        if let IngressQueue::Shared(shared) = self {
            shared.ingress.restart_loops();
        }
    }

    /// Gives a VPN another share (weight and service).
    ///
    /// `window` holds the new AIMD parameters `a` and `b` of the VPN's window-based loop, if it has one.
    pub fn set_share(&mut self, now: Instant, vpn: VpnId, share: Share, window: Option<(f64, f64)>) {
        let IngressQueue::Shared(shared) = self else { return };
        let Some(number) = shared.numbers.get(&vpn) else { return };
        shared.ingress.set_share(now, *number, share);
        if let Some((increase, decrease)) = window {
            shared.ingress.set_window(*number, increase, decrease);
        }
    }

    /// Returns the loops of those VPNs that have a queue now, each with the VPN's id and share.
    pub fn loops_mut(&mut self) -> impl Iterator<Item = (VpnId, Share, &mut ControlLoop)> {
        let shared = if let IngressQueue::Shared(shared) = self { Some(shared.as_mut()) } else { None };
        shared.into_iter().flat_map(|Shared { ingress, vpns, .. }| {
            ingress.loops_mut().filter_map(|(no, share, law)| Some((*vpns.get(no.0 as usize)?, share, law)))
        })
    }

    /// Returns the state of a VPN's queue and loop, if the VPN has a queue of its own.
    pub fn status(&self, vpn: VpnId) -> Option<VpnStatus> {
        let IngressQueue::Shared(shared) = self else { return None };
        shared.ingress.status(*shared.numbers.get(&vpn)?)
    }

    /// Returns the number of segments that wait in the queues of all VPNs.
    pub fn backlog_packets(&self) -> usize {
        match self {
            IngressQueue::Alone(queue) => queue.len(),
            IngressQueue::Port(port) => port.len(),
            IngressQueue::Shared(shared) => shared.ingress.backlog_packets(),
        }
    }

    /// Returns the number of bytes that wait in the queues of all VPNs.
    pub fn backlog_bytes(&self) -> u64 {
        match self {
            IngressQueue::Alone(queue) => queue.backlog_bytes(),
            IngressQueue::Port(port) => port.backlog_bytes(),
            IngressQueue::Shared(shared) => shared.ingress.backlog_bytes(),
        }
    }

    /// Sets the target and the interval of CoDel in all queues.
    pub fn set_delays(&mut self, target: Duration, interval: Duration) {
        match self {
            IngressQueue::Alone(queue) => queue.configure(QueueConfig { target, interval, ..QueueConfig::default() }),
            IngressQueue::Port(port) => port.set_delays(target, interval),
            IngressQueue::Shared(shared) => shared.ingress.set_delays(target, interval),
        }
    }

    /// Applies the default VPN's queue discipline and share, and the queues of the other VPNs of the peer.
    ///
    /// Returns true if a loop restarted.
    pub fn configure(
        &mut self,
        now: Instant,
        default: (QueueKind, Share),
        vpns: &[Admitted],
        rng: &Rng,
        dropped: &mut impl FnMut(Segment),
    ) -> bool {
        let kind = default.0;
        match self {
            IngressQueue::Port(_) if vpns.is_empty() => {}
            IngressQueue::Alone(_) if vpns.is_empty() => self.replace(now, IngressQueue::new(kind), dropped),
            IngressQueue::Alone(_) | IngressQueue::Port(_) => {
                self.replace(now, IngressQueue::Shared(Box::new(Shared::new(kind, rng))), dropped)
            }
            IngressQueue::Shared(_) if vpns.is_empty() => self.replace(now, IngressQueue::new(kind), dropped),
            IngressQueue::Shared(_) => {}
        }
        match self {
            IngressQueue::Alone(_) | IngressQueue::Port(_) => false,
            IngressQueue::Shared(shared) => shared.configure(now, default, vpns, dropped),
        }
    }

    /// Replaces the flow queue with a port if flow state is kept, and otherwise the port with a flow queue.
    ///
    /// With VPNs nothing changes.
    pub fn keep_flows(&mut self, now: Instant, kind: QueueKind, is_kept: bool, dropped: &mut impl FnMut(Segment)) {
        match self {
            IngressQueue::Alone(_) if is_kept => {
                self.replace(now, IngressQueue::Port(Box::new(Port::new(QueueConfig::default()))), dropped);
            }
            IngressQueue::Port(_) if !is_kept => self.replace(now, IngressQueue::new(kind), dropped),
            _ => {}
        }
    }

    /// Returns the port toward the peer, or `None` with VPNs or without flow state.
    pub fn port(&self) -> Option<&Port<Segment>> {
        if let IngressQueue::Port(port) = self { Some(port) } else { None }
    }

    /// Sets the user and the grant of a flow, if there is a port.
    pub fn set_flow(&mut self, flow: FlowId, standing: &Standing) {
        if let IngressQueue::Port(port) = self {
            port.set_flow(flow, standing.user, standing.weight, &standing.treatment);
        }
    }

    /// Removes the grant of a flow at the port, if there is a port.
    pub fn forget_flow(&mut self, flow: FlowId) {
        if let IngressQueue::Port(port) = self {
            port.forget_flow(flow);
        }
    }

    /// True if segments wait because the port has used up its rate, and not for a path.
    pub fn is_paced(&self, now: Instant) -> bool {
        self.port().and_then(Port::held_until).is_some_and(|at| at > now)
    }

    /// Ends an interval in which the port's load is measured. `target` is the rate that the port should carry.
    ///
    /// From then on, packets leave at most at the rate `pace`, if there is one.
    pub fn end_load_interval(&mut self, now: Instant, target: Rate, pace: Option<Rate>) {
        if let IngressQueue::Port(port) = self {
            port.end_interval(now, target);
            port.pace(pace);
        }
    }

    /// Moves the waiting segments into `new` and replaces the queue with it.
    fn replace(&mut self, now: Instant, new: IngressQueue, dropped: &mut impl FnMut(Segment)) {
        if let (IngressQueue::Alone(before), IngressQueue::Alone(after)) = (&*self, &new)
            && core::mem::discriminant(before) == core::mem::discriminant(after)
        {
            return;
        }
        let mut old = core::mem::replace(self, new);
        old.empty(now, &mut |arrival, segment| match arrival {
            Some(arrival) => self.enqueue(now, arrival, segment, dropped),
            None => dropped(segment),
        });
    }

    /// Selects whether a loss in the window of one VPN reduces the windows of all VPNs.
    pub fn share_events(&mut self, shared_events: bool) {
        if let IngressQueue::Shared(shared) = self {
            shared.ingress.share_events(shared_events);
        }
    }

    /// Removes all segments and passes each to `taken`, with `None` as arrival if the queue's AQM dropped it.
    pub fn empty(&mut self, now: Instant, taken: &mut impl FnMut(Option<Arrival>, Segment)) {
        match self {
            IngressQueue::Alone(queue) => {
                while let Some(unit) = queue.dequeue(now, &mut |segment| taken(None, segment)) {
                    taken(Some(Arrival { flow: unit.flow, bytes: unit.bytes, ecn_capable: false }), unit.item);
                }
            }
            IngressQueue::Port(port) => {
                while let Some(unit) = port.dequeue(now, &mut |segment| taken(None, segment)) {
                    taken(Some(Arrival { flow: unit.flow, bytes: unit.bytes, ecn_capable: false }), unit.item);
                }
            }
            IngressQueue::Shared(shared) => {
                shared.ingress.remove(now, DEFAULT, &mut |arrival, segment: Segment| {
                    taken(arrival.map(|arrival| Arrival { flow: segment.flow, ..arrival }), segment);
                });
                for (_, number) in shared.numbers.drain() {
                    shared.ingress.remove(now, number, &mut |_, segment| taken(None, segment));
                }
            }
        }
    }
}

impl Shared {
    fn new(kind: QueueKind, rng: &Rng) -> Shared {
        // All loops between two edges share every bottleneck, so they share loss events by default. The first
        // bottleneck is often the paths themselves. The configuration may change this setting later.
        let config = IngressConfig { shared_events: true, promises: true, ..IngressConfig::default() };
        let mut rng = rng.clone();
        let mut ingress = Ingress::new(config, rng.split(1));
        ingress.add(Share::default(), default_profile(kind));
        let numbers = HashMap::with_hasher(SeededState::new(rng.next_u64()));
        Shared { ingress, numbers, vpns: alloc::vec![VpnId::DEFAULT], windows: 0, granted: 0 }
    }

    fn enqueue(&mut self, now: Instant, arrival: Arrival, segment: Segment, dropped: &mut impl FnMut(Segment)) {
        match self.place(&segment, arrival) {
            Some((number, arrival)) => self.ingress.enqueue(now, number, arrival, segment, dropped),
            None => dropped(segment),
        }
    }

    /// Returns the number of the segment's VPN, and its arrival with the queue to which its flow is hashed.
    ///
    /// Returns `None` if the VPN is unknown. The queue stands in place of the flow number.
    fn place(&self, segment: &Segment, arrival: Arrival) -> Option<(VpnNo, Arrival)> {
        if segment.vpn == VpnId::DEFAULT {
            return Some((DEFAULT, arrival));
        }
        let flow = FlowId((segment.flow_hash % FLOW_QUEUES) as u16);
        Some((*self.numbers.get(&segment.vpn)?, Arrival { flow, ..arrival }))
    }

    fn configure(
        &mut self,
        now: Instant,
        (kind, share): (QueueKind, Share),
        vpns: &[Admitted],
        dropped: &mut impl FnMut(Segment),
    ) -> bool {
        let mut new = HashMap::with_capacity_and_hasher(vpns.len(), *self.numbers.hasher());
        let mut begun = false;
        self.ingress.change(now, DEFAULT, share, default_profile(kind), dropped);
        for Admitted { vpn, share, profile } in vpns {
            begun |= profile.control.is_some() && !self.numbers.contains_key(vpn);
            let number = match self.numbers.remove(vpn) {
                Some(number) => {
                    begun |= self.ingress.change(now, number, *share, profile.clone(), dropped);
                    number
                }
                None => self.ingress.add(*share, profile.clone()),
            };
            if self.vpns.len() <= number.0 as usize {
                self.vpns.resize(number.0 as usize + 1, VpnId::DEFAULT);
            }
            self.vpns[number.0 as usize] = *vpn;
            new.insert(*vpn, number);
        }
        for (_, number) in core::mem::replace(&mut self.numbers, new) {
            self.ingress.remove(now, number, &mut |_, segment| dropped(segment));
        }
        let is_window = |this: &&Admitted| matches!(this.profile.control, Some(LoopConfig::AimdWindow(_)));
        self.windows = vpns.iter().filter(is_window).count();
        let is_granted = |this: &&Admitted| matches!(this.profile.control, Some(LoopConfig::ExplicitRate(_)));
        self.granted = vpns.iter().filter(is_granted).count();
        begun
    }
}

fn default_profile(kind: QueueKind) -> Arc<Profile> {
    Arc::new(Profile { queue: kind, sizes: QueueConfig::default(), control: None })
}
