//! Drives a sender by a script: acknowledgments in, segment numbers out.

use std::time::Duration;
use weft_sim::tcp::{Flags, SackBlock, SenderConfig, TcpSegment, TcpSender};
use weft_units::Instant;

pub const MSS: u64 = 1000;

/// Returns the settings that most scripts start with.
pub fn config() -> SenderConfig {
    SenderConfig { mss: MSS as u32, initial_window_segments: 10, max_window_segments: 1000, ..SenderConfig::default() }
}

/// A sender and the present time.
///
/// Segments are numbered from 0.
pub struct Script {
    pub sender: TcpSender,
    pub now: Instant,
}

impl Script {
    /// Creates a script with an endless stream that starts at time zero.
    pub fn new(config: SenderConfig) -> Script {
        let mut sender = TcpSender::new(config, Instant::ZERO);
        sender.write(u64::MAX);
        Script { sender, now: Instant::ZERO }
    }

    /// Creates a script with a stream of `segments` segments.
    pub fn finite(config: SenderConfig, segments: u64) -> Script {
        let mut sender = TcpSender::new(config, Instant::ZERO);
        sender.write(segments * MSS);
        Script { sender, now: Instant::ZERO }
    }

    pub fn pass(&mut self, ms: u64) -> &mut Script {
        self.now += Duration::from_millis(ms);
        self
    }

    /// Returns all segments that the sender sends now.
    pub fn sends(&mut self) -> Vec<TcpSegment> {
        std::iter::from_fn(|| self.sender.transmit(self.now)).collect()
    }

    /// Returns the numbers of the segments that the sender sends now.
    pub fn out(&mut self) -> Vec<u64> {
        self.sends().iter().map(|segment| segment.seq / MSS).collect()
    }

    /// Acknowledges everything before segment `n` and returns the segments that the sender sends.
    pub fn ack(&mut self, n: u64) -> Vec<u64> {
        self.sack(n, &[])
    }

    /// Does the same as [`ack`](Self::ack), with SACK blocks.
    ///
    /// Each block is given by its first segment and the one after its last.
    pub fn sack(&mut self, n: u64, blocks: &[(u64, u64)]) -> Vec<u64> {
        self.sender.receive(self.now, &acknowledgment(n, blocks));
        self.out()
    }

    /// Does the same as [`sack`](Self::sack), with a DSACK as the first block.
    pub fn dsack(&mut self, n: u64, blocks: &[(u64, u64)]) -> Vec<u64> {
        let mut ack = acknowledgment(n, blocks);
        ack.flags = ack.flags.with(Flags::DSACK);
        self.sender.receive(self.now, &ack);
        self.out()
    }

    /// Lets the sender's next timer expire and returns the segments that it sends.
    pub fn expire(&mut self) -> Vec<u64> {
        self.now = self.sender.deadline().expect("a timer runs");
        self.sender.wake(self.now);
        self.out()
    }

    /// Returns the time until the next timer, in milliseconds.
    pub fn timer_ms(&self) -> Option<u64> {
        self.sender.deadline().map(|at| (at - self.now).as_millis() as u64)
    }

    pub fn cwnd(&self) -> f64 {
        self.sender.cwnd_bytes() as f64 / MSS as f64
    }

    pub fn ssthresh(&self) -> f64 {
        self.sender.ssthresh_bytes() as f64 / MSS as f64
    }
}

pub fn acknowledgment(n: u64, blocks: &[(u64, u64)]) -> TcpSegment {
    let mut ack = TcpSegment { ack: n * MSS, window: 1_000_000, flags: Flags::ACK, ..TcpSegment::default() };
    for (block, &(first, end)) in ack.sacks.iter_mut().zip(blocks) {
        let offset = (first as i64 - n as i64) * MSS as i64;
        *block = SackBlock { offset: offset as i32, len: ((end - first) * MSS) as u32 };
    }
    ack.sack_count = blocks.len() as u8;
    ack
}
