//! The flows of a scenario as flow ends at the two nodes, and the figures that their applications measure.

use super::world::{FIRST_HOST, HOME, HUB, TwoSiteWorld};
use crate::site::Site;
use weft_scenario::measure::{EchoReply, PROBE_PAYLOAD_BYTES, ProbeArrival, ping_result, probe_result};
use weft_scenario::{App, Flow, FlowDirection, FlowResult, Scenario, Series};
use weft_sim::host::{
    DatagramSink, DatagramSource, Echo, EchoAnswer, FlowAgent, FlowNodes, Supply, TcpSink, TcpSource,
};
use weft_sim::source::Pattern;
use weft_sim::tcp::congestion::{CongestionKind, CubicGrowth, HyStartKind};
use weft_sim::tcp::{AckRule, LossRecovery, ReceiverConfig, SenderConfig, WindowOpening};
use weft_sim::{FlowNo, NodeId};
use weft_units::{Duration, Instant, Rate, Rng};

/// Length of IPv4 and TCP headers with timestamps, in bytes.
const TCP_HEADERS_LEN: u32 = 52;
/// Length of IPv4 and UDP headers, in bytes.
const UDP_HEADERS_LEN: u32 = 28;
/// Length of a packet of `ping`, with its IP header, in bytes.
const PING_BYTES: u32 = 84;
/// Receive window that Linux announces for a `tcp_rmem` of 32 MB, in bytes: half of the buffer.
const WINDOW_BYTES: u32 = 16 << 20;
/// Longest delay of an acknowledgment in Linux.
const MAX_ACK_DELAY: Duration = Duration::from_millis(40);
/// Least retransmission timeout in Linux.
const MIN_RTO: Duration = Duration::from_millis(200);
/// Greatest retransmission timeout in Linux.
const MAX_RTO: Duration = Duration::from_secs(120);
/// Pause between two transfers of a transfer flow, as in the lab.
const PAUSE: Duration = Duration::from_millis(200);
/// Number of duplicate acknowledgments at which TCP assumes a loss: the default of Linux's `tcp_reordering`.
const DUP_THRESH: u32 = 3;
/// Names in the kernel of the congestion controls that the simulator has.
const CONGESTION: [&str; 5] = ["reno", "cubic", "bic", "bbr", "weft_er"];

/// Returns the congestion control of a flow's TCP sender.
///
/// With `has_paths`, a tunnel carries the flow. A flow that names no explicit rate then uses the rates of the
/// tunnel's paths.
fn congestion(flow: &Flow, has_paths: bool, seed: u64) -> Result<CongestionKind, String> {
    match flow.congestion.as_str() {
        "reno" => Ok(CongestionKind::Reno { abc_limit_segments: 1 }),
        "cubic" => Ok(CongestionKind::Cubic {
            hystart: HyStartKind::Classic,
            fast_convergence: true,
            growth: CubicGrowth::Linux,
        }),
        "bic" => Ok(CongestionKind::Bic),
        "bbr" => Ok(CongestionKind::Bbr { seed }),
        "weft_er" => match flow.pacing {
            Some(rate) => Ok(CongestionKind::ExplicitRate { rate }),
            None if has_paths => Ok(CongestionKind::ExplicitRate { rate: Rate::ZERO }),
            None => Err(format!("flow `{}` needs `pacing`, which sets its explicit rate", flow.name)),
        },
        name => Err(format!("the simulator has no congestion control `{name}`: it has {}", CONGESTION.join(", "))),
    }
}

/// Returns the configuration of a TCP sender that behaves as in Linux.
fn sender_config(mss: u32, congestion: CongestionKind, dup_thresh: u32) -> SenderConfig {
    SenderConfig {
        mss,
        congestion,
        recovery: LossRecovery::RackTlp,
        dup_thresh,
        adaptive_reordering: true,
        undo: true,
        limited_transmit: true,
        max_window_segments: WINDOW_BYTES / mss.max(1),
        handshake: true,
        min_rto: MIN_RTO,
        max_rto: MAX_RTO,
        max_ack_delay: MAX_ACK_DELAY,
        ..SenderConfig::default()
    }
}

/// Returns the configuration of a TCP receiver that behaves as in Linux.
///
/// The kernel doubles the buffer size that iperf3 asks for, and announces half of the buffer as window. The buffer of a
/// transfer flow has exactly the size that the flow states.
fn receiver_config(flow: &Flow, mss: u32) -> ReceiverConfig {
    let window_of = |buffer: u64| if flow.app == App::Transfer { buffer / 2 } else { buffer };
    let set = flow.receive_buffer_bytes.map(|buffer| u32::try_from(window_of(buffer)).unwrap_or(u32::MAX));
    ReceiverConfig {
        mss,
        window_segments: set.unwrap_or(WINDOW_BYTES) / mss.max(1),
        opening: if set.is_some() { WindowOpening::AfterHandshake } else { WindowOpening::WithData },
        delayed_ack: AckRule::Quick,
        sack: true,
        ecn: false,
    }
}

/// Returns the configuration of one MPTCP subflow's receiver.
///
/// Its window is that of the whole connection.
fn subflow_receiver_config(flow: &Flow, mss: u32) -> ReceiverConfig {
    ReceiverConfig { opening: WindowOpening::AtOnce, ..receiver_config(flow, mss) }
}

/// The two ends of a flow in the simulator, and the bytes that the flow has delivered over time.
pub(super) struct FlowEnds {
    flow: Flow,
    number: FlowNo,
    from: NodeId,
    to: NodeId,
    /// Host at which the flow begins: `from` itself, or one of the scenario's hosts behind `from`.
    host: NodeId,
    epoch: Instant,
    /// For each sample: the time since the beginning of the run, and the bytes delivered until then.
    delivered: Vec<(Duration, u64)>,
}

/// Adds the two ends of every flow to the two nodes.
///
/// The run begins at the simulated time `epoch`.
///
/// # Errors
/// Returns an error if the simulator does not have a flow's congestion control.
pub(super) fn add_flows(
    scenario: &Scenario,
    world: &mut TwoSiteWorld,
    epoch: Instant,
    rng: &Rng,
) -> Result<Vec<FlowEnds>, String> {
    let vpns = &scenario.vpns;
    // Only weft's tunnels have hosts behind a node, so only their flows begin at such a host.
    let has_engines = world.simulator.nodes().first().is_some_and(|site| site.engines().is_some());
    let flow_ends = (0..).zip(&scenario.flows).map(|(number, flow)| {
        let is_down = flow.direction == FlowDirection::Down && flow.app != App::Ping;
        let [from, to] = if is_down { [HUB, HOME] } else { [HOME, HUB] };
        let host = flow.host.filter(|_| has_engines).map_or(from, |host| NodeId(FIRST_HOST.0 + host as u32));
        let (flow, number) = (flow.clone(), FlowNo(number));
        let ends = FlowEnds { flow, number, from, to, host, epoch, delivered: Vec::new() };
        if let Some(vpn) = ends.flow.vpn.and_then(|vpn| vpns.get(vpn)) {
            ends.join(world, &vpn.name);
        }
        let rng = rng.split(u64::from(ends.number.0));
        let is_multipath = world.simulator.nodes().first().is_some_and(|site| site.multipath().is_some());
        if is_multipath && ends.flow.app.is_tcp() {
            ends.connect_multipath(world, &rng)?;
        } else {
            let [source, sink] = ends.agents(world, &rng)?;
            ends.add(world, to, |site, nodes| _ = site.host_mut(ends.number).add(nodes, sink));
            ends.add(world, from, |site, nodes| _ = site.host_mut(ends.number).add(nodes, source));
        }
        Ok(ends)
    });
    flow_ends.collect()
}

impl FlowEnds {
    /// Returns the node of the flow's sender, and the flow's number.
    pub(super) fn sender(&self) -> (NodeId, FlowNo) {
        (self.from, self.number)
    }

    /// Assigns the flow's packets to a VPN at both nodes, if the nodes run engines.
    fn join(&self, world: &mut TwoSiteWorld, vpn: &str) {
        for node in [HOME, HUB] {
            world.simulator.with_node(node, |site, _, _| {
                if let Some(engines) = site.engines_mut() {
                    engines.join(self.number, vpn);
                }
            });
        }
    }

    /// Calls `add` with the site of `node` and the flow's nodes as seen from there, to add one of the flow's ends.
    fn add(&self, world: &mut TwoSiteWorld, node: NodeId, add: impl FnOnce(&mut Site, FlowNodes)) {
        let [here, there] = if node == self.from { [self.host, self.to] } else { [self.to, self.host] };
        world.simulator.with_node(node, |site, now, ports| {
            add(site, FlowNodes { flow: self.number, here, there });
            weft_sim::SimNode::wake(site, now, ports);
        });
    }

    fn connect_multipath(&self, world: &mut TwoSiteWorld, rng: &Rng) -> Result<(), String> {
        if self.flow.app != App::Iperf3 {
            return Err(format!("the simulator's MPTCP has no {}", self.flow.app.word()));
        }
        let (start, stop) = (self.epoch + self.flow.start, self.epoch + self.flow.stop);
        let mss = world.mss(self.from);
        let sender = sender_config(mss, congestion(&self.flow, false, rng.split(2).next_u64())?, DUP_THRESH);
        self.add(world, self.to, |site, ends| {
            if let Some(site) = site.multipath_mut() {
                site.add_receiver(ends, subflow_receiver_config(&self.flow, mss));
            }
        });
        self.add(world, self.from, |site, ends| {
            if let Some(site) = site.multipath_mut() {
                site.add_sender(ends, sender, start, stop);
            }
        });
        Ok(())
    }

    fn agents(&self, world: &TwoSiteWorld, rng: &Rng) -> Result<[FlowAgent; 2], String> {
        let (start, stop) = (self.epoch + self.flow.start, self.epoch + self.flow.stop);
        let datagrams = |bytes| {
            DatagramSource::new(Pattern::Even { interval: self.flow.interval }, bytes, start, stop, rng.split(1))
        };
        let supply = match self.flow.app {
            App::Ping => {
                return Ok([
                    FlowAgent::Echo(Box::new(Echo::new(datagrams(PING_BYTES)))),
                    FlowAgent::EchoAnswer(EchoAnswer),
                ]);
            }
            App::Probe => {
                let source = datagrams(PROBE_PAYLOAD_BYTES as u32 + UDP_HEADERS_LEN);
                return Ok([
                    FlowAgent::DatagramSource(source),
                    FlowAgent::DatagramSink(Box::new(DatagramSink::logging())),
                ]);
            }
            App::Cbr => {
                let source = datagrams(self.flow.packet_bytes);
                return Ok([
                    FlowAgent::DatagramSource(source),
                    FlowAgent::DatagramSink(Box::new(DatagramSink::logging())),
                ]);
            }
            App::Iperf3 => Supply::Endless,
            App::Http => Supply::Transfers { bytes: self.flow.size_bytes, pause: Duration::ZERO },
            App::Transfer => Supply::Transfers { bytes: self.flow.size_bytes, pause: PAUSE },
            App::ShortFlows => {
                Supply::ShortFlows { mean_segments: self.flow.mean_packets.into(), interval: self.flow.interval }
            }
        };
        let mss = world.mss(self.from);
        let site = world.simulator.nodes().get(self.from.index());
        let dup_thresh = site.and_then(|site| site.engine()?.reordering_metric()).unwrap_or(DUP_THRESH);
        let has_paths = site.is_some_and(|site| site.engine().is_some());
        let congestion = congestion(&self.flow, has_paths, rng.split(2).next_u64())?;
        let sender = sender_config(mss, congestion, dup_thresh);
        let source = TcpSource::new(sender, TCP_HEADERS_LEN, supply, start, stop, rng.split(3));
        let sink = TcpSink::new(receiver_config(&self.flow, mss), TCP_HEADERS_LEN, None).marking(self.flow.size_bytes);
        Ok([FlowAgent::TcpSource(Box::new(source)), FlowAgent::TcpSink(Box::new(sink))])
    }

    /// True if the flow's explicit rate is a part of the rate of the tunnel's paths.
    pub(super) fn goes_by_paths(&self) -> bool {
        self.flow.app.is_tcp() && self.flow.congestion == "weft_er" && self.flow.pacing.is_none()
    }

    /// Sets the flow's explicit rate to `rate`.
    pub(super) fn grant(&self, world: &mut TwoSiteWorld, rate: Rate) {
        world.simulator.with_node(self.from, |site, now, ports| {
            if let Some(FlowAgent::TcpSource(source)) = site.host_mut(self.number).agent_mut(self.number) {
                source.set_rate(now, rate);
            }
            weft_sim::SimNode::wake(site, now, ports);
        });
    }

    /// Returns the flow's name.
    pub(super) fn name(&self) -> &str {
        &self.flow.name
    }

    /// Returns the flow as the scenario describes it.
    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    fn agent<'a>(&self, world: &'a TwoSiteWorld, node: NodeId) -> Option<&'a FlowAgent> {
        world.simulator.nodes().get(node.index())?.host(self.number).agent(self.number)
    }

    fn delivered_bytes(&self, world: &TwoSiteWorld) -> Option<u64> {
        if let Some(site) = world.simulator.nodes().get(self.to.index()).and_then(Site::multipath)
            && let Some(bytes) = site.delivered_bytes(self.number)
        {
            return Some(bytes);
        }
        match self.agent(world, self.to)? {
            FlowAgent::TcpSink(sink) => Some(sink.delivered_bytes()),
            FlowAgent::DatagramSink(sink) if self.flow.app == App::Cbr => {
                Some(sink.received_bytes() - sink.received() * u64::from(UDP_HEADERS_LEN))
            }
            _ => None,
        }
    }

    /// Records the number of bytes delivered until `at`, a time since the beginning of the run.
    pub(super) fn sample(&mut self, world: &TwoSiteWorld, at: Duration) {
        if let Some(bytes) = self.delivered_bytes(world) {
            self.delivered.push((at, bytes));
        }
    }

    /// Returns the number of datagrams that the flow sent.
    fn sent(&self, world: &TwoSiteWorld) -> u64 {
        match self.agent(world, self.from) {
            Some(FlowAgent::DatagramSource(source)) => source.sent(),
            _ => 0,
        }
    }

    /// Returns all datagrams of a probe or `cbr` flow that have arrived so far.
    pub(super) fn arrivals(&self, world: &TwoSiteWorld) -> Vec<ProbeArrival> {
        let Some(FlowAgent::DatagramSink(sink)) = self.agent(world, self.to) else { return Vec::new() };
        let arrival = |(at, one_way): &(Instant, Duration)| {
            let received = *at - self.epoch;
            let sent = received.saturating_sub(*one_way);
            ProbeArrival { sequence: self.number_of(sent), sent, received }
        };
        sink.log().iter().map(arrival).collect()
    }

    /// Returns the least one-way delay of the last `count` arrivals of a probe flow.
    pub(super) fn recent_one_way(&self, world: &TwoSiteWorld, count: usize) -> Option<Duration> {
        let Some(FlowAgent::DatagramSink(sink)) = self.agent(world, self.to) else { return None };
        sink.log().iter().rev().take(count).map(|(_, one_way)| *one_way).min()
    }

    /// Returns the number of the packet that was sent at `sent`, a time since the beginning of the run.
    ///
    /// Packets are evenly spaced.
    fn number_of(&self, sent: Duration) -> u64 {
        sent.saturating_sub(self.flow.start).div_duration_f64(self.flow.interval).round() as u64
    }

    /// Returns the figures that the flow's application measured, and their time series.
    pub(super) fn report(&self, world: &TwoSiteWorld, warmup: Duration) -> (FlowResult, Series) {
        let series = |unit, points| Series { name: self.flow.name.clone(), unit, points };
        match self.flow.app {
            App::Iperf3 | App::Http | App::ShortFlows => (self.bulk_result(warmup), series("bit/s", self.rates())),
            App::Cbr => (self.cbr_result(world, warmup), series("bit/s", self.rates())),
            App::Transfer => (self.transfer_result(world, warmup), series("bit/s", self.rates())),
            App::Probe => {
                let arrivals = self.arrivals(world);
                let points = arrivals.iter().map(|a| (a.received.as_secs_f64(), a.one_way_ms())).collect();
                (probe_result(&self.flow, warmup, &arrivals, self.sent(world)), series("ms", points))
            }
            App::Ping => {
                let replies = self.replies(world);
                let count = (self.flow.stop - self.flow.start).div_duration_f64(self.flow.interval).floor() as u64;
                let at_s = |reply: &EchoReply| {
                    (self.flow.start + self.flow.interval.mul_f64((reply.sequence - 1) as f64)).as_secs_f64()
                };
                let points = replies.iter().map(|reply| (at_s(reply), reply.rtt_ms)).collect();
                (ping_result(&self.flow, warmup, &replies, count), series("ms", points))
            }
        }
    }

    fn replies(&self, world: &TwoSiteWorld) -> Vec<EchoReply> {
        let Some(FlowAgent::Echo(echo)) = self.agent(world, self.from) else { return Vec::new() };
        let reply = |(at, rtt): &(Instant, Duration)| EchoReply {
            sequence: self.number_of((*at - self.epoch).saturating_sub(*rtt)) + 1,
            rtt_ms: rtt.as_secs_f64() * 1e3,
        };
        echo.log().iter().map(reply).collect()
    }

    fn bulk_result(&self, warmup: Duration) -> FlowResult {
        let (from, to) = (warmup.max(self.flow.start), self.flow.stop);
        let delivered = |at: Duration| self.delivered.iter().rev().find(|(time, _)| *time <= at).map_or(0, |(_, b)| *b);
        let bits = delivered(to).saturating_sub(delivered(from)) as f64 * 8.0;
        FlowResult {
            name: self.flow.name.clone(),
            goodput_bps: Some(bits / (to.saturating_sub(from)).as_secs_f64()),
            tcp_resets: (self.flow.app != App::Cbr).then_some(0.0),
            ..FlowResult::default()
        }
    }

    /// Returns the result of a `cbr` flow, which sends datagrams at a constant rate.
    fn cbr_result(&self, world: &TwoSiteWorld, warmup: Duration) -> FlowResult {
        let timed = probe_result(&self.flow, warmup, &self.arrivals(world), self.sent(world));
        let FlowResult { delay_variation_ms_p999, lost, .. } = timed;
        FlowResult { delay_variation_ms_p999, lost, ..self.bulk_result(warmup) }
    }

    /// Returns the result of a transfer flow.
    ///
    /// Goodput is the bytes of the transfers that began after the warm-up, divided by the sum of their durations. A
    /// duration is the time from connect to the last byte.
    fn transfer_result(&self, world: &TwoSiteWorld, warmup: Duration) -> FlowResult {
        let (Some(FlowAgent::TcpSource(source)), Some(FlowAgent::TcpSink(sink))) =
            (self.agent(world, self.from), self.agent(world, self.to))
        else {
            return self.bulk_result(warmup);
        };
        let counted_from = self.epoch + warmup.max(self.flow.start);
        let transfers = source.transfers().began.iter().zip(sink.marks());
        let counted = transfers.filter(|(began, _)| **began >= counted_from);
        let times: Vec<f64> = counted.map(|(began, ended)| (*ended - *began).as_secs_f64()).collect();
        let bits = self.flow.size_bytes as f64 * 8.0 * times.len() as f64;
        let all_s: f64 = times.iter().sum();
        FlowResult { goodput_bps: Some(if all_s > 0.0 { bits / all_s } else { 0.0 }), ..self.bulk_result(warmup) }
    }

    fn rates(&self) -> Vec<(f64, f64)> {
        let pairs = self.delivered.iter().zip(self.delivered.iter().skip(1));
        let rate = |((before, b), (at, a)): (&(Duration, u64), &(Duration, u64))| {
            (at.as_secs_f64(), a.saturating_sub(*b) as f64 * 8.0 / (*at - *before).as_secs_f64())
        };
        pairs.filter(|((before, _), (at, _))| at > before).map(rate).collect()
    }
}
