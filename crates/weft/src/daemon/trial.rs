//! A changed configuration on trial: it is undone when its time is over, unless it is confirmed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use weft_control::CANDIDATE_SUFFIX;
use weft_units::{Duration, Instant};

/// The trial that is in progress, if any.
#[derive(Debug, Default)]
pub struct ConfigTrial {
    ends: Option<Instant>,
}

impl ConfigTrial {
    /// Begins a trial that needs a confirmation within `time`.
    pub fn begin(&mut self, now: Instant, time: Duration) {
        self.ends = Some(now + time);
    }

    /// Ends the trial.
    ///
    /// # Errors
    /// Returns a message if no trial is in progress.
    pub fn end(&mut self) -> Result<(), String> {
        self.ends.take().map(drop).ok_or_else(|| "no change is on trial".to_owned())
    }

    /// True if a change is on trial.
    pub fn is_in_progress(&self) -> bool {
        self.ends.is_some()
    }

    /// Returns the time that is left to confirm the change. `None` if no trial is in progress.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.ends.map(|ends| ends - now)
    }

    /// Returns the time at which the trial ends without a confirmation. `None` if no trial is in progress.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.ends
    }
}

/// Returns the file with the changed text of the node's configuration `own`. `named` is the file that the client means.
///
/// # Errors
/// Returns a message if the client means another node's configuration.
pub fn candidate(own: &Path, named: &str) -> Result<PathBuf, String> {
    let parent = own.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = fs::canonicalize(parent).map_err(|why| format!("{}: {why}", parent.display()))?;
    let found = parent.join(own.file_name().unwrap_or_default());
    if found != Path::new(named) {
        return Err(format!(
            "the running node uses the configuration {0}, and not {named}: run the command again with: -c {0}",
            found.display()
        ));
    }
    // The new file's path has the same directory as the node's own file, so that relative paths in the text mean the
    // same.
    let mut name = OsString::from(own);
    name.push(CANDIDATE_SUFFIX);
    Ok(name.into())
}
