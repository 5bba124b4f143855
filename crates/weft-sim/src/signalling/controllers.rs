//! A router's controllers, and what it does to a packet on its way to a link.

use super::{Controller, Signalled};
use crate::link::Link;
use crate::topology::NextHop;
use crate::{Body, LinkId, Packet};
use weft_units::{Instant, Rate};
use weft_wire::er_sig::Message;

/// The controllers of a router's links; without any it takes no part, and only lowers TTLs.
#[derive(Debug, Default)]
pub struct Controllers {
    /// Its hash in structures, not 0.
    node: u16,
    by_link: Vec<(LinkId, Controller)>,
    /// Bundles are weighted by what their links grant.
    weighs: bool,
}

impl Controllers {
    /// The router of this hash; with `weighs` it spreads over several ways by what they grant.
    pub fn new(node: u16, weighs: bool) -> Controllers {
        Controllers { node, by_link: Vec::new(), weighs }
    }

    /// A link of it is controlled.
    pub fn add(&mut self, link: LinkId, controller: Controller) {
        self.by_link.push((link, controller));
    }

    /// The controllers, by link.
    pub fn by_link(&self) -> &[(LinkId, Controller)] {
        &self.by_link
    }

    /// What a bundle of ways can carry, each packet of which takes one by weight: min Rᵢ·Σw/wᵢ. A way that nobody controls has no limit.
    fn of_bundle(&mut self, ways: &[NextHop], packet: &Packet) -> Rate {
        let sum: f64 = ways.iter().map(|way| f64::from(way.weight)).sum();
        let mut least = f64::INFINITY;
        for way in ways {
            if let Some((_, controller)) = self.by_link.iter_mut().find(|(link, _)| *link == way.link) {
                let share = f64::from(way.weight.max(1)) / sum;
                least = least.min(controller.available(packet.flow).bps() as f64 / share);
            }
        }
        Rate::from_bps(least as u64)
    }

    /// Before a packet is spread over a bundle: its weights follow the rates, if they are to.
    pub(crate) fn weigh(&mut self, now: Instant, ways: &mut [NextHop], packet: &Packet, links: &mut [Link]) {
        if !self.weighs {
            return;
        }
        for way in ways {
            if let Some((link, controller)) = self.by_link.iter_mut().find(|(link, _)| *link == way.link) {
                let looks = controller.looks();
                controller.look(now, links, *link);
                if controller.looks() != looks {
                    way.weight = (controller.available(packet.flow).bps() / 1_000).clamp(1, 1 << 24) as u32;
                }
            }
        }
    }

    /// A packet goes to `link`, which it takes as one of `bundle`, if that has several.
    pub(crate) fn pass(
        &mut self,
        now: Instant,
        link: LinkId,
        bundle: &[NextHop],
        packet: &mut Packet,
        links: &mut [Link],
    ) {
        if let Some((_, controller)) = self.by_link.iter_mut().find(|(own, _)| *own == link) {
            controller.look(now, links, link);
            controller.count(packet.flow, packet.bytes);
        }
        if let Body::Signalled(signalled) = &mut packet.body {
            signalled.ttl = signalled.ttl.saturating_sub(1);
            if !matches!(signalled.signal.message, Message::Reject) {
                self.answer(now, link, bundle, packet);
            }
        }
    }

    fn answer(&mut self, now: Instant, link: LinkId, bundle: &[NextHop], packet: &mut Packet) {
        let of_bundle = (bundle.len() > 1).then(|| self.of_bundle(bundle, packet));
        let (node, flow) = (self.node, packet.flow);
        let Some((_, controller)) = self.by_link.iter_mut().find(|(own, _)| *own == link) else { return };
        let available = of_bundle.unwrap_or_else(|| controller.available(flow));
        if let Body::Signalled(signalled) = &mut packet.body {
            let Signalled { signal, .. } = &mut **signalled;
            if !controller.answer(now, flow, signal, available, node) {
                signal.message = Message::Reject;
            }
        }
    }
}
