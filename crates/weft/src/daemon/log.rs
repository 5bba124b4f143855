//! One line per change of state, with its time and cause, on standard error.
//!
//! Lines go through a bounded queue to a thread of their own, so that standard error holds up no other thread.

mod lines;

use crate::date::without_zone;
use crate::escape;
use lines::Lines;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
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

/// Takes lines up to a level. Copies share one queue, which lives as long as the process.
#[derive(Clone, Copy)]
pub struct Log {
    level: Level,
    lines: &'static Lines,
}

impl Log {
    /// A log of lines up to `level`. Nothing is written before [`Log::writer`] runs.
    pub fn new(level: Level) -> Log {
        Log { level, lines: Box::leak(Box::default()) }
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

    /// Text as it is, whatever the level; it ends its lines itself.
    pub fn plain(&self, text: String) {
        if !text.is_empty() {
            self.lines.push(text);
        }
    }

    /// Lines dropped because nobody read the log in time.
    pub fn dropped(&self) -> u64 {
        self.lines.dropped()
    }

    /// Waits until all is written, `most` at most. Whether it is.
    pub fn flush(&self, most: Duration) -> bool {
        self.lines.flush(most)
    }

    /// What writes the next lines to standard error when it is called, as long as that takes.
    ///
    /// # Errors
    /// When no descriptor is left. It has its own: a lock on [`io::stderr`] would hold up others.
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

/// What a line begins with.
fn head() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp(now.as_secs(), now.subsec_millis()) + " "
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
