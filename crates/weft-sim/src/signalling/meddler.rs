//! Models an attacker at a router, which manipulates rate signals without the key that authenticates them.

use super::RateSignal;
use crate::{Body, Packet};
use weft_units::{Rate, Rng};
use weft_wire::er_sig::{Message, Rate16, Rates};

/// Probability of each of the four attacks on a passing rate signal.
///
/// The attacks: drop it, duplicate it, delay it behind the next signal, and send a forged signal before it.
const SHARE: f64 = 0.1;

/// An attacker at a router that drops, duplicates, reorders and forges rate signals.
#[derive(Debug)]
pub struct Meddler {
    rng: Rng,
    held_back: Option<Box<Packet>>,
}

impl Meddler {
    /// Creates an attacker whose attacks depend only on `rng`.
    pub fn new(rng: Rng) -> Meddler {
        Meddler { rng, held_back: None }
    }

    /// Attacks a packet with a rate signal, or leaves it alone, and calls `send` with each packet that results.
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

    /// Returns a copy of the packet with a forged rate signal, whose authentication tag is guessed.
    ///
    /// It either releases all rates of the flow or grants an excessive rate.
    fn forged(&mut self, packet: &Packet) -> Box<Packet> {
        let mut forged = Box::new(packet.clone());
        if let Body::Signalled(signalled) = &mut forged.body
            && let RateSignal::Explicit { signal, .. } = &mut signalled.rate_signal
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
