//! Destinations that a SYN reached only without the option that carries the signal.
//!
//! The next SYN to such a destination carries no request, because a SYN with one would be lost and retransmitted.

use core::net::IpAddr;
use hashbrown::HashMap;
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant};

/// Time for which a destination that SYNs with the option do not reach is remembered.
const LASTS: Duration = Duration::from_secs(600);
/// Maximum number of destinations that are remembered. SYNs to all other destinations have the option.
const MOST: usize = 1_024;

pub(super) struct Deaf(HashMap<IpAddr, Instant, SeededState>);

impl Deaf {
    pub(super) fn new(seed: u64) -> Deaf {
        Deaf(HashMap::with_hasher(SeededState::new(seed)))
    }

    pub(super) fn insert(&mut self, now: Instant, destination: IpAddr) {
        if self.0.len() >= MOST {
            self.0.retain(|_, since| now - *since < LASTS);
        }
        if self.0.len() < MOST {
            self.0.insert(destination, now);
        }
    }

    pub(super) fn contains(&self, now: Instant, destination: &IpAddr) -> bool {
        self.0.get(destination).is_some_and(|since| now - *since < LASTS)
    }

    /// Forgets a destination from which an answer to a signal arrived.
    pub(super) fn remove(&mut self, destination: &IpAddr) {
        self.0.remove(destination);
    }
}
