//! Loads the capacity traces that a scenario names.
//!
//! The lab and the simulator use the same traces.

use crate::trace::Trace;
use crate::{Capacity, DirectionSpec, NetworkScenario, Scenario, ScenarioError};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use weft_units::{Rate, parse_rate};

/// Mean rate of a generated trace if its name contains no rate.
const SYNTHETIC_RATE: Rate = Rate::from_mbps(12);
/// Length of a generated trace.
const SYNTHETIC_LENGTH: Duration = Duration::from_secs(120);

/// Capacity traces, by the names that the scenario gives them.
pub type Traces = BTreeMap<String, Trace>;

impl Scenario {
    /// Reads every trace that the scenario names from `directory`.
    ///
    /// If there is no directory or no such file, it generates the trace from the seed.
    ///
    /// # Errors
    /// Fails if a file exists but cannot be read or is not a valid trace, for example because its times decrease. The
    /// error states file, line and column.
    pub fn load_traces(&self, directory: Option<&Path>) -> Result<Traces, ScenarioError> {
        load(self.links.iter().flat_map(|link| link.directions()), self.seed, directory)
    }
}

impl NetworkScenario {
    /// Reads every trace that the network names, like [`Scenario::load_traces`].
    ///
    /// # Errors
    /// The same as those of [`Scenario::load_traces`].
    pub fn load_traces(&self, directory: Option<&Path>) -> Result<Traces, ScenarioError> {
        load(self.links.iter().flat_map(|link| link.directions()), self.seed, directory)
    }
}

fn load<'a>(
    directions: impl Iterator<Item = &'a DirectionSpec>,
    seed: u64,
    directory: Option<&Path>,
) -> Result<Traces, ScenarioError> {
    let mut traces = Traces::new();
    for spec in directions {
        let Capacity::Trace(name) = &spec.capacity else { continue };
        if traces.contains_key(name) {
            continue;
        }
        let file = directory.map(|d| d.join(name)).filter(|path| path.is_file());
        let trace = match file {
            Some(path) => Trace::read(&path)?,
            None => Trace::synthetic_lte(seed.wrapping_add(hash(name)), synthetic_rate(name), SYNTHETIC_LENGTH),
        };
        traces.insert(name.clone(), trace);
    }
    Ok(traces)
}

/// Returns the mean rate of a generated trace.
///
/// It is the rate after the `@` in the trace's name, such as `lte@5 Mbit/s`, or else 12 Mbit/s.
pub(crate) fn synthetic_rate(name: &str) -> Rate {
    let said = name.rsplit_once('@').and_then(|(_, rate)| parse_rate(rate).ok());
    said.filter(|rate| *rate > Rate::ZERO).unwrap_or(SYNTHETIC_RATE)
}

/// Returns the FNV-1a hash of a name, which is part of a random seed.
///
/// Different names thus get different random numbers.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_traces_are_made_and_differ_by_name() {
        let links = "[[link]]\nname = \"a\"\ntrace = \"one\"\n[[link]]\nname = \"b\"\ntrace = \"two\"\n";
        let scenario = Scenario::parse(&format!("name = \"t\"\nduration = \"10 s\"\n{links}"), "t").unwrap();
        let traces = scenario.load_traces(Some(Path::new("/nonexistent"))).unwrap();
        assert_ne!(traces["one"], traces["two"]);
        assert_eq!(traces["one"], scenario.load_traces(None).unwrap()["one"]);
    }

    #[test]
    fn a_network_plays_the_same_traces_as_two_nodes() {
        let nodes =
            "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\ntrace = \"one\"\n";
        let network = NetworkScenario::parse(&format!("name = \"t\"\nduration = \"10 s\"\n{nodes}"), "t").unwrap();
        let links = "[[link]]\nname = \"a\"\ntrace = \"one\"\n";
        let scenario = Scenario::parse(&format!("name = \"t\"\nduration = \"10 s\"\n{links}"), "t").unwrap();
        assert_eq!(network.load_traces(None).unwrap(), scenario.load_traces(None).unwrap());
    }

    #[test]
    fn a_trace_that_goes_backwards_is_refused_with_its_line() {
        let directory = std::env::temp_dir().join(format!("weft-traces-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("one"), "1\n5\n3\n").unwrap();
        let links = "[[link]]\nname = \"a\"\ntrace = \"one\"\n";
        let scenario = Scenario::parse(&format!("name = \"t\"\nduration = \"10 s\"\n{links}"), "t").unwrap();
        let error = scenario.load_traces(Some(&directory)).unwrap_err();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(error.line, 3, "{error}");
        assert!(error.file.ends_with("one"), "{error}");
    }
}
