//! What a link goes by.

use weft_core::explicit_rate::erica::{Erica, EricaConfig};
use weft_core::explicit_rate::pi::{LinkState, PiConfig, PiRate};
use weft_units::{Instant, Rate};

/// What a link goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LawKind {
    /// Each flow may have all that is not guaranteed: exact where one flow passes.
    Capacity,
    /// One rate for all flows, by a PI controller of the queue.
    Pi,
    /// To each flow by what it sends (ERICA+).
    Erica,
}

/// A law as it stands.
#[derive(Clone, Debug)]
pub(super) enum Law {
    Capacity(Rate),
    Pi(PiRate),
    Erica(Erica),
}

impl Law {
    /// That of a link which nobody uses yet.
    pub fn new(kind: LawKind, capacity: Rate) -> Law {
        let config = PiConfig::default();
        let aim = capacity.scaled(config.utilization);
        match kind {
            LawKind::Capacity => Law::Capacity(capacity),
            LawKind::Pi => Law::Pi(PiRate::new(config, aim, Instant::ZERO)),
            LawKind::Erica => Law::Erica(Erica::idle(EricaConfig::in_band(config.utilization), aim)),
        }
    }

    /// What a flow that sends `current` is granted.
    pub fn grant(&mut self, current: Rate) -> Rate {
        match self {
            Law::Capacity(rate) => *rate,
            Law::Pi(law) => law.rate(),
            Law::Erica(law) => law.grant(current),
        }
    }

    /// Takes a look at the link, over which so many flows asked lately.
    pub fn update(&mut self, at: Instant, state: &LinkState, askers: u32) {
        match self {
            Law::Capacity(rate) => *rate = state.capacity,
            Law::Pi(law) => _ = law.update(at, state),
            Law::Erica(law) => {
                let capacity = state.capacity.scaled(PiConfig::default().utilization);
                law.on_interval(&LinkState { capacity, ..*state }, askers);
            }
        }
    }
}
