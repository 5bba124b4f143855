//! Quotas of links: the data that each link has carried in the present period, and the resulting use of the link.
//!
//! The bytes are those of the interfaces' counters, because a provider counts all traffic, not only weft's. The
//! counters continue while no node runs. Usage is kept for each period by its number, so that a clock that is wrong
//! for some time loses none.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::config::{Link, Quota, QuotaPeriod, QuotaReached};
use crate::date::Day;

/// Used part of a quota, in percent of the quota, from which the quota is reported as nearly used up.
const NEAR: u64 = 80;
/// Maximum number of periods whose usage is kept for a link: those nearest to the present one.
///
/// *Derived*: a clock that is wrong by up to seven periods does not make the node forget the present one.
const KEPT: usize = 16;

/// Usage of all links with a quota.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    links: BTreeMap<String, LinkUsage>,
    /// Links whose [`QuotaUse`] has changed since the last [`Quotas::take_changes`].
    changes: Vec<QuotaChange>,
}

/// Usage of one link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct LinkUsage {
    /// Bytes that the link carried in each period.
    used: BTreeMap<PeriodNumber, u64>,
    /// Last known counter of the interface, in bytes, after the id of the boot in which it was read.
    seen: Option<(String, u64)>,
    standing: QuotaUse,
}

/// A period of a quota: a day or a month, by its number. Numbers of later periods are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PeriodNumber {
    Day(u64),
    Month(u64),
}

/// The part of a quota that is used, in three steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum QuotaUse {
    /// Less than 80 % of the quota is used.
    #[default]
    Within,
    /// At least 80 % of the quota is used.
    Near,
    /// The quota is used up.
    Reached,
}

/// A link whose [`QuotaUse`] has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaChange {
    /// Name of the link.
    pub link: String,
    /// Bytes used in the present period of the quota.
    pub used: u64,
    /// The quota of the link.
    pub quota: Quota,
    /// The part of the quota that is used now.
    pub standing: QuotaUse,
}

impl Quotas {
    /// Returns the usage that is stored in these lines. Damaged lines are left out.
    pub fn parse(lines: &[String]) -> Quotas {
        let mut quotas = Quotas::default();
        for line in lines {
            let _ = quotas.parse_line(line);
        }
        quotas
    }

    fn parse_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["used", link, period, bytes] => {
                let (period, bytes) = (PeriodNumber::parse(period)?, bytes.parse().ok()?);
                self.links.entry((*link).to_owned()).or_default().add(period, bytes);
            }
            ["seen", link, boot, bytes] => {
                self.links.entry((*link).to_owned()).or_default().seen =
                    Some(((*boot).to_owned(), bytes.parse().ok()?));
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the usage as lines to store, which [`Quotas::parse`] reads.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for (link, usage) in &self.links {
            for (period, bytes) in &usage.used {
                let _ = writeln!(text, "used {link} {period} {bytes}");
            }
            if let Some((boot, bytes)) = &usage.seen {
                let _ = writeln!(text, "seen {link} {boot} {bytes}");
            }
        }
        text
    }

    /// Records the interfaces' counters. Returns true if the [`QuotaUse`] of a link has changed.
    ///
    /// `boot` identifies this boot of the machine, and `counter` returns the bytes that an interface has carried since
    /// it exists, in both directions.
    pub fn look(&mut self, unix_s: u64, boot: &str, links: &[Link], counter: impl Fn(&str) -> Option<u64>) -> bool {
        for link in links {
            let (name, Some(quota)) = (link.name.value.as_str(), link.quota) else { continue };
            let usage = self.links.entry(name.to_owned()).or_default();
            let period = PeriodNumber::of(unix_s, &quota);
            if let Some(bytes) = counter(name) {
                let more = usage.count(boot, bytes);
                usage.add(period, more);
            }
            let used = usage.used.get(&period).copied().unwrap_or(0);
            let standing = QuotaUse::of(used, &quota);
            if standing != usage.standing {
                usage.standing = standing;
                self.changes.push(QuotaChange { link: name.to_owned(), used, quota, standing });
            }
        }
        !self.changes.is_empty()
    }

    /// Returns the changes of links' [`QuotaUse`] since the last call.
    pub fn take_changes(&mut self) -> Vec<QuotaChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the bytes that a link has carried in the present period.
    pub fn used(&self, unix_s: u64, link: &str, quota: &Quota) -> u64 {
        let used = self.links.get(link).and_then(|usage| usage.used.get(&PeriodNumber::of(unix_s, quota)));
        used.copied().unwrap_or(0)
    }

    /// Returns the configured restriction of a link if its quota is used up.
    pub fn consequence(&self, link: &Link) -> Option<QuotaReached> {
        let usage = self.links.get(&link.name.value)?;
        link.quota.filter(|_| usage.standing == QuotaUse::Reached).map(|quota| quota.reached)
    }
}

impl LinkUsage {
    fn add(&mut self, period: PeriodNumber, bytes: u64) {
        let used = self.used.entry(period).or_default();
        *used = used.saturating_add(bytes);
        if self.used.len() > KEPT
            && let Some(farthest) = self.used.keys().copied().max_by_key(|other| other.distance(period))
        {
            self.used.remove(&farthest);
        }
    }

    /// Returns the bytes that the interface has carried since the last call, and stores the counter.
    ///
    /// After a boot, or if the interface was created anew, the interface's counter begins at zero.
    fn count(&mut self, boot: &str, bytes: u64) -> u64 {
        let before = self.seen.replace((boot.to_owned(), bytes));
        match before {
            None => 0,
            Some((same, before)) if same == boot && before <= bytes => bytes - before,
            Some(_) => bytes,
        }
    }
}

impl PeriodNumber {
    fn of(unix_s: u64, quota: &Quota) -> PeriodNumber {
        let day = Day::of_unix_s(unix_s);
        match quota.per {
            QuotaPeriod::Day => PeriodNumber::Day(unix_s / 86_400),
            QuotaPeriod::Month => {
                let months = day.year * 12 + day.month - 1;
                PeriodNumber::Month(months - u64::from(day.day < u64::from(quota.first_day)))
            }
        }
    }

    /// Returns the number of periods from this one to `other`, or the maximum if one is a day and the other a month.
    fn distance(self, other: PeriodNumber) -> u64 {
        match (self, other) {
            (PeriodNumber::Day(a), PeriodNumber::Day(b)) | (PeriodNumber::Month(a), PeriodNumber::Month(b)) => {
                a.abs_diff(b)
            }
            _ => u64::MAX,
        }
    }

    fn parse(text: &str) -> Option<PeriodNumber> {
        let kind: fn(u64) -> PeriodNumber = match text.get(..1)? {
            "d" => PeriodNumber::Day,
            "m" => PeriodNumber::Month,
            _ => return None,
        };
        text.get(1..)?.parse().ok().map(kind)
    }
}

impl std::fmt::Display for PeriodNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeriodNumber::Day(number) => write!(f, "d{number}"),
            PeriodNumber::Month(number) => write!(f, "m{number}"),
        }
    }
}

impl QuotaUse {
    fn of(used: u64, quota: &Quota) -> QuotaUse {
        match u128::from(used) * 100 / u128::from(quota.bytes.max(1)) {
            percent if percent >= 100 => QuotaUse::Reached,
            percent if percent >= u128::from(NEAR) => QuotaUse::Near,
            _ => QuotaUse::Within,
        }
    }
}

/// Returns the bytes that each interface of this network namespace has carried, in both directions.
///
/// `text` is that of `/proc/net/dev`.
pub fn counters(text: &str) -> BTreeMap<&str, u64> {
    text.lines().filter_map(counter).collect()
}

/// Parses the line of one interface. The first number counts received bytes, and the ninth sent bytes.
///
/// Returns `None` for a line of another form, such as a heading.
fn counter(line: &str) -> Option<(&str, u64)> {
    let (name, counts) = line.split_once(':')?;
    let counts: Vec<u64> = counts.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some((name.trim(), counts.first()?.saturating_add(*counts.get(8)?)))
}

#[cfg(test)]
mod tests;
