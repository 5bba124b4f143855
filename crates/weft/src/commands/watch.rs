//! `--watch`: prints a view again once a second, until `q`, Ctrl-C or a signal ends it.

use crate::outcome::{Failure, Outcome};
use crate::screen::Screen;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::SignalFd;
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// Interval between two prints of a view.
const INTERVAL: Duration = Duration::from_secs(1);
/// Keys that end the view: `q`, Ctrl-C and Ctrl-D.
///
/// The terminal passes on the bytes of Ctrl-C and Ctrl-D during the view.
const ENDING: [u8; 4] = [b'q', b'Q', 3, 4];

/// Prints the text that `look` returns: once, or once a second if `again`.
///
/// If `clears`, each text replaces the previous one on a terminal. Otherwise the texts follow each other.
pub fn watch(
    again: bool,
    clears: bool,
    look: impl Fn() -> Result<(String, Outcome), Failure>,
) -> Result<Outcome, Failure> {
    if !again {
        let (text, outcome) = look()?;
        // A reader that closes the pipe early is no error.
        let _ = io::stdout().lock().write_all(Screen::get().fold(&text).as_bytes());
        return Ok(outcome);
    }
    let keys = Keys::listen()
        .map_err(|why| Failure::new(format!("cannot read keys from the terminal: {why}: use another terminal")))?;
    let clears = clears && io::stdout().is_terminal();
    loop {
        let (text, outcome) = look()?;
        let text = if clears { page(&text, Screen::get(), keys.are_read()) } else { text };
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() || keys.is_ended(INTERVAL) {
            return Ok(outcome);
        }
    }
}

/// Returns the text as a page from the top of the screen.
///
/// It overwrites the earlier page and drops lines that do not fit.
fn page(text: &str, screen: Screen, has_keys: bool) -> String {
    let folded = screen.fold(text);
    let room = screen.size.map_or(usize::MAX, |(_, height)| height.saturating_sub(2).max(1));
    let count = folded.lines().count();
    let lines: String = folded.lines().take(room).map(|line| format!("{line}\x1b[K\r\n")).collect();
    let more = if count > room { format!("{} more lines do not fit; ", count - room) } else { String::new() };
    let help = if has_keys { "q: end" } else { "" };
    format!("\x1b[H{lines}{more}{help}\x1b[K\x1b[J")
}

/// The event for which [`Keys::next`] waits.
pub enum Pressed {
    /// No key and no signal arrived in the given time.
    Nothing,
    /// A key that does not end the view.
    Key(u8),
    /// A key or a signal that ends the view.
    End,
}

/// The keyboard, key by key, and the signals that end a program. Dropping it restores the terminal.
pub struct Keys {
    before: Option<Termios>,
    signals: SignalFd,
    mask: SigSet,
}

impl Keys {
    /// Reads single keys from the terminal on standard input, if it is one.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn listen() -> io::Result<Keys> {
        let ending = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
        let ending: SigSet = ending.into_iter().collect();
        let mask = ending.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let signals = SignalFd::new(&ending)?;
        let mut keys = Keys { before: None, signals, mask };
        let stdin = io::stdin();
        if stdin.is_terminal() && io::stdout().is_terminal() {
            let before = tcgetattr(&stdin)?;
            let mut raw = before.clone();
            raw.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
            tcsetattr(&stdin, SetArg::TCSANOW, &raw)?;
            keys.before = Some(before);
        }
        Ok(keys)
    }

    fn are_read(&self) -> bool {
        self.before.is_some()
    }

    /// Waits for the given time. Returns true if a key or a signal ends the view earlier.
    fn is_ended(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            match self.next(until.saturating_duration_since(Instant::now())) {
                Pressed::End => return true,
                Pressed::Nothing => return false,
                Pressed::Key(_) => {}
            }
        }
    }

    /// Waits for a key or a signal, at most for the given time.
    pub fn next(&self, wait: Duration) -> Pressed {
        let (stdin, until) = (io::stdin(), Instant::now() + wait);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            if self.are_read() {
                fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
            }
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            let ready = poll(&mut fds, timeout);
            let is_ready = |at: usize| fds.get(at).is_some_and(|fd| fd.any().unwrap_or(false));
            match ready {
                _ if is_ready(0) => return Pressed::End,
                Ok(0) => return Pressed::Nothing,
                Err(_) if Instant::now() >= until => return Pressed::Nothing,
                Err(_) => {}
                Ok(_) => {
                    let mut key = [0];
                    // Reads without the buffer of `io::stdin`. In this buffer further keys could wait that `poll`
                    // does not report.
                    return match nix::unistd::read(&stdin, &mut key) {
                        Ok(1) if !ENDING.contains(&key[0]) => Pressed::Key(key[0]),
                        _ => Pressed::End,
                    };
                }
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, before);
            println!();
        }
        let _ = self.mask.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_no_more_lines_than_the_screen() {
        let screen = Screen { size: Some((40, 6)), has_color: false };
        let long = "a line\n".repeat(30);
        let text = page(&long, screen, true);
        assert_eq!(text.matches("\r\n").count(), 4);
        assert!(text.contains("26 more lines do not fit; q: end"), "{text:?}");
        assert!(!page("one\n", screen, true).contains("more"));
    }
}
