//! Questions about a network: what changes on its links.

use super::measured::{PlanLink, known};
use crate::cli::GivenRate;

/// A question that the simulator answers: a change of the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanQuestion {
    /// The network as it was measured.
    AsItIs,
    /// The network without these links.
    Without(Vec<String>),
    /// The network with other rates of one link, to the peer and from it.
    With(GivenRate),
    /// The network with this number of further sites. They share all links, and each sends as much as this one.
    Sites(u16),
}

impl PlanQuestion {
    /// Returns the question as text for its row in the table of answers.
    pub fn text(&self) -> String {
        match self {
            PlanQuestion::AsItIs => "as it is now".to_owned(),
            PlanQuestion::Without(links) => format!("without {}", links.join(", ")),
            PlanQuestion::With(GivenRate { link, rates: [to, from] }) if to == from => format!("{link} with {to}"),
            PlanQuestion::With(GivenRate { link, rates: [to, from] }) => {
                format!("{link} with {to} to peer, {from} from peer")
            }
            PlanQuestion::Sites(1) => "with 1 more site like this one".to_owned(),
            PlanQuestion::Sites(count) => format!("with {count} more sites like this one"),
        }
    }

    /// Returns the number of sites that send.
    pub fn sites(&self) -> u16 {
        match self {
            PlanQuestion::Sites(more) => more + 1,
            _ => 1,
        }
    }

    /// Returns the links that carry data under the question's assumption.
    ///
    /// Standby links carry data if no other link is left.
    ///
    /// # Errors
    /// Fails if the question names an unknown link, or if no link is left.
    pub fn links(&self, measured: &[PlanLink]) -> Result<Vec<PlanLink>, String> {
        let mut links = measured.to_vec();
        known(self.names().iter().map(String::as_str), measured.iter().map(|link| link.name.as_str()))?;
        match self {
            PlanQuestion::AsItIs | PlanQuestion::Sites(_) => {}
            PlanQuestion::Without(gone) => links.retain(|link| !gone.contains(&link.name)),
            PlanQuestion::With(given) => {
                links.iter_mut().filter(|link| link.name == given.link).for_each(|link| link.set_rates(given.rates));
            }
        }
        if links.is_empty() {
            return Err(format!("the plan `{}` would leave no link: keep one of its links", self.text()));
        }
        if links.iter().any(|link| !link.standby) {
            links.retain(|link| !link.standby);
        }
        Ok(links)
    }

    /// Returns the names of the links that the question changes.
    fn names(&self) -> &[String] {
        match self {
            PlanQuestion::Without(links) => links,
            PlanQuestion::With(given) => std::slice::from_ref(&given.link),
            PlanQuestion::AsItIs | PlanQuestion::Sites(_) => &[],
        }
    }
}
