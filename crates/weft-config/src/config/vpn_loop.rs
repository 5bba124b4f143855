//! Parsing of a VPN's `loop`: the name of a rate-control algorithm, or a `[vpn.loop]` table with its parameters.

use super::read::{Section, names};
use super::vpn::LoopLaw;
use std::ops::Range;
use std::sync::Arc;
use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::accumulation::{AccumulationConfig, AccumulationMeasure};
use weft_core::control_loop::aimd_window::{AimdConfig, WindowFairness};
use weft_core::control_loop::explicit_rate::ExplicitRateConfig;
use weft_core::fair::aimd::Knob;
use weft_core::fair::controller::SteeringMethod;
use weft_units::{Duration, parse_duration};

/// The loops to whose windows a loss event applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LossEvents {
    /// A loss event applies only to the window of the loop whose packet was lost.
    Own,
    /// A loss event applies to the windows of all loops between the same two edges.
    Shared,
}

impl LossEvents {
    fn are_shared(self) -> bool {
        self == LossEvents::Shared
    }
}

names!(AccumulationMeasure { Delay = "delay", Counted = "counted" });
names!(Knob { Increase = "increase", Decrease = "decrease" });
names!(LossEvents { Own = "own", Shared = "shared" });
names!(SteeringMethod { Off = "off", Rule = "rule", ClosedLoop = "closed-loop" });

/// Bounds of the times T and τ, the parameters `interval` and `tau` of paper 004's algorithm.
const TIMES: Range<Duration> = Duration::from_millis(1)..Duration::from_secs(60);
/// Name of the table that messages show.
const TABLE: &str = "[vpn.loop]";

/// Returns the algorithm `law` with its default parameters, or `None` for no loop.
pub fn plain(law: LoopLaw) -> Option<LoopConfig> {
    match law {
        LoopLaw::None => None,
        LoopLaw::AimdWindow => Some(LoopConfig::AimdWindow(AimdConfig::default())),
        LoopLaw::I2vfc => Some(LoopConfig::AimdWindow(AimdConfig::paper())),
        LoopLaw::Accumulation => Some(LoopConfig::Accumulation(Arc::new(AccumulationConfig::default()))),
        LoopLaw::ExplicitRate => Some(LoopConfig::ExplicitRate(Arc::new(ExplicitRateConfig::default()))),
    }
}

/// Parses the key `loop` of a `[[vpn]]` table.
pub fn read(section: &mut Section<'_, '_>) -> Option<LoopConfig> {
    if !section.is_table("loop") {
        return plain(section.choice("loop").unwrap_or(LoopLaw::None));
    }
    let mut table = section.section("loop", TABLE)?;
    let law = table.choice("law");
    if !table.has("law") {
        table.missing("law", "the control law: law = \"accumulation\"");
    }
    let control = match law {
        Some(LoopLaw::Accumulation) => Some(LoopConfig::Accumulation(Arc::new(accumulation(&mut table)))),
        Some(LoopLaw::AimdWindow) => Some(LoopConfig::AimdWindow(window(&mut table, AimdConfig::default()))),
        Some(LoopLaw::I2vfc) => Some(LoopConfig::AimdWindow(window(&mut table, AimdConfig::paper()))),
        Some(law) => plain(law),
        // If `law` is missing or wrong, only this is reported. Reading all keys here prevents reports of unknown keys.
        None => {
            accumulation(&mut table);
            window(&mut table, AimdConfig::default());
            None
        }
    };
    table.finish();
    control
}

/// Parses the parameters of paper 004's algorithm.
fn accumulation(table: &mut Section<'_, '_>) -> AccumulationConfig {
    let default = AccumulationConfig::default();
    let config = AccumulationConfig {
        measure: table.choice("accumulation").unwrap_or_default(),
        increase_packets: number(table, "increase", 0.0..100.0, default.increase_packets),
        beta: number(table, "beta", 0.0..0.999, default.beta),
        tau: time(table, "tau"),
        interval: time(table, "interval"),
        high_bursts: number(table, "high", 0.0..1e6, default.high_bursts),
        low_bursts: number(table, "low", 0.0..1e6, default.low_bursts),
        hold_packets: number(table, "hold", 0.0..100.0, default.hold_packets),
        burst_bytes: table.integer("burst", 40..65_536).map_or(default.burst_bytes, |at| at.value as u32),
        startup: table.flag("startup").unwrap_or(default.startup),
        ..default
    };
    if config.low_bursts >= config.high_bursts {
        let place = table.key_span(if table.has("low") { "low" } else { "high" });
        let (low, high) = (config.low_bursts, config.high_bursts);
        let message = format!(
            "`low` = {low} must be below `high` = {high}: the loop slows down when more than `high` bursts wait in \
             queues, until fewer than `low` bursts wait"
        );
        table.complain(place, &message, "for example high = 2.0 and low = 1.5");
    }
    if config.hold_packets >= config.increase_packets {
        let place = table.key_span(if table.has("hold") { "hold" } else { "increase" });
        let (hold, increase) = (config.hold_packets, config.increase_packets);
        let message = format!(
            "`hold` = {hold} must be below `increase` = {increase}: otherwise the loop can withhold as many packets as \
             it adds, and its rate never rises again"
        );
        table.complain(place, &message, "for example increase = 1.0 and hold = 0.2");
    }
    config
}

/// Parses the parameters of paper 003's algorithm. A parameter that is missing has its value from `default`.
fn window(table: &mut Section<'_, '_>, default: AimdConfig) -> AimdConfig {
    let fairness = default.fairness;
    AimdConfig {
        increase_packets: number(table, "increase", 0.0..100.0, default.increase_packets),
        decrease: number(table, "decrease", 0.0..0.9, default.decrease),
        marker_every: table.integer("marker-every", 1..256).map_or(default.marker_every, |at| at.value as u8),
        slow_start: table.flag("startup").unwrap_or(default.slow_start),
        fairness: WindowFairness {
            weight_by: table.choice("weight-by").unwrap_or(fairness.weight_by),
            steering: table.choice("steering").unwrap_or(fairness.steering),
            shared_events: table
                .choice::<LossEvents>("loss-events")
                .map_or(fairness.shared_events, LossEvents::are_shared),
        },
        ..default
    }
}

/// Returns the number at `key`, above the start of `within` and at most its end; if it is absent or wrong, `default`.
fn number(table: &mut Section<'_, '_>, key: &'static str, within: Range<f64>, default: f32) -> f32 {
    table.number(key, within, default).map_or(default, |number| number as f32)
}

fn time(table: &mut Section<'_, '_>, key: &'static str) -> Option<Duration> {
    let parse = |text: &str| match parse_duration(text) {
        Ok(time) if TIMES.contains(&time) => Ok(time),
        Ok(_) => Err(format!("the time `{key}` of a loop must be from 1 ms to 60 s")),
        Err(why) => Err(why.to_string()),
    };
    table.parsed(key, "\"54 ms\"", parse).map(|at| at.value)
}
