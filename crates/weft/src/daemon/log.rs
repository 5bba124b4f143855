//! One line per change of state, with its time and cause, on standard error.

use crate::date::without_zone;
use crate::escape;
use std::fmt;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
            // Nobody is left to be told when standard error is closed.
            let _ = std::io::stderr().lock().write_all(entry(now, kind, line).as_bytes());
        }
    }
}

/// One line, whatever names are in it.
fn entry(now: Duration, kind: &str, line: &dyn fmt::Display) -> String {
    let (stamp, line) = (timestamp(now.as_secs(), now.subsec_millis()), line.to_string());
    format!("{stamp} {kind}{}\n", escape::line(&line))
}

fn timestamp(unix_s: u64, ms: u32) -> String {
    format!("{}.{ms:03}Z", without_zone(unix_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_makes_no_line_of_its_own(name in hostile::name()) {
            let entry = entry(Duration::ZERO, "error: ", &format_args!("peer {name}: session established"));
            prop_assert!(hostile::acting(&entry).is_none(), "{entry:?}");
            prop_assert!(entry.find('\n') == Some(entry.len() - 1), "{entry:?}");
        }
    }

    #[test]
    fn timestamps_follow_rfc_3339() {
        assert_eq!(timestamp(951_782_400, 7), "2000-02-29T00:00:00.007Z");
    }
}
