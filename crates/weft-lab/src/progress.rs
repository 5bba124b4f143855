//! The progress display on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A progress bar on standard error, over the seconds of all runs together.
pub(crate) struct RunProgress {
    bar: ProgressBar,
    run_s: u64,
}

impl RunProgress {
    /// Returns a bar for `runs` runs that each last `length`. It is invisible unless `shown` is true.
    pub fn new(shown: bool, runs: usize, length: Duration) -> RunProgress {
        let run_s = length.as_secs().max(1);
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(run_s * runs as u64), target);
        let template = "{msg:32!} {bar:32.cyan/blue} {pos}/{len} s  {eta_precise} left";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(250));
        RunProgress { bar, run_s }
    }

    /// Moves the bar to the beginning of the run `number`, counted from 0, and shows `what` beside it.
    pub fn begin(&self, number: usize, what: String) {
        self.bar.set_message(what);
        self.bar.set_position(self.run_s * number as u64);
    }

    /// Moves the bar to the time `into` after the beginning of the run `number`.
    pub fn tick(&self, number: usize, into: Duration) {
        self.bar.set_position(self.run_s * number as u64 + into.as_secs().min(self.run_s));
    }

    /// Prints a line above the bar.
    pub fn print_line(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
