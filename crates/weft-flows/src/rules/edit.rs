//! Edits of the list of rules as data, and the trace of a packet through it.

use super::check::RuleFault;
use super::matching::{FirstPacket, RuleKey};
use super::{Classifier, FlowRule, FlowRules, MAX_RULES, RuleLimits};
use crate::class::Classes;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A change of the list of rules. Positions count from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleEdit {
    /// Inserts a rule before the one at `at`.
    Insert {
        /// Position that the new rule gets, from 0 to the length of the list.
        at: usize,
        /// The new rule.
        rule: Box<FlowRule>,
    },
    /// Removes a rule.
    Remove {
        /// Position of the rule to remove, from 0.
        at: usize,
    },
    /// Moves a rule.
    Move {
        /// Position of the rule before the move, from 0.
        from: usize,
        /// Position of the rule after the move, from 0.
        to: usize,
    },
}

/// Reason why an edit was refused. The list is unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EditError {
    /// The list has no such position.
    NoSuchPosition {
        /// Position that was given, counted from zero.
        at: usize,
        /// Number of rules in the list.
        len: usize,
    },
    /// There are [`MAX_RULES`] rules already.
    TooMany,
    /// After the edit, the list would have these faults.
    Faults(Vec<RuleFault>),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::NoSuchPosition { at, len } => write!(f, "there is no position {at} in a list of {len} rules"),
            EditError::TooMany => write!(f, "there are {MAX_RULES} rules already"),
            EditError::Faults(faults) => faults.iter().enumerate().try_for_each(|(at, fault)| {
                let separator = if at == 0 { "" } else { "; " };
                write!(f, "{separator}{fault}")
            }),
        }
    }
}

impl core::error::Error for EditError {}

/// A rule that did not match, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleStep {
    /// Position of the rule in the list, from 0.
    pub rule: usize,
    /// Name of the rule.
    pub name: String,
    /// Properties that the rule requires and the packet does not have.
    pub mismatches: Vec<RuleKey>,
}

/// Result of comparing a packet with the rules of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleTrace {
    /// Rules before the one that matched, in their order.
    pub earlier: Vec<RuleStep>,
    /// Position of the rule that matched, or `None` if the flow gets the default class.
    pub matched: Option<usize>,
}

impl FlowRules {
    /// Changes the list and returns the edit that undoes the change.
    ///
    /// The faults of the new list are not checked: see [`FlowRules::edit`].
    ///
    /// # Errors
    /// Fails if a position does not exist or there are too many rules. The list is unchanged then.
    pub fn apply(&mut self, edit: RuleEdit) -> Result<RuleEdit, EditError> {
        let len = self.rules.len();
        let known = |at: usize, end: usize| if at < end { Ok(()) } else { Err(EditError::NoSuchPosition { at, len }) };
        match edit {
            RuleEdit::Insert { at, rule } => {
                known(at, len + 1)?;
                if len >= MAX_RULES {
                    return Err(EditError::TooMany);
                }
                self.names.learn(&rule.matches);
                self.rules.insert(at, *rule);
                Ok(RuleEdit::Remove { at })
            }
            RuleEdit::Remove { at } => {
                known(at, len)?;
                Ok(RuleEdit::Insert { at, rule: Box::new(self.rules.remove(at)) })
            }
            RuleEdit::Move { from, to } => {
                known(from, len)?;
                known(to, len)?;
                let rule = self.rules.remove(from);
                self.rules.insert(to, rule);
                Ok(RuleEdit::Move { from: to, to: from })
            }
        }
    }

    /// Changes the list if the result has no fault, and returns the new classifier and the edit that undoes the change.
    ///
    /// # Errors
    /// Fails as [`FlowRules::apply`], and with the faults of the new list. The list is unchanged then.
    pub fn edit(
        &mut self,
        edit: RuleEdit,
        classes: &Classes,
        limits: &RuleLimits,
    ) -> Result<(Classifier, RuleEdit), EditError> {
        let undo = self.apply(edit)?;
        match self.compile(classes, limits) {
            Ok(classifier) => Ok((classifier, undo)),
            Err(faults) => {
                self.apply(undo)?;
                Err(EditError::Faults(faults))
            }
        }
    }

    /// Returns the rule that matches the packet, and why each earlier one does not.
    pub fn trace(&self, packet: &FirstPacket) -> RuleTrace {
        let matched = self.first_match(packet);
        let earlier = self.rules.iter().take(matched.unwrap_or(self.rules.len())).enumerate();
        let step = |(at, rule): (usize, &FlowRule)| RuleStep {
            rule: at,
            name: rule.name.clone(),
            mismatches: rule.matches.mismatches(packet, &self.names).collect(),
        };
        RuleTrace { earlier: earlier.map(step).collect(), matched }
    }
}
