//! Silent cuts on a diamond of four nodes.
//!
//! The comparison measures how long a stream of probes stops with weft, and with OSPF in the usual settings. The
//! contenders run one after another. Each has its own four namespaces and four emulated links. A cut disables the
//! link that carries the probes, in both directions. Interfaces stay up, so the nodes are not notified. A cut lasts
//! until the probes arrive over another route. All links are good again before the next cut.

mod contender;
mod cuts;
mod diamond;
mod ospf;
mod report;
mod weft;

pub use report::{failover_csv, failover_table};

use crate::tunnel_bench::BenchMachine;
use crate::{LabError, interrupt, net, scratch};
use contender::{CONTENDERS, WEFT};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use weft_scenario::{Skipped, median};

/// The options of the comparison.
#[derive(Clone, Debug)]
pub struct FailoverOptions {
    /// Path of the `weft` program.
    pub weft_binary: PathBuf,
    /// Number of cuts for each contender.
    ///
    /// `ospf-hello-1` gets half as many, and `ospf-default` a seventh.
    pub repeat: u32,
    /// Time for which each contender's control traffic is measured, once without probes and once with them.
    ///
    /// It should be longer than 10 s, because OSPF's hellos may be 10 s apart.
    pub count: Duration,
    /// Interval between two probes.
    pub interval: Duration,
    /// True to restart the far end's daemon before each cut. Only weft supports this.
    pub restart: bool,
    /// Names of the contenders to run. An empty list selects all.
    pub only: Vec<String>,
}

/// One cut of a link, with the gaps that it caused.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CutResult {
    /// The link, named by its two nodes.
    pub link: String,
    /// Time from the first probe until the cut, in seconds.
    pub at_s: f64,
    /// Longest time without an arriving probe from the start of the cut to its end, in ms.
    pub gap_ms: f64,
    /// Time from the end of the cut until the network considered all links good, in seconds.
    pub whole_after_s: f64,
    /// Longest time without an arriving probe after the end of the cut, in ms.
    ///
    /// It is measured until 1 s after the network considered all links good.
    pub return_gap_ms: f64,
}

/// The cuts of one contender.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CutSeries {
    /// The contender's name.
    pub name: String,
    /// A description of how the contender detects a failed link.
    pub detection: String,
    /// The contender's control traffic on the busiest link in one direction, in bit/s.
    ///
    /// It is measured in IP bytes, while no probes are sent.
    pub idle_bps: f64,
    /// The contender's control traffic on the busiest link that carries no probes, while probes are sent, in bit/s.
    pub spare_bps: f64,
    /// The cuts, in order.
    pub cuts: Vec<CutResult>,
    /// The reason why the contender completed fewer cuts than requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl CutSeries {
    /// Returns the median over all cuts of the gap during the cut, in ms, or `None` without cuts.
    pub fn median_ms(&self) -> Option<f64> {
        median(self.cuts.iter().map(|cut| cut.gap_ms))
    }

    /// Returns the longest gap during a cut, over all cuts, in ms, or `None` without cuts.
    pub fn worst_ms(&self) -> Option<f64> {
        self.cuts.iter().map(|cut| cut.gap_ms).reduce(f64::max)
    }

    /// Returns the longest gap after the end of a cut, over all cuts, in ms, or `None` without cuts.
    pub fn worst_return_ms(&self) -> Option<f64> {
        self.cuts.iter().map(|cut| cut.return_gap_ms).reduce(f64::max)
    }
}

/// The result of the comparison of weft's and OSPF's failover.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Failover {
    /// Version of the format of this result.
    pub schema: u32,
    /// The machine on which the comparison ran.
    pub machine: BenchMachine,
    /// Rate of each link in each direction, in bit/s.
    pub link_bps: u64,
    /// Round-trip time from end to end, over two links in each direction, in ms.
    pub rtt_ms: f64,
    /// Interval between two probes, in ms.
    pub interval_ms: f64,
    /// True if the far end restarted before each cut.
    pub restart: bool,
    /// The contenders that were measured.
    pub series: Vec<CutSeries>,
    /// The contenders that were not measured, with the reasons.
    pub skipped: Vec<Skipped>,
}

impl Failover {
    /// Returns the longest gap between arriving probes that weft may cause, in ms.
    ///
    /// It is 50 ms or 1.5 round trips, whichever is longer.
    pub fn bound_ms(&self) -> f64 {
        (1.5 * self.rtt_ms).max(50.0)
    }

    /// True if weft carried traffic again within [`Failover::bound_ms`] after each cut, or was not measured.
    pub fn is_held(&self) -> bool {
        let is_within =
            |weft: &CutSeries| weft.failure.is_none() && weft.worst_ms().is_some_and(|worst| worst <= self.bound_ms());
        self.series.iter().filter(|series| series.name == WEFT).all(is_within)
    }
}

/// Measures all contenders, in a bounded time. No process, namespace or file remains afterwards.
///
/// The function calls `report_progress` with a description of each next step. If this process is not root, call it
/// before the process starts a thread (see [`crate::net::acquire_privilege`]).
///
/// # Errors
/// Returns an error if an option names no contender, if the diamond cannot be built, or if the user
/// interrupts. [`Failover::skipped`] lists a contender that is not installed or does not start.
pub fn failover(options: &FailoverOptions, mut report_progress: impl FnMut(&str)) -> Result<Failover, LabError> {
    if let Some(unknown) = options.only.iter().find(|only| CONTENDERS.iter().all(|contender| contender.name != **only))
    {
        let names = CONTENDERS.map(|contender| contender.name).join(", ");
        return Err(LabError::Scenario(format!(
            "there is no contender `{unknown}` to measure: the contenders are {names}"
        )));
    }
    net::acquire_privilege()?;
    interrupt::watch();
    scratch::remove_stale();
    let mut result = Failover {
        schema: 1,
        machine: BenchMachine::read(),
        link_bps: diamond::RATE.bps(),
        rtt_ms: diamond::RTT.as_secs_f64() * 1e3,
        interval_ms: options.interval.as_secs_f64() * 1e3,
        restart: options.restart,
        series: Vec::new(),
        skipped: Vec::new(),
    };
    let takes_part = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    for contender in CONTENDERS.iter().filter(|contender| takes_part(contender.name)) {
        match cuts::measure(contender, options, &mut report_progress) {
            Ok(series) => result.series.push(series),
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => {
                result.skipped.push(Skipped { name: contender.name.to_owned(), reason: error.to_string() });
            }
        }
    }
    Ok(result)
}
