//! Somebody on the way who does not know the domain's key, and makes of signals what can be made of them without it.

use super::Said;
use crate::{Body, Packet};
use weft_units::{Rate, Rng};
use weft_wire::er_sig::{Message, Rate16, Rates};

/// Of the signals that pass so many are lost, so many repeated, so many overtaken by the next, and before so many a forged one
/// comes.
const SHARE: f64 = 0.1;

/// See the module.
#[derive(Debug)]
pub struct Meddler {
    rng: Rng,
    held_back: Option<Box<Packet>>,
}

impl Meddler {
    /// Somebody who draws from this.
    pub fn new(rng: Rng) -> Meddler {
        Meddler { rng, held_back: None }
    }

    /// Sends on what becomes of a packet with a signal.
    pub(crate) fn meddle(&mut self, packet: Box<Packet>, mut send: impl FnMut(Box<Packet>)) {
        let overtaken = self.held_back.take();
        match (self.rng.unit() / SHARE) as u32 {
            0 => {}
            1 => {
                send(packet.clone());
                send(packet);
            }
            2 => self.held_back = Some(packet),
            3 => {
                send(self.forged(&packet));
                send(packet);
            }
            _ => send(packet),
        }
        overtaken.into_iter().for_each(send);
    }

    /// The flow releases all it has, or is granted the world, under a tag that is guessed.
    fn forged(&mut self, packet: &Packet) -> Box<Packet> {
        let mut forged = Box::new(packet.clone());
        if let Body::Signalled(signalled) = &mut forged.body
            && let Said::Explicit { signal, .. } = &mut signalled.said
        {
            let rates = Rates { available: Rate16::UNLIMITED, guaranteed: Rate16::floor(Rate::from_mbps(1_000)) };
            (signal.forward, signal.echoed) = (rates, rates);
            if self.rng.chance(0.5) && matches!(signal.message, Message::Request | Message::Update | Message::Confirm) {
                signal.message = Message::Release;
            }
            signal.tag ^= 1 + self.rng.below(u64::from(u16::MAX)) as u16;
        }
        forged
    }
}
