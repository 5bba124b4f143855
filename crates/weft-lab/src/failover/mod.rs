//! Silent cuts on a diamond of four nodes: how long a stream of probes stops with weft, and with OSPF as it is set up today.
//!
//! Each contender has four namespaces and four emulated links of its own, one after another. A cut takes away the link that carries
//! the probes, both ways and without a sign: interfaces stay up. It lasts until the probes have found another way; before the next
//! one the network is whole again.

mod contender;
mod cuts;
mod diamond;
mod ospf;
mod report;
mod weft;

pub use report::{failover_csv, failover_table};

use crate::tunnel_bench::Machine;
use crate::{LabError, interrupt, net, scratch};
use contender::{CONTENDERS, WEFT};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use weft_scenario::{Skipped, median};

/// How to run the comparison.
#[derive(Clone, Debug)]
pub struct FailoverOptions {
    /// The `weft` program.
    pub weft_binary: PathBuf,
    /// Cuts for each contender; those with a dead interval of 4 s get half as many, those with 40 s a seventh.
    pub repeat: u32,
    /// How long what each sends by itself is counted, before its probes and under them. Hellos may be 10 s apart.
    pub count: Duration,
    /// How often a probe leaves.
    pub interval: Duration,
    /// Whether the far end's daemon restarts before each cut. Only weft can be asked for then.
    pub restart: bool,
    /// Only these contenders, by name; all of them if empty.
    pub only: Vec<String>,
}

/// One cut.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Cut {
    /// The link, by the names of its nodes.
    pub link: String,
    /// When, in seconds from the first probe.
    pub at_s: f64,
    /// The longest time without an arriving probe, from the cut until the link was joined again.
    pub gap_ms: f64,
    /// From joining the link until the network took all links to be well.
    pub whole_after_s: f64,
    /// The longest time without an arriving probe in that time and the second after it.
    pub return_gap_ms: f64,
}

/// One contender's cuts.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CutSeries {
    /// Its name.
    pub name: String,
    /// How it finds that a link is gone.
    pub detection: String,
    /// What it sends over the busiest link in one direction while nobody else sends, IP bytes in bit/s.
    pub idle_bps: f64,
    /// The same over the links in reserve while probes go over the others.
    pub spare_bps: f64,
    /// Its cuts in order.
    pub cuts: Vec<Cut>,
    /// Why it did not get all of its cuts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl CutSeries {
    /// Median of the gaps in milliseconds.
    pub fn median_ms(&self) -> Option<f64> {
        median(self.cuts.iter().map(|cut| cut.gap_ms))
    }

    /// The longest gap in milliseconds.
    pub fn worst_ms(&self) -> Option<f64> {
        self.cuts.iter().map(|cut| cut.gap_ms).reduce(f64::max)
    }

    /// The longest gap in milliseconds after a link was joined again.
    pub fn worst_return_ms(&self) -> Option<f64> {
        self.cuts.iter().map(|cut| cut.return_gap_ms).reduce(f64::max)
    }
}

/// The result of the comparison.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Failover {
    /// Version of this form.
    pub schema: u32,
    /// Where it was measured.
    pub machine: Machine,
    /// What each link carries each way.
    pub link_bps: u64,
    /// From end to end, two links each way.
    pub rtt_ms: f64,
    /// From one probe to the next.
    pub interval_ms: f64,
    /// Whether the far end restarted before each cut.
    pub restart: bool,
    /// Who was compared.
    pub series: Vec<CutSeries>,
    /// Who was not, and why.
    pub skipped: Vec<Skipped>,
}

impl Failover {
    /// What weft is held to: no probe missing for longer than 50 ms, or 1.5 round trips where that is more.
    pub fn bound_ms(&self) -> f64 {
        (1.5 * self.rtt_ms).max(50.0)
    }

    /// Whether weft, if it was measured, got all of its cuts and stayed within the bound.
    pub fn is_held(&self) -> bool {
        let is_within =
            |weft: &CutSeries| weft.failure.is_none() && weft.worst_ms().is_some_and(|worst| worst <= self.bound_ms());
        self.series.iter().filter(|series| series.name == WEFT).all(is_within)
    }
}

/// Measures all of them; `tell` hears what is done next. Bounded in time; nothing is left behind.
///
/// Call it from a process that has started no thread yet where that process is not root (see [`crate::net::acquire_privilege`]).
///
/// # Errors
/// When an option names nobody, the diamond cannot be built, or the user interrupts. A contender that is not installed or does not
/// start is in [`Failover::skipped`].
pub fn failover(options: &FailoverOptions, mut tell: impl FnMut(&str)) -> Result<Failover, LabError> {
    if let Some(unknown) = options.only.iter().find(|only| CONTENDERS.iter().all(|contender| contender.name != **only))
    {
        let names = CONTENDERS.map(|contender| contender.name).join(", ");
        return Err(LabError::Scenario(format!("nobody here is called `{unknown}`: there are {names}")));
    }
    net::acquire_privilege()?;
    interrupt::watch();
    scratch::remove_stale();
    let mut result = Failover {
        schema: 1,
        machine: Machine::read(),
        link_bps: diamond::RATE.bps(),
        rtt_ms: diamond::RTT.as_secs_f64() * 1e3,
        interval_ms: options.interval.as_secs_f64() * 1e3,
        restart: options.restart,
        series: Vec::new(),
        skipped: Vec::new(),
    };
    let takes_part = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    for contender in CONTENDERS.iter().filter(|contender| takes_part(contender.name)) {
        match cuts::measure(contender, options, &mut tell) {
            Ok(series) => result.series.push(series),
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => {
                result.skipped.push(Skipped { name: contender.name.to_owned(), reason: error.to_string() });
            }
        }
    }
    Ok(result)
}
