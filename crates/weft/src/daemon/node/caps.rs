//! Rate limits of links by the time of day.
//!
//! The node checks the local time each second, and passes changed limits to the engine.

use super::*;
use crate::config::Link;
use weft_io::local_time::{LocalMinute, local_minute};
use weft_units::Rate;

/// Rate limits by the time of day that applied at the last check, in the order of the `[[link]]` tables.
#[derive(Default)]
pub struct CapsInForce(Vec<Option<Rate>>);

impl CapsInForce {
    /// Records the limits that apply now. Returns the positions, from 0, of the `[[link]]` tables with another limit.
    fn change_to(&mut self, caps: Vec<Option<Rate>>) -> Vec<usize> {
        let before = std::mem::replace(&mut self.0, caps);
        let was = |at: usize| before.get(at).copied().flatten();
        self.0.iter().enumerate().filter(|(at, cap)| was(*at) != **cap).map(|(at, _)| at).collect()
    }
}

/// Returns the limit of a link's sending rate at a local time: the lowest one that applies then. `None`: no limit.
fn cap_at(link: &Link, time: LocalMinute) -> Option<Rate> {
    let by_time = link.max_rate_up_at.iter().filter(|cap| cap.counts_at(time.weekday, time.minute));
    by_time.map(|cap| cap.rate).chain(link.max_rate_up).min()
}

impl DaemonNode {
    /// Checks the local time, and applies rate limits that begin or end.
    pub(super) fn watch_caps(&mut self, now: Instant) {
        if self.config.link.iter().all(|link| link.max_rate_up_at.is_empty()) {
            self.quotas.caps = CapsInForce::default();
            return;
        }
        let caps = self.config.link.iter().map(|link| self.cap_now(link)).collect();
        let changed = self.quotas.caps.change_to(caps);
        for link in changed.iter().filter_map(|at| self.config.link.get(*at)) {
            let rate = self.cap_now(link).map_or_else(|| "none".to_owned(), |rate| rate.to_string());
            self.log.info(format_args!("link {}: maximum sending rate at this time of day: {rate}", link.name.value));
        }
        if !changed.is_empty() {
            self.apply_quotas(now);
        }
    }

    /// Returns the limit of a link's sending rate that applies now. `None` if there is no limit.
    pub(super) fn cap_now(&self, link: &Link) -> Option<Rate> {
        match local_minute(self.clock.unix_s()) {
            Some(time) => cap_at(link, time),
            None => link.max_rate_up,
        }
    }

    /// Returns the limit of the sending rate that applies now to a link. `None` if there is no limit.
    pub(super) fn cap_of(&self, name: &str) -> Option<Rate> {
        self.config.link.iter().find(|link| link.name.value == name).and_then(|link| self.cap_now(link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_config::config;

    fn links(text: &str) -> Vec<Link> {
        let text = format!("[node]\nkey = \"k\"\n[tun]\naddress = [\"10.9.0.1/24\"]\n{text}");
        let report = config::Report::new("t", text);
        config::parse(&report, Path::new(".")).expect("a configuration").link
    }

    #[test]
    fn the_lowest_limit_that_counts_is_in_force_and_changes_are_seen_once() {
        let links = links(
            "[[link]]\nname = \"a\"\nmax-rate-up = \"8 Mbit/s\"\n\
             max-rate-up-at = [\"08:00-18:00 5 Mbit/s\", \"mon 12:00-13:00 1 Mbit/s\", \"20:00-21:00 9 Mbit/s\"]\n\
             [[link]]\nname = \"b\"\nmax-rate-up-at = \"23:00-01:00 2 Mbit/s\"\n",
        );
        let mbps = |rate: u64| Some(Rate::from_bps(rate * 1_000_000));
        let at = |weekday, hour: u16, minute: u16| LocalMinute { weekday, minute: hour * 60 + minute };
        let caps = |time| links.iter().map(|link| cap_at(link, time)).collect::<Vec<_>>();
        assert_eq!(caps(at(2, 7, 59)), [mbps(8), None]);
        assert_eq!(caps(at(2, 8, 0)), [mbps(5), None]);
        assert_eq!(caps(at(1, 12, 0)), [mbps(1), None]);
        assert_eq!(caps(at(2, 20, 30)), [mbps(8), None], "a higher limit does not lift the lower one");
        assert_eq!(caps(at(3, 0, 30)), [mbps(8), mbps(2)]);
        let mut force = CapsInForce::default();
        assert_eq!(force.change_to(caps(at(2, 7, 59))), [0]);
        assert!(force.change_to(caps(at(2, 7, 59))).is_empty());
        assert_eq!(force.change_to(caps(at(2, 23, 0))), [1]);
        assert_eq!(force.change_to(caps(at(1, 12, 0))), [0, 1]);
    }
}
