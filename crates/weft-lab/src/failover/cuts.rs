//! Measures one contender: its own traffic without probes, then a series of cuts with probes.

use super::contender::{Contender, RunningNetwork};
use super::diamond::{LINKS, LabDiamond, link_name};
use super::{CutResult, CutSeries, FailoverOptions};
use crate::LabError;
use crate::apps::probe::{ProbeArrivals, ProbeEndpoints, while_probing};
use crate::interrupt;
use std::io;
use std::time::{Duration, Instant};
use weft_scenario::measure::longest_gap;

const PORT: u16 = 5_201;
const POLL: Duration = Duration::from_millis(10);
/// Interval between two checks that all nodes reach each other. Each check starts programs.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// Time until a network's traffic is steady after a change.
const SETTLE: Duration = Duration::from_secs(1);
/// Maximum time until a network connects all nodes or uses another route.
///
/// It exceeds the longest dead interval of the contenders.
const PATIENCE: Duration = Duration::from_secs(100);
/// Time after a cut: a probe that is sent later than this, and arrives, cannot have used the cut link.
const SURELY_AFTER: Duration = Duration::from_millis(10);
/// Fraction whose multiples spread evenly over a period: the golden ratio minus one.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// Measures one contender. If a cut fails, the result keeps the cuts before it.
pub(super) fn measure(
    contender: &Contender,
    options: &FailoverOptions,
    report_progress: &mut impl FnMut(&str),
) -> Result<CutSeries, LabError> {
    let mut series =
        CutSeries { name: contender.name.to_owned(), detection: contender.detection(), ..CutSeries::default() };
    let diamond = LabDiamond::build(0)?;
    let mut network = contender.start(&diamond, &options.weft_binary)?;
    wait_whole(network.as_ref())?;
    report_progress(&format!(
        "measuring the control traffic of contender `{}` before its links are cut",
        contender.name
    ));
    pause(SETTLE)?;
    series.idle_bps = diamond.watch(options.count)?.most_bps(0..LINKS.len());
    let [from, to] = diamond.ends();
    let way = ProbeEndpoints { from, to, address: network.far_end(), port: PORT, host: None };
    let epoch = Instant::now();
    let mut stage = CutStage { contender, diamond: &diamond, network: network.as_mut(), epoch };
    while_probing(&way, epoch, options.interval, |probes| {
        match stage.play(probes, options, &mut series, report_progress) {
            Err(LabError::Interrupted) => Err(LabError::Interrupted),
            Err(error) => {
                series.failure = Some(error.to_string());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    })?;
    Ok(series)
}

struct CutStage<'a> {
    contender: &'a Contender,
    diamond: &'a LabDiamond,
    network: &'a mut dyn RunningNetwork,
    epoch: Instant,
}

impl CutStage<'_> {
    fn play(
        &mut self,
        probes: &ProbeArrivals,
        options: &FailoverOptions,
        series: &mut CutSeries,
        report_progress: &mut impl FnMut(&str),
    ) -> Result<(), LabError> {
        wait_until("no probe arrived", POLL, || Ok(probes.last_sent().is_some()))?;
        pause(SETTLE)?;
        let routes = self.diamond.routes()?;
        series.spare_bps = self.diamond.watch(options.count)?.most_bps(routes.spare);
        let cuts = self.contender.cuts(options.repeat);
        for number in 0..cuts {
            report_progress(&format!(
                "measuring the failover of contender `{}`: link cut {} of {cuts}",
                self.contender.name,
                number + 1
            ));
            if options.restart {
                self.network.restart_far_end(self.diamond)?;
                wait_whole(self.network)?;
                pause(SETTLE)?;
            }
            pause(self.contender.period().mul_f64((GOLDEN * f64::from(number + 1)).fract()))?;
            // The cuts alternate between the route's first link and its second link. The first node detects the
            // failure of the second link only through the routing protocol or missing probes.
            let [near, far] = self.diamond.routes()?.carrying;
            let link = if number % 2 == 0 { near } else { far };
            series.cuts.push(self.cut(link, probes)?);
        }
        Ok(())
    }

    /// Cuts a link until probes arrive over another route, then ends the cut and waits until all links are good.
    fn cut(&self, link: usize, probes: &ProbeArrivals) -> Result<CutResult, LabError> {
        let began = self.epoch.elapsed();
        self.diamond.cut(link, true)?;
        let moved = wait_until("no probe arrived over another path", POLL, || {
            Ok(probes.last_sent().is_some_and(|sent| sent > began + SURELY_AFTER))
        });
        moved?;
        pause(SETTLE)?;
        let joined = self.epoch.elapsed();
        let gap = longest_gap(&probes.since(began), began, joined);
        self.diamond.cut(link, false)?;
        wait_whole(self.network)?;
        pause(SETTLE)?;
        let now = self.epoch.elapsed();
        let gap_of_return = longest_gap(&probes.since(joined), joined, now);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(CutResult {
            link: link_name(link),
            at_s: began.as_secs_f64(),
            gap_ms: ms(gap),
            whole_after_s: (now - joined - SETTLE).as_secs_f64(),
            return_gap_ms: ms(gap_of_return),
        })
    }
}

fn wait_whole(network: &dyn RunningNetwork) -> Result<(), LabError> {
    wait_until("the network did not converge", ASK_EVERY, || network.is_whole())
}

fn pause(time: Duration) -> Result<(), LabError> {
    interrupt::sleep_until(Instant::now() + time)
}

/// Calls `is_so` at the interval `every` until it returns true.
///
/// Returns an error with the text `complaint` if this takes longer than [`PATIENCE`].
fn wait_until(
    complaint: &str,
    every: Duration,
    mut is_so: impl FnMut() -> Result<bool, LabError>,
) -> Result<(), LabError> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > deadline {
            let limit = PATIENCE.as_secs();
            let text = format!("{complaint} within {limit} s: try again when the machine is less busy");
            return Err(LabError::Io(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        pause(every)?;
    }
    Ok(())
}
