//! The classes of random links: which property, beyond rate, delay and loss, a drawn link has.

use weft_units::Rng;

/// The special property of a random link, by which the results of a sweep are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkClass {
    /// No special property: a constant rate and a drop-tail queue.
    Plain,
    /// A delay that wanders without reordering packets.
    Wander,
    /// Transmission only at grant instants, as in LTE or 5G.
    Grants,
    /// Transmission of several packets together, as in Wi-Fi aggregation.
    Aggregation,
    /// A delay that each packet draws for itself, so that packets overtake each other.
    Independent,
    /// Delays that suddenly rise and then fall again.
    Spikes,
    /// Single packets that arrive late, so that later packets overtake them.
    Reorder,
    /// Packets that arrive twice.
    Duplicate,
    /// Loss of packets above a certain size.
    LongLoss,
    /// Outages during which the link drops packets.
    Outage,
    /// Outages during which packets wait.
    OutageHold,
    /// A rate that alternates between two values.
    SwingSquare,
    /// A rate that follows a random walk.
    SwingWalk,
    /// Periodic handovers, as between satellites: a stall, then a new delay and rate.
    Handover,
    /// A token bucket before the queue, whose rate is below the link's rate.
    Policer,
    /// A queue managed by CoDel.
    CoDel,
    /// A queue managed by RED.
    Red,
    /// A queue managed by FQ-CoDel.
    FqCoDel,
    /// A capacity that follows a generated LTE trace.
    Lte,
    /// Several of the other classes at once.
    Several,
}

impl LinkClass {
    /// Every class with its relative frequency: the number of times it is drawn relative to the other classes.
    pub const ALL: [(LinkClass, u64); 20] = [
        (LinkClass::Plain, 5),
        (LinkClass::Wander, 2),
        (LinkClass::Grants, 2),
        (LinkClass::Aggregation, 2),
        (LinkClass::Independent, 2),
        (LinkClass::Spikes, 2),
        (LinkClass::Reorder, 1),
        (LinkClass::Duplicate, 1),
        (LinkClass::LongLoss, 1),
        (LinkClass::Outage, 2),
        (LinkClass::OutageHold, 2),
        (LinkClass::SwingSquare, 2),
        (LinkClass::SwingWalk, 2),
        (LinkClass::Handover, 2),
        (LinkClass::Policer, 2),
        (LinkClass::CoDel, 1),
        (LinkClass::Red, 1),
        (LinkClass::FqCoDel, 1),
        (LinkClass::Lte, 3),
        (LinkClass::Several, 3),
    ];

    /// Draws a class with the relative frequencies of [`LinkClass::ALL`].
    pub fn draw(rng: &mut Rng) -> LinkClass {
        let mut place = rng.below(LinkClass::ALL.iter().map(|(_, share)| share).sum());
        for (class, share) in LinkClass::ALL {
            match place.checked_sub(share) {
                Some(left) => place = left,
                None => return class,
            }
        }
        LinkClass::Plain
    }

    /// Returns the name of the class in results.
    pub fn word(self) -> &'static str {
        match self {
            LinkClass::Plain => "plain",
            LinkClass::Wander => "wander",
            LinkClass::Grants => "grants",
            LinkClass::Aggregation => "aggregation",
            LinkClass::Independent => "independent",
            LinkClass::Spikes => "spikes",
            LinkClass::Reorder => "reorder",
            LinkClass::Duplicate => "duplicate",
            LinkClass::LongLoss => "loss-long",
            LinkClass::Outage => "outage",
            LinkClass::OutageHold => "outage-hold",
            LinkClass::SwingSquare => "swing-square",
            LinkClass::SwingWalk => "swing-walk",
            LinkClass::Handover => "handover",
            LinkClass::Policer => "policer",
            LinkClass::CoDel => "codel",
            LinkClass::Red => "red",
            LinkClass::FqCoDel => "fq-codel",
            LinkClass::Lte => "lte",
            LinkClass::Several => "several",
        }
    }
}
