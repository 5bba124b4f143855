//! What the proxy says of itself, in one line of text.

use std::fmt;
use std::iter::Sum;
use std::str::FromStr;

/// What is counted, by each worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Connections now.
    pub connections: u64,
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
        })
    }
}

/// How the proxy is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// The sum of all workers'.
    pub counts: Counts,
    /// The most connections it takes.
    pub capacity: u64,
    /// Whether new connections are taken in, or go plain because it is full.
    pub is_open: bool,
    /// The congestion control of legs between proxies.
    pub congestion: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { counts, capacity, is_open, congestion } = self;
        let Counts { connections, taken, unreachable, reset, ended, up_bytes, down_bytes, pipes } = counts;
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
        let mut status = Status::default();
        status.counts.connections = number()?;
        status.capacity = number()?;
        status.is_open = number()? == 1;
        let Counts { connections: _, taken, unreachable, reset, ended, up_bytes, down_bytes, pipes } =
            &mut status.counts;
        for value in [taken, unreachable, reset, ended, up_bytes, down_bytes, pipes] {
            *value = number()?;
        }
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
