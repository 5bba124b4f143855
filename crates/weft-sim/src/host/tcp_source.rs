//! Implements the sending end of a TCP flow: when it has data to send, and its connections.

use super::{FlowNodes, PacketSink};
use crate::record::TcpState;
use crate::signalling::{Asker, QuickAsker};
use crate::source::{exponential, geometric};
use crate::tcp::{Flags, SenderConfig, SenderCounters, TcpSegment, TcpSender};
use crate::{Body, Packet, PacketEcn};
use std::collections::VecDeque;
use weft_units::{Duration, Instant, Rate, Rng};

/// The data that the sending end of a TCP flow has to send.
#[derive(Clone, Debug)]
pub enum Supply {
    /// Data without end.
    Endless,
    /// One connection that carries this number of bytes.
    Bytes(u64),
    /// Successive connections that each carry the same number of bytes.
    Transfers {
        /// Number of payload bytes of each connection.
        bytes: u64,
        /// Pause between the end of one connection and the start of the next.
        pause: Duration,
    },
    /// Short connections that start at random (Poisson) with geometrically distributed lengths.
    ///
    /// If a connection is due while another one runs, it starts when that one ends.
    ShortFlows {
        /// Mean length of a connection, in full segments.
        mean_segments: f64,
        /// Mean time between the starts of two connections.
        interval: Duration,
    },
    /// Data whenever a [`super::Trigger`] requires it. This number of bytes is sent at the start without a trigger.
    OnDemand(u64),
}

/// Statistics of the transfers of a source. A transfer is one amount of data that the source has to send.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TransferStats {
    /// Number of completed transfers.
    pub completed: u64,
    /// Sum of the durations of the completed transfers, from due time to last acknowledgment, in seconds.
    pub total_s: f64,
    /// Time at which each transfer was due, including the one in progress. Empty except with [`Supply::Transfers`].
    pub began: Vec<Instant>,
}

/// One entry in the record that [`TcpSource::keep_story`] starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SenderRecord {
    /// The new state of the sender, after a change.
    State(TcpState),
    /// The retransmission of the segment that begins at this sequence number.
    Retransmission(u64),
}

/// The sending end of a TCP flow, with one connection or several successive ones.
pub struct TcpSource {
    sender: TcpSender,
    supply: Supply,
    header_bytes: u32,
    rng: Rng,
    start: Instant,
    stop: Instant,
    is_started: bool,
    /// Due times and sizes in bytes of the transfers that have not begun yet.
    due: VecDeque<(Instant, u64)>,
    /// Time at which the transfer in progress was due. `None` if no transfer is in progress.
    began: Option<Instant>,
    end_of_transfer: u64,
    transfers: TransferStats,
    earlier: SenderCounters,
    story: Option<Vec<(Instant, SenderRecord)>>,
    /// State of the requests to routers for explicit rates; `None`: the connections request none.
    asker: Option<Box<Asker>>,
    /// State of the requests to routers for initial rates (Quick-Start); `None`: the connections request none.
    quick_asker: Option<Box<QuickAsker>>,
}

impl TcpSource {
    /// Creates a source that sends the data of `supply` between `start` and `stop`.
    ///
    /// Each segment has `header_bytes` of IP and TCP headers before its payload.
    pub fn new(
        config: SenderConfig,
        header_bytes: u32,
        supply: Supply,
        start: Instant,
        stop: Instant,
        rng: Rng,
    ) -> TcpSource {
        TcpSource {
            sender: TcpSender::new(config, start),
            supply,
            header_bytes,
            rng,
            start,
            stop,
            is_started: false,
            due: VecDeque::new(),
            began: None,
            end_of_transfer: 0,
            transfers: TransferStats::default(),
            earlier: SenderCounters::default(),
            story: None,
            asker: None,
            quick_asker: None,
        }
    }

    /// Makes each connection request an explicit rate from routers.
    pub fn ask(&mut self, asker: Asker) {
        self.asker = Some(Box::new(asker));
    }

    /// Makes each connection request an initial rate from routers with Quick-Start.
    pub fn ask_quickly(&mut self, asker: QuickAsker) {
        self.quick_asker = Some(Box::new(asker));
    }

    /// Returns the state of the requests for initial rates. Returns `None` if the connections request none.
    pub fn quick_asker(&self) -> Option<&QuickAsker> {
        self.quick_asker.as_deref()
    }

    /// Returns the state of the requests for explicit rates. Returns `None` if the connections request none.
    pub fn asker(&self) -> Option<&Asker> {
        self.asker.as_deref()
    }

    /// Starts to record each change of the sender's state, and its retransmissions.
    pub fn keep_story(&mut self) {
        self.story.get_or_insert_default();
    }

    /// Returns the recorded states and retransmissions with their times. Empty without [`TcpSource::keep_story`].
    pub fn story(&self) -> &[(Instant, SenderRecord)] {
        self.story.as_deref().unwrap_or(&[])
    }

    /// Returns the present congestion window, slow-start threshold and round-trip time of the sender.
    pub fn state(&self) -> TcpState {
        TcpState {
            cwnd_bytes: self.sender.cwnd_bytes(),
            ssthresh_bytes: self.sender.ssthresh_bytes(),
            srtt: self.sender.srtt(),
        }
    }

    /// Sets the explicit rate at which the present connection sends.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.sender.set_rate(now, rate);
    }

    /// Returns the sender of the present connection.
    pub fn sender(&self) -> &TcpSender {
        &self.sender
    }

    /// Returns the counters of all connections so far, added up.
    pub fn counters(&self) -> SenderCounters {
        self.earlier.plus(self.sender.counters())
    }

    /// Returns the statistics of the transfers so far.
    pub fn transfers(&self) -> &TransferStats {
        &self.transfers
    }

    pub(super) fn receive(&mut self, now: Instant, ends: FlowNodes, packet: &Packet, out: &mut impl PacketSink) {
        let Some(segment) = packet.body.segment() else { return };
        self.sender.receive(now, segment);
        if let Some(rate) = self.asker.as_mut().and_then(|asker| asker.receive(now, packet)) {
            self.sender.grant(now, rate);
        }
        let srtt = self.sender.srtt();
        if let Some(rate) = self.quick_asker.as_mut().and_then(|asker| asker.receive(now, packet, srtt)) {
            self.sender.quick_start(rate, self.header_bytes);
        }
        self.go_on(now, ends, out);
    }

    pub(super) fn wake(&mut self, now: Instant, ends: FlowNodes, out: &mut impl PacketSink) {
        if !self.is_started && now >= self.start {
            self.is_started = true;
            self.begin(now);
        }
        self.sender.wake(now);
        self.go_on(now, ends, out);
    }

    /// Makes the source send `bytes` more after a pause.
    pub(super) fn write(
        &mut self,
        now: Instant,
        ends: FlowNodes,
        bytes: u64,
        pause: Duration,
        out: &mut impl PacketSink,
    ) {
        if now + pause < self.stop {
            self.due.push_back((now + pause, bytes));
            self.go_on(now, ends, out);
        }
    }

    fn begin(&mut self, now: Instant) {
        let bytes = match self.supply {
            Supply::Endless => return self.sender.write(u64::MAX),
            Supply::Bytes(bytes) | Supply::Transfers { bytes, .. } | Supply::OnDemand(bytes) => bytes,
            Supply::ShortFlows { .. } => return self.plan_short_flow(now),
        };
        self.due.push_back((now, bytes));
    }

    fn plan_short_flow(&mut self, from: Instant) {
        let Supply::ShortFlows { mean_segments, interval } = self.supply else { return };
        let at = from + exponential(interval, &mut self.rng);
        if at < self.stop {
            let segments = geometric(mean_segments, &mut self.rng);
            self.due.push_back((at, segments * u64::from(self.sender.config().mss)));
        }
    }

    fn go_on(&mut self, now: Instant, ends: FlowNodes, out: &mut impl PacketSink) {
        self.finish_transfer(now);
        while let Some(&(at, bytes)) = self.due.front().filter(|(at, _)| *at <= now) {
            if self.began.is_some() && self.has_connection_per_transfer() {
                break;
            }
            self.due.pop_front();
            self.start_transfer(now, at, bytes);
        }
        if now < self.stop {
            self.transmit(now, ends, out);
        }
        if self.story.is_some() {
            self.record_state(now);
        }
    }

    fn record_state(&mut self, now: Instant) {
        let state = SenderRecord::State(self.state());
        let Some(story) = &mut self.story else { return };
        let last = story.iter().rev().find(|(_, told)| matches!(told, SenderRecord::State(_)));
        if last.is_none_or(|(_, last)| *last != state) {
            story.push((now, state));
        }
    }

    fn has_connection_per_transfer(&self) -> bool {
        matches!(self.supply, Supply::Transfers { .. } | Supply::ShortFlows { .. })
    }

    fn start_transfer(&mut self, now: Instant, asked: Instant, bytes: u64) {
        if self.has_connection_per_transfer() {
            if self.sender.acked_bytes() > 0 {
                self.earlier = self.counters();
                self.sender = self.sender.successor(now);
                if let Some(asker) = &mut self.asker {
                    asker.begin_anew();
                }
                if let Some(asker) = &mut self.quick_asker {
                    asker.begin_anew();
                }
            }
            self.plan_short_flow(asked);
        }
        if let Supply::Transfers { .. } = self.supply {
            self.transfers.began.push(asked);
        }
        self.began = Some(asked);
        self.end_of_transfer = self.end_of_transfer.max(self.sender.acked_bytes()) + bytes;
        self.sender.write(bytes);
        if self.asker.is_some() && matches!(self.supply, Supply::Bytes(_)) {
            // With this data the connection ends. Its FIN makes the routers release the rate that they granted.
            self.sender.close();
        }
    }

    fn finish_transfer(&mut self, now: Instant) {
        let Some(began) = self.began.filter(|_| self.sender.acked_bytes() >= self.end_of_transfer) else { return };
        self.began = None;
        self.transfers.completed += 1;
        self.transfers.total_s += (now - began).as_secs_f64();
        if let Supply::Transfers { bytes, pause } = self.supply
            && now + pause < self.stop
        {
            self.due.push_back((now + pause, bytes));
        }
    }

    fn transmit(&mut self, now: Instant, ends: FlowNodes, out: &mut impl PacketSink) {
        while let Some(segment) = self.sender.transmit(now) {
            if let Some(story) = self.story.as_mut().filter(|_| segment.flags.has(Flags::RETRANSMIT)) {
                story.push((now, SenderRecord::Retransmission(segment.seq)));
            }
            let ecn = if self.sender.is_ecn_capable(&segment) { PacketEcn::Ect } else { PacketEcn::NotEct };
            let bytes = self.header_bytes + segment.len;
            let sign = |asker: &mut Box<Asker>| asker.sign(now, ends, self.sender.srtt(), &segment);
            let sign_quickly = |asker: &mut Box<QuickAsker>| asker.sign(now, &segment, self.sender.unsent_bytes());
            let signed =
                self.asker.as_mut().and_then(sign).or_else(|| self.quick_asker.as_mut().and_then(sign_quickly));
            out.send(match signed {
                None => ends.packet(bytes, ecn, Body::Tcp(segment)),
                Some(signed) => ends.packet(bytes + signed.rate_signal.bytes(), ecn, Body::Signalled(signed)),
            });
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        // After `stop` the source sends nothing, so it need not be woken.
        self.next().filter(|at| *at < self.stop)
    }

    fn next(&self) -> Option<Instant> {
        if !self.is_started {
            return Some(self.start);
        }
        let runs = self.began.is_some() && self.has_connection_per_transfer();
        let due = self.due.front().filter(|_| !runs).map(|(at, _)| *at);
        let timer = self.sender.deadline();
        due.into_iter().chain(timer).min()
    }
}

/// Returns the size of an acknowledgment in IP bytes.
///
/// It consists of the header and the SACK blocks (RFC 2018 §3), padded to four bytes.
pub(super) fn acknowledgment_bytes(header_bytes: u32, segment: &TcpSegment) -> u32 {
    match segment.sack_count {
        0 => header_bytes,
        blocks => header_bytes + 4 + 8 * u32::from(blocks),
    }
}
