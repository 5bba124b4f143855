//! Samples the emulator during a run: time series of each link, and statistics after the warm-up.

use crate::LabError;
use crate::emulator::{EmulatedLinkStats, EmulatorHandle, EmulatorSnapshot, LinkSide};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::LinkResult;
use weft_scenario::measure::{CarriedBytes, LengthSummary, STEP};

/// Maximum lateness of the emulator in an accepted run. The lateness is the 99.9th percentile over all packets.
///
/// A packet is late by the time between the moment at which it should have been delivered and its delivery. A run with
/// more lateness is repeated.
const LATENESS_BOUND: Duration = Duration::from_millis(3);
const DIRECTIONS: [(&str, LinkSide); 2] = [("up", LinkSide::Forward), ("down", LinkSide::Backward)];

/// The emulator's measurements of the traffic on all links during a run.
pub(crate) struct LinksReport {
    pub carried: CarriedBytes,
    /// The emulator's statistics of all links, for the time after the warm-up.
    pub snapshot: EmulatorSnapshot,
}

/// Samples the links until `over` is true.
///
/// The statistics cover the time `window` since the run began. Calls `tick` with the time since the run began.
pub(crate) fn sample(
    emulator: &EmulatorHandle,
    epoch: Instant,
    window: Range<Duration>,
    over: &AtomicBool,
    tick: &(dyn Fn(Duration) + Sync),
) -> Result<LinksReport, LabError> {
    let mut carried = CarriedBytes::default();
    let mut before: Vec<[u64; 2]> = Vec::new();
    let mut marked = false;
    let mut at_end = None;
    emulator.mark()?;
    let mut due = epoch;
    while !over.load(Ordering::Relaxed) {
        due += STEP;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        tick(epoch.elapsed());
        let snapshot = emulator.snapshot()?;
        let now: Vec<[u64; 2]> = snapshot.links.iter().map(delivered).collect();
        let since = |link: usize| before.get(link).copied().unwrap_or_default();
        let step = now
            .iter()
            .enumerate()
            .map(|(link, bytes)| [0, 1].map(|d: usize| bytes[d].saturating_sub(since(link)[d])))
            .collect();
        carried.steps.push((epoch.elapsed(), step));
        before = now;
        if !marked && epoch.elapsed() >= window.start {
            emulator.mark()?;
            before.clear();
            marked = true;
        }
        if at_end.is_none() && epoch.elapsed() >= window.end {
            at_end = Some(snapshot);
        }
    }
    let snapshot = at_end.map_or_else(|| emulator.snapshot(), Ok)?;
    Ok(LinksReport { carried, snapshot })
}

fn delivered(link: &EmulatedLinkStats) -> [u64; 2] {
    [link.forward.sent_bytes, link.backward.sent_bytes]
}

impl LinksReport {
    /// Returns the traffic of each link in each direction as results, the links in the order of `names`.
    pub fn results<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<LinkResult> {
        let both = names
            .into_iter()
            .zip(&self.snapshot.links)
            .flat_map(|(name, stats)| DIRECTIONS.map(|direction| (name, stats, direction)));
        both.map(|(name, stats, (word, direction))| {
            let stats = stats.direction(direction);
            let LengthSummary { mean, p95, max } = stats.queue_packets;
            LinkResult {
                name: name.to_owned(),
                direction: word.to_owned(),
                sent_bytes: stats.transmitted_bytes as f64,
                lost: (stats.lost_packets + stats.dropped_packets + stats.cut_packets) as f64,
                dropped: stats.dropped_packets as f64,
                queue_ms_p95: stats.queue_delay.p95.as_secs_f64() * 1e3,
                utilisation: stats.utilisation().unwrap_or(0.0),
                queue_packets_mean: Some(mean),
                queue_packets_p95: Some(p95),
                queue_packets_max: Some(max),
                packet_sizes: stats.packet_sizes.into_iter().filter(|size| size.packets > 0).collect(),
            }
        })
        .collect()
    }

    /// Returns the 99.9th percentile of the time by which packets were delivered too late, in ms.
    pub fn lateness_ms(&self) -> f64 {
        self.snapshot.lateness.p999.as_secs_f64() * 1e3
    }

    /// True if the emulator delivered packets on time.
    ///
    /// This is so if few packets were late, and the kernel dropped no packet before the emulator read it.
    pub fn is_sound(&self) -> bool {
        let dropped: u64 = self.snapshot.links.iter().flat_map(|link| link.device_drops).sum();
        self.snapshot.lateness.p999 <= LATENESS_BOUND && dropped == 0
    }
}
