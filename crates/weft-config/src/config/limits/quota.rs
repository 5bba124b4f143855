//! `[[link]] quota`: the amount of data that a link may carry in a day or a month, and the action when the amount is
//! used up.

use crate::config::names;
use crate::config::read::{At, Section};

/// Data that a link may carry in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Bytes in a period, in both directions together.
    pub bytes: u64,
    /// Length of a period.
    pub per: QuotaPeriod,
    /// Day of the month on which a monthly period begins, 1 to 28.
    pub first_day: u8,
    /// Use of the link once the quota is used up.
    pub reached: QuotaReached,
}

/// Length of a period: a day or a month. Each period begins at midnight UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaPeriod {
    /// A day.
    Day,
    /// A month.
    Month,
}

/// Use of a link whose quota is used up, until the next period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaReached {
    /// The link carries sparse flows only.
    Sparse,
    /// The link carries data only while no path over another link answers.
    Backup,
    /// The link is not used.
    Never,
    /// The link is used as before. The log and `weft status` show that its quota is used up.
    GoOn,
}

names!(QuotaPeriod { Day = "day", Month = "month" });
names!(QuotaReached { Sparse = "sparse", Backup = "backup", Never = "never", GoOn = "go-on" });

/// Parses the keys of a quota in a `[[link]]` table.
pub fn read(section: &mut Section<'_, '_>) -> Option<Quota> {
    let bytes = section.parsed("quota", "\"10 GB\"", parse_bytes);
    let per = section.choice("quota-per");
    let first_day = section.integer("quota-first-day", 1..29);
    let reached = section.choice("quota-reached");
    if !section.has("quota") {
        for key in ["quota-per", "quota-first-day", "quota-reached"].into_iter().filter(|key| section.has(key)) {
            let help = format!("set the data volume to which `{key}` applies, for example quota = \"10 GB\"");
            section.missing("quota", &help);
        }
    }
    if let (Some(QuotaPeriod::Day), Some(At { span, .. })) = (per, &first_day) {
        section.complain(span.clone(), "a quota for each day has no first day of a month", "remove `quota-first-day`");
    }
    Some(Quota {
        bytes: bytes?.value,
        per: per.unwrap_or(QuotaPeriod::Month),
        first_day: first_day.map_or(1, |at| at.value as u8),
        reached: reached.unwrap_or(QuotaReached::Sparse),
    })
}

/// Parses a number of bytes with its unit, as providers state it: 1 GB is 10⁹ bytes.
fn parse_bytes(text: &str) -> Result<u64, &'static str> {
    const UNITS: [(&str, f64); 7] = [
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("B", 1.0),
    ];
    let form = "expected a number and a unit: B, kB, MB, MiB, GB, GiB, TB";
    let (number, scale) = UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale))).ok_or(form)?;
    let number: f64 = number.trim().parse().map_err(|_| form)?;
    let bytes = number * scale;
    if !(1.0..=1e18).contains(&bytes) {
        return Err("the data quota of a link must be from 1 B to 1,000,000 TB");
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn bytes_are_those_of_a_contract() {
        for (text, bytes) in [("10 GB", 10_000_000_000), ("1.5GB", 1_500_000_000), ("1 GiB", 1 << 30), ("7 B", 7)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["10", "GB", "-1 GB", "0 GB", "nan GB", "inf GB", "1e30 TB", "10 Gbit", "10 gb"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
