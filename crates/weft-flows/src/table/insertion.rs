//! The insertion of a flow, and the eviction of another one for it.
//!
//! A new flow passes three gates: its user's rate of new flows, its user's quota of flows, and the size of the table.
//! At its quota a user loses a flow of its own. At the size of the table, the user who holds most flows without a
//! guarantee loses one. Each new flow evicts at most two, so no eviction ever makes a pause.

use super::key::FlowIdentity;
use super::record::{ColdRecord, HotRecord, elapsed, millis};
use super::{FlowEnd, FlowRecord, FlowRef, FlowStates, has_guarantee};
use crate::treatment::Treatment;
use crate::user::UserId;
use core::fmt;
use weft_units::{Duration, Instant, Rate, VpnId};
use weft_wire::ip::FlowKey;

/// Number of flows that a search for one to evict examines.
///
/// Tuned: it bounds the cost of one new flow.
const LOOKS: u32 = 4;
/// A flow without packets for this time is evicted without a look at others.
///
/// Tuned: interactive flows are rarely silent for as long.
const QUIET: Duration = Duration::from_secs(1);
/// Time whose allowed number of new flows a user may save up and begin at once.
///
/// Tuned: a browser begins its flows in bursts of a second.
const NEW_FLOW_BURST: Duration = Duration::from_secs(1);

/// Data about a new flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowStart {
    /// User that holds the flow.
    pub user: UserId,
    /// Treatment that the flow is granted.
    pub granted: Treatment,
    /// Guaranteed rate that the flow asked for.
    pub asked: Rate,
    /// Position of the rule that decided the treatment, or 65,535 for none.
    pub rule: u16,
    /// DSCP of the first packet, 0 to 63.
    pub dscp: u8,
}

/// Reason why a flow got no state. Its packets are forwarded without state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertRefused {
    /// The user begins flows faster than its quota allows.
    Rate,
    /// The user holds its quota of flows, all with a guarantee.
    Quota,
    /// The table is full, and no flow can be evicted.
    Full,
    /// The table's set of different treatments is full.
    Treatments,
}

impl fmt::Display for InsertRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InsertRefused::Rate => "the user begins flows faster than its quota",
            InsertRefused::Quota => "the user holds its quota of flows, all with a guarantee",
            InsertRefused::Full => "the flow table is full of flows with a guarantee",
            InsertRefused::Treatments => "too many different treatments",
        })
    }
}

impl core::error::Error for InsertRefused {}

impl FlowStates {
    /// Adds the flow of a first packet, whose sender becomes the initiator. A known flow stays as it is.
    ///
    /// `ended` receives the last record of each flow that is evicted. The caller counts the packet.
    ///
    /// # Errors
    /// Fails if a quota or the size of the table forbids the flow and no flow can be evicted for it.
    pub fn insert(
        &mut self,
        now: Instant,
        vpn: VpnId,
        key: &FlowKey,
        start: &FlowStart,
        ended: &mut impl FnMut(&FlowRecord),
    ) -> Result<FlowRef, InsertRefused> {
        let (identity, lower_began) = FlowIdentity::of(vpn, key);
        let hash = identity.hash(&self.state);
        if let Some(record) = self.search(&identity, hash) {
            return Ok(self.touch(now, record, lower_began, key.flow_label).flow);
        }
        let user = if start.user.0 < self.config.users { start.user.0 } else { UserId::OTHERS.0 };
        let guaranteed = has_guarantee(&start.granted);
        if !guaranteed && !self.admit_new(now, user) {
            self.counters.refused_rate += 1;
            return Err(InsertRefused::Rate);
        }
        let treatment = self.treatments.take(&start.granted).ok_or(InsertRefused::Treatments)?;
        let record =
            self.make_room(now, user, guaranteed, ended).inspect_err(|_| self.treatments.give_back(treatment))?;
        let at = record as usize;
        self.hot[at] = self.hot[at].successor(&identity, hash, lower_began);
        let hot = &mut self.hot[at];
        (hot.treatment, hot.last_used_ms) = (treatment, millis(now));
        hot.set_limit(self.treatments.limit(treatment), guaranteed);
        let generation = hot.generation;
        let cold = &mut self.cold[at];
        *cold = ColdRecord::new(&identity, key.flow_label, user, now);
        (cold.asked, cold.rule, cold.dscp) = (start.asked, start.rule, start.dscp);
        self.index.insert(hash, record);
        self.holders.hold(user, record, guaranteed);
        self.arm(now, record);
        self.flows += 1;
        self.counters.began += 1;
        Ok(FlowRef { record, generation })
    }

    /// Ends a flow for a reason that the caller knows. `ended` receives its last record.
    ///
    /// Returns false if the flow had ended before.
    pub fn remove(
        &mut self,
        now: Instant,
        flow: FlowRef,
        reason: FlowEnd,
        ended: &mut impl FnMut(&FlowRecord),
    ) -> bool {
        let is_live = self.hot_at(flow).is_some();
        if is_live {
            self.end(now, flow.record, reason, ended);
        }
        is_live
    }

    /// Reports a flow for the last time and forgets it.
    pub(super) fn end(&mut self, now: Instant, record: u32, reason: FlowEnd, ended: &mut impl FnMut(&FlowRecord)) {
        ended(&self.record(now, record, Some(reason)));
        let (hot, cold) = (&mut self.hot[record as usize], &self.cold[record as usize]);
        let hash = cold.identity(hot).hash(&self.state);
        hot.generation = hot.generation.wrapping_add(1);
        self.index.remove(hash, record);
        self.wheel.cancel(record);
        self.holders.release(cold.user, record, hot.is_guaranteed());
        self.treatments.give_back(hot.treatment);
        self.flows -= 1;
    }

    /// Returns a vacant record for a new flow of `user`, after the evictions that the quotas demand.
    fn make_room(
        &mut self,
        now: Instant,
        user: u32,
        guaranteed: bool,
        ended: &mut impl FnMut(&FlowRecord),
    ) -> Result<u32, InsertRefused> {
        if self.holders.flows(UserId(user)) >= self.config.flows_per_user
            && !self.evict(now, user, ended)
            && !guaranteed
        {
            self.counters.refused_quota += 1;
            return Err(InsertRefused::Quota);
        }
        let is_full = self.flows >= self.config.flows;
        let evicted = is_full && self.holders.largest().is_some_and(|largest| self.evict(now, largest, ended));
        let may_take = !is_full || evicted || guaranteed;
        may_take.then(|| self.vacant_record()).flatten().ok_or_else(|| {
            self.counters.refused_full += 1;
            InsertRefused::Full
        })
    }

    fn admit_new(&mut self, now: Instant, user: u32) -> bool {
        self.config.new_flows_per_second.is_none_or(|rate| {
            let spacing = Duration::from_secs(1) / rate;
            self.holders.admit_new(user, now, spacing, NEW_FLOW_BURST - spacing)
        })
    }

    /// Evicts the most idle of a user's oldest flows without a guarantee. Returns false if there is none.
    fn evict(&mut self, now: Instant, user: u32, ended: &mut impl FnMut(&FlowRecord)) -> bool {
        let mut victim: Option<(Duration, u32)> = None;
        for _ in 0..LOOKS {
            let Some(record) = self.holders.oldest(user) else { break };
            let idle = elapsed(now, self.hot[record as usize].last_used_ms);
            if victim.is_none_or(|(most, _)| idle > most) {
                victim = Some((idle, record));
            }
            if idle >= QUIET {
                break;
            }
            self.holders.requeue(user, record);
        }
        let Some((_, record)) = victim else { return false };
        self.end(now, record, FlowEnd::Evicted, ended);
        self.counters.evicted += 1;
        true
    }

    /// Returns a record without a flow. It appends one if there is none and the reserved memory has space.
    fn vacant_record(&mut self) -> Option<u32> {
        if let Some(record) = self.holders.vacant() {
            return Some(record);
        }
        let record = self.hot.len() as u32;
        if record >= self.config.records() {
            return None;
        }
        self.hot.push(HotRecord::VACANT);
        self.cold.push(ColdRecord::new(&FlowIdentity::NONE, 0, UserId::OTHERS.0, Instant::ZERO));
        self.wheel.add_item();
        self.holders.add_record(record);
        Some(record)
    }
}
