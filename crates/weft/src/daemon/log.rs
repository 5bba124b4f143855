//! One line per change of state, with its time and cause, on standard error.

use std::fmt;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Something failed.
    Error,
    /// A state changed.
    Info,
    /// Details.
    Debug,
}

impl Level {
    /// As the command line wants it.
    pub fn of(verbose: bool, quiet: bool) -> Level {
        match (verbose, quiet) {
            (_, true) => Level::Error,
            (true, _) => Level::Debug,
            _ => Level::Info,
        }
    }
}

/// Writes lines up to a level.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    level: Level,
}

impl Log {
    /// A log of lines up to `level`.
    pub fn new(level: Level) -> Log {
        Log { level }
    }

    /// Something failed.
    pub fn error(&self, line: impl fmt::Display) {
        self.write(Level::Error, "error: ", &line);
    }

    /// A state changed.
    pub fn info(&self, line: impl fmt::Display) {
        self.write(Level::Info, "", &line);
    }

    /// A detail.
    pub fn debug(&self, line: impl fmt::Display) {
        self.write(Level::Debug, "", &line);
    }

    fn write(&self, level: Level, kind: &str, line: &dyn fmt::Display) {
        if level <= self.level {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let stamp = timestamp(now.as_secs(), now.subsec_millis());
            // Nobody is left to be told when standard error is closed.
            let _ = std::io::stderr().lock().write_all(format!("{stamp} {kind}{line}\n").as_bytes());
        }
    }
}

/// RFC 3339 in UTC; the date by the days-from-civil algorithm turned round (H. Hinnant).
fn timestamp(unix_s: u64, ms: u32) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_rfc_3339() {
        assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(timestamp(1_767_225_599, 999), "2025-12-31T23:59:59.999Z");
    }
}
