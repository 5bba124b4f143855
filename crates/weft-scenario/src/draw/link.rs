//! Draws a random link that has the special property of a given class.

use super::{LinkClass, even, log_even};
use crate::channel::{
    Aqm, BurstLoss, HandoverSpec, Jitter, JitterKind, LongLoss, OutageSpec, PolicerSpec, ReorderSpec, Swing, SwingShape,
};
use crate::{Capacity, DirectionSpec, Link, PACKET_BYTES, QueueSize};
use std::time::Duration;
use weft_units::{Rate, Rng};

const RATE_MBPS: [f64; 2] = [0.5, 500.0];
const RTT_MS: [f64; 2] = [1.0, 300.0];
const JITTER_MS: [f64; 2] = [0.5, 50.0];
const LOSS: [f64; 2] = [1e-4, 0.1];
/// Maximum ratio of a drawn link's down rate to its up rate.
const ASYMMETRY: f64 = 100.0;
/// Minimum drawn rate of an up direction, if it is slower than the down direction, in Mbit/s.
const NARROW_MBPS: f64 = 0.128;
/// Range of the mean rate of an LTE trace, in Mbit/s.
///
/// A trace has an entry for each packet, so the maximum limits the memory for it.
const LTE_MBPS: [f64; 2] = [0.5, 150.0];

/// Draws a link of this class.
///
/// Its [`Link::class`] names the class and the kind of loss, joined by `+`.
pub fn draw_link(rng: &mut Rng, name: impl Into<String>, class: LinkClass) -> Link {
    let name = name.into();
    let down_mbps = log_even(rng, RATE_MBPS[0], RATE_MBPS[1]);
    let ratio = if rng.chance(0.3) { log_even(rng, 1.0, ASYMMETRY) } else { 1.0 };
    let up_mbps = (down_mbps / ratio).max(NARROW_MBPS);
    let rtt = Duration::from_secs_f64(log_even(rng, RTT_MS[0], RTT_MS[1]) / 1e3);
    let queue = draw_queue(rng);
    let mut link = Link::symmetric(name, mbps(down_mbps), rtt / 2, 0.0, queue);
    link.up.capacity = Capacity::Rate(mbps(up_mbps));
    let loss = draw_loss(rng, &mut link);
    impair(rng, &mut link, class);
    link.class = Some([Some(class.word()), loss].into_iter().flatten().collect::<Vec<_>>().join("+"));
    link
}

fn mbps(mbps: f64) -> Rate {
    Rate::from_bps((mbps * 1e6) as u64)
}

/// Draws a queue size in bandwidth-delay products: 0.5 to 4 in 60 % of the draws, and 0.05 to 20 otherwise.
fn draw_queue(rng: &mut Rng) -> QueueSize {
    let [least, most] = if rng.chance(0.6) { [0.5, 4.0] } else { [0.05, 20.0] };
    QueueSize::Bdp(log_even(rng, least, most))
}

/// Draws and sets the loss of a link, and returns the keyword of its kind.
///
/// Half of all links lose nothing, and the result is `None`. A quarter lose single packets and a quarter lose bursts.
fn draw_loss(rng: &mut Rng, link: &mut Link) -> Option<&'static str> {
    let (kind, share) = (rng.below(4), log_even(rng, LOSS[0], LOSS[1]));
    let length = log_even(rng, 2.0, 30.0);
    match kind {
        0 => {
            directions(link).for_each(|direction| direction.loss = share);
            Some("loss")
        }
        1 => {
            directions(link).for_each(|direction| direction.impairments.burst_loss = Some(BurstLoss { share, length }));
            Some("burst-loss")
        }
        _ => None,
    }
}

fn directions(link: &mut Link) -> impl Iterator<Item = &mut DirectionSpec> {
    [&mut link.up, &mut link.down].into_iter()
}

/// Returns the rate from which a random swing or policer of a direction is drawn.
///
/// It is the constant rate, or 12 Mbit/s if a trace sets the capacity.
fn rate_of(direction: &DirectionSpec) -> Rate {
    match &direction.capacity {
        Capacity::Rate(rate) => *rate,
        Capacity::Trace(_) => Rate::from_mbps(12),
    }
}

fn impair(rng: &mut Rng, link: &mut Link, class: LinkClass) {
    match class {
        LinkClass::Plain => {}
        LinkClass::Wander => {
            let limit = jitter(rng);
            directions(link).for_each(|direction| direction.jitter = limit);
        }
        LinkClass::Grants => set_jitter(rng, link, JitterKind::Grants),
        LinkClass::Aggregation => set_jitter(rng, link, JitterKind::Aggregation),
        LinkClass::Independent => set_jitter(rng, link, JitterKind::Independent),
        LinkClass::Spikes => set_jitter(rng, link, JitterKind::Spikes),
        LinkClass::Reorder => {
            let reorder = ReorderSpec { share: log_even(rng, 1e-3, 0.05), by: jitter(rng) };
            directions(link).for_each(|direction| direction.impairments.reorder = Some(reorder));
        }
        LinkClass::Duplicate => {
            let share = log_even(rng, 1e-3, 0.05);
            directions(link).for_each(|direction| direction.impairments.duplicate = share);
        }
        LinkClass::LongLoss => {
            let long_loss = LongLoss { over: 1_200 + rng.below(280), share: log_even(rng, 5e-3, 1.0) };
            directions(link).for_each(|direction| direction.impairments.long_loss = Some(long_loss));
        }
        LinkClass::Outage => set_outage(rng, link, false),
        LinkClass::OutageHold => set_outage(rng, link, true),
        LinkClass::SwingSquare => set_swing(rng, link, SwingShape::Square),
        LinkClass::SwingWalk => set_swing(rng, link, SwingShape::Walk),
        LinkClass::Handover => set_handover(rng, link),
        LinkClass::Policer => set_policer(rng, link),
        LinkClass::CoDel => set_aqm(link, Aqm::CoDel),
        LinkClass::Red => set_aqm(link, Aqm::Red),
        LinkClass::FqCoDel => set_aqm(link, Aqm::FqCoDel),
        LinkClass::Lte => set_lte(rng, link),
        LinkClass::Several => set_several(rng, link),
    }
}

fn jitter(rng: &mut Rng) -> Duration {
    Duration::from_secs_f64(log_even(rng, JITTER_MS[0], JITTER_MS[1]) / 1e3)
}

fn set_jitter(rng: &mut Rng, link: &mut Link, kind: JitterKind) {
    let jitter = Jitter { kind, limit: jitter(rng) };
    directions(link).for_each(|direction| direction.impairments.jitter = Some(jitter));
}

fn set_outage(rng: &mut Rng, link: &mut Link, hold: bool) {
    let (every, lasting) = (even(rng, 4.0, 12.0), log_even(rng, 0.1, 2.0));
    let [every, lasting] = [every, lasting].map(Duration::from_secs_f64);
    let outage = OutageSpec { every, lasting, spread: rng.chance(0.5), hold };
    directions(link).for_each(|direction| direction.impairments.outage = Some(outage));
}

fn set_swing(rng: &mut Rng, link: &mut Link, shape: SwingShape) {
    let every = Duration::from_secs_f64(log_even(rng, 0.2, 5.0));
    let (above, below) = (even(rng, 1.0, 1.5), log_even(rng, 1.5, 30.0));
    for direction in directions(link) {
        let rate = rate_of(direction);
        let (low, high) = (rate.scaled(1.0 / below), rate.scaled(above));
        direction.impairments.swing = Some(Swing { low, high, every, shape });
    }
}

fn set_handover(rng: &mut Rng, link: &mut Link) {
    let handover = HandoverSpec {
        every: Duration::from_secs_f64(even(rng, 5.0, 15.0)),
        stall: Duration::from_secs_f64(log_even(rng, 0.02, 0.3)),
        step: Duration::from_secs_f64(even(rng, 0.0, 0.03)),
        rate: [even(rng, 0.3, 1.0), even(rng, 1.0, 1.7)],
    };
    directions(link).for_each(|direction| direction.impairments.handover = Some(handover));
}

fn set_policer(rng: &mut Rng, link: &mut Link) {
    let (share, depth_s) = (log_even(rng, 0.2, 1.0), log_even(rng, 0.02, 1.2));
    let after = if rng.chance(0.3) { Duration::from_secs_f64(even(rng, 1.0, 10.0)) } else { Duration::ZERO };
    for direction in directions(link) {
        let rate = rate_of(direction).scaled(share);
        let bucket_bytes = rate.bytes_in(Duration::from_secs_f64(depth_s)).max(10 * PACKET_BYTES);
        direction.impairments.policer = Some(PolicerSpec { rate, bucket_bytes, after, only_udp: false });
    }
}

/// Sets the queue discipline and a queue limit of 20 BDP.
///
/// The discipline keeps the queue short, so this large limit adds no delay.
fn set_aqm(link: &mut Link, aqm: Aqm) {
    for direction in directions(link) {
        direction.impairments.aqm = Some(aqm);
        direction.queue = QueueSize::Bdp(20.0);
    }
}

/// Sets a capacity trace for each direction.
///
/// No file has the trace's name. The lab and the simulator therefore generate the trace, with the mean rate that the
/// name states.
fn set_lte(rng: &mut Rng, link: &mut Link) {
    let down = log_even(rng, LTE_MBPS[0], LTE_MBPS[1]);
    let up = (down / log_even(rng, 1.0, 10.0)).max(NARROW_MBPS);
    let number = rng.below(1_000_000);
    link.down.capacity = Capacity::Trace(format!("lte-{number}-down@{down:.3} Mbit/s"));
    link.up.capacity = Capacity::Trace(format!("lte-{number}-up@{up:.3} Mbit/s"));
}

/// Gives a link two to four impairments of different classes.
fn set_several(rng: &mut Rng, link: &mut Link) {
    let groups: [&[LinkClass]; 6] = [
        &[LinkClass::SwingSquare, LinkClass::SwingWalk, LinkClass::Lte],
        &[LinkClass::Wander, LinkClass::Grants, LinkClass::Aggregation, LinkClass::Independent, LinkClass::Spikes],
        &[LinkClass::Outage, LinkClass::OutageHold, LinkClass::Handover],
        &[LinkClass::Reorder, LinkClass::Duplicate, LinkClass::LongLoss],
        &[LinkClass::CoDel, LinkClass::Red, LinkClass::FqCoDel],
        &[LinkClass::Policer],
    ];
    let wanted = 2 + rng.below(3);
    let (mut left, mut taken) = (groups.len() as u64, 0);
    for group in groups {
        // Selection sampling: with this probability, every set of `wanted` groups of classes is equally likely.
        if rng.below(left) < wanted - taken {
            taken += 1;
            let class = group[rng.below(group.len() as u64) as usize];
            impair(rng, link, class);
        }
        left -= 1;
    }
}
