//! The sending end of an MPTCP connection (RFC 8684).
//!
//! It has a TCP sender on each link, and a scheduler that picks a link. The content of the DSS option travels
//! in fields that one-way data does not use. A data segment's `ack` holds its first data sequence number. An
//! acknowledgment's `seq` holds the data acknowledgment.

use std::collections::VecDeque;
use weft_sim::tcp::{SenderConfig, TcpSegment, TcpSender};
use weft_units::{Duration, Instant};

/// Minimum retransmission timeout of the connection: Linux's `TCP_RTO_MIN`.
///
/// The connection uses the longest timeout of its subflows, but at least this one.
const MIN_RTO: Duration = Duration::from_millis(200);
/// Number of bytes that one expiry of the connection's timer retransmits.
///
/// Linux keeps a write in fragments of this size.
const REPEAT_BYTES: u64 = 32_768;

/// A range of the connection's bytes, and its position in the sequence numbers of a subflow.
#[derive(Clone, Copy)]
struct Mapping {
    subflow_seq: u64,
    data_seq: u64,
    len: u32,
}

struct Subflow {
    sender: TcpSender,
    written: u64,
    /// The ranges that the subflow's receiver has not acknowledged.
    mappings: VecDeque<Mapping>,
}

impl Subflow {
    /// True if the subflow is open, has sent all written data, and its congestion window has space for a segment.
    fn has_room(&self, mss: u64) -> bool {
        let sent_all = self.mappings.back().is_none_or(|last| last.subflow_seq < self.written);
        let is_open = self.sender.srtt().is_some();
        is_open && sent_all && self.sender.flight_bytes() + mss <= self.sender.cwnd_bytes()
    }

    fn map(&mut self, data_seq: u64, len: u32) {
        self.mappings.push_back(Mapping { subflow_seq: self.written, data_seq, len });
        self.written += u64::from(len);
        self.sender.write(len.into());
    }

    /// Returns the subflow's next segment with its data sequence number. `None` if it may send none now.
    fn transmit(&mut self, now: Instant) -> Option<TcpSegment> {
        let mut segment = self.sender.transmit(now)?;
        if segment.len > 0
            && let Some(mapping) = self.mappings.iter().rev().find(|mapping| mapping.subflow_seq <= segment.seq)
        {
            segment.ack = mapping.data_seq + (segment.seq - mapping.subflow_seq);
        }
        Some(segment)
    }
}

/// The sending end of one MPTCP connection with endless data over several subflows.
///
/// It picks the subflow with the least RTT whose window has space.
pub(super) struct MultipathSender {
    subflows: Vec<Subflow>,
    mss: u64,
    window_bytes: u64,
    start: Instant,
    stop: Instant,
    next_data: u64,
    data_acked: u64,
    /// Data to retransmit: first data sequence number, length in bytes, and index of the subflow that sent it before.
    again: VecDeque<(u64, u32, usize)>,
    /// Unacknowledged data in order: first data sequence number, length in bytes, index of the subflow that sent it.
    outstanding: VecDeque<(u64, u32, usize)>,
    expires: Instant,
}

impl MultipathSender {
    pub(super) fn new(config: SenderConfig, subflows: usize, start: Instant, stop: Instant) -> MultipathSender {
        let subflow = || Subflow { sender: TcpSender::new(config, start), written: 0, mappings: VecDeque::new() };
        MultipathSender {
            subflows: (0..subflows).map(|_| subflow()).collect(),
            mss: config.mss.into(),
            window_bytes: u64::from(config.max_window_segments) * u64::from(config.mss),
            start,
            stop,
            next_data: 0,
            data_acked: 0,
            again: VecDeque::new(),
            outstanding: VecDeque::new(),
            expires: Instant::FAR_FUTURE,
        }
    }

    /// Processes an acknowledgment that arrived on a subflow.
    pub(super) fn receive(&mut self, now: Instant, subflow: usize, segment: &TcpSegment) {
        let Some(own) = self.subflows.get_mut(subflow) else { return };
        own.sender.receive(now, &TcpSegment { seq: 0, ..*segment });
        let acked = own.sender.acked_bytes();
        while own.mappings.pop_front_if(|m| m.subflow_seq + u64::from(m.len) <= acked).is_some() {}
        if segment.seq > self.data_acked {
            self.data_acked = segment.seq;
            let acked = self.data_acked;
            while self.outstanding.pop_front_if(|(seq, len, _)| *seq + u64::from(*len) <= acked).is_some() {}
            self.restart_timer(now);
        }
    }

    pub(super) fn wake(&mut self, now: Instant) {
        for subflow in &mut self.subflows {
            subflow.sender.wake(now);
        }
        if now >= self.expires {
            self.repeat(now);
        }
    }

    /// Schedules the oldest data for retransmission on another subflow.
    ///
    /// The caller calls it when the connection's retransmission timeout has passed without a data acknowledgment.
    fn repeat(&mut self, now: Instant) {
        let mut bytes = 0;
        self.again.clear();
        for entry in &self.outstanding {
            if bytes >= REPEAT_BYTES {
                break;
            }
            bytes += u64::from(entry.1);
            self.again.push_back(*entry);
        }
        self.restart_timer(now);
    }

    fn restart_timer(&mut self, now: Instant) {
        let rto = self.subflows.iter().map(|subflow| subflow.sender.rto()).max().unwrap_or(MIN_RTO);
        self.expires = if self.outstanding.is_empty() { Instant::FAR_FUTURE } else { now + rto.max(MIN_RTO) };
    }

    /// Returns the next segment and its subflow. The caller must call it until it returns `None`.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<(usize, TcpSegment)> {
        if now < self.start || now >= self.stop {
            return None;
        }
        if self.next_data == 0 {
            self.open(now);
        }
        loop {
            let ready = self.subflows.iter_mut().enumerate().find_map(|(n, s)| Some((n, s.transmit(now)?)));
            if ready.is_some() || !self.schedule(now) {
                return ready;
            }
        }
    }

    /// Gives one segment to each subflow, to send after its handshake.
    fn open(&mut self, now: Instant) {
        for subflow in 0..self.subflows.len() {
            self.assign_new(now, subflow);
        }
    }

    fn assign_new(&mut self, now: Instant, subflow: usize) {
        let (seq, len) = (self.next_data, self.mss as u32);
        self.next_data += self.mss;
        self.outstanding.push_back((seq, len, subflow));
        self.subflows[subflow].map(seq, len);
        if self.expires == Instant::FAR_FUTURE {
            self.restart_timer(now);
        }
    }

    /// Gives one segment's data to a subflow. Returns false if no subflow's window has space.
    fn schedule(&mut self, now: Instant) -> bool {
        if let Some(&(seq, len, before)) = self.again.front() {
            if seq + u64::from(len) <= self.data_acked {
                self.again.pop_front();
                return true;
            }
            if let Some(subflow) = self.best(Some(before)) {
                self.again.pop_front();
                self.subflows[subflow].map(seq, len);
                return true;
            }
        }
        let fits = self.next_data + self.mss <= self.data_acked + self.window_bytes;
        let Some(subflow) = self.best(None).filter(|_| fits) else { return false };
        self.assign_new(now, subflow);
        true
    }

    fn best(&self, but: Option<usize>) -> Option<usize> {
        let open = self.subflows.iter().enumerate().filter(|(n, s)| Some(*n) != but && s.has_room(self.mss));
        open.min_by_key(|(n, subflow)| (subflow.sender.srtt(), *n)).map(|(n, _)| n)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.next_data == 0 {
            return Some(self.start);
        }
        let senders = self.subflows.iter().filter_map(|subflow| subflow.sender.deadline());
        senders.chain((self.expires != Instant::FAR_FUTURE).then_some(self.expires)).min()
    }
}
