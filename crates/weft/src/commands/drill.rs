//! `weft drill`: silences a link or a node for a limited time, and reports how long traffic stopped.

use crate::cli::{DrillCommand, DrillOptions};
use crate::control::{ask, unexpected};
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::status::{Drill, DrillPeer};
use crate::table::{Table, dash, millis};
use std::path::Path;
use std::thread;
use std::time::Duration;
use weft_control::{DrillCut, Request, Response};

/// Maximum interval between two queries of the drill's state.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Starts the drill, waits until it is over, and prints the report.
pub fn drill(command: &DrillCommand) -> Result<Outcome, Failure> {
    let (cut, options) = match command {
        DrillCommand::Link { name, options } => (DrillCut::Link(name.clone()), options),
        DrillCommand::Node { name, options } => (DrillCut::Node(name.clone()), options),
    };
    let time_ms = u64::try_from(options.time.as_millis()).unwrap_or(u64::MAX);
    let DrillOptions { force, json: as_json, control, .. } = options;
    ask(&control.control, &Request::Drill { cut, time_ms, force: *force })?;
    let drill = wait(&control.control)?;
    print!("{}", if *as_json { json(&drill)? } else { text(&drill) });
    let found_another = |peer: &DrillPeer| peer.paths.iter().any(|path| path.answered[1] > 0);
    Ok(if drill.peers.iter().all(found_another) { Outcome::Well } else { Outcome::Degraded })
}

fn wait(socket: &Path) -> Result<Drill, Failure> {
    loop {
        match ask(socket, &Request::DrillReport)? {
            Response::Drill(drill) if drill.phase == "over" => return Ok(*drill),
            Response::Drill(drill) => {
                let left = Duration::from_millis(drill.left_ms) + Duration::from_millis(10);
                thread::sleep(left.min(LOOK_INTERVAL));
            }
            other => return Err(unexpected(&other)),
        }
    }
}

fn text(drill: &Drill) -> String {
    let head = format!("drill: {} was cut for {}, with a probe every 20 ms\n", drill.cut, seconds(drill.time_ms));
    drill.peers.iter().fold(head, |text, of| text + "\n" + &peer(of))
}

fn seconds(ms: u64) -> String {
    format!("{} s", ms as f64 / 1e3)
}

fn peer(of: &DrillPeer) -> String {
    let down = of.down_us.map_or_else(
        || "the path was not declared down".to_owned(),
        |us| format!("the path was declared down after {}", millis(us)),
    );
    let back = of.back_us.map_or_else(
        || "the path was not used again".to_owned(),
        |us| format!("the path was used again {} after the end of the cut", millis(us)),
    );
    let mut text = format!("to peer {}: ", of.peer);
    text += &match of.detected_us {
        Some(us) => format!("the cut was detected after {}, and {down}; ", millis(us)),
        None => "the cut was not detected; ".to_owned(),
    };
    let gap = millis(of.gap_us);
    text += &format!("the longest gap between answers was {gap}, and {} of {} probes were lost", of.lost, of.sent);
    if of.unsent > 0 {
        text += &format!(", {} probes were not sent because there was no path", of.unsent);
    }
    let gap = millis(of.gap_after_us);
    text += &format!("; after the end of the cut, the longest gap between answers was {gap}, and {back}\n");
    let mut table = Table::new(&["PATH", "CUT", ">BEFORE", ">DURING", ">AFTER"]);
    for path in &of.paths {
        let passed = |phase: usize| match (path.answered[phase], path.sent[phase]) {
            (_, 0) => dash(),
            (answered, sent) => format!("{answered}/{sent}"),
        };
        let name = format!("{} {} → {}", path.id, path.link, path.remote);
        let cut = if path.cut { "cut" } else { "" };
        table.row([name, cut.to_owned(), passed(0), passed(1), passed(2)]);
    }
    text + &table.to_string()
}
