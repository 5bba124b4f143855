//! Changes to a running ingress: removes VPNs, replaces their profiles, and restarts loops.

use super::vpn::{self, Delays};
use super::{Ingress, Profile, VpnNo};
use crate::control_loop::ControlLoop;
use crate::queue::Arrival;
use crate::service::Share;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use weft_units::{Duration, Instant};

impl<T> Ingress<T> {
    /// Removes a VPN and passes its packets to `taken`.
    ///
    /// A packet that the AQM drops during the removal is passed with `None` as its `Arrival`. A later [`Ingress::add`]
    /// may reuse the VPN's number.
    pub fn remove(&mut self, now: Instant, vpn: VpnNo, taken: &mut impl FnMut(Option<Arrival>, T)) {
        let Some(slot) = self.vpns.get(vpn.0 as usize).map(|entry| entry.slot) else { return };
        self.empty_queue(now, slot, taken);
        self.put_to_sleep(slot);
        if let Some(entry) = self.vpns.get_mut(vpn.0 as usize) {
            entry.parked = None;
        }
        self.vacant.push(vpn.0);
    }

    /// Gives a VPN another share and profile. Returns true if its loop restarted.
    ///
    /// With a different profile the loop restarts, and the waiting packets move into the new queue. Packets that the
    /// new queue does not accept go to `dropped`.
    pub fn change(
        &mut self,
        now: Instant,
        vpn: VpnNo,
        share: Share,
        profile: Arc<Profile>,
        dropped: &mut impl FnMut(T),
    ) -> bool {
        let Some(entry) = self.vpns.get_mut(vpn.0 as usize) else { return false };
        let slot = entry.slot;
        let differs = entry.set_profile(profile);
        if differs {
            let mut waiting: Vec<(Arrival, T)> = Vec::new();
            self.empty_queue(now, slot, &mut |arrival, item| match arrival {
                Some(arrival) => waiting.push((arrival, item)),
                None => dropped(item),
            });
            self.put_to_sleep(slot);
            if let Some(entry) = self.vpns.get_mut(vpn.0 as usize) {
                (entry.parked, entry.share) = (None, share);
            }
            for (arrival, item) in waiting {
                self.enqueue(now, vpn, arrival, item, dropped);
            }
        } else {
            self.set_share(now, vpn, share);
        }
        differs
    }

    /// Restarts the loops of all VPNs, because the egress edge has restarted its part of them.
    pub fn restart_loops(&mut self) {
        for this in &mut self.awake {
            let Some(entry) = self.vpns.get(this.vpn.0 as usize) else { continue };
            let law = entry.profile().control.clone();
            this.control = law.map(|law| Box::new(ControlLoop::new(law, entry.share)));
        }
        self.vpns.iter_mut().for_each(|entry| entry.parked = None);
        for slot in 0..self.awake.len() as u32 {
            self.give_turn(slot);
        }
    }

    /// Sets CoDel's target and interval in all queues (RFC 8289 §4.3). They replace those of the profiles.
    pub fn set_delays(&mut self, target: Duration, interval: Duration) {
        let delays = Delays { target, interval };
        self.delays = Some(delays);
        for this in &mut self.awake {
            if let Some(entry) = self.vpns.get(this.vpn.0 as usize) {
                this.queue.configure(delays.within(entry.profile().sizes));
            }
        }
    }

    /// Removes every packet from a queue, even if its VPN's loop does not permit packets to leave.
    fn empty_queue(&mut self, now: Instant, slot: u32, taken: &mut impl FnMut(Option<Arrival>, T)) {
        let Some(this) = self.awake.get_mut(slot as usize) else { return };
        self.backlog.follow(&mut this.queue, |queue| {
            while let Some(unit) = queue.dequeue(now, &mut |item| taken(None, item)) {
                taken(Some(Arrival { flow: unit.flow, bytes: unit.bytes, ecn_capable: false }), unit.item);
            }
        });
    }

    /// Frees the queue and the other resources of a VPN that has a queue, even if it waits for its turn.
    fn put_to_sleep(&mut self, slot: u32) {
        if slot == vpn::NONE {
            return;
        }
        self.ring.retain(|other| *other != slot);
        self.asking.retain(|other| *other != slot);
        self.selected = self.selected.filter(|other| *other != slot);
        self.retire(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_loop::aimd_window::AimdConfig;
    use crate::control_loop::{LoopConfig, LoopEgress};
    use crate::ingress::IngressConfig;
    use crate::queue::{QueueConfig, QueueKind};
    use weft_units::{FlowId, Rng};

    const PACKET: u32 = 1_500;

    fn profile(limit_units: usize, window: Option<u8>) -> Arc<Profile> {
        let law = |initial_packets| AimdConfig { initial_packets, slow_start: false, ..AimdConfig::default() };
        let sizes = QueueConfig { limit_units, ..QueueConfig::default() };
        Arc::new(Profile {
            queue: QueueKind::DropTail,
            sizes,
            control: window.map(|window| LoopConfig::AimdWindow(law(window))),
        })
    }

    /// Returns an ingress with two VPNs, each with a window of two packets.
    ///
    /// Each VPN had ten packets, and two of them have left.
    fn two() -> (Ingress<u32>, [VpnNo; 2]) {
        let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
        let vpns = [(); 2].map(|()| ingress.add(Share::default(), profile(100, Some(2))));
        for (n, vpn) in (0..20).map(|n| (n, vpns[n as usize % 2])) {
            let arrival = Arrival { flow: FlowId(0), bytes: PACKET, ecn_capable: false };
            ingress.enqueue(Instant::ZERO, vpn, arrival, n, &mut |_| ());
        }
        assert_eq!(leave(&mut ingress), [0, 1, 2, 3]);
        (ingress, vpns)
    }

    fn leave(ingress: &mut Ingress<u32>) -> Vec<u32> {
        let mut gone = Vec::new();
        while ingress.head(Instant::ZERO, &mut |_| ()).is_some() {
            gone.extend(ingress.pop(Instant::ZERO).map(|gone| gone.unit.item));
        }
        gone.sort_unstable();
        gone
    }

    #[test]
    fn a_vpn_removed_leaves_nothing_behind_and_its_number_is_given_again() {
        let (mut ingress, [first, second]) = two();
        let mut dropped = Vec::new();
        ingress.remove(Instant::ZERO, first, &mut |_, item| dropped.push(item));
        assert_eq!(dropped, (4..20).step_by(2).collect::<Vec<_>>());
        assert_eq!((ingress.awake(), leave(&mut ingress)), (1, Vec::new()));
        let third = ingress.add(Share::default(), profile(100, None));
        assert_eq!(third, first);
        ingress.enqueue(
            Instant::ZERO,
            third,
            Arrival { flow: FlowId(0), bytes: 1, ecn_capable: false },
            77,
            &mut |_| (),
        );
        assert_eq!(leave(&mut ingress), [77]);
        assert_eq!(ingress.status(second).map(|status| status.queued_packets), Some(8));
        let due = ingress.deadline().unwrap_or_default();
        assert_eq!(ingress.next_marker(due).map(|(vpn, _)| vpn), Some(second), "the one that is gone asks for nothing");
    }

    #[test]
    fn another_queue_takes_over_what_waits_and_another_loop_begins_anew() {
        let (mut ingress, [first, _]) = two();
        let mut dropped = Vec::new();
        assert!(!ingress.change(Instant::ZERO, first, Share::default(), profile(100, Some(2)), &mut |_| ()));
        assert_eq!(leave(&mut ingress), Vec::<u32>::new(), "nothing has changed");
        assert!(ingress.change(Instant::ZERO, first, Share::default(), profile(5, Some(3)), &mut |n| dropped.push(n)));
        assert_eq!((dropped.len(), leave(&mut ingress)), (3, [4, 6, 8].to_vec()));
    }

    #[test]
    fn a_window_gets_its_parameters_in_use_asleep_and_before_it_begins() {
        let (mut ingress, [used, _]) = two();
        let unused = ingress.add(Share::default(), profile(100, Some(2)));
        let parameters = |ingress: &mut Ingress<u32>, vpn: VpnNo, at: Instant| {
            let arrival = Arrival { flow: FlowId(0), bytes: PACKET, ecn_capable: false };
            ingress.enqueue(at, vpn, arrival, 0, &mut |_| ());
            let law = ingress.loops_mut().find_map(|(of, _, law)| (of == vpn).then_some(law));
            law.and_then(|law| if let ControlLoop::AimdWindow(law) = law { Some(law.parameters()) } else { None })
        };
        ingress.set_window(used, 0.5, 0.25);
        assert_eq!(parameters(&mut ingress, used, Instant::ZERO), Some((0.5, 0.25)), "in use");
        let mut dropped = 0;
        let slot = ingress.vpns[used.0 as usize].slot;
        ingress.empty_queue(Instant::ZERO, slot, &mut |_, _| dropped += 1);
        ingress.put_to_sleep(slot);
        ingress.set_window(used, 0.75, 0.125);
        assert_eq!(parameters(&mut ingress, used, Instant::ZERO), Some((0.75, 0.125)), "woken by its next packet");
        ingress.restart_loops();
        assert_eq!(parameters(&mut ingress, used, Instant::ZERO), Some((0.75, 0.125)), "begun anew");
        ingress.set_window(unused, 0.25, 0.5);
        assert_eq!(parameters(&mut ingress, unused, Instant::ZERO), Some((0.25, 0.5)), "its first packet");
    }

    #[test]
    fn restarted_loops_release_waiting_packets_and_ignore_old_reports() {
        let (mut ingress, [first, second]) = two();
        ingress.restart_loops();
        assert_eq!(leave(&mut ingress), [4, 5, 6, 7]);
        let mut egress = LoopEgress::default();
        (0..9).for_each(|_| egress.on_packet(PACKET, false));
        let old = crate::control_loop::Marker { sequence: 9, packets: 9, bytes: 9 * PACKET, ..Default::default() };
        let report = egress.on_marker(Instant::ZERO, old).unwrap_or_default();
        for vpn in [first, second] {
            ingress.on_report(Instant::ZERO, vpn, &report);
        }
        assert_eq!(leave(&mut ingress), Vec::<u32>::new());
    }

    #[test]
    fn the_place_of_a_vpn_that_sleeps_is_given_to_one_other_whatever_began_anew_meanwhile() {
        let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
        let [a, b] = [0, 1].map(|_| ingress.add(Share::default(), profile(10, None)));
        let arrival = Arrival { flow: FlowId(0), bytes: PACKET, ecn_capable: false };
        let mut now = Instant::ZERO;
        ingress.enqueue(now, a, arrival, 0, &mut |_| ());
        assert!(ingress.head(now, &mut |_| ()).is_some() && ingress.pop(now).is_some());
        for _ in 0..3 {
            now += Duration::from_secs(20);
            assert!(ingress.head(now, &mut |_| ()).is_none());
            ingress.restart_loops();
        }
        ingress.enqueue(now, a, arrival, 1, &mut |_| ());
        ingress.enqueue(now, b, arrival, 2, &mut |_| ());
        let mut out = Vec::new();
        while ingress.head(now, &mut |_| ()).is_some() {
            out.extend(ingress.pop(now).map(|gone| gone.unit.item));
        }
        assert_eq!(out, [1, 2]);
    }
}
