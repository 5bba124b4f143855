//! Runs cases over all seeds on all cores, each once.

use crate::network::{NetworkRun, run};
use crate::pair::{self, EngineSettings, PairOptions};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use weft_scenario::{Network, NetworkVariant, RunSeries, Scenario, Traces};
use weft_units::Duration;

/// How thoroughly, and on how many threads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// Each case runs with the seeds from 1 to this.
    pub seeds: u64,
    /// Short runs, to see that everything works; its figures mean little.
    pub quick: bool,
    /// Threads; they change no result.
    pub threads: usize,
}

/// Hears how far a reproduction is.
pub trait Progress: Sync {
    /// So many runs begin for what is named.
    fn begin(&self, what: &str, runs: usize);
    /// One of them has ended.
    fn advance(&self);
}

/// One variant of one network, to be run over all seeds.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// What tells it from all others.
    pub name: String,
    pub network: Network,
    pub variant: NetworkVariant,
    /// Length of a run and of its beginning that does not count, where they are not those of all.
    pub length: Option<[Duration; 2]>,
}

/// What a case gave, seed by seed.
pub(super) type Outcomes = Vec<NetworkRun>;

/// Length of a run.
pub const RUN_LENGTH: Duration = Duration::from_secs(30);
/// Its beginning, which does not count.
pub const WARMUP: Duration = Duration::from_secs(10);
const QUICK_RUN_LENGTH: Duration = Duration::from_secs(3);
const QUICK_WARMUP: Duration = Duration::from_secs(1);

impl Effort {
    /// Length of a run, and of its beginning that does not count.
    pub(super) fn run_length(self) -> (Duration, Duration) {
        if self.quick { (QUICK_RUN_LENGTH, QUICK_WARMUP) } else { (RUN_LENGTH, WARMUP) }
    }
}

/// Runs cases, and remembers them.
pub(super) struct Laboratory<'a> {
    effort: Effort,
    progress: &'a dyn Progress,
    row: &'static str,
    known: BTreeMap<String, Outcomes>,
    /// Runs made so far.
    pub runs: usize,
    /// Their length in all.
    pub simulated: Duration,
}

impl<'a> Laboratory<'a> {
    pub fn new(effort: Effort, progress: &'a dyn Progress) -> Laboratory<'a> {
        Laboratory { effort, progress, row: "", known: BTreeMap::new(), runs: 0, simulated: Duration::ZERO }
    }

    /// What follows is for this row.
    pub fn turn_to(&mut self, row: &'static str) {
        self.row = row;
    }

    /// Runs what has not run yet; the outcomes are in the order of the cases.
    ///
    /// # Errors
    /// When a case cannot be built.
    pub fn measure(&mut self, cases: &[Case]) -> Result<Vec<Outcomes>, String> {
        let mut fresh: BTreeMap<&str, &Case> = cases.iter().map(|case| (case.name.as_str(), case)).collect();
        fresh.retain(|name, _| !self.known.contains_key(*name));
        let fresh: Vec<Case> = fresh.into_values().map(|case| self.of_run_length(case)).collect();
        if !fresh.is_empty() {
            self.progress.begin(self.row, fresh.len() * self.effort.seeds as usize);
        }
        let mut results = self.run_all(&fresh)?.into_iter();
        for case in fresh {
            let outcomes: Outcomes = results.by_ref().take(self.effort.seeds as usize).collect();
            self.runs += outcomes.len();
            self.simulated += case.network.duration * outcomes.len() as u32;
            self.known.insert(case.name, outcomes);
        }
        Ok(cases.iter().map(|case| self.known.get(&case.name).cloned().unwrap_or_default()).collect())
    }

    /// Runs a scenario of two nodes over all seeds, as long as it says; what each run gave, by the names of results. Every engine is
    /// set to `settings`.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn play(
        &mut self,
        scenario: &Scenario,
        settings: &EngineSettings,
    ) -> Result<BTreeMap<String, Vec<RunSeries>>, String> {
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
        Ok(played.series)
    }

    fn of_run_length(&self, case: &Case) -> Case {
        let mut case = case.clone();
        (case.network.duration, case.network.warmup) = match case.length {
            Some([duration, warmup]) if !self.effort.quick => (duration, warmup),
            _ => self.effort.run_length(),
        };
        case
    }

    /// Every case with every seed, in this order.
    fn run_all(&self, cases: &[Case]) -> Result<Vec<NetworkRun>, String> {
        let jobs: Vec<(&Case, u64)> =
            cases.iter().flat_map(|case| (1..=self.effort.seeds).map(move |seed| (case, seed))).collect();
        let next = AtomicUsize::new(0);
        let results = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for _ in 0..self.effort.threads.clamp(1, jobs.len().max(1)) {
                scope.spawn(|| {
                    while let Some((number, (case, seed))) = take(&next, &jobs) {
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
