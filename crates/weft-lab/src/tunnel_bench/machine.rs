//! Describes the machine, and reads the processor time of a program.

use serde::Serialize;
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

/// Ticks per second in `/proc` (`USER_HZ`, which is part of the kernel's interface).
const USER_HZ: u64 = 100;

/// The machine on which the figures were measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BenchMachine {
    /// Model name of the processor.
    pub processor: String,
    /// Number of processors that this process may use.
    pub processors: usize,
    /// Release of the running kernel.
    pub kernel: String,
    /// Load average over the last minute before the bench. It is well below 1 on a quiet machine.
    pub load_before: f64,
}

impl BenchMachine {
    pub(crate) fn read() -> BenchMachine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = text("/proc/cpuinfo");
        let processor = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        BenchMachine {
            processor: processor.map_or("unknown processor", |(_, name)| name).to_owned(),
            processors: thread::available_parallelism().map_or(1, usize::from),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_before: text("/proc/loadavg").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0),
        }
    }
}

/// Returns the user and system time of process `pid` with all its threads (proc_pid_stat(5)).
pub(super) fn cpu_time(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = ticks(&stat).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat"))?;
    Ok(Duration::from_millis(ticks * 1_000 / USER_HZ))
}

/// Returns the processor time that the line `stat` of `/proc/PID/stat` states, in ticks: fields 14 plus 15.
///
/// Returns `None` if the line is invalid.
///
/// The name in field 2 may contain spaces and parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let mut after_name = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || after_name.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_an_odd_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 9 9 20 0 3 0 1000 1 1";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (cut) S 1 7"), None);
    }
}
