//! Signalling on a host or a router without a node: what passes one of its interfaces.
//!
//! The interface is a link each way, and both grant. Of a connection that stands only copies are looked at: what is to be said then goes
//! in an ACK of its own, so that no data waits for this program, and none is lost where some network drops what has options.

use super::packet::write_ack;
use super::{Bundle, Carrier, Offer, Place, SignalConfig, SignalStatus, Signalling};
use crate::event::Event;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_units::{Duration, Instant, PeerId, Rate, Rng};
use weft_wire::er_sig::carriage::{self, ADDED_LEN};
use weft_wire::ip::{IpVersion, IpView, L4Checksum, has_options, protocol};
use weft_wire::quick_start::RESPONSE_LEN;

/// A flow is taken to need so long until one is measured.
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// What every path carries of IPv4 (RFC 791) and IPv6 (RFC 8200): what is lengthened stays within.
const PATH_MTU_V4: usize = 576;
const PATH_MTU_V6: usize = 1_280;
/// All that an interface leads to is one peer.
const PEER: PeerId = PeerId(0);

/// An interface as it is now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostLink {
    /// What it carries away,
    pub up: Rate,
    /// and what it brings.
    pub down: Rate,
    /// Bytes sent in all,
    pub sent_bytes: u64,
    /// received,
    pub received_bytes: u64,
    /// and waiting to be sent.
    pub queued_bytes: u64,
    /// Bytes of its longest packet.
    pub mtu: usize,
}

/// What becomes of a packet that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaving<'a> {
    /// Goes before it.
    pub before: Option<&'a [u8]>,
    /// Goes in its place; `None`: it goes as it is.
    pub instead: Option<&'a [u8]>,
}

/// See the module.
pub struct SignalHost {
    signalling: Signalling,
    up: Offer,
    down: Offer,
    link: HostLink,
    events: VecDeque<Event>,
    /// What goes instead of a packet, and what before it.
    packet: Vec<u8>,
    ack: Vec<u8>,
}

impl SignalHost {
    /// For one interface; `seed` is drawn by chance.
    pub fn new(now: Instant, config: SignalConfig, link: HostLink, seed: u64) -> SignalHost {
        let mut rng = Rng::new(seed);
        let (up, down) = bundles(&link, ROUND_TRIP);
        let offers = [up, down].map(|bundle| Offer::new(now, &config, &bundle, rng.next_u64()));
        let [up, down] = offers;
        let (mut signalling, mut events) = (Signalling::default(), VecDeque::new());
        let node = rng.next_u64() as u16;
        signalling.set(now, Some(config), (node, rng), &mut events);
        if let Some(room) = signalling.room_mut() {
            room.keeps_length = true;
        }
        SignalHost { signalling, up, down, link, events, packet: Vec::new(), ack: Vec::new() }
    }

    /// Whether the interface is to be looked at before the next packet.
    pub fn wants_look(&self, now: Instant) -> bool {
        self.up.is_due(now) || self.down.is_due(now)
    }

    /// The interface is so now.
    pub fn look(&mut self, now: Instant, link: HostLink) {
        self.link = link;
        let measured = self.signalling.room().and_then(|room| room.asking.round_trip());
        let (up, down) = bundles(&link, measured.unwrap_or(ROUND_TRIP));
        for (offer, bundle) in [(&mut self.up, up), (&mut self.down, down)] {
            if offer.is_due(now) {
                offer.look(now, &bundle);
                offer.expire(now);
            }
        }
    }

    /// This machine has these addresses now.
    pub fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        if let Some(room) = self.signalling.room_mut() {
            room.config.own_addresses = addresses;
        }
    }

    /// A whole packet leaves and waits for what becomes of it.
    pub fn leaves(&mut self, now: Instant, packet: &mut [u8]) -> Leaving<'_> {
        let SignalHost { signalling, up, down, link, events, packet: longer, ack } = self;
        let nothing = Leaving { before: None, instead: None };
        let (Some(room), Ok(view)) = (signalling.room_mut(), IpView::parse(packet)) else { return nothing };
        let (sent_bytes, limit) = (position(&view), limit(&view, link.mtu));
        let mut place = Place { now, peer: PEER, offer: up, inward: Some(down), events };
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
            && let Some(signal) = room.say(&mut place, &view, sent_bytes)
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

    /// A packet of TCP has left, which began with `head`: the ACK that is to follow it.
    pub fn left(&mut self, now: Instant, head: &mut [u8]) -> Option<&[u8]> {
        let SignalHost { signalling, up, down, events, ack, .. } = self;
        cut(head);
        let room = signalling.room_mut()?;
        let view = IpView::parse(head).ok().filter(|view| view.protocol == protocol::TCP)?;
        Carrier::of(&view, false)?;
        let mut place = Place { now, peer: PEER, offer: up, inward: Some(down), events };
        let signal = room.say(&mut place, &view, position(&view))?;
        alone(head, &signal, ack)
    }

    /// A whole packet arrives; true if it may have changed, though not in its length: the kernel has read its headers.
    pub fn arrives(&mut self, now: Instant, packet: &mut [u8]) -> bool {
        let SignalHost { signalling, up, down, events, .. } = self;
        let (Some(room), Ok(view)) = (signalling.room_mut(), IpView::parse(packet)) else { return false };
        let received_bytes = position(&view);
        let mut place = Place { now, peer: PEER, offer: up, inward: Some(down), events };
        room.pass_in(&mut place, packet, received_bytes);
        true
    }

    /// What has become of grants: [`Event::Granted`] and [`Event::Withdrawn`] alone.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Does what time demands.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.signalling.handle_timeout(now, &mut self.events);
    }

    /// When [`SignalHost::handle_timeout`] or [`SignalHost::look`] is due; `None`: there is no flow.
    pub fn next_timeout(&self) -> Option<Instant> {
        let sweep = self.signalling.next_timeout()?;
        Some(sweep.min(self.up.next_look()).min(self.down.next_look()))
    }

    /// How it stands.
    pub fn status(&self, now: Instant) -> SignalStatus {
        let offers = [(PEER, Some(&self.up))].into_iter();
        self.signalling.room().map_or_else(SignalStatus::default, |room| room.status(now, offers))
    }
}

/// The interface each way. Flows that ask get an equal share at least, whatever those do that do not.
fn bundles(link: &HostLink, round_trip: Duration) -> (Bundle, Bundle) {
    let HostLink { up, down, sent_bytes, received_bytes, queued_bytes, .. } = *link;
    let up = Bundle { carried: up, offered: up, sent_bytes, queued_bytes, round_trip, flows: 1 };
    (up, Bundle { carried: down, offered: down, sent_bytes: received_bytes, queued_bytes: 0, ..up })
}

/// How far a TCP stream has come. It begins anew every 4 GiB, and the flow then seems for once to have sent nothing.
fn position(packet: &IpView<'_>) -> u64 {
    packet.tcp().map_or(0, |tcp| u64::from(tcp.seq))
}

/// How long a packet may become. What TCP has to say can go before it; UDP has no such way.
fn limit(packet: &IpView<'_>, mtu: usize) -> usize {
    match (packet.protocol, packet.version) {
        (protocol::TCP, IpVersion::V4) => mtu.min(PATH_MTU_V4),
        (protocol::TCP, IpVersion::V6) => mtu.min(PATH_MTU_V6),
        _ => mtu,
    }
}

/// Has the beginning of a packet claim no more than there is of it.
fn cut(head: &mut [u8]) {
    let len = head.len() as u16;
    let (at, most) =
        if head.first().is_some_and(|first| first >> 4 == 4) { (2, len) } else { (4, len.saturating_sub(40)) };
    if let Some(field) = head.get_mut(at..at + 2) {
        field.copy_from_slice(&most.to_be_bytes());
    }
}

/// Has `write` write a packet with up to `added` bytes more; false: it stays as it is.
fn replace<E>(packet: &mut Vec<u8>, added: usize, write: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, E>) -> bool {
    let mut out = vec![0; packet.len() + added];
    let Ok(len) = write(packet, &mut out) else { return false };
    out.truncate(len);
    *packet = out;
    true
}

/// An ACK that carries the signal.
fn alone<'a>(packet: &[u8], signal: &weft_wire::er_sig::Signal, out: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    out.resize(packet.len() + ADDED_LEN, 0);
    let len = write_ack(packet, signal, out)?;
    out.get(..len)
}
