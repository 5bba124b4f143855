//! Rules: which flows get which class.
//!
//! A [`FlowRule`] names properties of a flow's first packet and a class. [`FlowRules`] is the list that an operator
//! edits. The first rule that matches applies. [`FlowRules::compile`] refuses a list with a fault and returns a
//! [`Classifier`], which finds the same rule without a scan. Only a flow's first packet is classified: a known flow
//! carries its treatment with it.

mod check;
mod classifier;
mod edit;
mod interval_rows;
mod matching;
mod overrides;
mod shadow;

pub use check::{RuleFault, RuleLimits, RuleProblem, treatment_problems};
pub use classifier::{Classifier, Decision};
pub use edit::{EditError, RuleEdit, RuleStep, RuleTrace};
pub(crate) use interval_rows::{AddressRows, BLOCK_WORDS, IntervalRows, RowSet, RuleValue, WORD_BITS};
pub use matching::{FirstPacket, FlowPrefix, NameId, RuleKey, RuleMatch, RuleNames};
pub use overrides::{FlowRequest, Overrides};

use crate::class::Classes;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of rules.
///
/// *Derived*: a dimension of the classifier has at most 2 × 4,096 + 1 intervals with a row of 512 bytes each. The six
/// dimensions with ranges then stay below 26 MB.
pub const MAX_RULES: usize = 4_096;

/// A rule: the flows that it matches, and their treatment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowRule {
    /// Name of the rule, unique in the list.
    pub name: String,
    /// Properties that a flow's first packet must have.
    pub matches: RuleMatch,
    /// Name of the class whose treatment the flow gets.
    pub class: String,
    /// Figures that replace those of the class.
    pub overrides: Overrides,
}

/// The list of rules, in the order in which they are tried.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowRules {
    rules: Vec<FlowRule>,
    names: RuleNames,
}

impl FlowRules {
    /// Returns a list with these rules. Faults in it are found by [`FlowRules::check`].
    pub fn new(rules: Vec<FlowRule>) -> FlowRules {
        let mut list = FlowRules { rules, names: RuleNames::default() };
        for rule in &list.rules {
            list.names.learn(&rule.matches);
        }
        list
    }

    /// Returns the rules in their order.
    pub fn rules(&self) -> &[FlowRule] {
        &self.rules
    }

    /// Returns the numbers of the names in the rules.
    ///
    /// A number keeps its meaning when the list is edited.
    pub fn names(&self) -> &RuleNames {
        &self.names
    }

    /// Returns the position of the first rule that matches, or `None`, by a scan of all rules.
    pub fn first_match(&self, packet: &FirstPacket) -> Option<usize> {
        self.rules.iter().position(|rule| rule.matches.matches(packet, &self.names))
    }

    /// Returns every fault in the list, in the order of the rules.
    pub fn check(&self, classes: &Classes, limits: &RuleLimits) -> Vec<RuleFault> {
        check::check(self, classes, limits)
    }

    /// Returns the classifier for this list.
    ///
    /// # Errors
    /// Returns the faults of [`FlowRules::check`]. Nothing is changed then.
    pub fn compile(&self, classes: &Classes, limits: &RuleLimits) -> Result<Classifier, Vec<RuleFault>> {
        let faults = self.check(classes, limits);
        if faults.is_empty() { Ok(Classifier::new(self, classes)) } else { Err(faults) }
    }
}
