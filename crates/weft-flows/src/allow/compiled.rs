//! The compiled form of rules of access.
//!
//! A rule is expanded into terms: one sender, one destination and one range of ports each. A property of a packet
//! selects a row of bits, one bit for each term. The first bit that is set in all rows is the term that lets it in.

use super::rule::{AllowRule, MAX_TERMS, NodeGroups, Party};
use crate::rules::{AddressRows, BLOCK_WORDS, IntervalRows, RowSet, RuleValue, WORD_BITS};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use weft_units::VpnId;
use weft_wire::ip::FlowKey;

/// A fault of a list of rules of access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllowFault {
    /// The rules have more than [`MAX_TERMS`] terms.
    TooMany,
    /// A rule names no sender or no destination, so it lets nothing in.
    Empty {
        /// Position of the rule in the list, from 0.
        rule: usize,
    },
}

impl fmt::Display for AllowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllowFault::TooMany => {
                write!(f, "the rules have more than {MAX_TERMS} combinations of sender, destination and ports")
            }
            AllowFault::Empty { .. } => f.write_str("the rule names no sender or no destination"),
        }
    }
}

/// One sender, one destination and one range of ports of a rule.
struct Term<'a> {
    rule: u32,
    from: &'a Party,
    to: &'a Party,
    ports: (u16, u16),
}

/// The terms of which a node may be the sender, and those of which it may be the destination.
///
/// Each set of terms is a row with one bit for each term.
#[derive(Clone, Debug, Default)]
pub struct PartyRows {
    from: Vec<u64>,
    to: Vec<u64>,
}

/// Rules of access, compiled.
#[derive(Clone, Debug)]
pub struct AllowRules {
    rules: Vec<AllowRule>,
    words: usize,
    v4: AddressRows<u32>,
    v6: AddressRows<u128>,
    ports: IntervalRows<u16>,
    protocol: IntervalRows<u8>,
    vpn: IntervalRows<u32>,
    /// Index of the rule to which each term belongs.
    rule_of: Vec<u32>,
}

impl AllowRules {
    /// Compiles rules.
    ///
    /// # Errors
    /// Returns the first fault.
    pub fn compile(rules: Vec<AllowRule>) -> Result<AllowRules, AllowFault> {
        if let Some(rule) = rules.iter().position(|rule| rule.from.is_empty() || rule.to.is_empty()) {
            return Err(AllowFault::Empty { rule });
        }
        let terms = terms(&rules);
        if terms.len() > MAX_TERMS {
            return Err(AllowFault::TooMany);
        }
        let words = terms.len().div_ceil(WORD_BITS).next_multiple_of(BLOCK_WORDS);
        let rule = |term: &Term<'_>| rules.get(term.rule as usize);
        let ranges = |range: &dyn Fn(&Term<'_>) -> Option<(u128, u128)>| terms.iter().map(range).collect::<Vec<_>>();
        let ports = ranges(&|term| Some((term.ports.0.into(), term.ports.1.into())));
        let protocol = ranges(&|term| one(rule(term)?.protocol.map(u32::from), u8::MAX.into()));
        let vpn = ranges(&|term| one(rule(term)?.vpn.map(|vpn| vpn.0), u32::MAX));
        Ok(AllowRules {
            words,
            v4: AddressRows { from: ends(&terms, words, false, from), to: ends(&terms, words, false, to) },
            v6: AddressRows { from: ends(&terms, words, true, from), to: ends(&terms, words, true, to) },
            ports: IntervalRows::new(ports.into_iter(), words),
            protocol: IntervalRows::new(protocol.into_iter(), words),
            vpn: IntervalRows::new(vpn.into_iter(), words),
            rule_of: terms.iter().map(|term| term.rule).collect(),
            rules,
        })
    }

    /// Returns the rules of access that were compiled, in their order.
    pub fn rules(&self) -> &[AllowRule] {
        &self.rules
    }

    /// Returns the terms of which a node may be the sender, and those of which it may be the destination.
    pub fn rows_of(&self, member: &NodeGroups) -> PartyRows {
        let terms = terms(&self.rules);
        let row = |party: &dyn Fn(&Term<'_>) -> bool| {
            let mut row = vec![0u64; self.words];
            for (at, _) in terms.iter().enumerate().filter(|(_, term)| party(term)) {
                if let Some(word) = row.get_mut(at / WORD_BITS) {
                    *word |= 1 << (at % WORD_BITS);
                }
            }
            row
        };
        PartyRows { from: row(&|term| member.may_be(term.from)), to: row(&|term| member.may_be(term.to)) }
    }

    /// Returns the position of the first rule that lets in a packet with this key from one node to another.
    ///
    /// Returns `None` if no rule lets it in.
    #[inline]
    pub fn decide(&self, from: &PartyRows, to: &PartyRows, vpn: VpnId, key: &FlowKey) -> Option<usize> {
        let mut rows = RowSet::default();
        rows.add_addresses(&self.v4, &self.v6, key)?;
        rows.add(&from.from);
        rows.add(&to.to);
        rows.add(self.ports.row(key.dst_port));
        rows.add(self.protocol.row(key.protocol));
        rows.add(self.vpn.row(vpn.0));
        let term = rows.first_common(self.words)?;
        self.rule_of.get(term).map(|rule| *rule as usize)
    }

    /// Returns the name of the rule at this position.
    pub fn name(&self, rule: usize) -> Option<&String> {
        self.rules.get(rule).map(|rule| &rule.name)
    }
}

fn terms(rules: &[AllowRule]) -> Vec<Term<'_>> {
    let mut terms = Vec::new();
    for (number, rule) in (0..).zip(rules) {
        for from in &rule.from {
            for to in &rule.to {
                let mut add = |ports| terms.push(Term { rule: number, from, to, ports });
                rule.ports.iter().for_each(|range| add((*range.start(), *range.end())));
                if rule.ports.is_empty() {
                    add((0, u16::MAX));
                }
            }
            if terms.len() > MAX_TERMS {
                return terms;
            }
        }
    }
    terms
}

fn from<'a>(term: &Term<'a>) -> &'a Party {
    term.from
}

fn to<'a>(term: &Term<'a>) -> &'a Party {
    term.to
}

/// Returns, for each interval of addresses, the terms whose sender or destination (as `end` selects) may lie in it.
fn ends<K: RuleValue>(
    terms: &[Term<'_>],
    words: usize,
    is_ipv6: bool,
    end: for<'a> fn(&Term<'a>) -> &'a Party,
) -> IntervalRows<K> {
    let range = |term: &Term<'_>| match end(term) {
        Party::Prefix(prefix) if prefix.address.is_ipv6() != is_ipv6 => None,
        Party::Prefix(prefix) => Some(prefix.range()),
        _ if is_ipv6 => Some((0, u128::MAX)),
        _ => Some((0, u32::MAX.into())),
    };
    IntervalRows::new(terms.iter().map(range), words)
}

/// Returns the range that contains only `value`, or all values from 0 to `last` if there is no value.
fn one(value: Option<u32>, last: u32) -> Option<(u128, u128)> {
    Some(value.map_or((0, last.into()), |value| (value.into(), value.into())))
}
