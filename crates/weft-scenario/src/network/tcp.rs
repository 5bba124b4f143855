//! What a host's TCP does, and what a file says of it.

use crate::quantity::{Bytes, Quantity};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;
use weft_units::Rate;

/// Loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Without SACK (RFC 6582).
    NewReno,
    /// With SACK (RFC 6675).
    Sack,
    /// With SACK and time (RFC 8985).
    Rack,
}

/// Congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CongestionControl {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
    /// Binary increase congestion control (Xu, Harfoush and Rhee 2004).
    Bic,
    /// Bottleneck bandwidth and round-trip propagation time.
    Bbr,
    /// TCP-ER: at [`TcpSpec::explicit_rate`] (paper 001 §IV-A).
    ExplicitRate,
}

/// When a receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayedAck {
    /// Every segment at once.
    None,
    /// Every second segment or after the delay, at once out of order (RFC 1122, RFC 5681).
    Standard,
    /// Every second segment or after the delay whatever the order, retransmitted ones at once (paper 000 §3.1.2).
    Modified,
    /// At once at the beginning of a connection, then as `Standard` (as Linux does).
    Quick,
}

/// How many duplicate acknowledgements mean a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DupThresh {
    /// This many.
    Fixed(u32),
    /// Paper 000's T(N), N being the number of paths that routing gives the flow.
    Paths,
}

/// One flow's TCP, sender and receiver. The default is what hosts do today.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpSpec {
    /// Payload bytes of a full segment.
    pub mss_bytes: u32,
    /// The receive window, in full segments.
    pub window_segments: u32,
    /// The window at the beginning, in full segments.
    pub initial_window_segments: u32,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Congestion control.
    pub congestion: CongestionControl,
    /// IP bytes, for [`CongestionControl::ExplicitRate`]; zero: whatever routers grant, which are asked if the variant signals.
    pub explicit_rate: Rate,
    /// Duplicate acknowledgements that mean a loss.
    pub dup_thresh: DupThresh,
    /// Whether that number grows with the reordering seen.
    pub adaptive_reordering: bool,
    /// When the receiver acknowledges.
    pub delayed_ack: DelayedAck,
    /// How long it waits at most.
    pub ack_delay: Duration,
    /// Whether the receiver is told which segments are retransmitted, instead of guessing.
    pub retransmit_oracle: bool,
    /// Whether Reno's window opens by the bytes acknowledged (RFC 3465) instead of by the acknowledgements that come (RFC 2581).
    pub byte_counting: bool,
    /// RFC 3042.
    pub limited_transmit: bool,
    /// RFC 3168.
    pub ecn: bool,
    /// Whether a connection begins with a handshake.
    pub handshake: bool,
    /// The least retransmission timeout.
    pub min_rto: Duration,
    /// What is asked of routers beside the available rate, to be reserved.
    pub guaranteed: Rate,
    /// What routers are asked for to begin with, IP headers included, if the variant signals (Quick-Start, RFC 4782); zero: nothing.
    pub quick_start: Rate,
}

impl Default for TcpSpec {
    fn default() -> TcpSpec {
        TcpSpec {
            mss_bytes: 1_448,
            window_segments: 4_096,
            initial_window_segments: 10,
            recovery: Recovery::Rack,
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

/// What a `tcp` table of a file changes in a [`TcpSpec`]; by default nothing.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpChange {
    mss: Option<Mss>,
    window: Option<NonZeroU32>,
    initial_window: Option<NonZeroU32>,
    recovery: Option<Recovery>,
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
    /// `spec` with what is changed here.
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

/// Payload bytes of a segment that fits an IPv4 packet.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Mss(u32);

impl<'de> Deserialize<'de> for Mss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mss, D::Error> {
        let Quantity(Bytes(bytes)) = Quantity::deserialize(deserializer)?;
        let fits = u32::try_from(bytes).ok().filter(|bytes| (1..=65_495).contains(bytes));
        fits.map(Mss).ok_or_else(|| D::Error::custom("a segment's payload is 1 B to 65495 B"))
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
