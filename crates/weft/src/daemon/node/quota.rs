//! Links with a quota. The node reads their counters each second, and passes the resulting limits to the engine.

use super::caps::CapsInForce;
use super::*;
use crate::config::QuotaReached;
use crate::daemon::quota::{self, QuotaChange, QuotaUse, Quotas};
use crate::table;
use std::fs;
use weft_engine::LinkConfig;
use weft_units::PathTier;

/// Interval at which changed usage is stored. A crash of the machine loses at most the usage of one interval.
const STORE_EVERY: Duration = Duration::from_secs(60);

/// Usage of the links with a quota, and the time at which it is stored next.
pub struct QuotaKeeper {
    quotas: Quotas,
    /// Identifies this boot of the machine.
    boot: String,
    next_store: Instant,
    /// Rate limits of the links by the time of day.
    pub caps: CapsInForce,
}

impl QuotaKeeper {
    /// Continues with the usage in the stored lines `stored`.
    pub fn new(stored: &[String]) -> QuotaKeeper {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.split_whitespace().next().unwrap_or("unknown").to_owned();
        QuotaKeeper { quotas: Quotas::parse(stored), boot, next_store: Instant::ZERO, caps: CapsInForce::default() }
    }

    /// Returns the bytes that a link has carried in the present period of its quota. `None` if it has no quota.
    pub fn used(&self, unix_s: u64, link: &config::Link) -> Option<u64> {
        link.quota.map(|quota| self.quotas.used(unix_s, &link.name.value, &quota))
    }

    /// Returns the usage of all links with a quota as text, to be stored when the node ends.
    pub fn lines(&self) -> String {
        self.quotas.lines()
    }
}

impl DaemonNode {
    /// Returns the quota of a link and its used part, if the link has a quota.
    pub(super) fn link_quota(&self, name: &str) -> Option<status::LinkQuota> {
        let link = self.config.link.iter().find(|link| link.name.value == name)?;
        let (quota, used_bytes) = (link.quota?, self.quotas.used(self.clock.unix_s(), link)?);
        Some(status::LinkQuota { used_bytes, limit_bytes: quota.bytes, is_daily: quota.per == QuotaPeriod::Day })
    }

    /// Reads the counters of links with a quota, and applies the resulting limits.
    pub(super) fn watch_quotas(&mut self, now: Instant) {
        if self.config.link.iter().all(|link| link.quota.is_none()) {
            return;
        }
        // If the kernel's table cannot be read, the next check includes the bytes of this interval.
        let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        let counters = quota::counters(&text);
        let keeper = &mut self.quotas;
        let counter = |name: &str| counters.get(name).copied();
        let has_changed = keeper.quotas.look(self.clock.unix_s(), &keeper.boot, &self.config.link, counter);
        if has_changed {
            let changes = keeper.quotas.take_changes();
            changes.iter().for_each(|change| self.log_quota(change));
            self.apply_quotas(now);
        }
        if (has_changed || now >= self.quotas.next_store) && self.state_writer.quotas(self.quotas.lines()) {
            self.quotas.next_store = now + STORE_EVERY;
        }
    }

    fn log_quota(&self, QuotaChange { link, used, quota, standing }: &QuotaChange) {
        let (used, limit) = (table::bytes(*used), table::bytes(quota.bytes));
        let what = match (standing, quota.reached) {
            (QuotaUse::Within, _) => "the link is within its quota again, and is used as before",
            (QuotaUse::Near, _) => "the quota is nearly used up",
            (QuotaUse::Reached, QuotaReached::Sparse) => {
                "the quota is used up: until the next period the link carries only sparse flows, such as calls"
            }
            (QuotaUse::Reached, QuotaReached::Backup) => {
                "the quota is used up: the link is used only while no other link answers"
            }
            (QuotaUse::Reached, QuotaReached::Never) => {
                "the quota is used up: the link is not used any more in this period"
            }
            (QuotaUse::Reached, QuotaReached::GoOn) => "the quota is used up: the link stays in use, as configured",
        };
        self.log.info(format_args!("link {link}: {used} of its data quota of {limit} used: {what}"));
    }

    /// Makes the engine and the sockets use the links that the configuration and the quotas allow.
    pub(super) fn apply_quotas(&mut self, now: Instant) {
        let links = self.links_within_quotas();
        self.engine.set_links(now, links);
        self.links.choose(self.wanted_links());
        self.check_links();
    }

    /// Returns the settings of the links for the engine. The time of day and a quota that is used up limit them.
    pub(super) fn links_within_quotas(&self) -> Vec<LinkConfig> {
        let mut links = self.config.engine_links();
        // Each link has two entries: one for UDP, one for TCP.
        for (link, config) in links.iter_mut().zip(self.config.link.iter().flat_map(|link| [link, link])) {
            link.cap = self.cap_now(config);
            match self.quotas.quotas.consequence(config) {
                Some(QuotaReached::Sparse) => link.allowed.is_sparse_only = true,
                Some(QuotaReached::Backup) => link.allowed.tier = link.allowed.tier.max(PathTier::Backup),
                Some(QuotaReached::Never | QuotaReached::GoOn) | None => {}
            }
        }
        links
    }

    /// Returns the links that the configuration wants, without those whose quota excludes them.
    pub(super) fn wanted_links(&self) -> WantedLinks {
        let mut wanted = WantedLinks::of(&self.config);
        let is_out = |link: &&config::Link| self.quotas.quotas.consequence(link) == Some(QuotaReached::Never);
        for link in self.config.link.iter().filter(is_out) {
            wanted.choice.ignore.push(link.name.clone());
            wanted.configured.retain(|name| *name != link.name.value);
        }
        wanted
    }
}
