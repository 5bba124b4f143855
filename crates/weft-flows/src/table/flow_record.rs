//! Snapshot of a flow in the table, for reports, listings and the console.

use super::record::{PathSeen, Tally, side};
use super::{FlowRef, FlowStates, NO_GROUP};
use crate::alternates::GroupId;
use crate::treatment::Treatment;
use crate::user::UserId;
use weft_units::{Instant, Rate, VpnId};
use weft_wire::er_sig::Direction;
use weft_wire::ip::FlowKey;

/// Reason why a flow was reported. The numbers are those of IPFIX's `flowEndReason` (RFC 5102 §5.11.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEnd {
    /// The flow was idle for its time-out.
    Idle = 1,
    /// The flow continues. It is reported because its active time-out passed.
    Active = 2,
    /// The end of the flow was seen: FIN, RST or RELEASE.
    Seen = 3,
    /// An operator or the configuration ended the flow.
    Forced = 4,
    /// The flow was evicted to store another one.
    Evicted = 5,
}

/// All data about a flow in the table. Each pair has the initiator's direction first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowRecord {
    /// VPN of the flow.
    pub vpn: VpnId,
    /// Key of the packets that the initiator sends.
    pub key: FlowKey,
    /// Last flow label in the other direction, or zero in IPv4.
    pub reverse_label: u32,
    /// User that holds the flow.
    pub user: UserId,
    /// Position of the rule that decided the treatment, or 65,535 for none.
    pub rule: u16,
    /// Treatment that the flow was granted.
    pub granted: Treatment,
    /// Guaranteed rate that the flow asked for.
    pub asked: Rate,
    /// DSCP of the flow's first packet, 0 to 63.
    pub dscp: u8,
    /// Mean rate since the last report, or between the last two reports if the last one is less than a second old.
    pub achieved: [Rate; 2],
    /// Packets and bytes of each direction since the last report.
    pub delta: [Tally; 2],
    /// Packets and bytes since the flow began.
    pub total: [Tally; 2],
    /// Number of the flow's packets, in both directions, that were marked CE.
    pub marks: u32,
    /// Number of the flow's packets, in both directions, that were dropped.
    pub drops: u32,
    /// Time at which the flow began.
    pub start: Instant,
    /// Time of the last packet, to a millisecond.
    pub last_used: Instant,
    /// Path on which the flow was last seen, if it was.
    pub path: Option<PathSeen>,
    /// Group of routes that each direction uses, or `None` without a group.
    pub groups: [Option<GroupId>; 2],
    /// Reason of the report. `None` in a listing.
    pub end: Option<FlowEnd>,
}

/// Place in a listing that is read by several calls of [`FlowStates::list`]. The default is the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCursor(u32);

impl FlowStates {
    /// Returns a snapshot of a flow, or `None` if it has ended.
    pub fn get(&self, now: Instant, flow: FlowRef) -> Option<FlowRecord> {
        self.hot_at(flow).map(|_| self.record(now, flow.record, None))
    }

    /// Lists the flows among the next `records` records, and moves the cursor. Returns false at the end.
    ///
    /// A flow that lives from the first call to the last is listed exactly once.
    pub fn list(
        &self,
        now: Instant,
        cursor: &mut FlowCursor,
        records: u32,
        each: &mut impl FnMut(FlowRef, &FlowRecord),
    ) -> bool {
        let (from, end) = (cursor.0, self.hot.len() as u32);
        cursor.0 = from.saturating_add(records).min(end);
        for record in from..cursor.0 {
            let generation = self.hot[record as usize].generation;
            if generation % 2 == 1 {
                each(FlowRef { record, generation }, &self.record(now, record, None));
            }
        }
        cursor.0 < end
    }

    pub(super) fn record(&self, now: Instant, record: u32, end: Option<FlowEnd>) -> FlowRecord {
        let (hot, cold) = (&self.hot[record as usize], &self.cold[record as usize]);
        let from_lower = hot.direction(true) == Direction::Forward;
        let reverse_label = cold.label(side(Direction::Reverse));
        FlowRecord {
            vpn: VpnId(hot.vpn()),
            key: cold.identity(hot).key(from_lower, cold.label(side(Direction::Forward))),
            reverse_label,
            user: UserId(cold.user),
            rule: cold.rule,
            granted: self.treatments.get(hot.treatment),
            asked: cold.asked,
            dscp: cold.dscp,
            achieved: [0, 1].map(|side| cold.achieved(hot, side, now)),
            delta: [0, 1].map(|side| cold.unreported(hot, side)),
            total: [0, 1].map(|side| cold.total(hot, side)),
            marks: cold.marks,
            drops: cold.drops,
            start: cold.start,
            last_used: now.before(hot.idle(now)),
            path: cold.path,
            groups: hot.groups.map(|group| (group != NO_GROUP).then_some(GroupId(group))),
            end,
        }
    }
}
