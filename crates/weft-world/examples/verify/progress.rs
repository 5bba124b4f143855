//! Progress on standard error.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two progress lines in a file or pipe. A terminal shows each step.
const PAUSE: Duration = Duration::from_secs(10);

/// Prints the progress of a part.
pub struct Progress {
    title: String,
    is_terminal: bool,
    told_at: Mutex<Instant>,
}

impl Progress {
    /// Prints that the part begins.
    pub fn start(title: String) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let progress = Progress { title, is_terminal, told_at: Mutex::new(Instant::now()) };
        if is_terminal {
            progress.overwrite("");
        } else {
            eprintln!("{}", progress.title);
        }
        progress
    }

    /// Prints that `done` of `all` runs of this kind are over.
    pub fn tell(&self, what: &str, done: usize, all: usize) {
        let text = format!(": {what}, {done} of {all}");
        if self.is_terminal {
            return self.overwrite(&text);
        }
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.elapsed() >= PAUSE {
            *told_at = Instant::now();
            eprintln!("{}{text}", self.title);
        }
    }

    /// Removes the progress line from a terminal.
    pub fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn overwrite(&self, text: &str) {
        eprint!("\r\x1b[K{}{text}", self.title);
        let _ = std::io::stderr().flush();
    }
}
