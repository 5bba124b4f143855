//! Implements the algorithms by which a link computes the granted rates.

use weft_core::explicit_rate::erica::{Erica, EricaConfig};
use weft_core::explicit_rate::pi::{LinkState, PiConfig, PiRate};
use weft_units::{Instant, Rate};

/// The algorithm by which a link computes the granted rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LawKind {
    /// Each flow is granted the whole capacity of the link, less the guaranteed rates.
    ///
    /// The granted rate is correct for a single flow only.
    Capacity,
    /// All flows on a link are granted the same rate, which a PI controller derives from the link's queue.
    Pi,
    /// Each flow is granted a rate that depends on its own sending rate (ERICA+).
    Erica,
}

/// The algorithm of a link with its state.
#[derive(Clone, Debug)]
pub(super) enum SignalLaw {
    Capacity(Rate),
    Pi(PiRate),
    Erica(Erica),
}

impl SignalLaw {
    /// Creates the algorithm for a link of this capacity that is not used yet.
    pub fn new(kind: LawKind, capacity: Rate) -> SignalLaw {
        let config = PiConfig::default();
        let aim = capacity.scaled(config.utilization);
        match kind {
            LawKind::Capacity => SignalLaw::Capacity(capacity),
            LawKind::Pi => SignalLaw::Pi(PiRate::new(config, aim, Instant::ZERO)),
            LawKind::Erica => SignalLaw::Erica(Erica::idle(EricaConfig::in_band(config.utilization), aim)),
        }
    }

    /// Returns the rate that is granted to a flow whose sending rate is `current`.
    pub fn grant(&mut self, current: Rate) -> Rate {
        match self {
            SignalLaw::Capacity(rate) => *rate,
            SignalLaw::Pi(law) => law.rate(),
            SignalLaw::Erica(law) => law.grant(current),
        }
    }

    /// Updates the algorithm with a measured state of the link. `at` is the time of the measurement.
    ///
    /// `askers` is the number of flows that recently requested rates on the link.
    pub fn update(&mut self, at: Instant, state: &LinkState, askers: u32) {
        match self {
            SignalLaw::Capacity(rate) => *rate = state.capacity,
            SignalLaw::Pi(law) => _ = law.update(at, state),
            SignalLaw::Erica(law) => {
                let capacity = state.capacity.scaled(PiConfig::default().utilization);
                law.on_interval(&LinkState { capacity, ..*state }, askers);
            }
        }
    }
}
