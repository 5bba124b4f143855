//! Records the sending end of one TCP connection.
//!
//! The record has congestion window, slow-start threshold, round-trip times and retransmissions.

use std::io::{self, Write};
use weft_units::{Duration, Instant};

/// The state of the sending end of a TCP connection, as far as it is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpState {
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Slow-start threshold in bytes, which exceeds any window until the first congestion.
    pub ssthresh_bytes: u64,
    /// Smoothed round-trip time (RFC 6298 §2). `None` before the first measurement.
    pub srtt: Option<Duration>,
}

/// Writes a CSV file with one line for each change: `time_s,what,value`.
///
/// `cwnd` and `ssthresh` are in bytes. `srtt` and `rtt` (one sample) are in milliseconds. The value of `retransmission`
/// is the sequence number of the segment's first byte.
#[derive(Debug)]
pub struct TcpTrace<W> {
    out: W,
    last: TcpState,
}

impl<W: Write> TcpTrace<W> {
    /// Creates a trace and writes the header line.
    ///
    /// # Errors
    /// Fails if `out` cannot be written.
    pub fn new(mut out: W) -> io::Result<TcpTrace<W>> {
        writeln!(out, "time_s,what,value")?;
        Ok(TcpTrace { out, last: TcpState::default() })
    }

    /// Writes those values of `state` that differ from the previous call.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn observe(&mut self, now: Instant, state: TcpState) -> io::Result<()> {
        if state.cwnd_bytes != self.last.cwnd_bytes {
            self.line(now, "cwnd", state.cwnd_bytes)?;
        }
        if state.ssthresh_bytes != self.last.ssthresh_bytes && state.ssthresh_bytes != u64::MAX {
            self.line(now, "ssthresh", state.ssthresh_bytes)?;
        }
        if let Some(srtt) = state.srtt.filter(|_| state.srtt != self.last.srtt) {
            self.line(now, "srtt", Millis(srtt))?;
        }
        self.last = state;
        Ok(())
    }

    /// Writes one measured round-trip time.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn rtt_sample(&mut self, now: Instant, rtt: Duration) -> io::Result<()> {
        self.line(now, "rtt", Millis(rtt))
    }

    /// Writes that the segment which begins at the sequence number `seq` was retransmitted.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn retransmission(&mut self, now: Instant, seq: u64) -> io::Result<()> {
        self.line(now, "retransmission", seq)
    }

    /// Ends the trace and returns the destination of the file.
    ///
    /// # Errors
    /// Fails if buffered data cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, now: Instant, what: &str, value: impl std::fmt::Display) -> io::Result<()> {
        let nanos = now.as_nanos();
        let (seconds, micros) = (nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000);
        writeln!(self.out, "{seconds}.{micros:06},{what},{value}")
    }
}

struct Millis(Duration);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3}", self.0.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_written() {
        let mut trace = TcpTrace::new(Vec::new()).unwrap();
        let start = TcpState { cwnd_bytes: 14_480, ssthresh_bytes: u64::MAX, srtt: None };
        trace.observe(Instant::ZERO, start).unwrap();
        trace.observe(Instant::from_millis(1), start).unwrap();
        trace.rtt_sample(Instant::from_millis(40), Duration::from_micros(40_250)).unwrap();
        let measured = TcpState { srtt: Some(Duration::from_micros(40_250)), ..start };
        trace.observe(Instant::from_millis(40), measured).unwrap();
        trace.retransmission(Instant::from_micros(1_000_001), 2_896).unwrap();
        let halved = TcpState { cwnd_bytes: 7_240, ssthresh_bytes: 7_240, ..measured };
        trace.observe(Instant::from_micros(1_000_001), halved).unwrap();
        let text = String::from_utf8(trace.finish().unwrap()).unwrap();
        let expected = "time_s,what,value\n0.000000,cwnd,14480\n0.040000,rtt,40.250\n0.040000,srtt,40.250\n\
                        1.000001,retransmission,2896\n1.000001,cwnd,7240\n1.000001,ssthresh,7240\n";
        assert_eq!(text, expected);
    }
}
