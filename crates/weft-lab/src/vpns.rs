//! The state of all VPNs' ingress queues, as the daemons report it.

use crate::LabError;
use crate::interrupt;
use crate::lane::LabLane;
use std::ops::Range;
use std::time::{Duration, Instant};
use weft_control::status::Vpn;
use weft_scenario::measure::EntryEnd;
use weft_scenario::{FlowDirection, Scenario};

/// The states of all VPNs that a lane's two daemons reported when the measured time began and when it ended.
#[derive(Default)]
pub(crate) struct DaemonReports {
    before: [Vec<Vpn>; 2],
    after: [Vec<Vpn>; 2],
}

/// Queries the daemons of all lanes at both ends of `window`, which is counted from `epoch`.
pub(crate) fn watch(
    scenario: &Scenario,
    lanes: &[LabLane],
    epoch: Instant,
    window: Range<Duration>,
) -> Result<Vec<DaemonReports>, LabError> {
    if scenario.vpns.is_empty() {
        return Ok(lanes.iter().map(|_| DaemonReports::default()).collect());
    }
    interrupt::sleep_until(epoch + window.start)?;
    let before: Vec<_> = lanes.iter().map(shown).collect();
    interrupt::sleep_until(epoch + window.end)?;
    let after = lanes.iter().map(shown);
    Ok(before.into_iter().zip(after).map(|(before, after)| DaemonReports { before, after }).collect())
}

/// Returns the VPNs' states that the daemons report: those at the first node, then those at the second node.
///
/// Both lists are empty if the lane has no daemons.
fn shown(lane: &LabLane) -> [Vec<Vpn>; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for pair in &lane.weft {
        for (control, all) in pair.iter().zip(&mut all) {
            all.extend(control.vpns().unwrap_or_default());
        }
    }
    all
}

impl DaemonReports {
    /// Returns the state of a VPN's ingress queue in one direction at the end of the measured time.
    ///
    /// Its losses and drops are those during the measured time.
    pub fn end(&self, vpn: &str, direction: FlowDirection) -> EntryEnd {
        let of = |shown: &[Vec<Vpn>; 2]| {
            let [home, hub] = shown;
            let node = if direction == FlowDirection::Up { home } else { hub };
            node.iter().find(|state| state.name == vpn)?.members.first().cloned()
        };
        let Some(after) = of(&self.after) else { return EntryEnd::default() };
        let before = of(&self.before);
        let dropped_before = before.as_ref().map_or(0, |before| before.dropped_full + before.dropped_aqm);
        let lost_before = before.and_then(|before| before.control).map_or(0, |control| control.lost_packets);
        let control = after.control;
        let lost = control.as_ref().map_or(0, |control| control.lost_packets).wrapping_sub(lost_before);
        let dropped = after.dropped_full + after.dropped_aqm - dropped_before;
        EntryEnd {
            rate_bps: control.as_ref().map(|control| control.rate_bps as f64),
            window_bytes: control.as_ref().map(|control| control.window_bytes as f64),
            rtt_ms: control.as_ref().map(|control| control.rtt_us as f64 / 1e3),
            accumulation_bytes: control.as_ref().map(|control| control.accumulation_bytes as f64),
            // A unit that was declared lost may arrive after the first report, so the difference can be negative.
            lost: f64::from(lost as i32),
            dropped: dropped as f64,
        }
    }
}
