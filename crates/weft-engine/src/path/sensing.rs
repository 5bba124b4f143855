//! Trains that measure a path while it carries no data, and the reports about them.
//!
//! [`Sensing`] sends this node's trains and collects their results from the peer's reports. [`HeardTrains`] records the
//! peer's trains as they arrive. Data on the path ends a train at once.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use weft_core::sense::active::{Crossing, INTERVAL, PathEstimate, Sensor, Train};
use weft_units::{Duration, Instant, Rng};
use weft_wire::train::Chirp;

/// Time without data on a path after which the path counts as idle and may be measured.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// Accuracy of a chirp's departure and arrival times.
///
/// The kernel stamps arrivals. A departure time is only as accurate as the scheduling of the sending process.
const RESOLUTION: Duration = Duration::from_micros(20);
/// Maximum number of sent trains about which the peer's report is outstanding. Beyond it, the oldest is dropped.
const MAX_ASKED: usize = 4;

/// Departure time of one chirp, and its IP bytes.
#[derive(Clone, Copy)]
struct Left {
    at: Instant,
    bytes: u32,
}

/// A train that is being sent, or whose report is outstanding.
struct Running {
    number: u16,
    train: Train,
    /// Departure times and indices of the chirps that have not left yet, in order of time.
    due: VecDeque<(Instant, u8)>,
    left: Vec<Option<Left>>,
}

/// Measures one path by trains that this node sends.
#[derive(Default)]
pub struct Sensing {
    /// The estimator of the path. It is created when the path first becomes idle.
    sensor: Option<Box<Sensor>>,
    data_at: Option<Instant>,
    /// Time at which to check whether the path is idle; `None` while the path need not be measured.
    look_at: Option<Instant>,
    running: Option<Running>,
    asked: VecDeque<Running>,
    next: u16,
    /// First delay measured. All delays are stored relative to it, because the nodes' 32-bit clocks wrap around.
    origin_us: Option<u32>,
    known: Option<(Instant, PathEstimate)>,
}

impl Sensing {
    /// Records data that leaves on the path. It ends the running train, whose result would be wrong.
    pub fn on_data(&mut self, now: Instant) {
        self.data_at = Some(now);
        self.running = None;
    }

    /// Starts the next train if `may` is true and the path is idle.
    ///
    /// `limit` is the length of the longest IP packet, in bytes. `rng` seeds a new sensor.
    pub fn on_time(&mut self, now: Instant, may: bool, limit: u16, rng: impl FnOnce() -> Rng) {
        if !may {
            (self.look_at, self.running) = (None, None);
            return;
        }
        if self.look_at.is_some_and(|at| at > now) {
            return;
        }
        let idle_at = self.data_at.map_or(now, |at| at + IDLE_AFTER);
        if idle_at > now {
            self.look_at = Some(idle_at);
            return;
        }
        if let Some(ended) = self.running.take() {
            self.asked.push_back(ended);
            self.asked.drain(..self.asked.len().saturating_sub(MAX_ASKED));
        }
        let train =
            self.sensor.get_or_insert_with(|| Box::new(Sensor::new(RESOLUTION, rng()))).next_train(limit.into());
        self.running = Some(Running::new(self.next, now, train));
        self.next = self.next.wrapping_add(1);
        self.look_at = Some(now + INTERVAL);
    }

    /// Returns the time of the next departure of a chirp or check for idleness, whichever is sooner.
    pub fn deadline(&self) -> Option<Instant> {
        let departure = self.running.as_ref().and_then(|running| running.due.front()).map(|(at, _)| *at);
        [departure, self.look_at].into_iter().flatten().min()
    }

    /// Returns the chirp to send now and its least size in IP bytes, or `None` if none is due.
    pub fn depart(&mut self, now: Instant) -> Option<(Chirp, u32)> {
        let running = self.running.as_mut()?;
        let (_, index) = running.due.pop_front_if(|(at, _)| *at <= now)?;
        let of = u8::try_from(running.left.len()).ok()?;
        let bytes = running.train.departures().get(usize::from(index))?.bytes;
        Some((Chirp { train: running.number, index, of, sent_us: now.as_micros() as u32 }, bytes))
    }

    /// Records that a chirp left with this number of IP bytes.
    pub fn on_left(&mut self, now: Instant, index: u8, bytes: u32) {
        if let Some(left) = self.running.as_mut().and_then(|running| running.left.get_mut(usize::from(index))) {
            *left = Some(Left { at: now, bytes });
        }
    }

    /// Handles the peer's report about the train `number`: the one-way delay of each chirp, `None` for a lost one.
    pub fn on_report(&mut self, now: Instant, number: u16, delays_us: impl Iterator<Item = Option<u32>>) {
        if self.running.as_ref().is_some_and(|running| running.number == number && running.due.is_empty()) {
            self.asked.extend(self.running.take());
        }
        let Some(at) = self.asked.iter().position(|asked| asked.number == number) else { return };
        let (Some(asked), Some(sensor)) = (self.asked.remove(at), &mut self.sensor) else { return };
        let origin = &mut self.origin_us;
        let crossing = |(left, delay): (&Option<Left>, Option<u32>)| {
            let (left, delay) = (*left, delay?);
            let left = left?;
            let origin = *origin.get_or_insert(delay);
            let delay_us = i64::from(delay.wrapping_sub(origin) as i32);
            Some(Crossing { sent_us: left.at.as_micros() as i64, delay_us, bytes: left.bytes })
        };
        let crossings: Vec<Option<Crossing>> = asked.left.iter().zip(delays_us).map(crossing).collect();
        if crossings.len() == asked.left.len() && asked.left.iter().all(Option::is_some) {
            sensor.on_train(now, &asked.train, &crossings);
            self.known = Some((now, sensor.estimate()));
        }
    }

    /// Returns the time of the latest measurement of the path and its estimate; `None` before the first.
    pub fn known(&self) -> Option<&(Instant, PathEstimate)> {
        self.known.as_ref()
    }
}

impl Running {
    fn new(number: u16, now: Instant, train: Train) -> Running {
        let mut due: Vec<(Instant, u8)> = (0u8..).zip(train.departures()).map(|(i, d)| (now + d.after, i)).collect();
        due.sort_unstable();
        Running { number, left: vec![None; due.len()], due: due.into(), train }
    }
}

/// The peer's trains on one path, as they arrive.
#[derive(Debug, Default)]
pub struct HeardTrains {
    train: u16,
    delays_us: Vec<Option<u32>>,
    finished: Option<(u16, Vec<Option<u32>>)>,
}

impl HeardTrains {
    /// Records a chirp that arrived at `at`.
    ///
    /// Returns true if a train is to be reported now: it is complete, or the next train has begun.
    pub fn on_chirp(&mut self, at: Instant, chirp: &Chirp) -> bool {
        let is_other = chirp.train != self.train || self.delays_us.len() != usize::from(chirp.of);
        let is_older = (chirp.train.wrapping_sub(self.train) as i16) < 0;
        if is_other && is_older && !self.delays_us.is_empty() {
            return false;
        }
        if is_other {
            self.finish();
            (self.train, self.delays_us) = (chirp.train, vec![None; usize::from(chirp.of)]);
        }
        if let Some(delay) = self.delays_us.get_mut(usize::from(chirp.index)) {
            *delay = Some((at.as_micros() as u32).wrapping_sub(chirp.sent_us));
        }
        if self.delays_us.iter().all(Option::is_some) {
            self.finish();
        }
        self.finished.is_some()
    }

    fn finish(&mut self) {
        if self.delays_us.iter().any(Option::is_some) {
            self.finished = Some((self.train, core::mem::take(&mut self.delays_us)));
        }
    }

    /// Removes and returns the train to report: its number and the delay of each chirp that arrived.
    pub fn take_finished(&mut self) -> Option<(u16, Vec<Option<u32>>)> {
        self.finished.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chirp(train: u16, index: u8) -> Chirp {
        Chirp { train, index, of: 3, sent_us: 100 }
    }

    #[test]
    fn a_train_is_reported_when_all_came_or_the_next_begins() {
        let mut heard = HeardTrains::default();
        let at = Instant::from_micros(350);
        assert!(!heard.on_chirp(at, &chirp(7, 0)) && !heard.on_chirp(at, &chirp(7, 2)));
        assert!(heard.on_chirp(at, &chirp(7, 1)));
        assert_eq!(heard.take_finished(), Some((7, vec![Some(250); 3])));
        assert!(!heard.on_chirp(at, &chirp(8, 1)));
        assert!(heard.on_chirp(at, &chirp(9, 0)));
        assert_eq!(heard.take_finished(), Some((8, vec![None, Some(250), None])));
        assert!(!heard.on_chirp(at, &chirp(8, 2)), "too late");
        assert!(!heard.on_chirp(at, &chirp(9, 1)));
    }

    #[test]
    fn data_ends_a_train_and_silence_begins_one() {
        let mut sensing = Sensing::default();
        let at = Instant::from_millis;
        let rng = || Rng::new(1);
        assert_eq!(sensing.deadline(), None);
        sensing.on_time(at(0), true, 1500, rng);
        assert!(sensing.deadline().is_some_and(|due| due < at(100)));
        assert!(sensing.depart(at(1_000)).is_some());
        sensing.on_data(at(1_000));
        assert_eq!(sensing.depart(at(1_000)), None);
        sensing.on_time(at(1_500), true, 1500, rng);
        assert_eq!(sensing.deadline(), Some(at(2_000)));
        sensing.on_time(at(2_000), true, 1500, rng);
        assert!(sensing.depart(at(3_000)).is_some_and(|(chirp, _)| chirp.train == 1));
        sensing.on_time(at(2_500), false, 1500, rng);
        assert_eq!((sensing.deadline(), sensing.depart(at(9_000))), (None, None));
    }
}
