//! A tunnel's background program, its log, and the wait until it is ready.

use crate::LabError;
use crate::interrupt;
use crate::net::{NetNamespace, Process};
use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time in which a started tunnel must carry packets.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time in which a program must end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks whether a tunnel is ready.
const PAUSE: Duration = Duration::from_millis(50);
/// Number of lines of a log that an error shows.
const TAIL_LINES: usize = 3;

/// A running program that writes its output to a log. Dropping it kills the program.
pub(crate) struct Daemon {
    what: &'static str,
    process: Process,
    log: PathBuf,
    /// A file that the program does not delete when it is killed. Dropping the daemon deletes it.
    leaves: Option<PathBuf>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(file) = &self.leaves {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Daemon {
    /// Starts `command` on `node`, with its output in a log file.
    pub fn start(
        what: &'static str,
        node: &NetNamespace,
        mut command: Command,
        log: PathBuf,
    ) -> Result<Daemon, LabError> {
        let output = File::create(&log)?;
        let errors = OpenOptions::new().append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        Ok(Daemon { what, process: node.spawn(command)?, log, leaves: None })
    }

    /// Makes the drop of this daemon also delete `file`.
    pub fn leaving(mut self, file: PathBuf) -> Daemon {
        self.leaves = Some(file);
        self
    }

    /// True if the program's log contains `what`.
    pub fn log_contains(&self, what: &str) -> bool {
        std::fs::read_to_string(&self.log).is_ok_and(|text| text.contains(what))
    }

    /// Returns the program's process id, as the PID namespace of this process numbers it.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks the program to end (SIGTERM) and waits for its end.
    ///
    /// # Errors
    /// Returns an error if the program has not ended within ten seconds.
    pub fn stop(mut self) -> Result<(), LabError> {
        self.process.signal(libc::SIGTERM)?;
        self.process.wait_within(STOP_TIMEOUT).map_err(|_| {
            self.error(&format!(
                "the lab killed the program {}, because it did not end within {} s after SIGTERM",
                self.what,
                STOP_TIMEOUT.as_secs()
            ))
        })?;
        Ok(())
    }

    fn error(&self, what_happened: &str) -> LabError {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n");
        LabError::Io(io::Error::other(format!("{what_happened}; the end of its output:\n{tail}")))
    }
}

/// Waits until `is_ready` returns true. Fails if a daemon ends or if this takes longer than [`READY_TIMEOUT`].
pub(crate) fn wait_until(daemons: &mut [Daemon], is_ready: impl Fn() -> bool) -> Result<(), LabError> {
    let deadline = Instant::now() + READY_TIMEOUT;
    while !is_ready() {
        for daemon in daemons.iter_mut() {
            if daemon.process.child_mut().try_wait()?.is_some() {
                return Err(daemon.error(&format!(
                    "the program {} ended before it was ready: its last output says why",
                    daemon.what
                )));
            }
        }
        if let Some(last) = daemons.last().filter(|_| Instant::now() > deadline) {
            let text = format!(
                "the program {} was not ready within {} s: its last output says why",
                last.what,
                READY_TIMEOUT.as_secs()
            );
            return Err(last.error(&text));
        }
        interrupt::sleep_until(Instant::now() + PAUSE)?;
    }
    Ok(())
}

/// True if `address` answers a ping from `node`.
pub(crate) fn is_reachable(node: &NetNamespace, address: Ipv4Addr) -> bool {
    let mut ping = node.command("ping");
    ping.args(["-n", "-c", "1", "-W", "1", &address.to_string()]);
    node.output(ping, Duration::from_secs(3)).is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Lab;
    use crate::scratch::Scratch;

    #[test]
    fn an_ended_daemon_is_not_waited_for_and_its_last_output_is_reported() {
        let Ok(lab) = Lab::new() else { return eprintln!("skipped: this process may not create namespaces") };
        let (node, scratch) = (lab.node("n").unwrap(), Scratch::new().unwrap());
        let mut command = node.command("sh");
        command.args(["-c", "echo one; echo no tunnel device >&2"]);
        let daemon = Daemon::start("tunnel", &node, command, scratch.path().join("log")).unwrap();
        let error = wait_until(&mut [daemon], || false).unwrap_err().to_string();
        assert!(error.starts_with("the program tunnel ended") && error.ends_with("no tunnel device"), "{error}");
    }
}
