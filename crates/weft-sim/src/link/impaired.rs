//! Joins the channel model that the simulator shares with the lab to the simulator's packets and statistics.

use super::{LinkSpec, LinkStats};
use crate::{Body, Packet, PacketEcn};
use weft_scenario::channel::{About, Channel, ChannelEvent, Impaired, LossCause, Plain};
use weft_units::{Instant, Rng};
use weft_wire::ip::{IpView, protocol};

/// One direction of an impaired link, whose channel carries all of its packets.
pub(super) struct ImpairedLink {
    channel: Channel<Box<Packet>>,
}

impl ImpairedLink {
    pub(super) fn new(spec: &LinkSpec, impaired: &Impaired, rng: &Rng, now: Instant) -> ImpairedLink {
        ImpairedLink { channel: Channel::new(plain(spec), impaired.clone(), rng, now) }
    }

    pub(super) fn restart(&mut self, now: Instant, stats: &mut LinkStats) {
        self.channel.restart(now, &mut |happened| count(stats, happened));
    }

    pub(super) fn set(&mut self, now: Instant, spec: &LinkSpec, stats: &mut LinkStats) {
        self.channel.set(now, plain(spec), &mut |happened| count(stats, happened));
        if spec.cut {
            self.channel.clear(now, &mut |happened| count(stats, happened));
        }
    }

    pub(super) fn offer(&mut self, now: Instant, packet: Box<Packet>, stats: &mut LinkStats) {
        let about = About {
            bytes: packet.bytes,
            flow: packet.flow.queue_key(),
            is_udp: is_udp(&packet.body),
            ecn_capable: packet.ecn != PacketEcn::NotEct,
        };
        self.channel.offer(now, packet, about, &mut |happened| count(stats, happened));
    }

    pub(super) fn advance(&mut self, now: Instant, stats: &mut LinkStats) {
        self.channel.advance(now, &mut |happened| count(stats, happened));
    }

    /// Returns one packet that has arrived by `now`.
    ///
    /// It does not complete transmissions up to `now`: the receiving node has reached this time, but the sending node
    /// may still send at earlier times.
    pub(super) fn arrive(&mut self, now: Instant) -> Option<Box<Packet>> {
        let arrived = self.channel.arrive(now)?;
        let mut packet = arrived.packet;
        if arrived.marked {
            packet.ecn = PacketEcn::Ce;
        }
        Some(packet)
    }

    pub(super) fn next_arrival(&self) -> Instant {
        self.channel.next_arrival()
    }

    pub(super) fn next_departure(&self) -> Instant {
        self.channel.next_departure()
    }

    pub(super) fn backlog(&self) -> (usize, u64) {
        self.channel.backlog()
    }

    pub(super) fn capacity_bytes(&self, from: Instant, to: Instant) -> u64 {
        self.channel.capacity_bytes(from, to)
    }
}

fn plain(spec: &LinkSpec) -> Plain {
    let LinkSpec { ref capacity, delay, jitter, loss, queue, .. } = *spec;
    Plain { capacity: capacity.clone(), delay, jitter, loss, queue }
}

/// Returns true if the packet is a UDP datagram, to which a policer for UDP applies.
fn is_udp(body: &Body) -> bool {
    match body {
        Body::Udp { .. } | Body::Edge(_) => true,
        Body::Raw(bytes) => IpView::parse(bytes).is_ok_and(|ip| ip.protocol == protocol::UDP),
        Body::Tcp(_) | Body::Signalled(_) | Body::Probe(_) => false,
    }
}

fn count(stats: &mut LinkStats, happened: ChannelEvent<Box<Packet>>) {
    match happened {
        ChannelEvent::Transmitted(sent) => {
            stats.sent(sent.bytes, false);
            stats.marked_packets += u64::from(sent.marked);
            stats.queue_delay.record(sent.waited.as_nanos() as u64);
            if let Some(lengths) = &mut stats.queue_packets {
                lengths.record(sent.in_queue);
            }
        }
        ChannelEvent::Gone(_, LossCause::Queue | LossCause::Policer) => stats.dropped_packets += 1,
        ChannelEvent::Gone(_, LossCause::Loss) => stats.lost_packets += 1,
        ChannelEvent::Gone(_, LossCause::Outage) => stats.cut_packets += 1,
    }
}
