//! Log of clients, by name: which ones connect, change their address or disappear.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time without a handshake after which a client is reported as gone.
///
/// WireGuard accepts no packet after this time (REJECT_AFTER_TIME).
const GONE_AFTER: Duration = Duration::from_secs(180);
/// Minimum interval between two lines about a client whose address changes constantly.
const MOVED_INTERVAL: Duration = Duration::from_secs(60);

/// State of a client with a WireGuard handshake.
pub struct Present<'a> {
    /// Name of the client.
    pub name: &'a str,
    /// Address and port of the client's last datagram.
    pub remote: SocketAddr,
    /// Time since the client's last handshake.
    pub handshake: Duration,
}

#[derive(Debug)]
struct KnownClient {
    remote: SocketAddr,
    told_at: Instant,
}

/// The connected clients.
#[derive(Debug, Default)]
pub struct Attendance {
    known: BTreeMap<String, KnownClient>,
}

impl Attendance {
    /// Compares the clients' states with the earlier ones, and returns the lines to log.
    pub fn note<'a>(&mut self, now: Instant, clients: impl Iterator<Item = Present<'a>>) -> Vec<String> {
        let mut lines = Vec::new();
        let there: Vec<Present<'_>> = clients.filter(|client| client.handshake < GONE_AFTER).collect();
        for Present { name, remote, .. } in &there {
            match self.known.get_mut(*name) {
                None => lines.push(format!("client {name} connected from {remote}")),
                Some(known) if known.remote == *remote => continue,
                Some(known) if now - known.told_at < MOVED_INTERVAL => continue,
                Some(known) => lines.push(format!("client {name} moved from {} to {remote}", known.remote)),
            }
            self.known.insert((*name).to_owned(), KnownClient { remote: *remote, told_at: now });
        }
        self.known.retain(|name, _| {
            let stays = there.iter().any(|client| client.name == name);
            if !stays {
                lines.push(format!("client {name} disconnected"));
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
    fn each_peer_that_arrives_moves_or_leaves_is_logged_once() {
        let (mut attendance, start) = (Attendance::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut note = |seconds, clients: Vec<Present<'_>>| attendance.note(at(seconds), clients.into_iter());
        assert_eq!(note(0, vec![present("phone", 1, 0)]), ["client phone connected from 192.0.2.1:1"]);
        assert!(note(1, vec![present("phone", 1, 1)]).is_empty());
        assert!(note(2, vec![present("phone", 2, 2)]).is_empty(), "a line a minute");
        assert_eq!(note(70, vec![present("phone", 3, 2)]), ["client phone moved from 192.0.2.1:1 to 192.0.2.1:3"]);
        assert_eq!(note(300, vec![present("phone", 3, 190)]), ["client phone disconnected"]);
        assert!(note(301, Vec::new()).is_empty());
    }
}
