//! Redirection of marked packets to the queue by iptables.
//!
//! It is for kernels whose nftables has no queue expression.
//!
//! Only the nftables table marks packets. Once that table is removed, a remaining iptables rule has no effect. The
//! next process that signals for the interface removes that rule.

use super::rules::HAND_OVER;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weft_tcp_er::nft::find_program;

/// Installed iptables rules. Dropping it removes them.
pub struct Redirection {
    rules: Vec<(PathBuf, String)>,
}

impl Redirection {
    /// Sends the marked packets of an interface to the queue; for IPv6 only if ip6tables is installed.
    ///
    /// # Errors
    /// Returns an error if iptables is missing or refuses the rule.
    pub fn add(interface: &str, queue: u16) -> io::Result<Redirection> {
        let mut added = Redirection { rules: Vec::new() };
        for (name, is_needed) in [("iptables", true), ("ip6tables", false)] {
            let Some(program) = find_program(name) else {
                if is_needed {
                    return Err(io::Error::new(io::ErrorKind::NotFound, "iptables is missing: install iptables"));
                }
                continue;
            };
            for place in ["PREROUTING -i", "POSTROUTING -o"] {
                let kind = format!("{place} {interface} -m mark --mark {HAND_OVER:#x}/{HAND_OVER:#x} -j NFQUEUE");
                let rule = format!("{kind} --queue-num {queue} --queue-bypass");
                let done = clean(&program, &kind).and_then(|()| run(&program, &format!("-A {rule}")).map(drop));
                match done {
                    Ok(()) => added.rules.push((program.clone(), rule)),
                    Err(why) if is_needed => return Err(why),
                    Err(_) => {}
                }
            }
        }
        Ok(added)
    }
}

impl Drop for Redirection {
    fn drop(&mut self) {
        for (program, rule) in &self.rules {
            let _ = run(program, &format!("-D {rule}"));
        }
    }
}

/// Removes the iptables rules that killed processes have left: those whose text begins with `kind`.
fn clean(program: &Path, kind: &str) -> io::Result<()> {
    let rules = run(program, "-S")?;
    for rule in rules.lines().filter_map(|line| line.strip_prefix("-A ")).filter(|rule| rule.starts_with(kind)) {
        run(program, &format!("-D {rule}"))?;
    }
    Ok(())
}

/// Runs iptables with the arguments `what` and returns its output.
///
/// iptables waits up to 5 s for other programs that change the rules.
fn run(program: &Path, what: &str) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(["-w", "5", "-t", "mangle"]).args(what.split(' '));
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(said.lines().next().unwrap_or_default().to_owned()))
        }
    }
}
