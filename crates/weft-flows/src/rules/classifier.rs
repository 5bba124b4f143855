//! The compiled form of a list of rules.

use super::interval_rows::{AddressRows, BLOCK_WORDS, IntervalRows, RowSet, RuleValue, WORD_BITS};
use super::matching::{FirstPacket, MAX_DSCP, RuleKey, RuleNames};
use super::overrides::FlowRequest;
use super::{FlowRule, FlowRules};
use crate::class::Classes;
use alloc::vec::Vec;

/// Result of the rules for a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Position of the rule that matched, from 0, or `None` if the flow gets the default class.
    pub rule: Option<usize>,
    /// Treatment that the flow requests.
    pub request: FlowRequest,
}

/// Finds the first of n rules that matches, in a time that grows with log n and with n/64.
///
/// Each property selects a row of bits. The first bit that is set in all rows is the rule. Properties that no rule
/// names are left out. A lookup allocates nothing.
#[derive(Clone, Debug)]
pub struct Classifier {
    words: usize,
    v4: AddressRows<u32>,
    v6: AddressRows<u128>,
    from_ports: Option<IntervalRows<u16>>,
    to_ports: Option<IntervalRows<u16>>,
    protocol: Option<IntervalRows<u8>>,
    dscp: Option<IntervalRows<u8>>,
    vpn: Option<IntervalRows<u32>>,
    user: Option<IntervalRows<u32>>,
    near: Option<IntervalRows<u32>>,
    far: Option<IntervalRows<u32>>,
    /// Treatment that the flows of each rule request, by the rule's position.
    requests: Vec<FlowRequest>,
    default: FlowRequest,
}

impl Classifier {
    /// Returns the classifier of rules without faults.
    pub(super) fn new(list: &FlowRules, classes: &Classes) -> Classifier {
        let (rules, names) = (list.rules(), list.names());
        let words = rules.len().div_ceil(WORD_BITS).next_multiple_of(BLOCK_WORDS);
        let request = |rule: &FlowRule| {
            let class = classes.find(&rule.class).and_then(|id| classes.get(id));
            rule.overrides.apply(&class.map_or_else(|| classes.default_treatment(), |class| class.treatment))
        };
        let rows = RowBuilder { rules, names, words };
        Classifier {
            words,
            v4: AddressRows { from: rows.rows(RuleKey::From, false), to: rows.rows(RuleKey::To, false) },
            v6: AddressRows { from: rows.rows(RuleKey::From, true), to: rows.rows(RuleKey::To, true) },
            from_ports: rows.if_named(RuleKey::FromPorts),
            to_ports: rows.if_named(RuleKey::ToPorts),
            protocol: rows.if_named(RuleKey::Protocol),
            dscp: rows.if_named(RuleKey::Dscp),
            vpn: rows.if_named(RuleKey::Vpn),
            user: rows.if_named(RuleKey::User),
            near: rows.if_named(RuleKey::Near),
            far: rows.if_named(RuleKey::Far),
            requests: rules.iter().map(request).collect(),
            default: FlowRequest { treatment: classes.default_treatment(), available: None },
        }
    }

    /// Returns the request of a flow by the rule at this position, or by the default class.
    pub fn request(&self, rule: Option<usize>) -> FlowRequest {
        rule.and_then(|rule| self.requests.get(rule)).copied().unwrap_or(self.default)
    }

    /// Returns the rule of a flow with this first packet, and the flow's request.
    pub fn classify(&self, packet: &FirstPacket) -> Decision {
        let rule = self.first_match(packet);
        let request = rule.and_then(|rule| self.requests.get(rule)).copied().unwrap_or(self.default);
        Decision { rule, request }
    }

    /// Returns the position of the first rule that matches, from 0, or `None`.
    pub fn first_match(&self, packet: &FirstPacket) -> Option<usize> {
        let key = &packet.key;
        let mut rows = RowSet::default();
        rows.add_addresses(&self.v4, &self.v6, key)?;
        rows.add_of(&self.from_ports, key.src_port);
        rows.add_of(&self.to_ports, key.dst_port);
        rows.add_of(&self.protocol, key.protocol);
        rows.add_of(&self.dscp, packet.dscp & MAX_DSCP);
        rows.add_of(&self.vpn, packet.vpn.0);
        rows.add_of(&self.user, packet.user.0);
        rows.add_of(&self.near, packet.near.0);
        rows.add_of(&self.far, packet.far.0);
        rows.first_common(self.words)
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the bytes that the rows and intervals take.
    pub fn bytes(&self) -> usize {
        let addresses = self.v4.from.bytes() + self.v4.to.bytes() + self.v6.from.bytes() + self.v6.to.bytes();
        let ports = [&self.from_ports, &self.to_ports].into_iter().flatten().map(IntervalRows::bytes).sum::<usize>();
        let bytes = [&self.protocol, &self.dscp].into_iter().flatten().map(IntervalRows::bytes).sum::<usize>();
        let names = [&self.vpn, &self.user, &self.near, &self.far];
        addresses + ports + bytes + names.into_iter().flatten().map(IntervalRows::bytes).sum::<usize>()
    }
}

/// Builds the rows of each property.
struct RowBuilder<'a> {
    rules: &'a [FlowRule],
    names: &'a RuleNames,
    words: usize,
}

impl RowBuilder<'_> {
    fn rows<K: RuleValue>(&self, key: RuleKey, is_ipv6: bool) -> IntervalRows<K> {
        let ranges = self.rules.iter().map(|rule| rule.matches.interval(key, is_ipv6, self.names));
        IntervalRows::new(ranges, self.words)
    }

    /// Returns the rows of a property that both IP versions have, or `None` if every value has the same row.
    fn if_named<K: RuleValue>(&self, key: RuleKey) -> Option<IntervalRows<K>> {
        Some(self.rows(key, false)).filter(|rows| !rows.is_uniform())
    }
}
