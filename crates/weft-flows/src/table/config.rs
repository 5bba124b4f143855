//! Limits of the table.

use weft_units::Duration;

/// Longest time-out. Derived: a quarter of the 2^32 ms after which the times of a record repeat.
const LONGEST: Duration = Duration::from_millis(1 << 30);

/// Sizes, quotas and time-outs of a table of flows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TableConfig {
    /// Number of flows at which a new flow evicts another.
    pub flows: u32,
    /// Maximum number of users. While all of them have flows, further users share one number.
    pub users: u32,
    /// Maximum number of different treatments. A flow with a further one gets no state.
    pub treatments: u16,
    /// Time without packets after which a flow ends.
    pub idle: Duration,
    /// Time after which a flow that continues is reported. `None` if it never is.
    pub active: Option<Duration>,
    /// Number of flows of a user at which its new flow evicts one of its own.
    pub flows_per_user: u32,
    /// Number of new flows without a guarantee that a user may begin in a second. `None` if there is no limit.
    pub new_flows_per_second: Option<u32>,
}

impl Default for TableConfig {
    /// Returns settings for one million flows, which take less than 256 MB.
    ///
    /// The limits of a user's flows and new flows are tuned: a busy proxy begins some 1,000 flows/s, a port scanner
    /// 100,000.
    fn default() -> TableConfig {
        TableConfig {
            flows: 1_000_000,
            users: 1 << 16,
            treatments: 1 << 12,
            idle: Duration::from_secs(60),
            active: Some(Duration::from_secs(60)),
            flows_per_user: 250_000,
            new_flows_per_second: Some(10_000),
        }
    }
}

impl TableConfig {
    /// Returns the settings with every value brought into its range.
    pub(super) fn clamped(self) -> TableConfig {
        let bounded = |time: Duration| time.clamp(Duration::from_millis(1), LONGEST);
        TableConfig {
            flows: self.flows.clamp(1, 1 << 30),
            users: self.users.clamp(1, 1 << 24),
            treatments: self.treatments.max(1),
            idle: bounded(self.idle),
            active: self.active.map(bounded),
            flows_per_user: self.flows_per_user.max(1),
            new_flows_per_second: self.new_flows_per_second.map(|rate| rate.max(1)),
        }
    }

    /// Returns the number of records: the flows, and a reserve of a 64th for flows with a guarantee.
    ///
    /// The reserve serves a guaranteed flow when no flow can be evicted.
    pub(super) fn records(&self) -> u32 {
        self.flows + self.flows.div_ceil(64)
    }
}
