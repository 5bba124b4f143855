//! Marked packets to the queue by iptables, for kernels whose nftables has no queue expression.
//!
//! Nothing marks packets once the table of nftables has gone, so a rule that is left behind does nothing; the next agent for the interface
//! takes it over.

use super::rules::HAND_OVER;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use weft_tcp_er::nft::find_program;

/// Removes its rules when it goes.
pub struct Redirection {
    rules: Vec<(PathBuf, String)>,
}

impl Redirection {
    /// Sends what of an interface is marked to the queue; IPv6 where there is a program for it.
    ///
    /// # Errors
    /// When iptables is missing or refuses.
    pub fn add(interface: &str, queue: u16) -> io::Result<Redirection> {
        let mut added = Redirection { rules: Vec::new() };
        for (name, is_needed) in [("iptables", true), ("ip6tables", false)] {
            let Some(program) = find_program(name) else {
                if is_needed {
                    return Err(io::Error::new(io::ErrorKind::NotFound, "there is no iptables; install iptables"));
                }
                continue;
            };
            for place in ["PREROUTING -i", "POSTROUTING -o"] {
                let rule = format!(
                    "{place} {interface} -m mark --mark {HAND_OVER:#x}/{HAND_OVER:#x} -j NFQUEUE --queue-num {queue} --queue-bypass"
                );
                let done = run(&program, "-C", &rule).or_else(|_| run(&program, "-A", &rule));
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
            let _ = run(program, "-D", rule);
        }
    }
}

/// Waits for others who change the rules, 5 s at most.
fn run(program: &PathBuf, action: &str, rule: &str) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(["-w", "5", "-t", "mangle", action]).args(rule.split(' '));
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(io::Error::other(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()))
        }
    }
}
