//! Flows that the filter knows: the node that began each, and whether the flow may continue.
//!
//! The table is set-associative and has a fixed size. The owner of a flow is the node behind which it began. A full
//! set drops an entry of the owner that has most entries in it, so that one node cannot displace the flows of other
//! nodes. Times without packets end an entry (RFC 5382 §5, RFC 4787 §4.3, RFC 5508 §3.2).

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant, PeerId, VpnId};
use weft_wire::ip::{FlowKey, TcpFlags, protocol};

/// Number of sets, a power of two. *Tuned*: 65,536 flows in about 6 MB.
const SETS: usize = 8_192;
/// Number of entries of each set of the table. A flow can be stored in one set only.
const WAYS: usize = 8;
/// Time without packets after which a flow without an answer is forgotten. *Standard*: Linux's timeout of UDP.
const UNANSWERED: Duration = Duration::from_secs(30);
/// Time without packets after which a TCP connection without an answer is forgotten. *Standard*: RFC 5382 §5, 4 min.
const TCP_UNANSWERED: Duration = Duration::from_secs(240);
/// Time without packets after which an answered TCP connection is forgotten. *Standard*: RFC 5382 §5, 2 h 4 min.
const TCP_ANSWERED: Duration = Duration::from_secs(7_440);
/// Time without packets after which an answered flow of UDP is forgotten. *Standard*: RFC 4787 §4.3, 5 min.
const ANSWERED: Duration = Duration::from_secs(300);
/// Time without packets after which an ICMP query is forgotten. *Standard*: RFC 5508 §3.2, 60 s.
const ICMP: Duration = Duration::from_secs(60);

/// A flow without direction: its two ends, of which `low` has the lower address (or port).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct FlowPair {
    vpn: VpnId,
    protocol: u8,
    low: (IpAddr, u16),
    high: (IpAddr, u16),
}

impl FlowPair {
    /// Returns the ends of a packet's flow, and true if the packet's sender is the end `low`.
    pub fn of(vpn: VpnId, key: &FlowKey) -> (FlowPair, bool) {
        let (src, dst) = ((key.src, key.src_port), (key.dst, key.dst_port));
        let is_low = src <= dst;
        let (low, high) = if is_low { (src, dst) } else { (dst, src) };
        (FlowPair { vpn, protocol: key.protocol, low, high }, is_low)
    }
}

/// Node behind which a flow began: a peer, or `None` for this node.
pub(super) type FlowOwner = Option<PeerId>;

/// A flow that the filter knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackedFlow {
    ends: FlowPair,
    used_at: Instant,
    pub owner: FlowOwner,
    /// Peer behind which the flow's destination lies, or `None` for hosts behind this node.
    pub toward: Option<PeerId>,
    /// Version of the rules under which the flow was last judged.
    pub generation: u32,
    /// True if the end `low` of the pair sent the flow's first packet.
    pub low_began: bool,
    /// True if the end that did not begin the flow has sent a packet too.
    is_answered: bool,
    /// True if TCP is ending the connection: a packet with FIN or RST arrived after the last SYN.
    is_closing: bool,
    /// True if the present rules do not let the flow in.
    pub is_refused: bool,
}

impl TrackedFlow {
    /// Returns a flow whose first packet arrived now.
    pub fn new(now: Instant, ends: FlowPair, low_began: bool, owner: FlowOwner, toward: Option<PeerId>) -> TrackedFlow {
        TrackedFlow {
            ends,
            used_at: now,
            owner,
            toward,
            generation: 0,
            low_began,
            is_answered: false,
            is_closing: false,
            is_refused: false,
        }
    }

    /// Records a packet of the flow. `is_low` is true if the packet's sender is the end `low`.
    pub fn on_packet(&mut self, now: Instant, is_low: bool, flags: Option<TcpFlags>) {
        self.used_at = now;
        self.is_answered |= is_low != self.low_began;
        if let Some(flags) = flags {
            let begins = flags.any(TcpFlags::SYN);
            self.is_closing = !begins && (self.is_closing || flags.any(TcpFlags::FIN | TcpFlags::RST));
        }
    }

    fn has_expired(&self, now: Instant) -> bool {
        let lives = match (self.ends.protocol, self.is_answered) {
            (protocol::TCP, true) if !self.is_closing => TCP_ANSWERED,
            (protocol::TCP, _) => TCP_UNANSWERED,
            (protocol::ICMP | protocol::ICMPV6, _) => ICMP,
            (_, true) => ANSWERED,
            (_, false) => UNANSWERED,
        };
        now.since(self.used_at) >= lives
    }
}

/// The flows that the filter knows.
#[derive(Debug)]
pub(super) struct TrackedFlows {
    hash: SeededState,
    /// High bits of the hash of each entry, so that a search reads one cache line.
    tags: Vec<u32>,
    slots: Vec<Option<TrackedFlow>>,
}

impl TrackedFlows {
    pub fn new(seed: u64) -> TrackedFlows {
        let places = SETS * WAYS;
        TrackedFlows { hash: SeededState::new(seed), tags: vec![0; places], slots: vec![None; places] }
    }

    /// Returns the index of the first entry of the set for these ends, and the tag of the ends.
    fn set_of(&self, ends: &FlowPair) -> (usize, u32) {
        let hash = self.hash.hash64(ends);
        (hash as usize % SETS * WAYS, (hash >> 32) as u32)
    }

    /// Returns the flow with these ends, unless it has expired.
    pub fn get(&mut self, now: Instant, ends: &FlowPair) -> Option<&mut TrackedFlow> {
        let (start, tag) = self.set_of(ends);
        let place = (start..start + WAYS).find(|place| {
            self.tags.get(*place) == Some(&tag)
                && self.slots.get(*place).is_some_and(|slot| slot.is_some_and(|flow| flow.ends == *ends))
        })?;
        self.slots.get_mut(place)?.as_mut().filter(|flow| !flow.has_expired(now))
    }

    /// Adds a flow, which may displace another one.
    pub fn insert(&mut self, now: Instant, flow: TrackedFlow) {
        let (start, tag) = self.set_of(&flow.ends);
        let Some(set) = self.slots.get(start..start + WAYS) else { return };
        let is_free =
            |slot: &Option<TrackedFlow>| slot.is_none_or(|other| other.ends == flow.ends || other.has_expired(now));
        // An expired entry with the same ends must go first: otherwise it would hide the new one.
        let same = set.iter().position(|slot| slot.is_some_and(|other| other.ends == flow.ends));
        let at = same.or_else(|| set.iter().position(is_free)).unwrap_or_else(|| displaced(set, flow.owner));
        if let (Some(slot), Some(own)) = (self.slots.get_mut(start + at), self.tags.get_mut(start + at)) {
            (*slot, *own) = (Some(flow), tag);
        }
    }

    /// Returns the number of flows that have not expired.
    pub fn count(&self, now: Instant) -> usize {
        self.slots.iter().flatten().filter(|flow| !flow.has_expired(now)).count()
    }
}

/// Returns the entry of a full set that a new flow of `owner` takes: the oldest of the owner with most entries.
///
/// The new flow is included in its owner's number, so a node with as many entries as another displaces its own.
fn displaced(set: &[Option<TrackedFlow>], owner: FlowOwner) -> usize {
    let owned = |by: FlowOwner| set.iter().flatten().filter(|flow| flow.owner == by).count() + usize::from(by == owner);
    let flows = set.iter().enumerate().filter_map(|(at, slot)| Some((at, slot.as_ref()?)));
    let heaviest = flows.max_by_key(|(_, flow)| (owned(flow.owner), core::cmp::Reverse(flow.used_at)));
    heaviest.map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn flow(now: Instant, owner: PeerId, number: u32) -> TrackedFlow {
        let [src, dst] = [owner.0 as u32, 99].map(|host| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + host)));
        let (src_port, dst_port) = ((number >> 16) as u16, number as u16);
        let key = FlowKey { src, dst, src_port, dst_port, protocol: protocol::UDP, flow_label: 0 };
        let (ends, is_low) = FlowPair::of(VpnId::DEFAULT, &key);
        TrackedFlow::new(now, ends, is_low, Some(owner), None)
    }

    #[test]
    fn a_flood_of_one_peer_displaces_few_flows_of_another() {
        let (quiet, flood) = (PeerId(1), PeerId(2));
        let mut flows = TrackedFlows::new(5);
        // The number of flows is an eighth of the entries. The flows rarely fill more than half of a set.
        let own = SETS as u32;
        (0..own).for_each(|number| flows.insert(Instant::ZERO, flow(Instant::ZERO, quiet, number)));
        let later = Instant::from_millis(1_000);
        (0..1_000_000).for_each(|number| flows.insert(later, flow(later, flood, number)));
        let kept = (0..own).filter(|n| flows.get(later, &flow(later, quiet, *n).ends).is_some()).count();
        assert!(kept * 100 >= own as usize * 99, "{kept} of {own}");
        let count = |owner| flows.slots.iter().flatten().filter(|flow| flow.owner == Some(owner)).count();
        assert!(count(flood) > SETS * WAYS * 3 / 4, "the flood has the rest");
    }
}
