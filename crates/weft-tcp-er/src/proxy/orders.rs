//! Orders of the daemon to the proxy: one line each on standard input, `policy …` or `rates …`.
//!
//! The proxy ends at the end of standard input.

use super::descriptors::set_nonblocking;
use super::policy::ProxyPolicy;
use super::rates::PeerTotals;
use super::sys::unless_blocked;
use std::fmt;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, RawFd};

/// Maximum length of an order's line, in bytes. It is long because a policy lists every prefix.
const MAX_LINE: usize = 1 << 20;

/// An order of the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Proxy the connections of this policy.
    Policy(ProxyPolicy),
    /// Share these rates toward the peers among the connections.
    Totals(PeerTotals),
    /// End the proxy.
    End,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Policy(policy) => write!(f, "policy {policy}"),
            Order::Totals(totals) => write!(f, "rates {totals}"),
            Order::End => write!(f, "end"),
        }
    }
}

impl std::str::FromStr for Order {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<Order, &'static str> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("policy", rest) => rest.parse().map(Order::Policy),
            ("rates", rest) => rest.parse().map(Order::Totals),
            ("end", "") => Ok(Order::End),
            _ => Err("unknown command"),
        }
    }
}

/// Reads the daemon's orders from standard input.
pub struct OrderReader {
    stdin: io::Stdin,
    read: Vec<u8>,
}

impl AsRawFd for OrderReader {
    fn as_raw_fd(&self) -> RawFd {
        self.stdin.as_raw_fd()
    }
}

impl OrderReader {
    /// Starts to read standard input.
    ///
    /// # Errors
    /// Fails if standard input cannot be set to non-blocking.
    pub fn new() -> io::Result<OrderReader> {
        let stdin = io::stdin();
        set_nonblocking(stdin.as_raw_fd())?;
        Ok(OrderReader { stdin, read: Vec::new() })
    }

    /// Returns the next order, or `None` if no complete one has arrived; at the end of input [`Order::End`].
    ///
    /// # Errors
    /// Fails on an invalid order.
    pub fn next(&mut self) -> io::Result<Option<Order>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let invalid = |why| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("the TCP proxy cannot read the daemon's command {line:?}: {why}: restart the daemon"),
                    )
                };
                return line.trim_end().parse().map(Some).map_err(invalid);
            }
            if self.read.len() > MAX_LINE {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a command from the daemon to the proxy is too long or has no line end",
                ));
            }
            let mut buffer = [0; 16 << 10];
            match unless_blocked(self.stdin.lock().read(&mut buffer))? {
                None => return Ok(None),
                Some(0) => return Ok(Some(Order::End)),
                Some(len) => self.read.extend(buffer.get(..len).unwrap_or_default()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn orders_survive_their_line() {
        for line in ["policy 7 bbr;both 10.9.0.0/24 80", "rates 99 10.9.0.0/24", "rates ", "end"] {
            assert_eq!(line.parse::<Order>().unwrap().to_string(), line);
        }
        assert!("polcy 7 *".parse::<Order>().is_err());
    }
}
