//! Topics: groups of related checks.

use crate::arguments::Arguments;
use crate::check::Check;
use crate::progress::Progress;
use std::path::PathBuf;

/// The checks of one subject.
pub struct Topic {
    /// The topic's name on the command line.
    pub name: &'static str,
    /// The topic's parts, in the order in which they run.
    pub parts: &'static [Part],
}

/// Checks that are computed from the same runs.
pub struct Part {
    /// The part's name on the command line.
    pub name: &'static str,
    /// Runs the part and returns its checks. A part that cannot run with these options returns no check.
    pub run: fn(&Context) -> Vec<Check>,
}

/// The inputs of a part.
pub struct Context {
    /// True to run all checks, however long they take.
    pub full: bool,
    /// Number of runs at the same time.
    pub threads: usize,
    /// Directory of recorded links.
    pub traces: Option<PathBuf>,
    /// The program, for checks on this machine's kernel.
    pub weft: Option<PathBuf>,
    /// The progress display of the part.
    pub progress: Progress,
}

impl Context {
    /// Returns the context of a part. The progress display calls the part `title`.
    pub fn of(arguments: &Arguments<'_>, title: String) -> Context {
        Context {
            full: arguments.full,
            threads: arguments.threads,
            traces: arguments.traces.clone(),
            weft: arguments.weft.clone(),
            progress: Progress::start(title),
        }
    }

    /// Returns `full` in a full run, and `short` in a short one.
    pub fn pick<T>(&self, short: T, full: T) -> T {
        if self.full { full } else { short }
    }
}
