//! Reservations of a link's capacity for flows, as soft state (paper 001, Figure 2).
//!
//! A request makes a tentative booking. A confirmation makes it firm. A release, or silence, ends it. The table never
//! guarantees more than the reservable rate, except after that rate is lowered.

use crate::flow::hash::SeededState;
use core::hash::Hash;
use hashbrown::HashMap;
use weft_units::{Duration, Instant, Rate};
use weft_wire::er_sig::{Direction, Message, Rate16, Rates, Signal, SignalService};

/// Lifetime of a booking that is not confirmed.
const TENTATIVE: Duration = Duration::from_secs(3);
/// Lifetime of a confirmed booking without further signals.
const IDLE: Duration = Duration::from_secs(30);
/// Number of pre-emption levels.
const LEVELS: usize = 16;

/// Decision of a node about a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BookingVerdict {
    /// Forward the signal in its present form.
    Forward,
    /// The required rate is not available.
    ///
    /// The signal returns as [`Message::Reject`], and nothing is booked.
    Reject,
}

#[derive(Clone, Copy, Debug)]
struct Booking {
    guaranteed_bps: u64,
    preemption: u8,
    nonce: u32,
    expires_at: Instant,
}

/// Bookings of one link in one direction, by flow.
#[derive(Debug)]
pub struct Bookings<K> {
    /// Total rate that may be guaranteed, in bit/s.
    reservable_bps: u64,
    /// Maximum number of flows with a booking.
    most: usize,
    flows: HashMap<K, Booking, SeededState>,
    /// Rate guaranteed in total, by pre-emption level, in bit/s.
    booked_bps: [u64; LEVELS],
}

impl<K: Hash + Eq> Bookings<K> {
    /// Returns the bookings of a link that may guarantee `reservable` to at most `most` flows.
    ///
    /// `seed` keys the hash table, so that an attacker cannot choose where flows are stored.
    pub fn new(reservable: Rate, most: usize, seed: u64) -> Bookings<K> {
        let flows = HashMap::with_hasher(SeededState::new(seed));
        Bookings { reservable_bps: reservable.bps(), most, flows, booked_bps: [0; LEVELS] }
    }

    /// Changes the total rate that may be guaranteed.
    ///
    /// Existing bookings stay until their flow asks again.
    pub fn set_reservable(&mut self, reservable: Rate) {
        self.reservable_bps = reservable.bps();
    }

    /// Rate that is guaranteed to a flow.
    pub fn of(&self, flow: &K) -> Rate {
        Rate::from_bps(self.flows.get(flow).map_or(0, |booking| booking.guaranteed_bps))
    }

    /// Returns the rate that a request for `asked` would be guaranteed.
    pub fn would_guarantee(&self, flow: &K, preemption: u8, asked: Rate16) -> Rate {
        let admissible = self.admissible_bps(preemption, self.flows.get(flow));
        Rate16::floor(Rate::from_bps(admissible)).min(asked).rate().unwrap_or_default()
    }

    /// Number of flows with a booking.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// True if there is no booking.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Total rate that the link guarantees to all flows.
    pub fn booked(&self) -> Rate {
        Rate::from_bps(self.booked_bps.iter().sum())
    }

    /// Processes a flow's signal that passes toward the link and asks for it in `direction`.
    ///
    /// `available` is the rate that the link grants each flow beyond its guarantee. `node` is this node's hash. The
    /// caller has already checked that the signal belongs to the flow.
    pub fn on_signal(
        &mut self,
        now: Instant,
        flow: K,
        signal: &mut Signal,
        direction: Direction,
        available: Rate,
        node: u16,
    ) -> BookingVerdict {
        match (signal.message, direction) {
            // A response asks the links in the reverse direction.
            (Message::Request | Message::Update, Direction::Forward) | (Message::Response, Direction::Reverse) => {
                return self.on_request(now, flow, signal, direction, available, node);
            }
            (Message::Confirm, _) => self.on_confirm(now, &flow, signal, direction),
            (Message::Release | Message::Reject, _) if self.is_of(&flow, signal) => self.free(&flow),
            _ => {}
        }
        BookingVerdict::Forward
    }

    /// Deletes expired bookings. Call it about once a second; each call examines all of them.
    pub fn expire(&mut self, now: Instant) {
        let booked = &mut self.booked_bps;
        self.flows.retain(|_, booking| {
            let stays = now < booking.expires_at;
            if !stays {
                level(booked, booking.preemption, |sum| sum - booking.guaranteed_bps);
            }
            stays
        });
    }

    fn on_request(
        &mut self,
        now: Instant,
        flow: K,
        signal: &mut Signal,
        direction: Direction,
        available: Rate,
        node: u16,
    ) -> BookingVerdict {
        let asked = match direction {
            Direction::Forward => signal.forward,
            Direction::Reverse => signal.reverse,
        };
        let is_reserved = matches!(signal.service, SignalService::Guaranteed | SignalService::Variable);
        let before = self.flows.get(&flow).copied();
        let guaranteed = match is_reserved {
            true => Rate16::floor(Rate::from_bps(self.admissible_bps(signal.preemption, before.as_ref()))),
            false => Rate16::UNLIMITED,
        };
        if signal.must_be_met && asked.guaranteed > guaranteed {
            return BookingVerdict::Reject;
        }
        signal.pass(direction, Rates { available: Rate16::floor(available), guaranteed }, node);
        let granted = asked.guaranteed.min(guaranteed);
        let granted_bps = if is_reserved { granted.rate().map_or(0, Rate::bps) } else { 0 };
        self.free(&flow);
        if granted_bps > 0 {
            let is_known = before.is_some_and(|booking| booking.nonce == signal.nonce);
            let lasts = if signal.message == Message::Update && is_known { IDLE } else { TENTATIVE };
            let booking = Booking {
                guaranteed_bps: granted_bps,
                preemption: signal.preemption,
                nonce: signal.nonce,
                expires_at: now + lasts,
            };
            level(&mut self.booked_bps, booking.preemption, |sum| sum + granted_bps);
            self.flows.insert(flow, booking);
        }
        BookingVerdict::Forward
    }

    /// Reduces a booking to the rate that the sender accepts, which other nodes may have lowered.
    fn on_confirm(&mut self, now: Instant, flow: &K, signal: &Signal, direction: Direction) {
        let Some(booking) = self.flows.get_mut(flow).filter(|booking| booking.nonce == signal.nonce) else { return };
        let accepted = match direction {
            Direction::Forward => signal.echoed.guaranteed,
            Direction::Reverse => signal.reverse.guaranteed,
        };
        let accepted_bps = accepted.rate().map_or(booking.guaranteed_bps, Rate::bps).min(booking.guaranteed_bps);
        let released_bps = booking.guaranteed_bps - accepted_bps;
        level(&mut self.booked_bps, booking.preemption, |sum| sum - released_bps);
        (booking.guaranteed_bps, booking.expires_at) = (accepted_bps, now + IDLE);
        if accepted_bps == 0 {
            self.flows.remove(flow);
        }
    }

    /// Returns the rate that may be guaranteed to a flow of this pre-emption level.
    ///
    /// It is the part not guaranteed to flows of the same or a higher level. Flows of a lower level are reduced when
    /// they ask next.
    fn admissible_bps(&self, preemption: u8, own: Option<&Booking>) -> u64 {
        if own.is_none() && self.flows.len() >= self.most {
            return 0;
        }
        let from = usize::from(preemption).min(LEVELS - 1);
        let taken: u64 = self.booked_bps.iter().skip(from).sum();
        let own = own.filter(|own| usize::from(own.preemption) >= from).map_or(0, |own| own.guaranteed_bps);
        self.reservable_bps.saturating_sub(taken - own)
    }

    /// True if the flow's booking belongs to this signal.
    fn is_of(&self, flow: &K, signal: &Signal) -> bool {
        self.flows.get(flow).is_some_and(|booking| booking.nonce == signal.nonce)
    }

    fn free(&mut self, flow: &K) {
        if let Some(booking) = self.flows.remove(flow) {
            level(&mut self.booked_bps, booking.preemption, |sum| sum - booking.guaranteed_bps);
        }
    }
}

fn level(booked: &mut [u64; LEVELS], preemption: u8, change: impl FnOnce(u64) -> u64) {
    if let Some(sum) = booked.get_mut(usize::from(preemption).min(LEVELS - 1)) {
        *sum = change(*sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::er_sig::{BurstTolerance, DelayVariance};

    const MANY: Rate = Rate::from_mbps(1_000);

    fn mbps(rate: f64) -> Rate16 {
        Rate16::floor(Rate::from_bps((rate * 1e6) as u64))
    }

    fn request(guaranteed: f64, preemption: u8, nonce: u32) -> Signal {
        Signal {
            message: Message::Request,
            service: SignalService::Guaranteed,
            receiver_pays: false,
            is_lowered: false,
            preemption,
            delay_priority: 0,
            burst: BurstTolerance::default(),
            delay_variance: DelayVariance::default(),
            forward: Rates { available: Rate16::UNLIMITED, guaranteed: mbps(guaranteed) },
            reverse: Rates::default(),
            echoed: Rates::default(),
            nonce,
            hops: 0,
            qttl: 9,
            lowered_by: 0,
            must_be_met: false,
            is_overlay: false,
            tag: 0,
        }
    }

    fn link(reservable_mbps: u64) -> Bookings<u32> {
        Bookings::new(Rate::from_mbps(reservable_mbps), 4, 1)
    }

    fn pass(link: &mut Bookings<u32>, at: u64, flow: u32, signal: &mut Signal) -> BookingVerdict {
        link.on_signal(Instant::from_millis(at), flow, signal, Direction::Forward, MANY, 7)
    }

    /// Paper 001, Figure 2: three routers grant 64, 32 and 40 Mbit/s.
    ///
    /// The sender confirms 32, and the first and the last router release the rest.
    #[test]
    fn over_commitments_are_released_by_the_confirmation() {
        let mut links = [64, 32, 40].map(link);
        let mut signal = request(100.0, 0, 5);
        for link in &mut links {
            assert_eq!(pass(link, 0, 1, &mut signal), BookingVerdict::Forward);
        }
        assert_eq!(signal.forward.guaranteed.rate(), Some(Rate::from_mbps(32)));
        assert_eq!((signal.hops, signal.is_lowered), (3, true));
        let booked = |links: &[Bookings<u32>; 3]| links.each_ref().map(|link| link.booked().bps() / 1_000_000);
        assert_eq!(booked(&links), [64, 32, 32]);
        let echoed = Rates { guaranteed: signal.forward.guaranteed, ..Rates::default() };
        let mut confirm = Signal { message: Message::Confirm, echoed, ..signal };
        links.iter_mut().for_each(|link| assert_eq!(pass(link, 100, 1, &mut confirm), BookingVerdict::Forward));
        assert_eq!(booked(&links), [32, 32, 32]);
        links.iter_mut().for_each(|link| link.expire(Instant::from_millis(29_000)));
        assert_eq!(booked(&links), [32, 32, 32]);
        let mut forged = Signal { message: Message::Release, nonce: 6, ..signal };
        pass(&mut links[0], 200, 1, &mut forged);
        assert_eq!(booked(&links), [32, 32, 32], "of another request");
        let mut release = Signal { message: Message::Release, ..signal };
        pass(&mut links[0], 200, 1, &mut release);
        links.iter_mut().for_each(|link| link.expire(Instant::from_millis(31_000)));
        assert!(links.iter().all(Bookings::is_empty), "released, or not heard of");
    }

    #[test]
    fn what_is_not_confirmed_is_forgotten_and_repeats_are_booked_once() {
        let mut link = link(50);
        for at in [0, 10, 20] {
            pass(&mut link, at, 1, &mut request(30.0, 0, 5));
            assert_eq!((link.len(), link.booked()), (1, mbps(30.0).rate().unwrap_or_default()));
        }
        link.expire(Instant::from_millis(3_019));
        assert_eq!(link.len(), 1);
        link.expire(Instant::from_millis(3_020));
        assert_eq!((link.len(), link.booked()), (0, Rate::ZERO));
    }

    #[test]
    fn who_may_preempt_does_and_the_other_is_lowered_when_it_asks_again() {
        let mut link = link(50);
        let mut low = request(40.0, 1, 5);
        pass(&mut link, 0, 1, &mut low);
        let mut high = request(30.0, 2, 6);
        pass(&mut link, 0, 2, &mut high);
        assert_eq!(high.forward.guaranteed, mbps(30.0));
        let mut again = Signal { message: Message::Update, ..request(40.0, 1, 5) };
        pass(&mut link, 1, 1, &mut again);
        let left = again.forward.guaranteed.rate().unwrap_or_default().bps();
        assert!((19_900_000..=20_100_000).contains(&left), "{left}");
        assert!(link.booked() <= Rate::from_mbps(50));
    }

    #[test]
    fn what_must_be_met_and_cannot_be_is_rejected_and_nothing_booked() {
        let mut link = link(50);
        let mut signal = Signal { must_be_met: true, ..request(60.0, 0, 5) };
        let before = signal;
        assert_eq!(pass(&mut link, 0, 1, &mut signal), BookingVerdict::Reject);
        assert!(link.is_empty() && signal == before);
    }

    #[test]
    fn the_table_is_bounded_and_a_maximum_needs_no_place_in_it() {
        let mut link = link(50);
        for flow in 0..6 {
            let mut signal = request(1.0, 0, flow);
            pass(&mut link, 0, flow, &mut signal);
            let granted = if flow < 4 { mbps(1.0) } else { Rate16::ZERO };
            assert_eq!(signal.forward.guaranteed, granted, "{flow}");
        }
        let mut signal = Signal { service: SignalService::Maximum, ..request(500.0, 0, 9) };
        pass(&mut link, 0, 9, &mut signal);
        assert_eq!((signal.forward.guaranteed, link.len()), (mbps(500.0), 4));
        assert_eq!(signal.forward.available, Rate16::floor(MANY));
    }
}
