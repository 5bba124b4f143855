//! The proxy's reports to the daemon, each in one line of text.

use std::fmt;
use std::iter::Sum;
use std::net::SocketAddr;
use std::str::FromStr;

/// The counters of a worker since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of current connections.
    pub connections: u64,
    /// Number of connections accepted since the start.
    pub taken: u64,
    /// Number of connections to a server that could not be reached.
    pub unreachable: u64,
    /// Number of connections that the client or the server reset, or that broke.
    pub reset: u64,
    /// Number of connections that ended with FIN in both directions.
    pub ended: u64,
    /// Number of bytes from clients to servers.
    pub up_bytes: u64,
    /// Number of bytes from servers to clients.
    pub down_bytes: u64,
    /// Number of pipes that hold bytes in transit now.
    pub pipes: u64,
    /// Number of connections that the proxy refused by its access rules.
    pub refused: u64,
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), |sum, one| Counts {
            connections: sum.connections + one.connections,
            taken: sum.taken + one.taken,
            unreachable: sum.unreachable + one.unreachable,
            reset: sum.reset + one.reset,
            ended: sum.ended + one.ended,
            up_bytes: sum.up_bytes + one.up_bytes,
            down_bytes: sum.down_bytes + one.down_bytes,
            pipes: sum.pipes + one.pipes,
            refused: sum.refused + one.refused,
        })
    }
}

/// The status of the proxy, as it reports it to the daemon.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProxyStatus {
    /// Sum of all workers' counters.
    pub counts: Counts,
    /// Maximum number of connections of all workers together.
    pub capacity: u64,
    /// True if new connections are diverted. False if they bypass the proxy because it is full.
    pub is_open: bool,
    /// Name of the congestion control of TCP connections between proxies. Empty: the system's default.
    pub congestion: String,
}

impl fmt::Display for ProxyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProxyStatus { counts, capacity, is_open, congestion } = self;
        let Counts { connections, taken, unreachable, reset, ended, up_bytes, down_bytes, pipes, refused } = counts;
        let open = u8::from(*is_open);
        write!(
            f,
            "{connections} {capacity} {open} {taken} {unreachable} {reset} {ended} {up_bytes} {down_bytes} {pipes} \
             {refused} {congestion}"
        )
    }
}

impl FromStr for ProxyStatus {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ProxyStatus, &'static str> {
        let mut words = text.split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or("a number is missing");
        let mut status = ProxyStatus::default();
        status.counts.connections = number()?;
        status.capacity = number()?;
        status.is_open = number()? == 1;
        let Counts { connections: _, taken, unreachable, reset, ended, up_bytes, down_bytes, pipes, refused } =
            &mut status.counts;
        for value in [taken, unreachable, reset, ended, up_bytes, down_bytes, pipes, refused] {
            *value = number()?;
        }
        status.congestion = words.next().ok_or("the congestion control is missing")?.to_owned();
        Ok(status)
    }
}

/// A connection that the proxy refused by its access rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedConnection {
    /// Address of the client.
    pub from: SocketAddr,
    /// Address of the server.
    pub to: SocketAddr,
    /// Reason of the refusal, for people.
    pub why: String,
}

impl fmt::Display for RefusedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{REFUSED} {} {} {}", self.from, self.to, self.why)
    }
}

/// First word of a line about a refused connection.
const REFUSED: &str = "refused";

impl FromStr for RefusedConnection {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<RefusedConnection, &'static str> {
        let mut words = text.splitn(4, ' ');
        let mut word = || words.next().ok_or("expected a client, a server and a reason");
        let (first, from, to, why) = (word()?, word()?, word()?, word()?);
        let address = |text: &str| text.parse().map_err(|_| "not an address");
        if first != REFUSED {
            return Err("the proxy's line about a refused connection must begin with `refused`");
        }
        Ok(RefusedConnection { from: address(from)?, to: address(to)?, why: why.to_owned() })
    }
}

/// One line that the proxy reports to the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProxyLine {
    /// Status of the proxy.
    Status(ProxyStatus),
    /// The connection that was refused last since the previous such report.
    Refused(RefusedConnection),
}

impl FromStr for ProxyLine {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ProxyLine, &'static str> {
        match text.starts_with(REFUSED) {
            true => text.parse().map(ProxyLine::Refused),
            false => text.parse().map(ProxyLine::Status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ProxyLine, ProxyStatus, RefusedConnection};

    #[test]
    fn it_survives_its_line() {
        for line in ["1 2 1 3 4 5 6 7 8 9 10 bbr", "0 0 0 0 0 0 0 0 0 0 0 weft_er"] {
            assert_eq!(line.parse::<ProxyStatus>().unwrap().to_string(), line);
        }
        assert!("1 2 1".parse::<ProxyStatus>().is_err() && "".parse::<ProxyStatus>().is_err());
    }

    #[test]
    fn a_refusal_survives_its_line() {
        let line = "refused [fd00::1]:7 10.6.0.7:22 [[proxies.rule]] number 2 denies the connection";
        let refused: RefusedConnection = line.parse().unwrap();
        assert_eq!(refused.to_string(), line);
        assert_eq!(line.parse::<ProxyLine>(), Ok(ProxyLine::Refused(refused)));
        for bad in ["refused", "refused x 10.6.0.7:22 y", "refused 10.6.0.7:22 10.6.0.7:22"] {
            assert!(bad.parse::<ProxyLine>().is_err(), "{bad}");
        }
    }
}
