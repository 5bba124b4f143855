//! Bounded queue of log lines that never blocks the threads that write to the log.
//!
//! Threads append lines under a lock that is held for a moment. One thread takes the lines out and writes them. While
//! that thread is blocked, the queue fills, and further lines are dropped and counted. This module must never call back
//! into the log.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of waiting lines. Further ones are dropped. Tuned: a start with 64 peers writes about 400.
const MAX_LINES: usize = 1_024;
/// Maximum total length of the waiting lines, in bytes. Lines beyond it are dropped.
const MAX_BYTES: usize = 1 << 20;

#[derive(Default)]
struct WaitingLines {
    lines: VecDeque<String>,
    bytes: usize,
    /// Number of lines dropped since the last notice about them.
    dropped: u64,
    /// True while the writer writes lines that it has taken out.
    is_writing: bool,
}

impl WaitingLines {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0
    }
}

/// A bounded queue of lines.
#[derive(Default)]
pub struct Lines {
    waiting: Mutex<WaitingLines>,
    changed: Condvar,
    dropped: AtomicU64,
}

impl Lines {
    /// Appends `text`, which contains its own line end, or drops it if the queue is full.
    pub fn push(&self, text: String) {
        let mut waiting = self.lock();
        if waiting.lines.len() >= MAX_LINES || waiting.bytes + text.len() > MAX_BYTES {
            waiting.dropped += 1;
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            waiting.bytes += text.len();
            waiting.lines.push_back(text);
        }
        drop(waiting);
        self.changed.notify_all();
    }

    /// Returns the number of lines dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits for lines and writes them, followed by the number of lines that were dropped after them.
    pub fn write_next(&self, sink: &mut impl Write, head: impl Fn() -> String) {
        let mut waiting = self.lock();
        while waiting.is_empty() {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let lines = std::mem::take(&mut waiting.lines);
        let dropped = std::mem::take(&mut waiting.dropped);
        (waiting.bytes, waiting.is_writing) = (0, true);
        drop(waiting);
        for line in lines {
            self.write(sink, &line);
        }
        if dropped > 0 {
            let text = format!(
                "{}error: {dropped} log lines were dropped, because the program that reads weft's standard error, such \
                 as journald, was too slow\n",
                head()
            );
            self.write(sink, &text);
        }
        self.lock().is_writing = false;
        self.changed.notify_all();
    }

    /// Writes a line. A line that cannot be written is added to the number of dropped lines.
    fn write(&self, sink: &mut impl Write, line: &str) {
        if sink.write_all(line.as_bytes()).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits at most `most` until all lines are written. Returns true if they are.
    pub fn flush(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut waiting = self.lock();
        while !waiting.is_empty() || waiting.is_writing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, WaitingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_stopped_reader_delays_no_writer_and_learns_the_number_of_dropped_lines() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let lines = Arc::new(Lines::default());
        let queue = Arc::clone(&lines);
        thread::spawn(move || {
            loop {
                queue.write_next(&mut writer, || "now ".to_owned());
            }
        });
        // A pipe holds 64 KiB. The queue, its writer and the pipe together hold fewer than these 20,000 lines.
        let (count, began) = (20_000, Instant::now());
        for number in 0..count {
            lines.push(format!("{number} {}\n", "x".repeat(200)));
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(!lines.flush(Duration::from_millis(50)), "nobody reads");
        let dropped = lines.dropped();
        assert!(dropped > 10_000, "{dropped}");
        let mut reader = BufReader::new(reader).lines().map(Result::unwrap);
        let (mut next, mut said) = (0, 0);
        while next + said < count {
            let line = reader.next().unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "now" {
                assert_eq!(&words[3..6], &["log", "lines", "were"], "{line}");
                said += words[2].parse::<u64>().unwrap();
            } else {
                assert_eq!(words[0], (next + said).to_string(), "in order, and each hole is said where it is");
                next += 1;
            }
        }
        assert_eq!((said, lines.dropped()), (dropped, dropped));
        assert!(lines.flush(Duration::from_secs(5)), "all is written");
    }

    #[test]
    fn the_bound_is_in_bytes_too() {
        let lines = Lines::default();
        lines.push("x".repeat(MAX_BYTES));
        lines.push("y\n".to_owned());
        assert_eq!(lines.dropped(), 1);
        let mut sink = Vec::new();
        lines.write_next(&mut sink, String::new);
        let dropped: &[u8] =
            b"1 log lines were dropped, because the program that reads weft's standard error, such as \
            journald, was too slow\n";
        assert!(sink.ends_with(dropped));
        lines.push("z\n".to_owned());
        assert_eq!(lines.dropped(), 1);
    }
}
