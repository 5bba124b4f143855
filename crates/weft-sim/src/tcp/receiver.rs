//! The receiving side: reassembles, and acknowledges.

mod delayed_ack;
mod reassembly;

pub use delayed_ack::DelayedAck;

use super::{Flags, SackBlock, Segment};
use delayed_ack::{AckTiming, Arrival};
use reassembly::Reassembly;
use std::time::Duration;
use weft_units::Instant;

/// What fits the window field of a SYN, which knows no scale (RFC 7323 §2.2).
const SYN_WINDOW_BYTES: u32 = 0xffff;

/// How the receive window opens when a connection begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WindowOpening {
    /// All of it at once.
    #[default]
    AtOnce,
    /// First what fits a SYN, then all of it: a buffer that the program has set.
    AfterHandshake,
    /// What fits a SYN, and twice what has come: a buffer that grows with what the application reads, as Linux has it.
    WithData,
}

/// How long a closed window stays unsaid.
const ANNOUNCE_AGAIN: Duration = Duration::from_millis(500);

/// A receiver's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// Payload bytes of a full segment, as the sender has them.
    pub mss: u32,
    /// The receive window in segments; at least 1. The application reads at once, unless [`Receiver::hold`] says otherwise.
    pub window_segments: u32,
    /// How it opens.
    pub opening: WindowOpening,
    /// When acknowledgments leave.
    pub delayed_ack: DelayedAck,
    /// Report what arrived out of order, and what arrived twice (RFC 2018, RFC 2883).
    pub sack: bool,
    /// Echo congestion marks (RFC 3168).
    pub ecn: bool,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        let delayed_ack = DelayedAck::Standard { delay: Duration::from_millis(200) };
        let opening = WindowOpening::AtOnce;
        ReceiverConfig { mss: 1448, window_segments: 100, opening, delayed_ack, sack: true, ecn: false }
    }
}

/// The receiver of one direction of one connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    sack: bool,
    ecn: bool,
    mss: u32,
    window_bytes: u32,
    opening: WindowOpening,
    rcv_nxt: u64,
    /// Where the connection began; another may follow on the same numbers.
    began_at: u64,
    reassembly: Reassembly,
    timing: AckTiming,
    syn_ack_due: bool,
    /// Where the sender's FIN stands, once seen.
    fin_at: Option<u64>,
    /// Congestion marks are echoed until the sender says CWR.
    echo: bool,
    /// What arrived a second time, to be reported once: first byte and length.
    duplicate: Option<(u64, u32)>,
    /// What the application has not read yet.
    unread: u32,
    /// The window as it was announced last.
    announced: u32,
    /// A closed window is announced again, for the case that the next one is lost.
    announce_again: Instant,
}

impl Receiver {
    /// A receiver that has nothing yet.
    pub fn new(config: ReceiverConfig) -> Receiver {
        Receiver {
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

    /// A data segment, SYN or FIN arrived; `ce`: its packet was marked "congestion experienced".
    pub fn receive(&mut self, now: Instant, segment: &Segment, ce: bool) {
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

    fn note_ecn(&mut self, segment: &Segment, ce: bool) {
        if segment.flags.has(Flags::CWR) {
            self.echo = false;
        }
        self.echo |= ce && self.ecn;
    }

    /// Puts `seq..end` where it belongs.
    fn place(&mut self, seq: u64, end: u64) -> Arrival {
        if end <= self.rcv_nxt {
            self.note_duplicate(seq, end);
            return Arrival::Useless;
        }
        if end > self.rcv_nxt + u64::from(self.window_bytes) + 1 {
            return Arrival::Useless;
        }
        if seq <= self.rcv_nxt {
            self.rcv_nxt = end;
            if self.reassembly.is_empty() {
                return Arrival::InOrder;
            }
            self.rcv_nxt = self.reassembly.advance(end);
            return Arrival::FillsGap;
        }
        if self.reassembly.insert(seq, end) {
            return Arrival::OutOfOrder;
        }
        self.note_duplicate(seq, end);
        Arrival::Useless
    }

    fn note_duplicate(&mut self, seq: u64, end: u64) {
        self.duplicate = u32::try_from(end - seq).ok().map(|len| (seq, len));
    }

    /// The application has so much that it has not read: the window is what is left. It is announced anew when it has opened well
    /// (RFC 9293 §3.8.6.2.2).
    pub fn hold(&mut self, now: Instant, unread: u64) {
        self.unread = u32::try_from(unread).unwrap_or(u32::MAX).min(self.window_bytes);
        let window = self.window_bytes - self.unread;
        if window >= self.announced.saturating_mul(2).max(2 * self.mss) {
            self.timing.set_due();
        } else if window < self.mss {
            self.announce_again = now + ANNOUNCE_AGAIN;
        }
    }

    /// Its deadline has come: a delayed acknowledgment leaves.
    pub fn wake(&mut self, now: Instant) {
        self.timing.wake(now);
        if self.announce_again <= now {
            self.announce_again = if self.announced < self.mss { now + ANNOUNCE_AGAIN } else { Instant::FAR_FUTURE };
            self.timing.set_due();
        }
    }

    /// The next segment to send; poll until none.
    pub fn transmit(&mut self, _now: Instant) -> Option<Segment> {
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

    /// The window to announce.
    fn window(&self) -> u32 {
        let come = self.rcv_nxt - self.began_at;
        let open = match self.opening {
            WindowOpening::AfterHandshake if come == 0 => u64::from(SYN_WINDOW_BYTES),
            WindowOpening::WithData => come.saturating_mul(2).saturating_add(SYN_WINDOW_BYTES.into()),
            WindowOpening::AtOnce | WindowOpening::AfterHandshake => u64::MAX,
        };
        u32::try_from(open).unwrap_or(u32::MAX).min(self.window_bytes - self.unread)
    }

    fn acknowledgment(&mut self, flags: Flags) -> Segment {
        self.announced = self.window();
        Segment { ack: self.rcv_nxt, window: self.announced, flags: flags.with(Flags::ACK), ..Segment::default() }
    }

    fn add_sacks(&mut self, ack: &mut Segment) {
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

    /// When it wants to be woken.
    pub fn deadline(&self) -> Option<Instant> {
        let again = Some(self.announce_again).filter(|at| *at != Instant::FAR_FUTURE);
        self.timing.deadline().into_iter().chain(again).min()
    }

    /// Payload bytes that the application has, in order.
    pub fn delivered_bytes(&self) -> u64 {
        self.rcv_nxt - u64::from(self.is_finished())
    }

    /// The sender's FIN and all before it arrived.
    pub fn is_finished(&self) -> bool {
        self.fin_at.is_some_and(|fin| self.rcv_nxt > fin)
    }
}

fn offset(seq: u64, ack: u64) -> Option<i32> {
    i32::try_from(i128::from(seq) - i128::from(ack)).ok()
}
