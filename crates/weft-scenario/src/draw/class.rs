//! The classes of links.

use weft_units::Rng;

/// What is most particular about a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkClass {
    /// A constant rate and a drop-tail queue.
    Plain,
    /// A delay that wanders.
    Wander,
    /// Grants of LTE or 5G.
    Grants,
    /// Wi-Fi's aggregation.
    Aggregation,
    /// Delays that reorder packets.
    Independent,
    /// Spikes of the delay.
    Spikes,
    /// Single packets that are late.
    Reorder,
    /// Packets that arrive twice.
    Duplicate,
    /// Long packets that vanish.
    LongLoss,
    /// Silent cuts; packets vanish.
    Outage,
    /// Silent cuts; packets wait.
    OutageHold,
    /// A rate that alternates.
    SwingSquare,
    /// A rate that walks.
    SwingWalk,
    /// Handovers between satellites.
    Handover,
    /// A token bucket below the link's rate.
    Policer,
    /// A queue under CoDel.
    CoDel,
    /// A queue under RED.
    Red,
    /// A queue under FQ-CoDel.
    FqCoDel,
    /// A self-made LTE trace.
    Lte,
    /// Several of these at once.
    Several,
}

impl LinkClass {
    /// Every class, and its share of all links drawn.
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

    /// A class, by its share.
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

    /// The word used in results.
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
