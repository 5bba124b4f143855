//! Checks on this machine's kernel, run by the program's own lab. A short run leaves them out.

use super::{bundles, draws, one_link};
use crate::check::{Bound, Check};
use crate::judge::greatest;
use crate::topic::Context;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use weft_scenario::{MixResult, SweepResult};

/// Number of draws of each sweep.
const DRAWS: u64 = 30;
/// Longest gap in traffic that the cut of a link may cause, in ms.
const FAILOVER: Bound = Bound::AtMost(50.0);

/// Runs and judges sweeps and cuts on the kernel.
pub fn run(context: &Context) -> Vec<Check> {
    if !context.full {
        return Vec::new();
    }
    let Some(weft) = &context.weft else {
        return vec![Check::skipped("kernel", FAILOVER, "ms", "no program: --weft PATH")];
    };
    let mut checks = sweep_checks(context, weft, "kernel, one link", one_link::SWEEP, one_link::goodput_checks);
    checks.extend(sweep_checks(context, weft, "kernel, bundles", bundles::SWEEP, bundles::checks));
    checks.push(failover_check(context, weft));
    checks
}

fn sweep_checks(
    context: &Context,
    weft: &Path,
    title: &str,
    recipe: &str,
    judge: fn(&str, &[MixResult]) -> Vec<Check>,
) -> Vec<Check> {
    context.progress.tell(title, 0, DRAWS as usize);
    match sweep(weft, recipe) {
        Ok(mixes) => judge(title, &mixes),
        Err(why) => vec![Check::skipped(title, Bound::AtLeast(99.0), "%", why)],
    }
}

/// Runs a sweep's judging seeds on the kernel. The lab prints its own progress.
fn sweep(weft: &Path, recipe: &str) -> Result<Vec<MixResult>, String> {
    let file = std::env::temp_dir().join(format!("weft-verify-{}.toml", std::process::id()));
    std::fs::write(&file, with_judging_seeds(recipe)).map_err(|why| format!("{}: {why}", file.display()))?;
    let output = lab(weft, &["sweep", &file.display().to_string(), "--json"]);
    let _ = std::fs::remove_file(&file);
    let result: SweepResult = serde_json::from_str(&output?).map_err(|why| format!("weft lab sweep: {why}"))?;
    Ok(result.mixes)
}

/// Returns the sweep's text with [`DRAWS`] judging seeds instead of its own seeds.
fn with_judging_seeds(recipe: &str) -> String {
    let seeds = format!("seeds = {{ from = {}, count = {DRAWS} }}\n", draws::FIRST_SEED);
    recipe.lines().map(|line| if line.starts_with("seeds") { seeds.clone() } else { format!("{line}\n") }).collect()
}

fn failover_check(context: &Context, weft: &Path) -> Check {
    context.progress.tell("failover", 0, 1);
    let name = "kernel: failover, worst gap";
    match lab(weft, &["failover", "--only", "weft", "--json"]).and_then(|json| worst_gap_ms(&json)) {
        Ok(worst) => Check::new(name, Some(worst), FAILOVER, "ms"),
        Err(why) => Check::skipped(name, FAILOVER, "ms", why),
    }
}

/// Returns the longest gap over all cuts in a failover's result, in ms.
fn worst_gap_ms(json: &str) -> Result<f64, String> {
    let result: Value = serde_json::from_str(json).map_err(|why| format!("weft lab failover: {why}"))?;
    let weft = result["series"].as_array().into_iter().flatten().find(|series| series["name"] == "weft");
    let weft = weft.ok_or("weft lab failover: weft was not measured")?;
    if let Some(why) = weft["failure"].as_str() {
        return Err(format!("weft lab failover: {why}"));
    }
    let cuts = weft["cuts"].as_array().into_iter().flatten();
    greatest(cuts.filter_map(|cut| cut["gap_ms"].as_f64())).ok_or_else(|| "weft lab failover: no cut was made".into())
}

/// Returns the output of `weft lab`.
///
/// The command also fails if one of its own checks fails, so its exit status is ignored.
fn lab(weft: &Path, words: &[&str]) -> Result<String, String> {
    let output = Command::new(weft).arg("lab").args(words).stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("{}: {why}", weft.display()))?;
    if output.stdout.is_empty() {
        return Err(format!("weft lab {}: {}", words.first().unwrap_or(&""), output.status));
    }
    String::from_utf8(output.stdout).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_scenario::Sweep;

    #[test]
    fn both_sweeps_get_the_judging_seeds() {
        for recipe in [one_link::SWEEP, bundles::SWEEP] {
            let sweep = Sweep::parse(&with_judging_seeds(recipe), "recipe").unwrap();
            assert_eq!((sweep.seeds.len(), sweep.seeds[0]), (30, 20_001));
        }
    }

    #[test]
    fn the_worst_cut_of_weft_counts() {
        let json = r#"{"series": [{"name": "weft", "cuts": [{"gap_ms": 34.0}, {"gap_ms": 61.5}]},
                       {"name": "ospf-bfd", "cuts": [{"gap_ms": 149.0}]}]}"#;
        assert_eq!(worst_gap_ms(json), Ok(61.5));
        assert!(worst_gap_ms(r#"{"series": []}"#).is_err() && worst_gap_ms("").is_err());
        let failed = json.replacen("\"cuts\"", "\"failure\": \"not started\", \"cuts\"", 1);
        assert!(worst_gap_ms(&failed).unwrap_err().contains("not started"));
    }
}
