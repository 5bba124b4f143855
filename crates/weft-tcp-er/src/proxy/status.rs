//! What the proxy says of itself, in one line of text.

use std::fmt;
use std::str::FromStr;

/// How the proxy is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Connections now.
    pub connections: u64,
    /// The most it takes.
    pub capacity: u64,
    /// Whether new connections are taken in, or go plain because it is full.
    pub is_open: bool,
    /// Connections taken in since it began.
    pub taken: u64,
    /// Those whose server could not be reached.
    pub unreachable: u64,
    /// Those that were reset by either side, or broke.
    pub reset: u64,
    /// Those that ended in order.
    pub ended: u64,
    /// Bytes from clients to servers.
    pub up_bytes: u64,
    /// Bytes from servers to clients.
    pub down_bytes: u64,
    /// Pipes with bytes in them.
    pub pipes: u64,
    /// The congestion control of legs between proxies.
    pub congestion: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { connections, capacity, is_open, taken, unreachable, reset, ended, .. } = self;
        let Status { up_bytes, down_bytes, pipes, congestion, .. } = self;
        let open = u8::from(*is_open);
        write!(
            f,
            "{connections} {capacity} {open} {taken} {unreachable} {reset} {ended} {up_bytes} {down_bytes} {pipes} {congestion}"
        )
    }
}

impl FromStr for Status {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Status, &'static str> {
        let mut words = text.split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or("a number is missing");
        let mut status = Status {
            connections: number()?,
            capacity: number()?,
            is_open: number()? == 1,
            taken: number()?,
            unreachable: number()?,
            reset: number()?,
            ended: number()?,
            up_bytes: number()?,
            down_bytes: number()?,
            pipes: number()?,
            congestion: String::new(),
        };
        status.congestion = words.next().ok_or("the congestion control is missing")?.to_owned();
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn it_survives_its_line() {
        for line in ["1 2 1 3 4 5 6 7 8 9 bbr", "0 0 0 0 0 0 0 0 0 0 weft_er"] {
            assert_eq!(line.parse::<Status>().unwrap().to_string(), line);
        }
        assert!("1 2 1".parse::<Status>().is_err() && "".parse::<Status>().is_err());
    }
}
