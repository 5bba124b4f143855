//! An impaired direction.
//!
//! It joins the channel model, which the simulator shares, with the emulator's packets and counters.

use super::spec::EmulatedDirection;
use super::stats::{DirectionStats, TimeHistogram};
use weft_scenario::channel::{
    About, Channel, ChannelEvent, DeliveredPacket, Impaired, LinkCapacity, LossCause, Plain, QueueSpec,
};
use weft_scenario::measure::{Lengths, PacketSizes};
use weft_units::{FlowId, Instant, Rate, Rng};

/// Rate at which an unlimited direction transmits, so that the channel model can impair it.
const UNLIMITED: Rate = Rate::from_mbps(100_000);
/// IP protocol number of UDP.
const UDP: u8 = 17;

/// The properties of a packet that the channel model needs. The model clones a packet to duplicate it on the link.
pub(super) trait Classified: Clone {
    /// True if the packet is UDP.
    fn is_udp(&self) -> bool;
    /// Returns a number that identifies the packet's flow.
    fn flow(&self) -> FlowId;
}

/// The statistics of a direction of a link, which its impaired pipe updates.
pub(super) struct DirectionCounts<'a, T> {
    pub stats: &'a mut DirectionStats,
    pub queue_delay: &'a mut TimeHistogram,
    pub queue_packets: &'a mut Lengths,
    pub packet_sizes: &'a mut PacketSizes,
    pub spent: &'a mut Vec<T>,
}

impl<T> DirectionCounts<'_, T> {
    fn note(&mut self, happened: ChannelEvent<T>) {
        match happened {
            ChannelEvent::Transmitted(sent) => {
                self.stats.transmitted_bytes += u64::from(sent.bytes);
                self.queue_delay.record(sent.waited);
                self.queue_packets.record(sent.in_queue);
                self.packet_sizes.record(sent.bytes);
            }
            ChannelEvent::Gone(packet, cause) => {
                match cause {
                    LossCause::Queue | LossCause::Policer => self.stats.dropped_packets += 1,
                    LossCause::Loss => self.stats.lost_packets += 1,
                    LossCause::Outage => self.stats.cut_packets += 1,
                }
                self.spent.push(packet);
            }
        }
    }
}

/// One impaired direction of a link.
pub(super) struct ImpairedPipe<T> {
    channel: Channel<T>,
}

impl<T: Classified> ImpairedPipe<T> {
    pub fn new(spec: &EmulatedDirection, impaired: &Impaired, rng: &Rng, now: Instant) -> ImpairedPipe<T> {
        ImpairedPipe { channel: Channel::new(plain(spec), impaired.clone(), rng, now) }
    }

    pub fn set(&mut self, now: Instant, spec: &EmulatedDirection, counts: &mut DirectionCounts<'_, T>) {
        self.channel.set(now, plain(spec), &mut |happened| counts.note(happened));
        if spec.cut {
            self.channel.clear(now, &mut |happened| counts.note(happened));
        }
    }

    pub fn restart(&mut self, now: Instant, counts: &mut DirectionCounts<'_, T>) {
        self.channel.restart(now, &mut |happened| counts.note(happened));
    }

    pub fn offer(&mut self, now: Instant, packet: T, bytes: u64, counts: &mut DirectionCounts<'_, T>) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let about = About { bytes, flow: packet.flow(), is_udp: packet.is_udp(), ecn_capable: false };
        self.channel.offer(now, packet, about, &mut |happened| counts.note(happened));
    }

    pub fn advance(&mut self, now: Instant, counts: &mut DirectionCounts<'_, T>) {
        self.channel.advance(now, &mut |happened| counts.note(happened));
    }

    pub fn arrive(&mut self, now: Instant) -> Option<DeliveredPacket<T>> {
        self.channel.arrive(now)
    }

    pub fn next_due(&self) -> Option<Instant> {
        Some(self.channel.earliest_arrival()).filter(|due| *due < Instant::FAR_FUTURE)
    }

    pub fn capacity_bytes(&self, from: Instant, to: Instant) -> u64 {
        self.channel.capacity_bytes(from, to)
    }
}

fn plain(spec: &EmulatedDirection) -> Plain {
    let drop_tail = QueueSpec::DropTail { limit_packets: usize::MAX, limit_bytes: spec.queue_bytes };
    Plain {
        capacity: spec.capacity.clone().unwrap_or(LinkCapacity::Rate(UNLIMITED)),
        delay: spec.delay,
        jitter: spec.jitter,
        loss: spec.loss,
        queue: spec.managed.unwrap_or(drop_tail),
    }
}

/// Returns true if an IP packet is UDP, and a hash of its addresses, protocol and ports.
pub(super) fn classify(packet: &[u8]) -> (bool, FlowId) {
    let (protocol, addresses, ports) = match packet.first().map(|byte| byte >> 4) {
        Some(4) => {
            let header = usize::from(packet[0] & 15) * 4;
            (packet.get(9), packet.get(12..20), packet.get(header..header + 4))
        }
        Some(6) => (packet.get(6), packet.get(8..40), packet.get(40..44)),
        _ => (None, None, None),
    };
    let bytes = [addresses, ports].into_iter().flatten().flatten().chain(protocol);
    // The hash is FNV-1a.
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (protocol == Some(&UDP), FlowId((hash ^ (hash >> 16)) as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_distinguished_by_addresses_protocol_and_ports() {
        let mut packet = [0; 28];
        packet[0] = 0x45;
        packet[9] = UDP;
        let (is_udp, flow) = classify(&packet);
        assert!(is_udp);
        packet[23] = 1;
        assert_ne!(classify(&packet).1, flow);
        packet[9] = 6;
        assert!(!classify(&packet).0);
        for length in 0..28 {
            classify(&packet[..length]);
        }
    }
}
