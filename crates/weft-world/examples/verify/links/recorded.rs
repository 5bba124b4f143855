//! Recorded links, each alone and two together.
//!
//! The checks cover the share of the link's transmission opportunities that weft uses, and the delay.

use crate::check::{Bound, Check};
use crate::play::{flow, for_each, play, variant};
use crate::topic::Context;
use std::path::Path;
use weft_scenario::Scenario;

const GOODPUT: Bound = Bound::AtLeast(0.92);
const DELAY: Bound = Bound::AtMost(100.0);
/// File name endings of a recording's two directions.
const ENDINGS: [&str; 2] = ["down", "up"];

/// One or two links whose rates are recorded.
struct Case {
    /// The files for each link: one for the direction of the bulk, and one for the other direction.
    links: Vec<[String; 2]>,
}

/// Runs and judges every recording of the directory, and every pair.
///
/// A short run without a directory judges none.
pub fn run(context: &Context) -> Vec<Check> {
    let Some(directory) = &context.traces else {
        let missing =
            || Check::skipped("recorded links", GOODPUT, "of opportunities", "no directory: TRACES=dir, --traces DIR");
        return if context.full { vec![missing()] } else { Vec::new() };
    };
    match files(directory) {
        Ok(files) => {
            let cases = cases(&files);
            let judged = for_each(context, "recordings", &cases, |case| judge(case, directory));
            judged.into_iter().flatten().collect()
        }
        Err(why) => vec![Check::skipped("recorded links", GOODPUT, "of opportunities", why)],
    }
}

/// Returns the sorted names of the directory's recordings.
fn files(directory: &Path) -> Result<Vec<String>, String> {
    let failed = |why: std::io::Error| format!("{}: {why}", directory.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_file() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    let is_trace = |name: &String| split(name).is_some();
    names.retain(is_trace);
    if names.is_empty() { Err(format!("{}: no file ends in .down or .up", directory.display())) } else { Ok(names) }
}

/// Returns a case for each file alone, and one for each pair of files of the same direction.
fn cases(files: &[String]) -> Vec<Case> {
    let link = |name: &String| [name.clone(), opposite(name, files)];
    let mut cases: Vec<Case> = files.iter().map(|name| Case { links: vec![link(name)] }).collect();
    for (number, first) in files.iter().enumerate() {
        let same_way = files.iter().skip(number + 1).filter(|second| ending(second) == ending(first));
        cases.extend(same_way.map(|second| Case { links: vec![link(first), link(second)] }));
    }
    cases
}

/// Returns a recording's name and direction.
fn split(name: &str) -> Option<(&str, &'static str)> {
    let (stem, last) = name.rsplit_once('.')?;
    Some((stem, ENDINGS.into_iter().find(|ending| *ending == last)?))
}

fn ending(name: &str) -> Option<&'static str> {
    split(name).map(|(_, ending)| ending)
}

/// Returns the file of the other direction, or the same file if there is none.
fn opposite(name: &str, files: &[String]) -> String {
    let other = split(name).map(|(stem, ending)| {
        let back = ENDINGS.into_iter().find(|other| *other != ending).unwrap_or(ending);
        format!("{stem}.{back}")
    });
    other.filter(|other| files.contains(other)).unwrap_or_else(|| name.to_owned())
}

impl Case {
    fn name(&self) -> String {
        self.links.iter().map(|[name, _]| name.as_str()).collect::<Vec<_>>().join(" + ")
    }

    /// Returns the scenario.
    ///
    /// Its links are those of `scenarios/cellular.toml`: 20 ms in each direction, 250 packets.
    fn scenario(&self) -> String {
        let link = |(number, [forth, back]): (usize, &[String; 2])| {
            format!(
                "[[link]]\nname = \"link{number}\"\ndown = {{ trace = {forth:?} }}\nup = {{ trace = {back:?} }}\n\
                 delay = \"20 ms\"\nqueue = \"250 packets\"\n"
            )
        };
        format!(
            "name = \"verify\"\nduration = \"60 s\"\nwarmup = \"15 s\"\nrepeats = 1\nvariants = [\"weft\"]\n{}\
             [[flow]]\nname = \"bulk\"\napp = \"iperf3\"\ncongestion = \"cubic\"\ndirection = \"down\"\n\
             [[flow]]\nname = \"probe\"\napp = \"probe\"\ninterval = \"5 ms\"\ndirection = \"down\"\n",
            self.links.iter().enumerate().map(link).collect::<String>()
        )
    }
}

fn judge(case: &Case, directory: &Path) -> Vec<Check> {
    let name = case.name();
    let scenario = Scenario::parse(&case.scenario(), &name).map_err(|why| why.to_string());
    let result = match scenario.and_then(|scenario| play(&scenario, Some(directory))) {
        Ok(run) => run.result,
        Err(why) => return vec![Check::skipped(name, GOODPUT, "of opportunities", why)],
    };
    let weft = variant(&result, "weft");
    let delay_ms = weft.and_then(|weft| flow(weft, "probe")?.beyond_omniscient_ms_p95);
    vec![
        Check::new(format!("{name}: goodput"), weft.map(|weft| weft.efficiency), GOODPUT, "of opportunities"),
        Check::new(format!("{name}: probe p95 beyond omniscient"), delay_ms, DELAY, "ms"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_paired_by_direction() {
        let files = ["a.down", "a.up", "b.down", "b.up", "c.down"].map(str::to_owned);
        let cases = cases(&files);
        let names: Vec<String> = cases.iter().map(Case::name).collect();
        assert_eq!(cases.len(), 5 + 3 + 1, "{names:?}");
        assert!(names.contains(&"a.down + c.down".to_owned()) && names.contains(&"a.up + b.up".to_owned()));
        assert_eq!(cases[1].links[0], ["a.up".to_owned(), "a.down".to_owned()]);
        assert_eq!(opposite("c.down", &files), "c.down");
    }

    #[test]
    fn a_case_is_a_scenario() {
        let case = Case { links: vec![["a.down".into(), "a.up".into()], ["b.down".into(), "b.up".into()]] };
        let scenario = Scenario::parse(&case.scenario(), "case").unwrap();
        assert_eq!(scenario.links.len(), 2);
    }
}
