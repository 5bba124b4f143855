//! One TCP flow over a veth pair: through weft, through wireguard-go and without a tunnel.
//!
//! The output also contains the results of other benches.
//!
//!     cargo run --release -p weft-lab --example tunnel_bench -- [--json] [--weft PROGRAM] [--turns N]
//!         [--seconds N] [--conditions N] [--only NAME] [--criterion DIRECTORY] [--state FILE] [--scale FILE]
//!
//! With `--relays` the flow runs along a row of nodes: weft over relays, and wireguard-go from node to node.

use serde::Serialize;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_lab::{
    Condition, TunnelBench, TunnelBenchOptions, relay_bench, relay_bench_table, tunnel_bench, tunnel_bench_table,
};

const WARM_UP: Duration = Duration::from_secs(2);

/// First part of a micro-benchmark group's name, and the processing step that the group measures.
const STAGES: [(&str, &str); 6] = [
    ("flow lookup", "classify"),
    ("enqueue and dequeue", "queue"),
    ("schedule", "schedule"),
    ("seal", "seal"),
    ("open", "open"),
    ("resequence", "resequence"),
];

#[derive(Default)]
struct Arguments {
    json: bool,
    relays: bool,
    weft: Option<PathBuf>,
    turns: Option<u32>,
    seconds: Option<u64>,
    conditions: Option<usize>,
    only: Option<String>,
    criterion: Option<PathBuf>,
    state: Option<PathBuf>,
    scale: Option<PathBuf>,
}

/// The result of one micro-benchmark.
#[derive(Serialize)]
struct Stage {
    stage: &'static str,
    name: String,
    /// Median time of one pass, in ns.
    ns: f64,
}

/// The memory that one object uses.
#[derive(Serialize)]
struct State {
    name: String,
    bytes: f64,
}

/// A measured figure of a node with very many VPNs, such as a time or a memory size.
#[derive(Serialize)]
struct Scale {
    name: String,
    value: f64,
    unit: String,
    /// Largest accepted value of the figure, in its unit.
    at_most: Option<f64>,
}

#[derive(Serialize)]
struct Everything {
    #[serde(flatten)]
    tunnel: TunnelBench,
    stages: Vec<Stage>,
    state: Vec<State>,
    scale: Vec<Scale>,
}

fn main() -> Result<(), Box<dyn Error>> {
    weft_lab::net::acquire_privilege()?;
    let arguments = arguments()?;
    let options = TunnelBenchOptions {
        weft_binary: arguments.weft.unwrap_or_else(|| "target/release/weft".into()).canonicalize()?,
        turns: arguments.turns.unwrap_or(3),
        duration: Duration::from_secs(arguments.seconds.unwrap_or(10)).max(WARM_UP + Duration::from_secs(1)),
        warmup: WARM_UP,
        only: arguments.only,
        conditions: arguments.conditions.unwrap_or(Condition::ALL.len()),
    };
    if arguments.relays {
        let bench = relay_bench(&options, |next| eprintln!("{next}"))?;
        match arguments.json {
            true => println!("{}", serde_json::to_string_pretty(&bench)?),
            false => print!("{}", relay_bench_table(&bench)),
        }
        return Ok(());
    }
    let everything = Everything {
        stages: arguments.criterion.as_deref().map(stages).transpose()?.unwrap_or_default(),
        state: arguments.state.as_deref().map(state).transpose()?.unwrap_or_default(),
        scale: arguments.scale.as_deref().map(scale).transpose()?.unwrap_or_default(),
        tunnel: tunnel_bench(&options, |next| eprintln!("{next}"))?,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&everything)?);
        return Ok(());
    }
    print!("{}", tunnel_bench_table(&everything.tunnel));
    println!("\nStations of a packet's way, ns for each packet");
    for Stage { stage, name, ns } in &everything.stages {
        println!("  {stage:<12}{name:<54}{ns:>10.1}");
    }
    println!("\nVery many VPNs");
    for Scale { name, value, unit, at_most } in &everything.scale {
        let bound = at_most.map_or_else(String::new, |most| format!(", at most {most}"));
        println!("  {name:<66}{value:>12.3} {unit}{bound}");
    }
    println!("\nState, bytes");
    for State { name, bytes } in &everything.state {
        println!("  {name:<66}{bytes:>10.0}");
    }
    Ok(())
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut read = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--json" => read.json = true,
            "--relays" => read.relays = true,
            "--weft" => read.weft = Some(value()?.into()),
            "--turns" => read.turns = Some(value()?.parse()?),
            "--seconds" => read.seconds = Some(value()?.parse()?),
            "--conditions" => read.conditions = Some(value()?.parse()?),
            "--only" => read.only = Some(value()?),
            "--criterion" => read.criterion = Some(value()?.into()),
            "--state" => read.state = Some(value()?.into()),
            "--scale" => read.scale = Some(value()?.into()),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(read)
}

/// Returns criterion's newest results under `directory`, in the order of a packet's processing.
fn stages(directory: &Path) -> Result<Vec<Stage>, Box<dyn Error>> {
    let mut found = Vec::new();
    collect_stages(directory, &mut found)?;
    let place = |stage: &Stage| STAGES.iter().position(|(_, name)| *name == stage.stage);
    found.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.name.cmp(&b.name)));
    Ok(found)
}

fn collect_stages(directory: &Path, found: &mut Vec<Stage>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name == "new") {
            found.extend(stage(&path)?);
        } else if path.is_dir() {
            collect_stages(&path, found)?;
        }
    }
    Ok(())
}

/// Returns the result in one of criterion's directories. `None` if it measures no step of [`STAGES`].
fn stage(directory: &Path) -> Result<Option<Stage>, Box<dyn Error>> {
    let read = |file: &str| -> Result<serde_json::Value, Box<dyn Error>> {
        Ok(serde_json::from_slice(&fs::read(directory.join(file))?)?)
    };
    let (benchmark, estimates) = (read("benchmark.json")?, read("estimates.json")?);
    let (Some(name), Some(ns)) = (benchmark["full_id"].as_str(), estimates["median"]["point_estimate"].as_f64()) else {
        return Err(format!("{} is not criterion's", directory.display()).into());
    };
    let stage = STAGES.iter().find(|(group, _)| name.starts_with(group)).map(|(_, stage)| *stage);
    Ok(stage.map(|stage| Stage { stage, name: name.to_owned(), ns }))
}

/// Reads lines that contain a name, a tab and a number of bytes.
fn state(file: &Path) -> Result<Vec<State>, Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    let entry = |line: &str| {
        let (name, bytes) = line.split_once('\t').ok_or("a line of the state file has no tab")?;
        Ok(State { name: name.to_owned(), bytes: bytes.trim().parse()? })
    };
    text.lines().map(entry).collect()
}

/// Reads lines that contain a name, a value, a unit and an optional bound, separated by tabs.
fn scale(file: &Path) -> Result<Vec<Scale>, Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    let figure = |line: &str| {
        let [name, value, unit, bound] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err("a line of the scale file has not four fields".into());
        };
        let at_most = if bound.is_empty() { None } else { Some(bound.parse()?) };
        Ok(Scale { name: name.to_owned(), value: value.parse()?, unit: unit.to_owned(), at_most })
    };
    text.lines().map(figure).collect()
}
