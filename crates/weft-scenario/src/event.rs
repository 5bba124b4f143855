//! Defines timed events, which change links, weights or VPN shares during a run.

use crate::error::{Checked, Source};
use crate::file::EventFile;
use crate::vpn::{self, PairVpn, ShareChange};
use crate::{Directions, VpnService};
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// The link that an event changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventLink {
    /// The link with this name.
    Named(String),
    /// The link that carries this `probe` flow when the event happens.
    ///
    /// The one-way delay of the probes identifies the link.
    Carrying(String),
}

/// The change that an event makes.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// The link drops every packet but keeps its carrier.
    Cut,
    /// The link carries packets again.
    Restore,
    /// Sets the rate of the link.
    Rate(Rate),
    /// Sets the loss probability of the link, from 0 to 1.
    Loss(f64),
    /// Sets the one-way delay of the link.
    Delay(Duration),
    /// Sets the weights of the links, by link name, in the running weft.
    Weights(BTreeMap<String, u32>),
    /// Changes the share of a VPN in the running weft.
    Share(ShareChange),
}

impl Action {
    /// Returns the keyword for the action in scenario files and results.
    pub fn word(&self) -> &'static str {
        match self {
            Action::Cut => "cut",
            Action::Restore => "restore",
            Action::Rate(_) => "rate",
            Action::Loss(_) => "loss",
            Action::Delay(_) => "delay",
            Action::Weights(_) => "weights",
            Action::Share(_) => "share",
        }
    }
}

/// One event that happens once.
///
/// Repetitions in the file are separate events here.
#[derive(Clone, PartialEq, Debug)]
pub struct TimedEvent {
    /// Index of the `[[event]]` in the file, from 0.
    ///
    /// All repetitions of one entry have the same index.
    pub group: usize,
    /// Time of the event since the start of the run.
    pub at: Duration,
    /// Duration after which the change is undone, or `None` if it stays.
    pub lasting: Option<Duration>,
    /// Link that changes, or `None` for actions that change weft itself.
    ///
    /// These actions are [`Action::Weights`] and [`Action::Share`].
    pub link: Option<EventLink>,
    /// The direction or directions that change.
    pub directions: Directions,
    /// The change that the event makes.
    pub action: Action,
}

/// Maximum number of events in a scenario.
///
/// A larger number is probably a typing mistake.
const EVENTS_MAX: usize = 10_000;

impl EventFile {
    /// Returns the times of the event and its repetitions, in a run of `duration`.
    ///
    /// `already` is the number of events that the run has so far.
    pub(crate) fn times(&self, source: &Source<'_>, duration: Duration, already: usize) -> Checked<Vec<Duration>> {
        let first = self.at.get_ref().0;
        let repeat = self.repeat.unwrap_or(1).max(1);
        let every = self.every.as_ref().map(|every| every.get_ref().0).unwrap_or_default();
        if repeat > 1 && every.is_zero() {
            return Err(source.at(&self.at, "an event with `repeat` needs `every`, the time between two repetitions"));
        }
        let last = every.checked_mul(repeat - 1).and_then(|all| all.checked_add(first)).unwrap_or(Duration::MAX);
        if last >= duration {
            return Err(source.at(&self.at, "this event, or its last repetition, is after the end of the run"));
        }
        if already.saturating_add(repeat as usize) > EVENTS_MAX {
            return Err(source.at(&self.at, format!("more than {EVENTS_MAX} events")));
        }
        Ok((0..repeat).map(|n| first + every * n).collect())
    }

    /// Returns the single action of the event and its direction.
    ///
    /// An action can change one of `vpns`.
    pub(crate) fn action(&self, source: &Source<'_>, vpns: &[PairVpn]) -> Checked<(Action, Directions)> {
        let directions = self.direction.unwrap_or(Directions::Both);
        let mut actions = Vec::new();
        actions.extend(self.cut.map(|d| (Action::Cut, d)));
        actions.extend(self.restore.map(|d| (Action::Restore, d)));
        actions.extend(self.rate.map(|q| (Action::Rate(q.0), directions)));
        actions.extend(self.loss.map(|q| (Action::Loss(q.0.0), directions)));
        actions.extend(self.delay.map(|q| (Action::Delay(q.0), directions)));
        actions.extend(self.weights.as_ref().map(|w| (Action::Weights(w.get_ref().clone()), directions)));
        actions.extend(self.share_change(source, vpns)?.map(|change| (Action::Share(change), Directions::Both)));
        <[(Action, Directions); 1]>::try_from(actions).map(|[one]| one).map_err(|_| {
            let things =
                "`cut`, `restore`, `rate`, `loss`, `delay`, `weights`, or a `vpn`'s `weight`, `assured` or `leased`";
            source.at(&self.at, format!("an event must have exactly one of: {things}"))
        })
    }

    fn share_change(&self, source: &Source<'_>, vpns: &[PairVpn]) -> Checked<Option<ShareChange>> {
        let place = [self.weight.as_ref().map(Spanned::span), self.assured.as_ref().map(Spanned::span)];
        let place = place.into_iter().chain([self.leased.as_ref().map(Spanned::span)]).flatten().next();
        let (name, place) = match (&self.vpn, place) {
            (None, None) => return Ok(None),
            (None, Some(place)) => return Err(source.error(place.start, "name the VPN whose share changes: `vpn`")),
            (Some(name), None) => {
                return Err(source.at(name, "set what changes for the VPN: `weight`, `assured` or `leased`"));
            }
            (Some(name), Some(place)) => (name, place),
        };
        let promise = |rate: Option<_>, of: fn(_) -> VpnService| rate.map_or(VpnService::BestEffort, of);
        let service = match (&self.assured, &self.leased) {
            (Some(_), Some(_)) => {
                return Err(source.error(place.start, "a VPN is `assured` or `leased`, not both"));
            }
            (Some(rate), None) => Some(promise(rate.get_ref().0.0, VpnService::Assured)),
            (None, Some(rate)) => Some(promise(rate.get_ref().0.0, VpnService::Leased)),
            (None, None) => None,
        };
        let weight = self.weight.as_ref().map(|weight| vpn::read_weight(source, weight)).transpose()?;
        Ok(Some(ShareChange { vpn: vpn::position(source, name, vpns)?, weight, service }))
    }
}
