//! Signalling for one interface of a host or a router without a node.
//!
//! The interface is a link in each direction, and both directions grant rates. Of an established connection, only
//! copies of packets are read. Signals then leave in separate ACKs. No data waits for this program, and no data is
//! lost where a network drops packets with options.

use super::packet::write_ack;
use super::{BundleState, Carrier, Offer, Place, SignalEnd};
use crate::api::Event;
use crate::api::{SignalConfig, SignalStatus};
use crate::flows::Flowing;
use crate::signal::Signalling;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_flows::admission::RouteNo;
use weft_units::{Duration, Instant, PeerId, Rate, Rng};
use weft_wire::er_sig::carriage::{self, ADDED_LEN};
use weft_wire::ip::{IpVersion, IpView, L4Checksum, has_options, protocol};
use weft_wire::quick_start::RESPONSE_LEN;

/// Assumed RTT of a flow until one is measured.
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Packet size that every IPv4 path carries (RFC 791), in bytes. Packets with an added signal stay within it.
const PATH_MTU_V4: usize = 576;
/// Packet size that every IPv6 path carries (RFC 8200), in bytes.
const PATH_MTU_V6: usize = 1_280;
/// Numbers by which admission distinguishes the sending and the receiving direction of the interface.
const DIRECTIONS: [RouteNo; 2] = [RouteNo(0), RouteNo(1)];
/// The single peer that stands for all destinations behind the interface.
const PEER: PeerId = PeerId(0);

/// Present state of the interface.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostLink {
    /// Capacity of the interface in the sending direction.
    pub up: Rate,
    /// Capacity of the interface in the receiving direction.
    pub down: Rate,
    /// Total bytes that the interface has sent.
    pub sent_bytes: u64,
    /// Total bytes that the interface has received.
    pub received_bytes: u64,
    /// Bytes in the interface's queue that wait to be sent.
    pub queued_bytes: u64,
    /// MTU of the interface, in bytes.
    pub mtu: usize,
}

/// Changes to a packet that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaving<'a> {
    /// Separate ACK to send before the leaving packet, because the packet has no space for the signal.
    pub before: Option<&'a [u8]>,
    /// Packet to send in place of the leaving packet. If `None`, that packet leaves unchanged.
    pub instead: Option<&'a [u8]>,
}

/// Signalling for one interface without a node.
pub struct SignalHost {
    signalling: Signalling,
    up: Offer,
    down: Offer,
    flows: Flowing,
    link: HostLink,
    events: VecDeque<Event>,
    /// Storage for the packet that replaces a leaving packet.
    packet: Vec<u8>,
    /// Storage for the separate ACK that carries a signal before a leaving packet.
    ack: Vec<u8>,
}

impl SignalHost {
    /// Returns the signalling state of one interface. `seed` must be random.
    pub fn new(now: Instant, config: SignalConfig, link: HostLink, seed: u64) -> SignalHost {
        let mut rng = Rng::new(seed);
        let bundles = bundles(&link, ROUND_TRIP);
        let offer = |at: usize, seed| Offer::new(now, &config, (DIRECTIONS[at], &bundles[at]), seed);
        let (up, down) = (offer(0, rng.next_u64()), offer(1, rng.next_u64()));
        let mut flows = Flowing::new(rng.next_u64());
        [&up, &down].iter().for_each(|offer| flows.set_reservable(offer.route(), offer.reservable()));
        let (mut signalling, mut events) = (Signalling::default(), VecDeque::new());
        let node = rng.next_u64() as u16;
        signalling.set(now, Some(config), (node, rng), &mut events);
        if let Some(room) = signalling.room_mut() {
            room.keeps_length = true;
        }
        SignalHost { signalling, up, down, flows, link, events, packet: Vec::new(), ack: Vec::new() }
    }

    /// True if [`SignalHost::look`] should be called before the next packet.
    pub fn wants_look(&self, now: Instant) -> bool {
        self.up.is_due(now) || self.down.is_due(now)
    }

    /// Updates the granted rates from the present state of the interface.
    pub fn look(&mut self, now: Instant, link: HostLink) {
        self.link = link;
        let measured = self.signalling.room().and_then(|room| room.asking.round_trip());
        let bundles = bundles(&link, measured.unwrap_or(ROUND_TRIP));
        for (offer, bundle) in [&mut self.up, &mut self.down].into_iter().zip(bundles) {
            if offer.is_due(now) {
                offer.look(now, &bundle);
                self.flows.set_reservable(offer.route(), offer.reservable());
            }
        }
    }

    /// Sets the addresses of this machine. The kernel does not lower the TTL of packets from and to them.
    pub fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        if let Some(room) = self.signalling.room_mut() {
            room.config.own_addresses = addresses;
        }
    }

    /// Handles a whole packet that waits to leave. Returns the changes with which it may leave.
    pub fn leaves(&mut self, now: Instant, packet: &mut [u8]) -> Leaving<'_> {
        let SignalHost { signalling, up, down, flows, link, events, packet: longer, ack } = self;
        let nothing = Leaving { before: None, instead: None };
        let (Some(room), Ok(view)) = (signalling.room_mut(), IpView::parse(packet)) else { return nothing };
        let (sent_bytes, limit) = (position(&view), limit(&view, link.mtu));
        let mut place = Place { now, peer: PEER, offer: up, inward: Some(down), flows, events };
        let mut is_changed = has_options(packet);
        if is_changed {
            room.pass_out(&mut place, packet, sent_bytes);
        }
        longer.clear();
        longer.extend_from_slice(packet);
        if longer.len() + RESPONSE_LEN <= limit
            && let Some(answer) = room.quick_answer(now, packet)
        {
            is_changed |= replace(longer, RESPONSE_LEN, |from, to| answer.insert(from, L4Checksum::Complete, to));
        }
        let mut before = None;
        if let Ok(view) = IpView::parse(longer)
            && let Some(carrier) = Carrier::of(&view, longer.len() + ADDED_LEN <= limit)
            && let Some(signal) = room.signal_for(&mut place, &view, sent_bytes)
        {
            match carrier {
                Carrier::Packet => {
                    is_changed |= replace(longer, ADDED_LEN, |from, to| carriage::insert(from, &signal, to));
                }
                Carrier::BareAck => before = alone(longer, &signal, ack),
            }
        }
        Leaving { before, instead: is_changed.then_some(longer) }
    }

    /// Handles a copy of the first bytes of a TCP packet that has left. Returns the ACK to send after it, if any.
    pub fn left(&mut self, now: Instant, head: &mut [u8]) -> Option<&[u8]> {
        let SignalHost { signalling, up, down, flows, events, ack, .. } = self;
        cut(head);
        let room = signalling.room_mut()?;
        let view = IpView::parse(head).ok().filter(|view| view.protocol == protocol::TCP)?;
        Carrier::of(&view, false)?;
        let mut place = Place { now, peer: PEER, offer: up, inward: Some(down), flows, events };
        let signal = room.signal_for(&mut place, &view, position(&view))?;
        alone(head, &signal, ack)
    }

    /// Handles a whole packet that arrives.
    ///
    /// Returns true if it may have changed. Its length stays, because the kernel has parsed its headers.
    pub fn arrives(&mut self, now: Instant, packet: &mut [u8]) -> bool {
        let SignalHost { signalling, up, down, flows, events, .. } = self;
        let (Some(room), Ok(view)) = (signalling.room_mut(), IpView::parse(packet)) else { return false };
        let received_bytes = position(&view);
        let mut place = Place { now, peer: PEER, offer: up, inward: Some(down), flows, events };
        room.pass_in(&mut place, packet, received_bytes, SignalEnd::Here);
        true
    }

    /// Returns the next change of a grant: [`Event::Granted`], [`Event::Withdrawn`], or `None` if there is none.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Runs all timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.signalling.handle_timeout(now, &mut self.events);
        self.flows.handle_timeout(now);
    }

    /// Returns the next time for [`SignalHost::handle_timeout`] or [`SignalHost::look`].
    ///
    /// Returns `None` without flows.
    pub fn next_timeout(&self) -> Option<Instant> {
        let sweep = self.signalling.next_timeout()?;
        Some(sweep.min(self.up.next_look()).min(self.down.next_look()))
    }

    /// Returns the state of signalling, for status output.
    pub fn status(&self, now: Instant) -> SignalStatus {
        let offers = [(PEER, Some(&self.up))].into_iter();
        self.signalling
            .room()
            .map_or_else(SignalStatus::default, |room| room.status(now, offers, &self.flows.admission))
    }
}

/// Returns the interface as two bundles: the sending and the receiving direction.
///
/// Each bundle counts as one flow. Each flow with a request is then granted at least an equal share of the capacity.
fn bundles(link: &HostLink, round_trip: Duration) -> [BundleState; 2] {
    let HostLink { up, down, sent_bytes, received_bytes, queued_bytes, .. } = *link;
    let up = BundleState { carried: up, offered: up, sent_bytes, queued_bytes, round_trip, flows: 1 };
    [up, BundleState { carried: down, offered: down, sent_bytes: received_bytes, queued_bytes: 0, ..up }]
}

/// Returns the position of a packet in its TCP stream, in bytes.
///
/// It wraps every 4 GiB, and the flow then seems once to have sent nothing.
fn position(packet: &IpView<'_>) -> u64 {
    packet.tcp().map_or(0, |tcp| u64::from(tcp.seq))
}

/// Returns the length to which a packet may grow, in bytes.
///
/// A TCP packet may grow only to a size that every path carries, because its signal can leave in a separate ACK
/// instead. The signal of a UDP packet cannot, so that packet may grow to the MTU.
fn limit(packet: &IpView<'_>, mtu: usize) -> usize {
    match (packet.protocol, packet.version) {
        (protocol::TCP, IpVersion::V4) => mtu.min(PATH_MTU_V4),
        (protocol::TCP, IpVersion::V6) => mtu.min(PATH_MTU_V6),
        _ => mtu,
    }
}

/// Reduces the length field in the IP header of a cut packet to the number of bytes that are present.
fn cut(head: &mut [u8]) {
    let len = head.len() as u16;
    let (at, most) =
        if head.first().is_some_and(|first| first >> 4 == 4) { (2, len) } else { (4, len.saturating_sub(40)) };
    if let Some(field) = head.get_mut(at..at + 2) {
        field.copy_from_slice(&most.to_be_bytes());
    }
}

/// Replaces a packet by the output of `write`, with up to `added` more bytes.
///
/// Returns false if `write` fails and the packet stays.
fn replace<E>(packet: &mut Vec<u8>, added: usize, write: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, E>) -> bool {
    let mut out = vec![0; packet.len() + added];
    let Ok(len) = write(packet, &mut out) else { return false };
    out.truncate(len);
    *packet = out;
    true
}

/// Returns a separate ACK of the packet's connection that carries the signal. The ACK is written to `out`.
fn alone<'a>(packet: &[u8], signal: &weft_wire::er_sig::Signal, out: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    out.resize(packet.len() + ADDED_LEN, 0);
    let len = write_ack(packet, signal, out)?;
    out.get(..len)
}
