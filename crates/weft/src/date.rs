//! Formatting of wall-clock times.

/// A day of the Gregorian calendar, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Day {
    /// Year.
    pub year: u64,
    /// Month, 1 to 12.
    pub month: u64,
    /// Day of the month, 1 to 31.
    pub day: u64,
}

impl Day {
    /// Returns the day of a Unix time in seconds, by the inverse of H. Hinnant's days-from-civil algorithm.
    pub fn of_unix_s(unix_s: u64) -> Day {
        let z = unix_s / 86_400 + 719_468;
        let (era, day_of_era) = (z / 146_097, z % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Day { year: year_of_era + era * 400 + u64::from(month <= 2), month, day }
    }
}

/// Returns the date and time of a Unix time in seconds, in UTC (RFC 3339).
pub fn rfc_3339(unix_s: u64) -> String {
    format!("{}Z", without_zone(unix_s))
}

/// Returns the text of [`rfc_3339`] without the final `Z`, so that callers can append fractions of a second.
pub fn without_zone(unix_s: u64) -> String {
    let (Day { year, month, day }, second) = (Day::of_unix_s(unix_s), unix_s % 86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_rfc_3339() {
        assert_eq!(rfc_3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc_3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc_3339(1_767_225_599), "2025-12-31T23:59:59Z");
    }
}
