//! `weft-lab sim`: runs scenarios in virtual time.

use crate::cli::SimOptions;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use toml::{Table, Value};
use weft_config::config::{Config, Mtu, Report, Severity, parse};
use weft_config::outcome::{Failure, Outcome, json};
use weft_engine::LinkConfig;
use weft_report::{Chart, charts_picture, grid_table, run_table};
use weft_scenario::{AnyScenario, NetworkScenario, RunResult, Scenario, Series, Variant};
use weft_session::Identity;
use weft_world::Observers;
use weft_world::network::run_all;
use weft_world::pair::{self, EngineSettings, PairOptions, VpnSettings};

/// Maximum number of curves in a panel of a picture.
const SHOWN: usize = 6;

/// Runs the scenario in `file` and prints the result as a table or as JSON.
pub fn run(file: &Path, options: &SimOptions) -> Result<Outcome, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|why| Failure::new(format!("{name}: {why}")))?;
    match AnyScenario::parse(&text, &name).map_err(refused)? {
        AnyScenario::Pair(scenario) => {
            print!("{}", run_cells(&scenario, &name, options)?);
            if let Some(out) = &options.run.out {
                super::lab::print_pictures(out, &scenario.cells());
            }
        }
        AnyScenario::Network(network) => {
            let result = run_network(&network, options)?;
            print!("{}", if options.run.json { json(&result)? } else { run_table(&result) });
        }
    }
    Ok(Outcome::Well)
}

/// Runs a scenario of two nodes at each point of its grid, and returns the results as text.
fn run_cells(scenario: &Scenario, file: &str, options: &SimOptions) -> Result<String, Failure> {
    let results =
        scenario.cells().iter().map(|cell| run_pair(cell, file, options)).collect::<Result<Vec<RunResult>, _>>()?;
    Ok(match &results[..] {
        [result] if options.run.json => json(result)?,
        results if options.run.json => json(&results)?,
        [result] => run_table(result),
        results => grid_table(scenario, results),
    })
}

/// Runs a scenario of two nodes; `file` names it in errors.
pub(super) fn run_pair(scenario: &Scenario, file: &str, options: &SimOptions) -> Result<RunResult, Failure> {
    let traces = scenario.load_traces(options.run.traces.as_deref()).map_err(refused)?;
    let pair_options = PairOptions {
        variants: options.run.variant.clone(),
        repeat: options.run.repeat,
        seed: options.seed,
        threads: threads(options.threads),
        looks: options.run.out.clone().map(|out| (eyes(options), out)),
    };
    if let Some(out) = &options.run.out {
        std::fs::create_dir_all(out).map_err(|why| cannot_write(out, &why))?;
    }
    let settings = |variant: &Variant| settings(scenario, variant, file);
    let run = pair::run(scenario, &traces, &pair_options, &settings, &progress(options.run.quiet, "runs"))
        .map_err(Failure::new)?;
    if let Some(out) = &options.run.out {
        weft_report::save_run(out, scenario, &run.result, &run.series).map_err(|why| cannot_write(out, &why))?;
    }
    Ok(run.result)
}

fn run_network(network: &NetworkScenario, options: &SimOptions) -> Result<RunResult, Failure> {
    let traces = network.load_traces(options.run.traces.as_deref()).map_err(refused)?;
    let repeats = u64::from(options.run.repeat.unwrap_or(network.repeats));
    let first = options.seed.unwrap_or(network.seed);
    let seeds: Vec<u64> = (0..repeats).map(|n| first.wrapping_add(n)).collect();
    let eyes = eyes(options);
    if let Some(out) = &options.run.out {
        std::fs::create_dir_all(out).map_err(|why| cannot_write(out, &why))?;
    }
    let looks = options.run.out.as_deref().map(|out| (&eyes, out));
    let (result, series) = run_all(
        network,
        &traces,
        &options.run.variant,
        &seeds,
        threads(options.threads),
        looks,
        &progress(options.run.quiet, "runs"),
    )
    .map_err(Failure::new)?;
    if let Some(out) = &options.run.out {
        save_network(out, network, &result, &series)?;
    }
    Ok(result)
}

/// Writes the result and a picture of each run.
pub(super) fn save_network(
    out: &Path,
    network: &NetworkScenario,
    result: &RunResult,
    series: &BTreeMap<String, Vec<Series>>,
) -> Result<(), Failure> {
    let file = out.join(format!("{}.json", network.name));
    std::fs::create_dir_all(out).map_err(|why| cannot_write(out, &why))?;
    std::fs::write(&file, json(result)?).map_err(|why| cannot_write(&file, &why))?;
    for (stem, series) in series {
        let file = out.join(format!("{stem}.svg"));
        charts_picture(&file, stem, &network.description, &charts(series)).map_err(|why| cannot_write(&file, &why))?;
    }
    Ok(())
}

fn eyes(options: &SimOptions) -> Observers {
    Observers { captured: options.pcap.clone(), traced: options.trace.clone(), ..Observers::default() }
}

/// Returns the charts of a run's flows and queues, those with the largest totals.
fn charts(series: &[Series]) -> [Chart; 2] {
    let panel = |title, wanted: &dyn Fn(&Series) -> bool, scale| {
        let total = |series: &Series| series.points.iter().map(|(_, value)| value).sum::<f64>();
        let mut most: Vec<&Series> = series.iter().filter(|series| wanted(series)).collect();
        most.sort_by(|a, b| total(b).total_cmp(&total(a)));
        most.truncate(SHOWN);
        Chart::of_series(title, most, scale)
    };
    let is_link = |series: &Series| series.name.contains(".up") || series.name.contains(".down");
    [
        panel("Goodput of flows, Mbit/s", &|series| series.unit == "bit/s" && !is_link(series), 1e6),
        panel("Queues, kB", &|series| series.name.ends_with(".queue"), 1e3),
    ]
}

fn refused(why: weft_scenario::ScenarioError) -> Failure {
    Failure::new(format!("{why}\n"))
}

fn cannot_write(path: &Path, why: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {why}", path.display()))
}

/// Returns the requested number of threads, or one per core.
pub(super) fn threads(asked: Option<u16>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, usize::from)
}

/// Prints the number of finished runs on standard error.
pub(super) fn progress(quiet: bool, what: &str) -> impl Fn(usize, usize) + Sync {
    let shown = !quiet && std::io::stderr().is_terminal();
    move |done, all| {
        if shown {
            let end = if done == all { '\n' } else { '\r' };
            eprint!("{done} of {all} {what}{end}");
            let _ = std::io::stderr().flush();
        }
    }
}

/// Returns the engine settings that a scenario and its variant make, parsed as the daemon parses them.
fn settings(scenario: &Scenario, variant: &Variant, file: &str) -> Result<EngineSettings, String> {
    if variant.weft.contains_key("links") {
        return Err(format!("{file}: variant `{}`: name its links with `links`, not in `weft`\n", variant.name));
    }
    let name = format!("{file}, the configuration of variant `{}`", variant.name);
    let report = Report::new(name, variant.laid_over(base(scenario, variant)).to_string());
    match parse(&report, Path::new(".")) {
        Some(config) if report.count(Severity::Error) == 0 => Ok(engine_settings(&config)),
        _ => Err(report.to_string()),
    }
}

/// Returns the smallest configuration with which the program starts, and the scenario's VPNs.
fn base(scenario: &Scenario, variant: &Variant) -> Table {
    let strings = |text: &str| Value::Array(vec![text.into()]);
    let peer = Table::from_iter([
        ("name".to_owned(), Value::from("hub")),
        ("public-key".to_owned(), Identity::from_secret([1; 32]).public_key().to_string().into()),
        ("prefixes".to_owned(), strings("10.99.0.2/32")),
    ]);
    let vpn = |mut vpn: Table| {
        let id = vpn.get("id").and_then(Value::as_integer).unwrap_or_default();
        vpn.insert("members".into(), Table::from_iter([("hub".to_owned(), strings("0.0.0.0/0"))]).into());
        vpn.insert("table".into(), (1_000 + id).into());
        Value::from(vpn)
    };
    Table::from_iter([
        ("policy".to_owned(), scenario.policy_table().into()),
        ("vpn".to_owned(), Value::Array(scenario.vpn_tables(variant).into_iter().map(vpn).collect())),
        ("node".to_owned(), Table::from_iter([("key".to_owned(), Value::from("weft.key"))]).into()),
        ("tun".to_owned(), Table::from_iter([("address".to_owned(), strings("10.99.0.1/24"))]).into()),
        ("peer".to_owned(), Value::Array(vec![peer.into()])),
    ])
}

fn engine_settings(config: &Config) -> EngineSettings {
    let policy = config.peers.first().map(|peer| peer.policy.clone()).unwrap_or_default();
    let link = |link: &weft_config::config::Link| LinkConfig {
        name: link.name.value.clone(),
        cap: link.max_rate_up,
        send: link.up,
    };
    let inner_mtu = match config.tun.mtu {
        Mtu::Auto => None,
        Mtu::Fixed(bytes) => Some(bytes),
    };
    let vpn = |vpn: &weft_config::config::Vpn| VpnSettings {
        name: vpn.name.value.clone(),
        weight: vpn.weight,
        service: vpn.service(),
        entry: vpn.entry.clone(),
    };
    EngineSettings {
        policy,
        cipher: config.node.cipher,
        inner_mtu,
        links: config.link.iter().map(link).collect(),
        vpns: config.vpns.iter().map(vpn).collect(),
        flows: config.engine_flows(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::control_loop::LoopConfig;
    use weft_core::queue::QueueKind;
    use weft_core::service::Service;
    use weft_engine::{Recovery, Schedule, Weights};
    use weft_scenario::{ControlLaw, VariantKind, VpnEntry};
    use weft_units::Rate;

    fn variant(weft: &str) -> Variant {
        Variant { weft: weft.parse().unwrap(), ..Variant::plain(VariantKind::Weft) }
    }

    const SCENARIO: &str = "name = \"t\"\nduration = \"1 s\"\n[[link]]\nname = \"a\"\nrate = \"10 Mbit/s\"\n";

    fn settings_of(variant: &Variant, file: &str) -> Result<EngineSettings, String> {
        settings(&Scenario::parse(SCENARIO, "t").unwrap(), variant, file)
    }

    #[test]
    fn vpns_are_read_as_the_daemon_reads_them() {
        let vpns = "policy.leasable = \"4 Mbit/s\"\n[[vpn]]\nname = \"blue\"\nweight = 3\nloop = \"accumulation\"\nqueue = \"codel\"\n\
            [[vpn]]\nname = \"line\"\nleased = \"3.5 Mbit/s\"\nqueue-packets = 64\n";
        let scenario = Scenario::parse(&SCENARIO.replace("[[link]]", &format!("{vpns}[[link]]")), "t").unwrap();
        let own = settings(&scenario, &variant(""), "t").unwrap();
        assert_eq!(own.policy.leasable, Some(Rate::from_mbps(4)));
        let [blue, line] = &own.vpns[..] else { panic!("{own:?}") };
        assert_eq!((blue.weight, blue.entry.queue, blue.entry.limit_packets), (3, QueueKind::Codel, 1_000));
        assert!(matches!(blue.entry.control, Some(LoopConfig::Accumulation(_))));
        assert_eq!(line.service, Service::LeasedLine { rate: Rate::from_bps(3_500_000) });
        assert_eq!((line.entry.limit_packets, &line.entry.control), (64, &None));
        let vpn = VpnEntry { law: Some(ControlLaw::None), ..VpnEntry::default() };
        let without = settings(&scenario, &Variant { vpn, ..variant("") }, "t").unwrap();
        assert!(without.vpns.iter().all(|vpn| vpn.entry.control.is_none()));
    }

    #[test]
    fn a_variant_sets_what_the_daemon_would() {
        let plain = settings_of(&variant(""), "t").unwrap();
        assert_eq!(plain, EngineSettings::default());
        let own =
            "policy = { schedule = \"weighted-round-robin\", recovery = \"off\", weights = { a = 2 } }\ntun.mtu = 1300";
        let own = settings_of(&variant(own), "t").unwrap();
        assert_eq!((own.policy.schedule, own.policy.recovery), (Schedule::WeightedRoundRobin, Recovery::Off));
        assert_eq!(own.policy.weights, Weights::Static(vec![("a".into(), 2)]));
        assert_eq!(own.inner_mtu, Some(1300));
    }

    #[test]
    fn a_wrong_key_is_told_at_its_place() {
        let error = settings_of(&variant("policy.recovry = \"off\""), "t.toml").unwrap_err();
        assert!(error.contains("t.toml, the configuration of variant `weft`"), "{error}");
        assert!(error.contains("unknown key `recovry` in [policy]") && error.contains("did you mean"), "{error}");
        assert!(settings_of(&variant("links.use = [\"a\"]"), "t").unwrap_err().contains("`links`"));
    }
}
