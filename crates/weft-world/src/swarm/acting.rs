//! The effect of each fault on the world when the fault begins and ends.

use super::fault::FaultKind;
use super::liar::Liar;
use super::role::NodeRole;
use super::site::SocketDatagram;
use super::violation::Violation;
use super::wire::{DatagramFate, corrupt};
use super::world::{STRANGER, SwarmWorld, Todo};
use weft_units::{Duration, Instant};

/// Minimum and maximum interval between two datagrams of the liar, a member that sends arbitrary datagrams, in µs.
const LIES_APART_US: (u64, u64) = (200, 8_000);

impl SwarmWorld<'_> {
    pub(super) fn begin(&mut self, number: usize) -> Result<(), Violation> {
        let fault = &self.plan.faults[number];
        self.log(0, || format!("{:?} begins", fault.kind));
        self.wire.begin(number, fault);
        match fault.kind {
            FaultKind::Crash { node } | FaultKind::LoseState { node, .. } => self.sites[node].stop(self.now),
            FaultKind::Pause { node } | FaultKind::Suspend { node } => self.sites[node].paused = true,
            FaultKind::Unplug { node, link } => self.sites[node].plug(&self.plan.nodes[node], link, self.now, false),
            FaultKind::ClockStep { node, by } => {
                self.sites[node].clock.step(by);
                self.sites[node].stepped_at = Some(self.now);
                self.sites[node].on_input(self.now);
            }
            FaultKind::Attack { node, count } => {
                let apart = (fault.until - fault.at) / count;
                for n in 0..count {
                    self.plan_for(fault.at + apart * n, Todo::Attack(node));
                }
            }
            FaultKind::DiskFull { node } => {
                self.sites[node].save();
                self.sites[node].is_disk_full = true;
            }
            FaultKind::Reload { node } => self.reload(node)?,
            FaultKind::Twin { node } => self.sites[node].start(self.plan, self.now),
            FaultKind::Lie { node } => self.plan_for(self.now, Todo::Lie(node, fault.until)),
            FaultKind::Revoke { by, node } => self.sites[by].revoke(&self.plan.revocation(node), self.now),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn end(&mut self, number: usize) -> Result<(), Violation> {
        self.wire.end(number);
        self.log(0, || format!("{:?} ends", self.plan.faults[number].kind));
        match self.plan.faults[number].kind {
            FaultKind::Crash { node } if self.sites[node].engine.is_none() => {
                // If the disk was full, the stored state may be older than the handshake initiations that the node
                // has answered since.
                let is_old = self.sites[node].is_disk_full;
                self.restart(node, is_old);
            }
            FaultKind::LoseState { node, back } if self.sites[node].engine.is_none() => {
                self.sites[node].lose_state(back);
                self.restart(node, true);
            }
            FaultKind::Pause { node } => {
                self.sites[node].paused = false;
                self.sites[node].wake = self.now;
            }
            FaultKind::Suspend { node } => {
                self.sites[node].paused = false;
                self.sites[node].wake = self.now;
                self.sites[node].wake_up(self.now);
                self.watch.on_wake_up(node);
                self.take_events(node)?;
            }
            FaultKind::Unplug { node, link } => self.sites[node].plug(&self.plan.nodes[node], link, self.now, true),
            FaultKind::DiskFull { node } => self.sites[node].is_disk_full = false,
            FaultKind::Reload { node } => self.reload(node)?,
            FaultKind::Twin { node } => self.sites[node].stop(self.now),
            _ => {}
        }
        Ok(())
    }

    fn restart(&mut self, node: usize, has_old_state: bool) {
        self.sites[node].start(self.plan, self.now);
        self.watch.on_restart(node, has_old_state);
        for &peer in &self.peers[node] {
            self.judge.forget_order(self.now, peer, node);
            self.watch.forget_paths(node, peer);
            self.watch.forget_paths(peer, node);
        }
    }

    fn reload(&mut self, node: usize) -> Result<(), Violation> {
        self.sites[node].reload(self.plan, self.now).map_err(|why| Violation::new("reload", self.now, why.to_string()))
    }

    /// Makes a stranger send a replayed, changed or random datagram to `node`.
    pub(super) fn attack(&mut self, node: usize) -> Result<(), Violation> {
        if self.sites[node].engine.is_none() || self.sites[node].paused {
            return Ok(());
        }
        let rng = &mut self.rng;
        let link = rng.below(self.plan.nodes[node].links.len() as u64) as usize;
        let kept = match rng.below(3) {
            0 => self.watch.old_initiation(rng, self.now, node),
            _ => self.watch.old_datagram(rng, node),
        };
        let kept = kept.map(|t| t.bytes.clone());
        let bytes = match kept {
            Some(mut bytes) => {
                if rng.chance(0.2) {
                    corrupt(rng, &mut bytes);
                }
                bytes
            }
            None => (0..1 + rng.below(1400)).map(|_| rng.next_u64() as u8).collect(),
        };
        self.take_in(node, SocketDatagram { link, source: STRANGER, tos: 0, bytes, tampered: true, sender: None })
    }

    /// Makes the liar `node` send a datagram to its only peer, and schedules the next datagram.
    ///
    /// A liar is a member that sends arbitrary datagrams. It sends none after `until`.
    pub(super) fn lie(&mut self, node: usize, until: Instant) {
        let NodeRole::Liar { hub } = self.plan.roles[node] else { return };
        if self.now >= until {
            return;
        }
        if self.liar.is_none() {
            self.liar = Liar::new(node, hub, self.rng.split(node as u64), self.now);
        }
        let (least, most) = LIES_APART_US;
        let apart = Duration::from_micros(least + self.rng.below(most - least));
        self.plan_for(self.now + apart, Todo::Lie(node, until));
        let Some(bytes) = self.liar.as_mut().and_then(|liar| liar.send(self.now)) else { return };
        let (from, to) = (self.rng.below(self.plan.nodes[node].links.len() as u64) as usize, self.wire.public(hub, 0));
        if let DatagramFate::Arrives(copies) = self.wire.send(self.now, (node, from), to, 0, &bytes) {
            for (at, to, datagram) in copies {
                self.plan_for(at, Todo::Arrive(to, datagram));
            }
        }
    }
}
