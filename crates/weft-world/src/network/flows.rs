//! Makes the ends of a scenario's flows ([`FlowAgent`]) for the hosts.

use weft_scenario::{CongestionControl, DelayedAck, DupThresh, NetworkFlow, TcpRecovery, TcpSpec, Traffic};
use weft_sim::FlowNo;
use weft_sim::host::{DatagramSource, Echo, EchoAnswer, FlowAgent, Supply, TcpSink, TcpSource, Trigger};
use weft_sim::signalling::{Asker, QuickAsker, Wants};
use weft_sim::source::{ParetoBursts, Pattern};
use weft_sim::tcp::congestion::{CongestionKind, CubicGrowth, HyStartKind};
use weft_sim::tcp::{self, ReceiverConfig, SenderConfig};
use weft_units::{Duration, Instant, Rate, Rng};

/// The random stream for a source's rate requests has the label of the source's own stream plus this number.
const ASKING: u64 = 16;
/// Length of a `ping` packet at the IP layer, in bytes, with `ping`'s default payload of 56 bytes.
const PING_BYTES: u32 = 84;
/// Length of a `probe` packet at the IP layer, in bytes: 12 bytes of payload.
const PROBE_BYTES: u32 = 40;

/// Length of IPv4 and TCP headers without options, in bytes.
const PLAIN_HEADER_BYTES: u32 = 40;
/// Length of the TCP timestamps option (RFC 7323), in bytes.
const TIMESTAMPS_BYTES: u32 = 12;

/// The ends of one flow, each of which sends and receives packets at a host ([`FlowAgent`]).
pub(super) struct Agents {
    /// The sending end at the flow's `from`, and the receiving end at its `to`.
    pub ends: [FlowAgent; 2],
    /// The ends of the responses, which are a separate flow in the other direction.
    pub back: Option<[FlowAgent; 2]>,
}

/// Returns the length of the IP and TCP headers of a segment with these settings, in bytes.
///
/// Only senders with RACK use timestamps.
pub fn header_bytes(tcp: &TcpSpec) -> u32 {
    match tcp.recovery {
        TcpRecovery::NewReno | TcpRecovery::Sack => PLAIN_HEADER_BYTES,
        TcpRecovery::Rack => PLAIN_HEADER_BYTES + TIMESTAMPS_BYTES,
    }
}

/// Returns the configuration of a TCP sender with the settings `tcp`, whose data can take `paths` routes.
///
/// `seed` is that of BBR.
pub fn sender_config(tcp: &TcpSpec, paths: u32, seed: u64) -> SenderConfig {
    SenderConfig {
        mss: tcp.mss_bytes,
        congestion: match tcp.congestion {
            CongestionControl::Reno => CongestionKind::Reno { abc_limit_segments: u32::from(tcp.byte_counting) },
            CongestionControl::Cubic => CongestionKind::Cubic {
                hystart: HyStartKind::Classic,
                fast_convergence: true,
                // Scenarios of networks are compared with ns-2 and the RFCs, so they do not use the growth of Linux.
                growth: CubicGrowth::Continuous,
            },
            CongestionControl::Bic => CongestionKind::Bic,
            CongestionControl::Bbr => CongestionKind::Bbr { seed },
            CongestionControl::ExplicitRate => CongestionKind::ExplicitRate { rate: tcp.explicit_rate },
        },
        recovery: match tcp.recovery {
            TcpRecovery::NewReno => tcp::LossRecovery::NewReno,
            TcpRecovery::Sack => tcp::LossRecovery::Sack,
            TcpRecovery::Rack => tcp::LossRecovery::RackTlp,
        },
        dup_thresh: match tcp.dup_thresh {
            DupThresh::Fixed(number) => number,
            DupThresh::Paths => tcp::dup_thresh(paths),
        },
        adaptive_reordering: tcp.adaptive_reordering && tcp.recovery != TcpRecovery::NewReno,
        undo: tcp.recovery == TcpRecovery::Rack,
        limited_transmit: tcp.limited_transmit,
        initial_window_segments: tcp.initial_window_segments,
        max_window_segments: tcp.window_segments,
        ecn: tcp.ecn,
        handshake: tcp.handshake,
        min_rto: tcp.min_rto,
        max_ack_delay: tcp.ack_delay,
        ..SenderConfig::default()
    }
}

/// Returns the configuration of a receiver with the settings `tcp`.
pub fn receiver_config(tcp: &TcpSpec) -> ReceiverConfig {
    let delay = tcp.ack_delay;
    ReceiverConfig {
        mss: tcp.mss_bytes,
        window_segments: tcp.window_segments,
        delayed_ack: match tcp.delayed_ack {
            DelayedAck::None => tcp::AckRule::None,
            DelayedAck::Standard => tcp::AckRule::Standard { delay },
            DelayedAck::Modified => tcp::AckRule::Modified { delay, oracle: tcp.retransmit_oracle },
            DelayedAck::Quick => tcp::AckRule::Quick,
        },
        sack: tcp.recovery != TcpRecovery::NewReno,
        ecn: tcp.ecn,
        ..ReceiverConfig::default()
    }
}

/// Returns the ends of a flow and, if it has responses, of the flow that carries them.
///
/// `this` is the number of the flow, `back` that of the flow with the responses, and `paths` the number of routes.
pub(super) fn agents(
    flow: &NetworkFlow,
    tcp: &TcpSpec,
    wants: Option<Wants>,
    paths: u32,
    this: FlowNo,
    back: FlowNo,
    rng: &Rng,
) -> Agents {
    let mut draw = rng.split(1);
    let start = Instant::ZERO + flow.start + flow.spread.mul_f64(draw.unit());
    let stop = Instant::ZERO + flow.stop;
    let source = |pattern, bytes| DatagramSource::new(pattern, bytes, start, stop, rng.split(2));
    let datagrams = |pattern, bytes| Agents {
        ends: [FlowAgent::DatagramSource(source(pattern, bytes)), FlowAgent::DatagramSink(Box::default())],
        back: None,
    };
    let tcp_ends = |supply, trigger, label| {
        let (sender, header) = (sender_config(tcp, paths, draw.clone().next_u64()), header_bytes(tcp));
        let mut source = TcpSource::new(sender, header, supply, start, stop, rng.split(label));
        let asking = rng.split(label + ASKING);
        match wants {
            Some(Wants::Explicit(demand)) => source.ask(Asker::new(demand, asking)),
            Some(Wants::QuickStart(rate)) => source.ask_quickly(QuickAsker::new(rate, asking)),
            None => {}
        }
        let sink = TcpSink::new(receiver_config(tcp), header, trigger);
        [FlowAgent::TcpSource(Box::new(source)), FlowAgent::TcpSink(Box::new(sink))]
    };
    let tcp = |supply| Agents { ends: tcp_ends(supply, None, 2), back: None };
    match flow.traffic {
        Traffic::Ftp { size_bytes: None } => tcp(Supply::Endless),
        Traffic::Ftp { size_bytes: Some(bytes) } => tcp(Supply::Bytes(bytes)),
        Traffic::Http { size_bytes, pause } => tcp(Supply::Transfers { bytes: size_bytes, pause }),
        Traffic::ShortFlows { mean_packets, interval } => {
            tcp(Supply::ShortFlows { mean_segments: mean_packets, interval })
        }
        Traffic::RequestResponse { request_bytes, response_bytes, interval } => {
            let trigger =
                |every_bytes, flow, write_bytes, pause| Some(Trigger { every_bytes, flow, write_bytes, pause });
            let answer = trigger(request_bytes, back, response_bytes, Duration::ZERO);
            let ask = trigger(response_bytes, this, request_bytes, interval);
            let [server, client] = tcp_ends(Supply::OnDemand(0), ask, 3);
            Agents { ends: tcp_ends(Supply::OnDemand(request_bytes), answer, 2), back: Some([server, client]) }
        }
        Traffic::Pareto { packet_bytes, peak, on, off, shape } => {
            datagrams(Pattern::Pareto(ParetoBursts::new(peak, packet_bytes, on, off, shape)), packet_bytes)
        }
        Traffic::Poisson { packet_bytes, rate } => datagrams(Pattern::poisson(rate, packet_bytes), packet_bytes),
        Traffic::Cbr { packet_bytes, rate } => datagrams(constant(rate, packet_bytes), packet_bytes),
        Traffic::Voip { packet_bytes, interval } => datagrams(Pattern::Even { interval }, packet_bytes),
        Traffic::Ping { interval } => Agents {
            ends: [
                FlowAgent::Echo(Box::new(Echo::new(source(Pattern::Even { interval }, PING_BYTES)))),
                FlowAgent::EchoAnswer(EchoAnswer),
            ],
            back: None,
        },
        Traffic::Probe { interval } => datagrams(Pattern::Even { interval }, PROBE_BYTES),
    }
}

/// Returns the two ends of a TCP connection between proxies or behind the last proxy.
///
/// The connection forwards the data of the connection before it, and sends none of its own.
pub(super) fn onward(flow: &NetworkFlow, tcp: &TcpSpec, wants: Option<Wants>, paths: u32, rng: &Rng) -> [FlowAgent; 2] {
    let traffic = NetworkFlow { traffic: Traffic::Ftp { size_bytes: Some(0) }, ..flow.clone() };
    agents(&traffic, tcp, wants, paths, FlowNo(0), FlowNo(0), rng).ends
}

fn constant(rate: Rate, bytes: u32) -> Pattern {
    Pattern::constant(rate, bytes)
}
