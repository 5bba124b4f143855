//! State of the inbound direction of a peer: units in parts, the order of units, and headers.
//!
//! Units in parts are joined, headers are restored, and units are put in order. The output turns units into writes for
//! the TUN device.

pub mod egress;
pub mod join;

use crate::api::Reorder;
use crate::units::headers::KnownHeaders;
use egress::Arrived;
use join::Joins;
use weft_core::pool::Pool;
use weft_core::reorder::dedup::Dedup;
use weft_core::reorder::resequencer::{Resequencer, ResequencerLimits};
use weft_units::{Duration, Instant};
use weft_wire::inner::InnerHeader;

/// Time for which this node waits for a missing unit of a peer until the peer announces its own value.
const HOLD_INITIAL: Duration = Duration::from_millis(50);

/// The order in which arriving units of the peer are delivered.
pub enum Arrivals {
    Resequence(Resequencer<Arrived>),
    AsTheyCome(Dedup),
}

impl Arrivals {
    fn new(reorder: Reorder) -> Arrivals {
        match reorder {
            Reorder::Resequence => Arrivals::Resequence(Resequencer::new(HOLD_INITIAL, ResequencerLimits::default())),
            Reorder::Off => Arrivals::AsTheyCome(Dedup::new()),
        }
    }
}

/// Units from the peer that are not delivered yet, and the headers that later units may refer to.
pub struct Inbound {
    pub joins: Joins,
    pub arrivals: Arrivals,
    pub known_headers: KnownHeaders,
    /// Longest time for which this node waits for a missing unit, as the peer requests.
    pub hold_asked: Duration,
}

impl Inbound {
    pub fn new(reorder: Reorder) -> Inbound {
        Inbound {
            joins: Joins::default(),
            arrivals: Arrivals::new(reorder),
            known_headers: KnownHeaders::default(),
            hold_asked: HOLD_INITIAL,
        }
    }

    /// Discards the units that wait for missing units, and the record of arrived units.
    pub fn drop_held(&mut self, pool: &mut Pool) {
        match &mut self.arrivals {
            Arrivals::Resequence(r) => r.reset(&mut |item: Arrived| pool.release(item.buf)),
            Arrivals::AsTheyCome(d) => d.reset(),
        }
    }

    /// Changes the order in which units are delivered. Units that wait for missing units are discarded.
    pub fn set_reorder(&mut self, reorder: Reorder, pool: &mut Pool) {
        self.drop_held(pool);
        self.arrivals = Arrivals::new(reorder);
    }

    /// True if a unit with this header would have to wait for a missing unit.
    pub fn would_hold(&mut self, now: Instant, inner: &InnerHeader) -> bool {
        match &mut self.arrivals {
            Arrivals::Resequence(r) => r.would_hold(now, inner.flow, inner.seq),
            Arrivals::AsTheyCome(_) => false,
        }
    }

    /// Returns the time at which the wait for the missing unit that is missing longest ends, if a unit is missing.
    pub fn hole_deadline(&self) -> Option<Instant> {
        match &self.arrivals {
            Arrivals::Resequence(r) => r.next_deadline(),
            Arrivals::AsTheyCome(_) => None,
        }
    }

    /// Returns the number of discarded parts and of units that never became complete.
    pub fn broken_parts(&self) -> u64 {
        self.joins.broken
    }

    /// Returns the number of units that wait for missing units.
    pub fn held_units(&self) -> usize {
        match &self.arrivals {
            Arrivals::Resequence(r) => r.held(),
            Arrivals::AsTheyCome(_) => 0,
        }
    }
}
