//! Defines the nodes of the sensed path: its two ends and the routers.

use std::collections::VecDeque;
use weft_core::sense::active::Crossing;
use weft_sim::{Body, FlowNo, LinkId, NodeId, Packet, PacketEcn, Ports, SimNode, Station};
use weft_units::Instant;

/// A node that sends the packets of trains when they are due.
#[derive(Default)]
pub struct Prober {
    pub sink: NodeId,
    /// Packets to send, in order of time.
    pub due: VecDeque<(Instant, Probe)>,
    /// IP bytes that were sent.
    pub sent_bytes: u64,
}

/// One packet of a train.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Number of the packet among the packets of all trains.
    pub number: u64,
    pub bytes: u32,
}

/// The arrival of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub number: u64,
    pub crossing: Crossing,
}

/// A node of the network.
pub enum Place {
    Prober(Prober),
    Sink(Vec<Arrival>),
    Station(Box<Station>),
}

impl SimNode for Place {
    fn pass_on(&mut self, packet: Box<Packet>, ports: &mut Ports<'_>) -> Option<Box<Packet>> {
        match self {
            Place::Station(station) => station.pass_on(packet, ports),
            Place::Prober(_) | Place::Sink(_) => Some(packet),
        }
    }

    fn receive(&mut self, now: Instant, from: LinkId, packet: Box<Packet>, ports: &mut Ports<'_>) {
        match self {
            Place::Station(station) => station.receive(now, from, packet, ports),
            Place::Sink(arrivals) => {
                if let Body::Udp { number, sent_at } = packet.body {
                    // The two clocks have whole microseconds, as in the frames of the protocol.
                    let sent_us = sent_at.as_micros() as i64;
                    let delay_us = now.as_micros() as i64 - sent_us;
                    arrivals.push(Arrival { number, crossing: Crossing { sent_us, delay_us, bytes: packet.bytes } });
                }
            }
            Place::Prober(_) => {}
        }
    }

    fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
        match self {
            Place::Station(station) => station.wake(now, ports),
            Place::Sink(_) => {}
            Place::Prober(prober) => {
                while let Some((_, probe)) = prober.due.pop_front_if(|(at, _)| *at <= now) {
                    let body = Body::Udp { number: probe.number, sent_at: now };
                    prober.sent_bytes += u64::from(probe.bytes);
                    let (source, destination) = (super::world::PROBER, prober.sink);
                    let packet = Packet {
                        flow: FlowNo(0),
                        source,
                        destination,
                        bytes: probe.bytes,
                        label: 0,
                        ecn: PacketEcn::NotEct,
                        body,
                    };
                    ports.send(super::world::FIRST_LINK, Box::new(packet));
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Place::Station(station) => station.deadline(),
            Place::Sink(_) => None,
            Place::Prober(prober) => prober.due.front().map(|(at, _)| *at),
        }
    }
}
