//! The parameters of a control law as text.

use super::LoopConfig;
use super::accumulation::{AccumulationConfig, AccumulationMeasure};
use super::aimd_window::{AimdConfig, WindowFairness};
use crate::fair::aimd::Knob;
use core::fmt;
use weft_units::Duration;

impl fmt::Display for LoopConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopConfig::AimdWindow(law) => window(f, law),
            LoopConfig::Accumulation(law) => accumulation(f, law),
            LoopConfig::ExplicitRate(_) => f.write_str("explicit-rate"),
        }
    }
}

fn window(f: &mut fmt::Formatter<'_>, law: &AimdConfig) -> fmt::Result {
    let AimdConfig { increase_packets, decrease, marker_every, fairness, .. } = law;
    let name = if *fairness == WindowFairness::PAPER { "i2vfc" } else { "aimd-window" };
    let weight = match fairness.weight_by {
        Knob::Increase => "a",
        Knob::Decrease => "b",
    };
    let events = if fairness.shared_events { "shared" } else { "own" };
    write!(f, "{name}: a {increase_packets} packets, b {decrease}, Δ {marker_every} packets, weight by {weight}, ")?;
    write!(f, "{events} loss events")
}

fn accumulation(f: &mut fmt::Formatter<'_>, law: &AccumulationConfig) -> fmt::Result {
    let measure = match law.measure {
        AccumulationMeasure::Delay => "by delay",
        AccumulationMeasure::Counted => "counted",
    };
    let AccumulationConfig { increase_packets, beta, high_bursts, low_bursts, burst_bytes, hold_packets, .. } = law;
    write!(f, "accumulation, {measure}: α {increase_packets} packets, β {beta}, τ ")?;
    time(f, law.tau, "measured")?;
    f.write_str(", T ")?;
    time(f, law.interval, "τ")?;
    write!(f, ", H {high_bursts} σ, L {low_bursts} σ, σ {burst_bytes} B, hold {hold_packets} packets")
}

fn time(f: &mut fmt::Formatter<'_>, time: Option<Duration>, otherwise: &str) -> fmt::Result {
    match time {
        Some(time) => write!(f, "{} ms", time.as_micros() as f64 / 1e3),
        None => f.write_str(otherwise),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    use alloc::sync::Arc;

    #[test]
    fn a_law_shows_its_parameters() {
        let law = AccumulationConfig { interval: Some(Duration::from_micros(13_500)), ..AccumulationConfig::default() };
        let text = LoopConfig::Accumulation(Arc::new(law)).to_string();
        assert_eq!(
            text,
            "accumulation, by delay: α 1 packets, β 0.95, τ measured, T 13.5 ms, H 2 σ, L 1.5 σ, σ 1500 B, hold 0.2 packets"
        );
        let window = LoopConfig::AimdWindow(AimdConfig { decrease: 0.75, ..AimdConfig::default() });
        assert_eq!(
            window.to_string(),
            "aimd-window: a 0.1 packets, b 0.75, Δ 4 packets, weight by a, shared loss events"
        );
        let paper = LoopConfig::AimdWindow(AimdConfig::paper());
        assert_eq!(paper.to_string(), "i2vfc: a 0.1 packets, b 0.1, Δ 4 packets, weight by b, own loss events");
    }
}
