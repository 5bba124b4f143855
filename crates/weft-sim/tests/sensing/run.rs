//! Senses a path and compares the estimates with the true state of its links.

use super::mix::Mix;
use super::place::{Arrival, Place, Probe};
use super::world::{PROBER, World};
use std::collections::VecDeque;
use weft_core::sense::active::{Crossing, INTERVAL, PathEstimate, Sensor, Train};
use weft_units::{Duration, Instant, Rng};

/// Seconds before the measurement starts.
const WARM_UP_S: u64 = 60;
/// Number of past seconds that an estimate covers.
pub const WINDOW_S: usize = 10;
/// Interval at which queues are sampled.
const LOOK: Duration = Duration::from_micros(3_700);
/// Resolution of the times in frames.
const RESOLUTION: Duration = Duration::from_micros(2);

/// The true state of the path over the last [`WINDOW_S`] seconds.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    pub capacity_bps: f64,
    pub available_bps: f64,
    /// Mean waiting time in the queues of the path's links, in seconds.
    pub queue_s: f64,
    /// The traffic of the trains as a fraction of the capacity.
    pub own_share: f64,
}

/// The true state and the estimate for each second.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seconds: Vec<(Truth, PathEstimate)>,
}

#[derive(Clone, Default)]
struct Reading {
    link_bytes: Vec<u64>,
    own_bytes: u64,
    queue_s: f64,
}

struct Sent {
    train: Train,
    first: u64,
}

/// Senses `mix` and measures for `seconds` after the warm-up.
pub fn sense(mix: &Mix, seed: u64, seconds: u64) -> Outcome {
    let all = WARM_UP_S + seconds;
    let mut world = World::new(mix, seed, Instant::ZERO + Duration::from_secs(all + 1));
    let mut sensor = Sensor::new(RESOLUTION, Rng::new(seed).split(99));
    let mut sent: VecDeque<Sent> = VecDeque::new();
    let mut readings: VecDeque<Reading> = VecDeque::new();
    let mut outcome = Outcome { seconds: Vec::new() };
    let mut number = 0;
    for second in 0..all {
        let now = Instant::ZERO + INTERVAL * second as u32;
        let train = sensor.next_train(1500);
        let first = number;
        number += train.departures().len() as u64;
        dispatch(&mut world, now, &train, first);
        sent.push_back(Sent { train, first });
        readings.push_back(run_interval(&mut world, now));
        // The result of a train is known one interval after the train ended, because its last packet has then
        // arrived.
        if sent.len() > 1
            && let Some(Sent { train, first }) = sent.pop_front()
        {
            let crossings = arrivals_of(&mut world, &train, first);
            sensor.on_train(now, &train, &crossings);
        }
        if readings.len() > WINDOW_S + 2 {
            readings.pop_front();
        }
        if second >= WARM_UP_S {
            outcome.seconds.push((truth(mix, &readings), sensor.estimate()));
        }
    }
    outcome
}

fn dispatch(world: &mut World, now: Instant, train: &Train, first: u64) {
    let mut due: Vec<(Instant, Probe)> = (first..)
        .zip(train.departures())
        .map(|(number, departure)| (now + departure.after, Probe { number, bytes: departure.bytes }))
        .collect();
    due.sort_by_key(|(at, probe)| (*at, probe.number));
    world.simulator.with_node(PROBER, |place, _, _| {
        if let Place::Prober(prober) = place {
            prober.due.extend(due);
        }
    });
}

/// Runs one interval and returns the bytes sent by its end and the mean queue in it.
fn run_interval(world: &mut World, from: Instant) -> Reading {
    let end = from + INTERVAL;
    let (mut looks, mut queue_s, mut now) = (0u32, 0.0, from);
    while now < end {
        now = (now + LOOK).min(end);
        world.simulator.run_until(now);
        looks += 1;
        queue_s +=
            world.hops.iter().map(|link| world.simulator.links()[link.index()].wait(now).as_secs_f64()).sum::<f64>();
    }
    let link_bytes = world.hops.iter().map(|link| world.simulator.link_mut(*link).stats(end).sent_bytes).collect();
    let own_bytes = match &world.simulator.nodes()[PROBER.index()] {
        Place::Prober(prober) => prober.sent_bytes,
        Place::Sink(_) | Place::Station(_) => 0,
    };
    Reading { link_bytes, own_bytes, queue_s: queue_s / f64::from(looks) }
}

fn arrivals_of(world: &mut World, train: &Train, first: u64) -> Vec<Option<Crossing>> {
    let mut crossings = vec![None; train.departures().len()];
    if let Place::Sink(arrivals) = &mut world.simulator.nodes_mut()[world.sink.index()] {
        for Arrival { number, crossing } in arrivals.iter() {
            let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
            if let Some(slot) = index.and_then(|index| crossings.get_mut(index)) {
                *slot = Some(*crossing);
            }
        }
        arrivals.retain(|arrival| arrival.number >= first + crossings.len() as u64);
    }
    crossings
}

/// Returns the true state over the intervals whose trains the sensor has evaluated: all but the last.
fn truth(mix: &Mix, readings: &VecDeque<Reading>) -> Truth {
    let last = readings.len() - 2;
    let first = last - WINDOW_S;
    let own_bits = (readings[last].own_bytes - readings[first].own_bytes) as f64 * 8.0;
    let span = WINDOW_S as f64;
    let available = mix.hops.iter().enumerate().map(|(number, hop)| {
        let bits = (readings[last].link_bytes[number] - readings[first].link_bytes[number]) as f64 * 8.0;
        hop.mbps * 1e6 - (bits - own_bits) / span
    });
    let capacity_bps = mix.hops.iter().map(|hop| hop.mbps).fold(f64::MAX, f64::min) * 1e6;
    Truth {
        capacity_bps,
        available_bps: available.fold(f64::MAX, f64::min),
        queue_s: readings.iter().skip(first + 1).take(WINDOW_S).map(|reading| reading.queue_s).sum::<f64>() / span,
        own_share: own_bits / span / capacity_bps,
    }
}
