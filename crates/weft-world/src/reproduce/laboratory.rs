//! Runs cases with all seeds on all processor cores, and keeps their results so that each case runs once.

use crate::network::{NetworkRun, run};
use crate::pair::{self, EngineSettings, PairOptions, PairRun};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use weft_scenario::{AccumulationBy, NetworkScenario, NetworkVariant, RunSeries, Scenario, Traces};
use weft_units::Duration;

/// The extent of a reproduction: its number of seeds and threads, and whether runs are short.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// The largest seed. Each case runs with the seeds from 1 to this one.
    pub seeds: u64,
    /// True for short runs, which only test that all rows run. Their figures are not meaningful.
    pub quick: bool,
    /// Number of threads. It changes no result.
    pub threads: usize,
}

/// Receives reports on the progress of a reproduction.
pub trait Progress: Sync {
    /// Called when `runs` runs begin for the row `what`.
    fn begin(&self, what: &str, runs: usize);
    /// Called when one of the announced runs has ended.
    fn advance(&self);
}

/// One variant of one network, to run over all seeds.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The name of the case. It is unique among all cases.
    pub name: String,
    pub network: NetworkScenario,
    pub variant: NetworkVariant,
    /// Duration of a run, and duration of its warm-up. `None` selects `Effort::run_length`.
    pub length: Option<[Duration; 2]>,
}

/// The results of a case, seed by seed.
pub(super) type Outcomes = Vec<NetworkRun>;

/// Simulated duration of a run, unless its case states another one.
pub const RUN_LENGTH: Duration = Duration::from_secs(30);
/// Simulated duration of the warm-up at the start of a run, which the results exclude.
pub const WARMUP: Duration = Duration::from_secs(10);
/// Simulated duration of a short run, which only tests that a row runs.
const QUICK_RUN_LENGTH: Duration = Duration::from_secs(3);
/// Simulated duration of the warm-up of a short run.
const QUICK_WARMUP: Duration = Duration::from_secs(1);

impl Effort {
    /// Returns the duration of a run, and the duration of its warm-up.
    pub(super) fn run_length(self) -> (Duration, Duration) {
        if self.quick { (QUICK_RUN_LENGTH, QUICK_WARMUP) } else { (RUN_LENGTH, WARMUP) }
    }
}

/// Runs cases and stores their results.
pub(super) struct Laboratory<'a> {
    effort: Effort,
    progress: &'a dyn Progress,
    row: &'static str,
    seeds_used: u64,
    /// True if loops with accumulation control count packets instead of measuring a delay.
    is_counted: bool,
    known: BTreeMap<String, Outcomes>,
    /// Number of runs so far.
    pub runs: usize,
    /// Total simulated time of the runs so far.
    pub simulated: Duration,
}

impl<'a> Laboratory<'a> {
    pub fn new(effort: Effort, progress: &'a dyn Progress) -> Laboratory<'a> {
        Laboratory {
            effort,
            progress,
            row: "",
            seeds_used: 0,
            is_counted: false,
            known: BTreeMap::new(),
            runs: 0,
            simulated: Duration::ZERO,
        }
    }

    /// Sets the row for which the next cases run. Its name is shown in the progress.
    pub fn turn_to(&mut self, row: &'static str) {
        (self.row, self.seeds_used) = (row, 0);
    }

    /// Returns the number of seeds of the present row: the largest with which its cases ran.
    pub fn seeds_used(&self) -> u64 {
        self.seeds_used
    }

    /// Records that the present row made runs with this number of seeds without [`Laboratory::measure`].
    pub fn ran_with(&mut self, seeds: u64) {
        self.seeds_used = self.seeds_used.max(seeds);
    }

    /// Runs those cases that have not run yet with all seeds. Returns the results in the order of `cases`.
    ///
    /// # Errors
    /// Returns an error if a case cannot be built.
    pub fn measure(&mut self, cases: &[Case]) -> Result<Vec<Outcomes>, String> {
        self.measure_over(cases, self.effort.seeds)
    }

    /// Does the same as [`Laboratory::measure`], with twice as many seeds.
    ///
    /// # Errors
    /// Returns an error if a case cannot be built.
    pub fn measure_twice(&mut self, cases: &[Case]) -> Result<Vec<Outcomes>, String> {
        self.measure_over(cases, 2 * self.effort.seeds)
    }

    /// Selects for all later cases how accumulation control measures: by counted packets, or by delay.
    pub fn count_accumulation(&mut self, is_counted: bool) {
        self.is_counted = is_counted;
    }

    /// Returns the case, in which accumulation control measures as [`Laboratory::count_accumulation`] selected.
    fn with_measure(&self, mut case: Case) -> Case {
        if self.is_counted {
            case.variant.ingress.accumulation = Some(AccumulationBy::Counted);
            case.name.push_str(", counted");
        }
        case
    }

    fn measure_over(&mut self, cases: &[Case], seeds: u64) -> Result<Vec<Outcomes>, String> {
        self.ran_with(seeds);
        let cases: Vec<Case> = cases.iter().cloned().map(|case| self.with_measure(case)).collect();
        let mut fresh: BTreeMap<&str, &Case> = cases.iter().map(|case| (case.name.as_str(), case)).collect();
        fresh.retain(|name, _| self.known_seeds(name) < seeds);
        let fresh: Vec<Case> = fresh.into_values().map(|case| self.of_run_length(case)).collect();
        let jobs: Vec<(&Case, u64)> = fresh
            .iter()
            .flat_map(|case| (self.known_seeds(&case.name) + 1..=seeds).map(move |seed| (case, seed)))
            .collect();
        if !jobs.is_empty() {
            self.progress.begin(self.row, jobs.len());
        }
        let results = self.run_all(&jobs)?;
        for ((case, _), outcome) in jobs.iter().zip(results) {
            self.runs += 1;
            self.simulated += case.network.duration;
            self.known.entry(case.name.clone()).or_default().push(outcome);
        }
        let first = |known: &Outcomes| known.iter().take(seeds as usize).cloned().collect();
        Ok(cases.iter().map(|case| self.known.get(&case.name).map(first).unwrap_or_default()).collect())
    }

    /// Returns the number of seeds with which the case of this name has run.
    fn known_seeds(&self, name: &str) -> u64 {
        self.known.get(name).map_or(0, |known| known.len() as u64)
    }

    /// Runs all variants of a scenario of two nodes with all seeds, for the duration that the scenario states.
    ///
    /// Every engine has the settings `settings`. Returns the time series of the runs of each lane, by the lane's name.
    ///
    /// # Errors
    /// Returns an error if the scenario cannot be run.
    pub fn play(
        &mut self,
        scenario: &Scenario,
        settings: &EngineSettings,
    ) -> Result<BTreeMap<String, Vec<RunSeries>>, String> {
        self.play_whole(scenario, settings).map(|played| played.series)
    }

    /// Does as [`Laboratory::play`], and also returns the figures of each run.
    ///
    /// # Errors
    /// Returns an error if the scenario cannot be run.
    pub fn play_whole(&mut self, scenario: &Scenario, settings: &EngineSettings) -> Result<PairRun, String> {
        self.ran_with(self.effort.seeds);
        let options = PairOptions {
            repeat: Some(self.effort.seeds as u32),
            seed: Some(1),
            threads: self.effort.threads,
            ..PairOptions::default()
        };
        let done = |done: usize, all: usize| {
            if done == 1 {
                self.progress.begin(self.row, all);
            }
            self.progress.advance();
        };
        let played = pair::run(scenario, &Traces::new(), &options, &|_| Ok(settings.clone()), &done)?;
        if let Some(skipped) = played.result.skipped.first() {
            return Err(format!("{}: {}: {}", scenario.name, skipped.name, skipped.reason));
        }
        let runs = played.series.values().map(Vec::len).sum::<usize>();
        self.runs += runs;
        self.simulated += scenario.duration * runs as u32;
        Ok(played)
    }

    fn of_run_length(&self, case: &Case) -> Case {
        let mut case = case.clone();
        (case.network.duration, case.network.warmup) = match case.length {
            Some([duration, warmup]) if !self.effort.quick => (duration, warmup),
            _ => self.effort.run_length(),
        };
        case
    }

    /// Runs every case with its seed. Results have the order of `jobs`.
    fn run_all(&self, jobs: &[(&Case, u64)]) -> Result<Vec<NetworkRun>, String> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for _ in 0..self.effort.threads.clamp(1, jobs.len().max(1)) {
                scope.spawn(|| {
                    while let Some((number, (case, seed))) = take(&next, jobs) {
                        let result = run(&case.network, &case.variant, *seed, &Traces::new())
                            .map_err(|error| format!("{}: {error}", case.name));
                        results.lock().unwrap_or_else(|poison| poison.into_inner()).insert(number, result);
                        self.progress.advance();
                    }
                });
            }
        });
        results.into_inner().unwrap_or_else(|poison| poison.into_inner()).into_values().collect()
    }
}

fn take<'j, T>(next: &AtomicUsize, jobs: &'j [T]) -> Option<(usize, &'j T)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(number).map(|job| (number, job))
}
