//! The log: one line per change of state, with its time and cause, on standard error.
//!
//! Lines pass through a bounded queue to a thread of their own, so that a slow standard error blocks no other thread.

mod lines;

use crate::date::without_zone;
use crate::escape;
use lines::Lines;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Severity of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// A failure.
    Error,
    /// A change of state.
    Info,
    /// A detail.
    Debug,
}

impl Level {
    /// Returns the level that the command line selects.
    pub fn of(verbose: bool, quiet: bool) -> Level {
        match (verbose, quiet) {
            (_, true) => Level::Error,
            (true, _) => Level::Debug,
            _ => Level::Info,
        }
    }
}

/// Handle to the log, with a maximum level. Copies share one queue, which lives as long as the process.
#[derive(Clone, Copy)]
pub struct Log {
    level: Level,
    lines: &'static Lines,
}

impl Log {
    /// Creates a log of lines up to `level`. Nothing is written before [`Log::writer`] runs.
    pub fn new(level: Level) -> Log {
        Log { level, lines: Box::leak(Box::default()) }
    }

    /// Logs a failure.
    pub fn error(&self, line: impl fmt::Display) {
        self.write(Level::Error, "error: ", &line);
    }

    /// Logs a change of state.
    pub fn info(&self, line: impl fmt::Display) {
        self.write(Level::Info, "", &line);
    }

    /// Logs a detail.
    pub fn debug(&self, line: impl fmt::Display) {
        self.write(Level::Debug, "", &line);
    }

    /// Logs text unchanged at any level. The text contains its own line ends.
    pub fn plain(&self, text: String) {
        if !text.is_empty() {
            self.lines.push(text);
        }
    }

    /// Returns the number of lines dropped because standard error was too slow.
    pub fn dropped(&self) -> u64 {
        self.lines.dropped()
    }

    /// Waits at most `most` until all lines are written. Returns true if they are.
    pub fn flush(&self, most: Duration) -> bool {
        self.lines.flush(most)
    }

    /// Returns a closure that writes the next lines to standard error, and blocks as long as that takes.
    ///
    /// It has its own descriptor: a lock on [`io::stderr`] would block other threads.
    ///
    /// # Errors
    /// Returns an error if no descriptor is left.
    pub fn writer(&self) -> io::Result<impl FnMut() + Send + use<>> {
        let (lines, mut sink) = (self.lines, File::from(io::stderr().as_fd().try_clone_to_owned()?));
        Ok(move || lines.write_next(&mut sink, head))
    }

    fn write(&self, level: Level, kind: &str, line: &dyn fmt::Display) {
        if level <= self.level {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.lines.push(entry(now, kind, line));
        }
    }
}

/// Returns the timestamp with which a line begins.
fn head() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp(now.as_secs(), now.subsec_millis()) + " "
}

/// Returns one line. Names in it cannot add further lines.
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
