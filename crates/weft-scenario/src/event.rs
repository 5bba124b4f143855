//! Timed events: what happens to the links during a run.

use crate::Directions;
use std::collections::BTreeMap;
use std::time::Duration;
use weft_units::Rate;

/// The link an event happens to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventLink {
    /// The link of this name.
    Named(String),
    /// The link that carries this `probe` flow when the event comes, told by its one-way delay.
    Carrying(String),
}

/// What happens.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Every packet vanishes, without loss of carrier.
    Cut,
    /// Packets pass again.
    Restore,
    /// The rate changes.
    Rate(Rate),
    /// The loss probability changes.
    Loss(f64),
    /// The one-way delay changes.
    Delay(Duration),
    /// Weights of the running weft are set, per link name.
    Weights(BTreeMap<String, u32>),
}

impl Action {
    /// The word used in files and results.
    pub fn word(&self) -> &'static str {
        match self {
            Action::Cut => "cut",
            Action::Restore => "restore",
            Action::Rate(_) => "rate",
            Action::Loss(_) => "loss",
            Action::Delay(_) => "delay",
            Action::Weights(_) => "weights",
        }
    }
}

/// One thing that happens once: repetitions are already unrolled.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Which `[[event]]` of the file this came from, from 0; repetitions share it.
    pub group: usize,
    /// When, from the beginning of the run.
    pub at: Duration,
    /// After this time the link is as it was before.
    pub lasting: Option<Duration>,
    /// The link; none for [`Action::Weights`].
    pub link: Option<EventLink>,
    /// The direction or directions concerned.
    pub directions: Directions,
    /// What happens.
    pub action: Action,
}
