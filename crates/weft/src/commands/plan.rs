//! `weft plan`: makes scenarios from the measured links to a peer, and lets the simulator answer questions about them.

use super::other_program::simulate;
use crate::cli::PlanArguments;
use crate::control::{histories, node_status, peer_named};
use crate::date::rfc_3339;
use crate::escape;
use crate::files;
use crate::outcome::{Failure, Outcome, json};
use crate::plan::{Measurements, Occasion, Pace, PlanAnswer, PlanLink, PlanLinks, PlanQuestion, scenario};
use crate::status::{Path as PeerPath, Peer, SCHEMA, Status};
use crate::table::{Table, dash, millis, percent, rate};
use serde::Serialize;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A plan with its answers, as `--json` prints it.
#[derive(Serialize)]
struct PlanReport<'a> {
    schema: u32,
    peer: &'a str,
    measured_unix_s: u64,
    links: &'a [PlanLink],
    remarks: &'a [String],
    flow_s: u64,
    call_ms: u64,
    scenarios: &'a [PathBuf],
    answers: &'a [PlanAnswer],
}

/// A question with its scenario.
struct PosedQuestion {
    text: String,
    scenario: String,
}

/// Asks the node, writes the scenarios, runs them, and prints the answers.
pub fn plan(arguments: &PlanArguments) -> Result<Outcome, Failure> {
    let status = node_status(&arguments.control.control)?;
    let peer = peer(&status, arguments.peer.as_deref())?;
    let histories = histories(&arguments.control.control, &peer.name)?;
    let far = arguments.peer_status.as_deref().map(|file| far(file, &status, peer)).transpose()?.unwrap_or_default();
    let measurements = Measurements { links: &status.links, paths: &peer.paths, histories: &histories, far: &far };
    let measured = measurements.links(&arguments.rate).map_err(Failure::new)?;
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let plans = plans(arguments, &measured).map_err(|why| Failure::with(Outcome::Usage, why))?;
    let pace = Pace::of(&plans);
    let occasion = Occasion { peer: &peer.name, unix_s, remarks: &measured.remarks, pace };
    let pose = |(question, links): &(PlanQuestion, Vec<PlanLink>)| PosedQuestion {
        text: question.text(),
        scenario: scenario(occasion, question, links),
    };
    let posed: Vec<PosedQuestion> = plans.iter().map(pose).collect();
    let files = arguments.out.as_deref().map(|out| keep(out, &posed)).transpose()?.unwrap_or_default();
    let answers = answers(&posed)?;
    let report = PlanReport {
        schema: SCHEMA,
        peer: &peer.name,
        measured_unix_s: unix_s,
        links: &measured.links,
        remarks: &measured.remarks,
        flow_s: pace.flow_s,
        call_ms: pace.call_ms,
        scenarios: &files,
        answers: &answers,
    };
    print!("{}", if arguments.json { json(&report)? } else { text(&report) });
    Ok(Outcome::Well)
}

/// Returns the peer of this name, or the only peer.
fn peer<'a>(status: &'a Status, name: Option<&str>) -> Result<&'a Peer, Failure> {
    match (name, &status.peers[..]) {
        (Some(name), _) => peer_named(status, name),
        (None, [only]) => Ok(only),
        (None, []) => Err(Failure::new(
            "cannot make a plan, because the node has no peer: add a [[peer]] to its configuration, or join a network \
             with weft join",
        )),
        (None, peers) => {
            let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
            Err(Failure::with(
                Outcome::Usage,
                format!("the node has several peers: choose one with --peer: {}", names.join(", ")),
            ))
        }
    }
}

/// Returns the peer's paths to this node from the peer's own status in `file`.
fn far(file: &Path, own: &Status, peer: &Peer) -> Result<Vec<PeerPath>, Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", file.display()));
    let text = std::fs::read(file).map_err(|why| failed(&why))?;
    let mut value: serde_json::Value = serde_json::from_slice(&text).map_err(|why| failed(&why))?;
    escape::strings(&mut value);
    let status: Status = serde_json::from_value(value).map_err(|why| failed(&why))?;
    if status.public_key != peer.public_key {
        return Err(failed(&format!(
            "the file is not the status of node {}: run on that node: weft status --json",
            peer.name
        )));
    }
    let this = status.peers.into_iter().find(|peer| peer.public_key == own.public_key);
    this.map(|peer| peer.paths).ok_or_else(|| failed(&"this node is not among its peers"))
}

/// Returns the questions, each with the links and rates that the question assumes.
fn plans(arguments: &PlanArguments, measured: &PlanLinks) -> Result<Vec<(PlanQuestion, Vec<PlanLink>)>, String> {
    let without = |links: &String| PlanQuestion::Without(links.split(',').map(|link| link.trim().to_owned()).collect());
    let mut questions = vec![PlanQuestion::AsItIs];
    questions.extend(arguments.without.iter().map(without));
    questions.extend(arguments.with.iter().cloned().map(PlanQuestion::With));
    questions.extend(arguments.sites.iter().copied().map(PlanQuestion::Sites));
    let with_links = |question: PlanQuestion| Ok((question.clone(), question.links(&measured.links)?));
    questions.into_iter().map(with_links).collect()
}

/// Writes each scenario to a new file: the first to `out`, each further one beside it with the question in its name.
fn keep(out: &Path, posed: &[PosedQuestion]) -> Result<Vec<PathBuf>, Failure> {
    let file = |(number, question): (usize, &PosedQuestion)| match number {
        0 => out.to_owned(),
        _ => {
            let words: String = question.text.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
            let stem = out.file_stem().unwrap_or_default().to_string_lossy();
            out.with_file_name(format!("{stem}-{words}.toml"))
        }
    };
    let write = |(number, question): (usize, &PosedQuestion)| {
        let path = file((number, question));
        let written = files::create(&path, 0o644, question.scenario.as_bytes());
        written.map_err(|why| Failure::new(format!("{}: {why}", path.display())))?;
        Ok(path)
    };
    posed.iter().enumerate().map(write).collect()
}

/// Runs each scenario in the simulator. Prints the progress to standard error if that is a terminal.
fn answers(posed: &[PosedQuestion]) -> Result<Vec<PlanAnswer>, Failure> {
    let answer = |(number, question): (usize, &PosedQuestion)| {
        if std::io::stderr().is_terminal() {
            eprintln!("simulating plan {} of {}: {}", number + 1, posed.len(), question.text);
        }
        PlanAnswer::read(question.text.clone(), &simulate(&question.scenario)?).map_err(Failure::new)
    };
    posed.iter().enumerate().map(answer).collect()
}

fn text(report: &PlanReport<'_>) -> String {
    let mut text = format!(
        "links to peer {}; time of the measurement: {}\n{}",
        report.peer,
        rfc_3339(report.measured_unix_s),
        links(report)
    );
    for link in report.links {
        text.extend(link.notes.iter().map(|note| format!("{}: {note}\n", link.name)));
    }
    text.extend(report.remarks.iter().map(|remark| format!("{remark}\n")));
    let millis = |ms: Option<f64>| ms.map_or_else(dash, |ms| millis((ms * 1e3) as u64));
    let goodput = |bps: Option<f64>| rate(bps.map(|bps| bps as u64));
    let mut answers = Table::new(&["PLAN", ">TO PEER", ">FROM PEER", ">CALL", ">LOADED CALL", ">LONGEST GAP"]);
    for answer in report.answers {
        answers.row([
            answer.question.clone(),
            goodput(answer.to_peer_bps),
            goodput(answer.from_peer_bps),
            millis(answer.call_ms_p95),
            millis(answer.loaded_call_ms_p95),
            millis(answer.longest_gap_ms),
        ]);
    }
    text += &format!(
        "\n{answers}\nTO PEER, FROM PEER: goodput of one TCP flow of {} s, of each site. CALL: 95th percentile of the \
         round trip of small packets, alone and beside these flows. LONGEST GAP: without a packet of a call, which \
         sends one each {} ms.\n",
        report.flow_s, report.call_ms
    );
    text.extend(report.scenarios.iter().map(|file| format!("scenario: {}\n", file.display())));
    text
}

fn links(report: &PlanReport<'_>) -> Table {
    let mut table = Table::new(&["LINK", ">TO PEER", ">FROM PEER", ">RTT", ">JITTER", ">LOSS", "USE"]);
    for link in report.links {
        table.row([
            link.name.clone(),
            rate(Some(link.to_peer_bps)),
            rate(Some(link.from_peer_bps)),
            millis(link.rtt_us),
            millis(link.jitter_us),
            percent(link.loss),
            if link.standby { "standby" } else { "always" }.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_sources_and_answers_are_shown() {
        let link = PlanLink {
            name: "lte".to_owned(),
            to_peer_bps: 8_000_000,
            from_peer_bps: 30_000_000,
            rtt_us: 70_000,
            jitter_us: 0,
            loss: 0.003,
            standby: true,
            notes: vec!["source of the rate to the peer: by --rate".to_owned()],
        };
        let answer = PlanAnswer {
            question: "without eth0".to_owned(),
            to_peer_bps: Some(7.5e6),
            from_peer_bps: None,
            call_ms_p95: Some(71.0),
            loaded_call_ms_p95: Some(80.0),
            longest_gap_ms: Some(22.0),
        };
        let text = text(&PlanReport {
            schema: SCHEMA,
            peer: "hub",
            measured_unix_s: 0,
            links: &[link],
            remarks: &["path wlan0 is not in the plan".to_owned()],
            flow_s: 12,
            call_ms: 20,
            scenarios: &[PathBuf::from("plan.toml")],
            answers: &[answer],
        });
        let shown = [
            "30.0 Mbit/s",
            "70.0 ms",
            "0.30 %",
            "standby",
            "lte: source of the rate to the peer: by --rate",
            "not in the plan",
        ];
        let answered = ["without eth0", "7.5 Mbit/s", "–", "71.0 ms", "80.0 ms", "22.0 ms", "12 s", "plan.toml"];
        for part in shown.iter().chain(&answered) {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
