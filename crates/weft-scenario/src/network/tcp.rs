//! Defines the TCP settings of a host and their form in a file.

use crate::quantity::{Bytes, Quantity};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;
use weft_units::Rate;

/// The method by which a TCP sender detects and repairs losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TcpRecovery {
    /// NewReno without SACK (RFC 6582).
    NewReno,
    /// Recovery with SACK (RFC 6675).
    Sack,
    /// RACK: detects losses by the time since a segment was sent, and uses SACK (RFC 8985).
    Rack,
}

/// The congestion control of a TCP sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CongestionControl {
    /// Reno (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// BIC: binary increase congestion control (Xu, Harfoush and Rhee 2004).
    Bic,
    /// BBR: sends at the estimated bottleneck bandwidth, with a limit on the data in flight.
    Bbr,
    /// TCP-ER: sends at [`TcpSpec::explicit_rate`] (paper 001 §IV-A).
    ExplicitRate,
}

/// The rule by which a TCP receiver delays acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayedAck {
    /// Acknowledges every segment at once.
    None,
    /// Acknowledges every second segment or after a delay. Acknowledges out-of-order segments at once.
    ///
    /// The rules are in RFC 1122 and RFC 5681.
    Standard,
    /// Acknowledges every second segment or after a delay, even out of order. Acknowledges retransmissions at once.
    ///
    /// The rule is that of paper 000 §3.1.2.
    Modified,
    /// Acknowledges every segment at once at the start of a connection, and later like `Standard`.
    ///
    /// Linux does the same.
    Quick,
}

/// The number of duplicate acknowledgements at which a TCP sender regards a segment as lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DupThresh {
    /// A fixed number of duplicate acknowledgements.
    Fixed(u32),
    /// The threshold T(N) of paper 000. N is the number of paths over which routers spread the flow.
    Paths,
}

/// The TCP settings of one flow, for sender and receiver.
///
/// The default resembles present-day hosts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpSpec {
    /// Payload of a full segment in bytes.
    pub mss_bytes: u32,
    /// Receive window in full segments.
    pub window_segments: u32,
    /// Initial congestion window in full segments.
    pub initial_window_segments: u32,
    /// Loss recovery of the sender.
    pub recovery: TcpRecovery,
    /// Congestion control of the sender.
    pub congestion: CongestionControl,
    /// Rate of [`CongestionControl::ExplicitRate`], in IP bytes.
    ///
    /// If it is zero, the sender uses the rate that routers grant. It requests that rate if the variant has
    /// explicit-rate signalling.
    pub explicit_rate: Rate,
    /// Number of duplicate acknowledgements at which the sender regards a segment as lost.
    pub dup_thresh: DupThresh,
    /// True if the sender raises `dup_thresh` when it observes reordering.
    pub adaptive_reordering: bool,
    /// Rule by which the receiver delays acknowledgements.
    pub delayed_ack: DelayedAck,
    /// Maximum time for which the receiver delays an acknowledgement.
    pub ack_delay: Duration,
    /// True if the simulator marks retransmissions for the receiver.
    ///
    /// Otherwise the receiver infers which segments are retransmissions.
    pub retransmit_oracle: bool,
    /// True if Reno's window grows by the acknowledged bytes (RFC 3465).
    ///
    /// Otherwise it grows by the number of acknowledgements (RFC 2581).
    pub byte_counting: bool,
    /// True if the sender uses limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// True if the connection uses ECN (RFC 3168).
    pub ecn: bool,
    /// True if the connection begins with a handshake. Otherwise it sends data at once.
    pub handshake: bool,
    /// Least retransmission timeout.
    pub min_rto: Duration,
    /// Rate that the sender asks routers to reserve, in addition to the available rate.
    pub guaranteed: Rate,
    /// Initial rate that the sender requests with Quick-Start (RFC 4782), in bit/s with IP headers.
    ///
    /// The variant must have explicit-rate signalling. With zero the sender requests none.
    pub quick_start: Rate,
}

impl Default for TcpSpec {
    fn default() -> TcpSpec {
        TcpSpec {
            mss_bytes: 1_448,
            window_segments: 4_096,
            initial_window_segments: 10,
            recovery: TcpRecovery::Rack,
            congestion: CongestionControl::Cubic,
            explicit_rate: Rate::ZERO,
            dup_thresh: DupThresh::Fixed(3),
            adaptive_reordering: true,
            delayed_ack: DelayedAck::Quick,
            ack_delay: Duration::from_millis(40),
            retransmit_oracle: false,
            byte_counting: true,
            limited_transmit: true,
            ecn: false,
            handshake: true,
            min_rto: Duration::from_millis(200),
            guaranteed: Rate::ZERO,
            quick_start: Rate::ZERO,
        }
    }
}

/// The changes that a `tcp` table of a file makes to a [`TcpSpec`]. `None` changes nothing.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpChange {
    mss: Option<Mss>,
    window: Option<NonZeroU32>,
    initial_window: Option<NonZeroU32>,
    recovery: Option<TcpRecovery>,
    congestion: Option<CongestionControl>,
    explicit_rate: Option<Quantity<Rate>>,
    dup_thresh: Option<DupThresh>,
    adaptive_reordering: Option<bool>,
    delayed_ack: Option<DelayedAck>,
    ack_delay: Option<Quantity<Duration>>,
    retransmit_oracle: Option<bool>,
    byte_counting: Option<bool>,
    limited_transmit: Option<bool>,
    ecn: Option<bool>,
    handshake: Option<bool>,
    min_rto: Option<Quantity<Duration>>,
    guaranteed: Option<Quantity<Rate>>,
    quick_start: Option<Quantity<Rate>>,
}

impl TcpChange {
    /// Returns `spec` with these changes applied.
    pub fn apply(&self, spec: TcpSpec) -> TcpSpec {
        TcpSpec {
            mss_bytes: self.mss.map_or(spec.mss_bytes, |mss| mss.0),
            window_segments: self.window.map_or(spec.window_segments, u32::from),
            initial_window_segments: self.initial_window.map_or(spec.initial_window_segments, u32::from),
            recovery: self.recovery.unwrap_or(spec.recovery),
            congestion: self.congestion.unwrap_or(spec.congestion),
            explicit_rate: self.explicit_rate.map_or(spec.explicit_rate, |q| q.0),
            dup_thresh: self.dup_thresh.unwrap_or(spec.dup_thresh),
            adaptive_reordering: self.adaptive_reordering.unwrap_or(spec.adaptive_reordering),
            delayed_ack: self.delayed_ack.unwrap_or(spec.delayed_ack),
            ack_delay: self.ack_delay.map_or(spec.ack_delay, |q| q.0),
            retransmit_oracle: self.retransmit_oracle.unwrap_or(spec.retransmit_oracle),
            byte_counting: self.byte_counting.unwrap_or(spec.byte_counting),
            limited_transmit: self.limited_transmit.unwrap_or(spec.limited_transmit),
            ecn: self.ecn.unwrap_or(spec.ecn),
            handshake: self.handshake.unwrap_or(spec.handshake),
            min_rto: self.min_rto.map_or(spec.min_rto, |q| q.0),
            guaranteed: self.guaranteed.map_or(spec.guaranteed, |q| q.0),
            quick_start: self.quick_start.map_or(spec.quick_start, |q| q.0),
        }
    }
}

/// Payload of a segment in bytes, small enough for an IPv4 packet with its headers.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Mss(u32);

impl<'de> Deserialize<'de> for Mss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mss, D::Error> {
        let Quantity(Bytes(bytes)) = Quantity::deserialize(deserializer)?;
        let fits = u32::try_from(bytes).ok().filter(|bytes| (1..=65_495).contains(bytes));
        fits.map(Mss).ok_or_else(|| D::Error::custom("the payload of a segment must be 1 B to 65495 B"))
    }
}

impl<'de> Deserialize<'de> for DupThresh {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DupThresh, D::Error> {
        struct NumberOrPaths;
        impl Visitor<'_> for NumberOrPaths {
            type Value = DupThresh;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number above zero, or \"paths\" for paper 000's T(N)")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<DupThresh, E> {
                let fixed = u32::try_from(number).ok().filter(|n| *n > 0).map(DupThresh::Fixed);
                fixed.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<DupThresh, E> {
                let paths = (text == "paths").then_some(DupThresh::Paths);
                paths.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(NumberOrPaths)
    }
}
