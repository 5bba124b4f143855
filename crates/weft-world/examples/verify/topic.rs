//! Topics: checks that belong together.

use crate::arguments::Arguments;
use crate::check::Check;
use crate::progress::Progress;
use std::path::PathBuf;

/// The checks of one issue.
pub struct Topic {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it consists of, in the order in which it is run.
    pub parts: &'static [Part],
}

/// Checks that are judged from the same runs.
pub struct Part {
    /// Its name on the command line.
    pub name: &'static str,
    /// Runs and judges it. A part that does not apply returns no check.
    pub run: fn(&Context) -> Vec<Check>,
}

/// How to run a part.
pub struct Context {
    /// Whether to run everything, however long it takes.
    pub full: bool,
    /// Runs at the same time.
    pub threads: usize,
    /// A directory of recorded links.
    pub traces: Option<PathBuf>,
    /// The program, for checks on this machine's kernel.
    pub weft: Option<PathBuf>,
    /// What to tell while it runs.
    pub progress: Progress,
}

impl Context {
    /// The context of a part. Progress names the part by `title`.
    pub fn of(arguments: &Arguments<'_>, title: String) -> Context {
        Context {
            full: arguments.full,
            threads: arguments.threads,
            traces: arguments.traces.clone(),
            weft: arguments.weft.clone(),
            progress: Progress::start(title),
        }
    }

    /// `full` of a full run, `short` of a short one.
    pub fn pick<T>(&self, short: T, full: T) -> T {
        if self.full { full } else { short }
    }
}
