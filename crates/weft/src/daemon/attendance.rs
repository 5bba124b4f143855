//! Which clients are there, for the log: who comes, who moves and who has gone, by name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A client without a handshake for so long has gone: WireGuard then takes no packet any more (REJECT_AFTER_TIME).
const GONE_AFTER: Duration = Duration::from_secs(180);
/// A client that moves all the time has a line so often.
const MOVED_INTERVAL: Duration = Duration::from_secs(60);

/// A client as the gate knows it.
pub struct Present<'a> {
    /// What people call it.
    pub name: &'a str,
    /// Where it was last heard from.
    pub remote: SocketAddr,
    /// Time since its last handshake.
    pub handshake: Duration,
}

#[derive(Debug)]
struct Known {
    remote: SocketAddr,
    told_at: Instant,
}

/// The clients that are there.
#[derive(Debug, Default)]
pub struct Attendance {
    known: BTreeMap<String, Known>,
}

impl Attendance {
    /// Takes in who is known now; gives the lines to log.
    pub fn note<'a>(&mut self, now: Instant, clients: impl Iterator<Item = Present<'a>>) -> Vec<String> {
        let mut lines = Vec::new();
        let there: Vec<Present<'_>> = clients.filter(|client| client.handshake < GONE_AFTER).collect();
        for Present { name, remote, .. } in &there {
            match self.known.get_mut(*name) {
                None => lines.push(format!("client {name} is there, from {remote}")),
                Some(known) if known.remote == *remote => continue,
                Some(known) if now - known.told_at < MOVED_INTERVAL => continue,
                Some(known) => lines.push(format!("client {name} moved from {} to {remote}", known.remote)),
            }
            self.known.insert((*name).to_owned(), Known { remote: *remote, told_at: now });
        }
        self.known.retain(|name, _| {
            let stays = there.iter().any(|client| client.name == name);
            if !stays {
                lines.push(format!("client {name} has gone"));
            }
            stays
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(name: &str, port: u16, seconds: u64) -> Present<'_> {
        Present { name, remote: ([192, 0, 2, 1], port).into(), handshake: Duration::from_secs(seconds) }
    }

    #[test]
    fn who_comes_moves_and_goes_is_named_once() {
        let (mut attendance, start) = (Attendance::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut note = |seconds, clients: Vec<Present<'_>>| attendance.note(at(seconds), clients.into_iter());
        assert_eq!(note(0, vec![present("phone", 1, 0)]), ["client phone is there, from 192.0.2.1:1"]);
        assert!(note(1, vec![present("phone", 1, 1)]).is_empty());
        assert!(note(2, vec![present("phone", 2, 2)]).is_empty(), "a line a minute");
        assert_eq!(note(70, vec![present("phone", 3, 2)]), ["client phone moved from 192.0.2.1:1 to 192.0.2.1:3"]);
        assert_eq!(note(300, vec![present("phone", 3, 190)]), ["client phone has gone"]);
        assert!(note(301, Vec::new()).is_empty());
    }
}
