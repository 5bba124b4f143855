//! Models the receiving side of a TCP connection, which reassembles data and acknowledges it.
//!
//! Segments enter through [`TcpReceiver::receive`], and acknowledgments leave through [`TcpReceiver::transmit`]. The receiver
//! never reads a clock.

mod delayed_ack;
mod reassembly;

pub use delayed_ack::AckRule;

use super::{Flags, SackBlock, TcpSegment};
use delayed_ack::{AckTiming, SegmentEffect};
use reassembly::Reassembly;
use std::time::Duration;
use weft_units::Instant;

/// Maximum receive window that a SYN can announce, in bytes.
///
/// Standard: the window field of a SYN has no scale factor (RFC 7323 §2.2).
const SYN_WINDOW_BYTES: u32 = 0xffff;

/// The receive window that a receiver announces at the start of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WindowOpening {
    /// The receiver announces the whole window from the start.
    #[default]
    AtOnce,
    /// The receiver announces `SYN_WINDOW_BYTES` until data arrives, and the whole window afterwards.
    ///
    /// Linux does this if the program has set the size of the buffer.
    AfterHandshake,
    /// The receiver announces `SYN_WINDOW_BYTES` plus twice the number of received bytes, up to the whole window.
    ///
    /// Linux does this if the program has not set the size of the buffer: the buffer grows as the application reads.
    WithData,
}

/// Time after which a receiver with a closed window announces its window again.
const ANNOUNCE_AGAIN: Duration = Duration::from_millis(500);

/// The settings of a TCP receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// Payload of a full segment in bytes, equal to that of the sender.
    pub mss: u32,
    /// Receive buffer in segments, at least 1. It is the largest window that the receiver announces.
    ///
    /// The application reads all data at once unless [`TcpReceiver::hold`] is called.
    pub window_segments: u32,
    /// The window that the receiver announces at the start of a connection.
    pub opening: WindowOpening,
    /// Rule for delaying acknowledgments.
    pub delayed_ack: AckRule,
    /// True if the receiver reports data out of order and duplicates (SACK, RFC 2018; DSACK, RFC 2883).
    pub sack: bool,
    /// True if the receiver echoes congestion marks (RFC 3168).
    pub ecn: bool,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        let delayed_ack = AckRule::Standard { delay: Duration::from_millis(200) };
        let opening = WindowOpening::AtOnce;
        ReceiverConfig { mss: 1448, window_segments: 100, opening, delayed_ack, sack: true, ecn: false }
    }
}

/// The receiving end of one direction of a TCP connection.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    sack: bool,
    ecn: bool,
    mss: u32,
    window_bytes: u32,
    opening: WindowOpening,
    rcv_nxt: u64,
    /// Next expected sequence number when the present connection began.
    ///
    /// A later connection between the same ends continues with the same numbers.
    began_at: u64,
    reassembly: Reassembly,
    timing: AckTiming,
    syn_ack_due: bool,
    /// Sequence number of the sender's FIN, once it has arrived.
    fin_at: Option<u64>,
    /// True if acknowledgments echo a congestion mark. The echo lasts until the sender sends CWR.
    echo: bool,
    /// First sequence number and length of data that arrived twice, which the next acknowledgment reports (DSACK).
    duplicate: Option<(u64, u32)>,
    /// Number of bytes that the application has not read yet.
    unread: u32,
    /// Receive window in the last acknowledgment, in bytes.
    announced: u32,
    /// Time at which the receiver announces its window once more, in case the announcement of its opening was lost.
    announce_again: Instant,
}

impl TcpReceiver {
    /// Returns a receiver to which no data has arrived.
    pub fn new(config: ReceiverConfig) -> TcpReceiver {
        TcpReceiver {
            sack: config.sack,
            ecn: config.ecn,
            mss: config.mss.max(1),
            window_bytes: config.mss.max(1).saturating_mul(config.window_segments.max(1)),
            opening: config.opening,
            rcv_nxt: 0,
            began_at: 0,
            reassembly: Reassembly::default(),
            timing: AckTiming::new(config.delayed_ack, config.mss.max(1)),
            syn_ack_due: false,
            fin_at: None,
            echo: false,
            duplicate: None,
            unread: 0,
            announced: u32::MAX,
            announce_again: Instant::FAR_FUTURE,
        }
    }

    /// Accepts a data segment, SYN or FIN.
    ///
    /// `ce` is true if its packet carried the mark "congestion experienced".
    pub fn receive(&mut self, now: Instant, segment: &TcpSegment, ce: bool) {
        if segment.flags.has(Flags::SYN) {
            self.syn_ack_due = true;
            self.began_at = self.rcv_nxt;
            return;
        }
        self.note_ecn(segment, ce);
        let fin = segment.flags.has(Flags::FIN);
        let end = segment.seq.saturating_add(u64::from(segment.len)).saturating_add(u64::from(fin));
        if end == segment.seq {
            return;
        }
        if fin {
            self.fin_at = Some(end - 1);
        }
        let arrival = self.place(segment.seq, end);
        self.timing.arrived(now, segment, arrival);
    }

    fn note_ecn(&mut self, segment: &TcpSegment, ce: bool) {
        if segment.flags.has(Flags::CWR) {
            self.echo = false;
        }
        self.echo |= ce && self.ecn;
    }

    /// Records the arrival of the bytes `seq..end`, and returns their relation to the data that has arrived before.
    fn place(&mut self, seq: u64, end: u64) -> SegmentEffect {
        if end <= self.rcv_nxt {
            self.note_duplicate(seq, end);
            return SegmentEffect::Useless;
        }
        if end > self.rcv_nxt + u64::from(self.window_bytes) + 1 {
            return SegmentEffect::Useless;
        }
        if seq <= self.rcv_nxt {
            self.rcv_nxt = end;
            if self.reassembly.is_empty() {
                return SegmentEffect::InOrder;
            }
            self.rcv_nxt = self.reassembly.advance(end);
            return SegmentEffect::FillsGap;
        }
        if self.reassembly.insert(seq, end) {
            return SegmentEffect::OutOfOrder;
        }
        self.note_duplicate(seq, end);
        SegmentEffect::Useless
    }

    fn note_duplicate(&mut self, seq: u64, end: u64) {
        self.duplicate = u32::try_from(end - seq).ok().map(|len| (seq, len));
    }

    /// Reduces the receive window by `unread`, the number of bytes that the application has not read yet.
    ///
    /// If the window has at least doubled and has space for two segments, an acknowledgment announces it (RFC 9293
    /// §3.8.6.2.2).
    pub fn hold(&mut self, now: Instant, unread: u64) {
        self.unread = u32::try_from(unread).unwrap_or(u32::MAX).min(self.window_bytes);
        let window = self.window_bytes - self.unread;
        if window >= self.announced.saturating_mul(2).max(2 * self.mss) {
            self.timing.set_due();
        } else if window < self.mss {
            self.announce_again = now + ANNOUNCE_AGAIN;
        }
    }

    /// Handles the receiver's deadline: it makes a delayed acknowledgment or a window update due.
    pub fn wake(&mut self, now: Instant) {
        self.timing.wake(now);
        if self.announce_again <= now {
            self.announce_again = if self.announced < self.mss { now + ANNOUNCE_AGAIN } else { Instant::FAR_FUTURE };
            self.timing.set_due();
        }
    }

    /// Returns the next segment to send.
    ///
    /// The caller polls until it returns `None`.
    pub fn transmit(&mut self, _now: Instant) -> Option<TcpSegment> {
        if self.syn_ack_due {
            self.syn_ack_due = false;
            let echo = if self.ecn { Flags::ECE } else { Flags::default() };
            return Some(self.acknowledgment(Flags::SYN.with(echo)));
        }
        if !self.timing.take() {
            return None;
        }
        let echo = if self.echo { Flags::ECE } else { Flags::default() };
        let mut ack = self.acknowledgment(echo);
        if self.sack {
            self.add_sacks(&mut ack);
        }
        Some(ack)
    }

    /// Returns the receive window that an acknowledgment now announces, in bytes.
    fn window(&self) -> u32 {
        let come = self.rcv_nxt - self.began_at;
        let open = match self.opening {
            WindowOpening::AfterHandshake if come == 0 => u64::from(SYN_WINDOW_BYTES),
            WindowOpening::WithData => come.saturating_mul(2).saturating_add(SYN_WINDOW_BYTES.into()),
            WindowOpening::AtOnce | WindowOpening::AfterHandshake => u64::MAX,
        };
        u32::try_from(open).unwrap_or(u32::MAX).min(self.window_bytes - self.unread)
    }

    fn acknowledgment(&mut self, flags: Flags) -> TcpSegment {
        self.announced = self.window();
        TcpSegment { ack: self.rcv_nxt, window: self.announced, flags: flags.with(Flags::ACK), ..TcpSegment::default() }
    }

    fn add_sacks(&mut self, ack: &mut TcpSegment) {
        let mut count = 0;
        if let Some((seq, len)) = self.duplicate.take()
            && let Some(offset) = offset(seq, ack.ack)
        {
            ack.flags = ack.flags.with(Flags::DSACK);
            ack.sacks[0] = SackBlock { offset, len };
            count = 1;
        }
        if !self.reassembly.is_empty() {
            let room = ack.sacks.iter_mut().skip(count);
            for (block, (start, end)) in room.zip(self.reassembly.recent()) {
                let (Some(offset), Ok(len)) = (offset(start, ack.ack), u32::try_from(end - start)) else { break };
                *block = SackBlock { offset, len };
                count += 1;
            }
        }
        ack.sack_count = count as u8;
    }

    /// Returns the time at which the receiver must be woken.
    pub fn deadline(&self) -> Option<Instant> {
        let again = Some(self.announce_again).filter(|at| *at != Instant::FAR_FUTURE);
        self.timing.deadline().into_iter().chain(again).min()
    }

    /// Returns the number of payload bytes that have arrived in order.
    pub fn delivered_bytes(&self) -> u64 {
        self.rcv_nxt - u64::from(self.is_finished())
    }

    /// Returns true if the sender's FIN and all data before it have arrived.
    pub fn is_finished(&self) -> bool {
        self.fin_at.is_some_and(|fin| self.rcv_nxt > fin)
    }
}

fn offset(seq: u64, ack: u64) -> Option<i32> {
    i32::try_from(i128::from(seq) - i128::from(ack)).ok()
}
