//! The flow-state router classifies a flow's first packet, asks admission for its guarantee, and counts its packets.
//!
//! The caller passes each packet to [`FlowRouter::on_packet`], and the result of [`FlowRouter::standing`] to the
//! packet's port. A known flow costs one lookup. The rules are applied only to a flow's first packet, whichever side
//! sends it.

mod grants;
mod user_rule;

pub use grants::{FlowVerdict, GrantHolder, GrantKey};
pub use user_rule::{UserBy, UserName, UserRule};

use crate::admission::{AdmissionControl, RouteNo};
use crate::class::Classes;
use crate::rules::{Classifier, FirstPacket, FlowRules, NameId, RuleFault, RuleLimits};
use crate::table::{
    FlowCursor, FlowEnd, FlowRecord, FlowRef, FlowStart, FlowStates, PathSeen, TableConfig, TableCounters,
};
use crate::treatment::Treatment;
use crate::user::{UserKey, Users};
use alloc::string::String;
use alloc::vec::Vec;
use grants::{FlowGrants, without_guarantee};
use weft_units::{Instant, Rate, VpnId};
use weft_wire::er_sig::Direction;
use weft_wire::ip::FlowKey;

/// Number of records of the table that one call of [`FlowRouter::expire`] examines after a change of the rules.
///
/// *Tuned*: it takes some 100 µs.
const REVIEWED_AT_ONCE: u32 = 1_024;
/// Rule number that stands for no rule: the flow gets the default class.
const NO_RULE: u16 = u16::MAX;

/// Settings of a router.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RouterConfig {
    /// Classes by name.
    pub classes: Classes,
    /// Rules, in the order in which they are tried.
    pub rules: FlowRules,
    /// Bounds that the rules are checked against.
    pub limits: RuleLimits,
    /// Definition of a user, the unit of fair sharing (a host, a prefix or a node), and the users' weights.
    pub users: UserRule,
    /// Sizes, quotas and time-outs of the flow table.
    pub table: TableConfig,
}

/// Data about a packet. A super-packet is counted as the packets that it consists of.
#[derive(Clone, Copy, Debug)]
pub struct PacketFacts<'a> {
    /// VPN of the packet.
    pub vpn: VpnId,
    /// Key of the packet's flow.
    pub key: FlowKey,
    /// DSCP of the packet, 0 to 63.
    pub dscp: u8,
    /// Number of packets: 1, or more for a super-packet.
    pub packets: u32,
    /// IP bytes of all packets together.
    pub bytes: u32,
    /// Name of the packet's ingress edge.
    pub near: &'a str,
    /// Name of the packet's egress edge.
    pub far: &'a str,
}

/// The flow of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// The flow, or `None` if it got no state.
    pub flow: Option<FlowRef>,
    /// Direction of the packet: forward if the flow's initiator sent it.
    pub direction: Direction,
    /// Number of the last change of any flow's grant.
    ///
    /// Results that the caller got before this change may be out of date.
    pub changes: u32,
}

impl Passage {
    /// Passage of a packet where no flow state is kept.
    pub const UNKNOWN: Passage = Passage { flow: None, direction: Direction::Forward, changes: 0 };
}

/// Data about a flow that its port needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Standing {
    /// Number of the flow's user.
    pub user: u32,
    /// Weight of the user.
    pub weight: u32,
    /// Treatment of the flow.
    pub treatment: Treatment,
}

/// The flow-state router of a node.
#[derive(Debug)]
pub struct FlowRouter {
    classes: Classes,
    rules: FlowRules,
    classifier: Classifier,
    user_rule: UserRule,
    states: FlowStates,
    users: Users,
    grants: FlowGrants,
    /// Ended flows whose guarantee admission has not released yet.
    ended: Vec<GrantKey>,
    changes: u32,
    /// Position in the list of flows up to which flows were ended because the rules changed.
    ///
    /// `None` if no flows have to be ended for this reason.
    review: Option<FlowCursor>,
}

impl FlowRouter {
    /// Returns a router without flows. `seed` keys its hashes.
    ///
    /// # Errors
    /// Returns the faults in the rules.
    pub fn new(config: RouterConfig, seed: u64) -> Result<FlowRouter, Vec<RuleFault>> {
        let classifier = config.rules.compile(&config.classes, &config.limits)?;
        Ok(FlowRouter {
            classes: config.classes,
            rules: config.rules,
            classifier,
            user_rule: config.users,
            users: Users::new(config.table.users, seed.rotate_left(17)),
            states: FlowStates::new(config.table, seed),
            grants: FlowGrants::new(seed.rotate_left(31)),
            ended: Vec::new(),
            changes: 0,
            review: None,
        })
    }

    /// Changes rules, classes, users and the time between two reports.
    ///
    /// Known flows end and begin again by the new rules, some at each [`FlowRouter::expire`]. The size of the table
    /// stays.
    ///
    /// # Errors
    /// Returns the faults in the rules. Nothing is changed then.
    pub fn reconfigure(&mut self, config: RouterConfig) -> Result<(), Vec<RuleFault>> {
        self.classifier = config.rules.compile(&config.classes, &config.limits)?;
        let is_same = (&self.classes, &self.rules, &self.user_rule) == (&config.classes, &config.rules, &config.users);
        (self.classes, self.rules, self.user_rule) = (config.classes, config.rules, config.users);
        self.states.set_active(config.table.active);
        if !is_same {
            self.review = Some(FlowCursor::default());
        }
        Ok(())
    }

    /// Counts a packet in its flow. A new flow is classified.
    ///
    /// `ended` receives the last record of a flow that is evicted for this one.
    pub fn on_packet(
        &mut self,
        now: Instant,
        packet: &PacketFacts<'_>,
        ended: &mut impl FnMut(&FlowRecord),
    ) -> Passage {
        let (flow, direction) = match self.states.find(now, packet.vpn, &packet.key) {
            Some(found) => (Some(found.flow), found.direction),
            None => (self.begin(now, packet, ended), Direction::Forward),
        };
        if let Some(flow) = flow {
            self.states.count(flow, direction, packet.packets, packet.bytes);
        }
        Passage { flow, direction, changes: self.changes }
    }

    /// Counts further packets of a known flow.
    pub fn count(&mut self, flow: FlowRef, direction: Direction, packets: u32, bytes: u32) {
        self.states.count(flow, direction, packets, bytes);
    }

    /// Records the path that carried a flow's last packet.
    pub fn set_path(&mut self, flow: FlowRef, path: PathSeen) {
        self.states.set_path(flow, path);
    }

    /// Counts a packet of a flow that its port dropped or marked.
    pub fn count_verdict(&mut self, flow: FlowRef, is_marked: bool) {
        if is_marked { self.states.count_mark(flow) } else { self.states.count_drop(flow) }
    }

    /// Returns the data about a packet's flow that its egress port needs, or `None` if the flow has ended.
    ///
    /// The flow's in-band grant applies. Without one, the flow requests the guarantee of its rule from `admission` on
    /// that port, unless it has requested it before.
    pub fn standing(
        &mut self,
        now: Instant,
        flow: FlowRef,
        (packet, route): (&PacketFacts<'_>, RouteNo),
        admission: &mut AdmissionControl<GrantHolder>,
    ) -> Option<Standing> {
        self.release_ended(admission);
        let record = self.states.get(now, flow)?;
        let rule = Some(usize::from(record.rule)).filter(|_| record.rule != NO_RULE);
        let asked = self.classifier.request(rule).treatment;
        let key = GrantKey::of(packet.vpn, &packet.key);
        match self.grants.signalled(&key) {
            Some(signalled) => self.follow_signal(flow, key, signalled, asked.class),
            None if asked.guaranteed > Rate::ZERO => self.ask(now, flow, (key, route), &asked, admission),
            None => {}
        }
        let weight = u32::from(self.users.weight(record.user));
        Some(Standing { user: record.user.0, weight, treatment: self.states.treatment(flow)? })
    }

    /// Ends flows that are idle, and reports those whose active time-out passed.
    ///
    /// After a change of the rules, it also ends some known flows, so that they begin again by the new rules. A call
    /// does a bounded amount of work.
    pub fn expire(
        &mut self,
        now: Instant,
        admission: &mut AdmissionControl<GrantHolder>,
        report: &mut impl FnMut(&FlowRecord),
    ) {
        let ended = &mut self.ended;
        let mut on_record = |record: &FlowRecord| {
            note_end(ended, record);
            report(record);
        };
        self.states.expire(now, &mut on_record);
        if let Some(mut cursor) = self.review {
            let mut old = Vec::new();
            let goes_on = self.states.list(now, &mut cursor, REVIEWED_AT_ONCE, &mut |flow, _| old.push(flow));
            for flow in old {
                self.states.remove(now, flow, FlowEnd::Forced, &mut on_record);
            }
            self.review = goes_on.then_some(cursor);
        }
        self.release_ended(admission);
    }

    /// Ends some flows because the node stops, and reports each for the last time. Returns false when none is left.
    pub fn end_some(&mut self, now: Instant, report: &mut impl FnMut(&FlowRecord)) -> bool {
        let mut cursor = self.review.unwrap_or_default();
        let mut old = Vec::new();
        let goes_on = self.states.list(now, &mut cursor, REVIEWED_AT_ONCE, &mut |flow, _| old.push(flow));
        for flow in old {
            self.states.remove(now, flow, FlowEnd::Forced, report);
        }
        self.review = goes_on.then_some(cursor);
        goes_on
    }

    /// Returns the time at which [`FlowRouter::expire`] has work to do, or `None` if there is no flow.
    pub fn next_timeout(&self, now: Instant) -> Option<Instant> {
        if self.review.is_some() { Some(now) } else { self.states.next_timeout() }
    }

    /// Returns all data about a flow, or `None` if it has ended.
    pub fn get(&self, now: Instant, flow: FlowRef) -> Option<FlowRecord> {
        self.states.get(now, flow)
    }

    /// Returns the flow of a packet without counting the packet, or `None` if the table has no such flow.
    pub fn find(&mut self, now: Instant, vpn: VpnId, key: &FlowKey) -> Option<FlowRef> {
        self.states.find(now, vpn, key).map(|found| found.flow)
    }

    /// Lists the flows among the next `records` records, and moves the cursor. Returns false at the end.
    pub fn list(
        &self,
        now: Instant,
        cursor: &mut FlowCursor,
        records: u32,
        each: &mut impl FnMut(FlowRef, &FlowRecord),
    ) -> bool {
        self.states.list(now, cursor, records, each)
    }

    /// Returns the decision of admission about a flow: the worse of its two directions.
    pub fn verdict(&self, record: &FlowRecord) -> FlowVerdict {
        let key = GrantKey::of(record.vpn, &record.key);
        let back = GrantKey { flow: key.flow.reversed(), ..key };
        self.grants.verdict(&key).max(self.grants.verdict(&back))
    }

    /// Returns the classes of flows.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Returns the rules, in the order in which they are tried.
    pub fn rules(&self) -> &FlowRules {
        &self.rules
    }

    /// Returns the rule that decided about a flow, or `None` for the default class.
    pub fn rule_name(&self, record: &FlowRecord) -> Option<&str> {
        let rule = self.rules.rules().get(usize::from(record.rule)).filter(|_| record.rule != NO_RULE);
        rule.map(|rule| rule.name.as_str())
    }

    /// Returns the identity of a user, its weight, and the number of its flows.
    pub fn user(&self, user: crate::UserId) -> (Option<UserKey>, u16, u32) {
        (self.users.key(user), self.users.weight(user), self.states.flows_of(user))
    }

    /// Returns the counters of the flow table, and its number of flows.
    pub fn counters(&self) -> (TableCounters, usize) {
        (self.states.counters(), self.states.len())
    }

    /// Returns the properties by which the rules judge a flow's first packet.
    pub fn first_packet(&self, packet: &PacketFacts<'_>) -> FirstPacket {
        first_packet(&self.rules, &self.user_rule, packet)
    }

    /// Returns the treatment that a flow with this first packet would ask for. The flow gets no state.
    pub fn would_ask(&self, packet: &PacketFacts<'_>) -> Treatment {
        self.classifier.classify(&self.first_packet(packet)).request.treatment
    }

    /// Classifies a new flow and gives it a state. Returns `None` if the table refuses it.
    fn begin(
        &mut self,
        now: Instant,
        packet: &PacketFacts<'_>,
        report: &mut impl FnMut(&FlowRecord),
    ) -> Option<FlowRef> {
        let first = self.first_packet(packet);
        let decision = self.classifier.classify(&first);
        let asked = decision.request.treatment;
        let user_key = self.user_rule.user_of(packet.vpn, packet.key.src, first.near);
        let weight = self.user_rule.weight(&user_key, packet.near);
        let states = &self.states;
        let user = self.users.intern(user_key, weight, |user| states.flows_of(user) > 0);
        let rule = decision.rule.and_then(|rule| u16::try_from(rule).ok()).unwrap_or(NO_RULE);
        let granted = without_guarantee(&asked);
        let start = FlowStart { user, granted, asked: asked.guaranteed, rule, dscp: packet.dscp };
        let ended = &mut self.ended;
        let inserted = self.states.insert(now, packet.vpn, &packet.key, &start, &mut |record| {
            note_end(ended, record);
            report(record);
        });
        inserted.ok()
    }

    /// Ends the guarantees of flows that have ended.
    fn release_ended(&mut self, admission: &mut AdmissionControl<GrantHolder>) {
        while let Some(key) = self.ended.pop() {
            self.release(&key, admission);
            self.release(&GrantKey { flow: key.flow.reversed(), ..key }, admission);
        }
    }
}

/// Returns the properties by which `rules` judge a flow's first packet.
pub fn first_packet(rules: &FlowRules, users: &UserRule, packet: &PacketFacts<'_>) -> FirstPacket {
    let names = rules.names();
    let user = match users.by {
        UserBy::Node => names.id(packet.near),
        _ => NameId::default(),
    };
    let (near, far) = (names.id(packet.near), names.id(packet.far));
    FirstPacket { key: packet.key, dscp: packet.dscp, vpn: packet.vpn, user, near, far }
}

/// Adds a flow that has ended to `ended` if it asked for a guarantee, so that the guarantee will be released.
fn note_end(ended: &mut Vec<GrantKey>, record: &FlowRecord) {
    if record.end != Some(FlowEnd::Active) && record.asked > Rate::ZERO {
        ended.push(GrantKey::of(record.vpn, &record.key));
    }
}

/// Returns a user as text for a list of users.
pub fn user_text(key: Option<UserKey>, names: impl Fn(NameId) -> Option<String>) -> String {
    use alloc::string::ToString;
    match key {
        Some(UserKey::Host(_, address)) => address.to_string(),
        Some(UserKey::Prefix(number)) => alloc::format!("prefix {number}"),
        Some(UserKey::Certificate(number)) => names(NameId(number)).unwrap_or_else(|| "other nodes".to_string()),
        None => "others".to_string(),
    }
}
