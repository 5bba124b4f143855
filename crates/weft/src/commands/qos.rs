//! `weft qos`: the treatment of each flow, user and port, and the reason.

use super::change::{change_classes, change_rules};
use super::pages::{self, Page};
use super::watch::watch;
use crate::cli::{QosArguments, QosView};
use crate::control::{ask, unexpected};
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::status::{Qos, QosLoad};
use crate::table::{Table, bytes, dash, rate as rate_or_none};
use std::path::Path;
use weft_control::{Request, Response};

/// Maximum number of flows that `weft qos why` searches.
const SEARCHED: u32 = 10_000;
/// Maximum number of flows in the full-screen view. Tuned: ten pages, which are read within a few milliseconds.
const ON_SCREEN: u32 = 500;
/// The views on the whole screen.
const PAGES: [Page<Qos>; 5] = [
    Page { key: b'f', name: "flows", text: flows },
    Page { key: b'u', name: "users", text: users },
    Page { key: b'p', name: "ports", text: ports },
    Page { key: b'c', name: "classes", text: classes },
    Page { key: b'r', name: "rules", text: rules },
];

/// Prints one view of the flow state or shows all views on the whole screen, or changes the rules or classes.
pub fn qos(arguments: &QosArguments) -> Result<Outcome, Failure> {
    match &arguments.view {
        None => pages::show(&PAGES, "weft qos flows", || read(&arguments.control.control, ON_SCREEN)),
        Some(QosView::Rules { change: Some(change), .. }) => change_rules(change),
        Some(QosView::Classes { change: Some(change), .. }) => change_classes(change),
        Some(view) => print_view(view),
    }
}

fn print_view(view: &QosView) -> Result<Outcome, Failure> {
    let reading = view.reading();
    let most = match view {
        QosView::Flows { top, .. } => *top,
        QosView::Why { .. } => SEARCHED,
        _ => 1,
    };
    watch(reading.watch, !reading.json, || {
        let mut qos = read(&reading.control.control, most)?;
        if let QosView::Why { flow, .. } = view {
            qos.flows.retain(|of| flow.iter().all(|word| of.flow.contains(word.as_str())));
            if qos.flows.is_empty() {
                let words = flow.join(" ");
                return Err(Failure::new(format!("no flow matches `{words}`: list the flows with: weft qos flows")));
            }
        }
        Ok((if reading.json { json(&qos)? } else { text(view, &qos) }, Outcome::Well))
    })
}

fn read(socket: &Path, most: u32) -> Result<Qos, Failure> {
    match ask(socket, &Request::Qos { most })? {
        Response::Qos(qos) => Ok(*qos),
        other => Err(unexpected(&other)),
    }
}

fn text(view: &QosView, qos: &Qos) -> String {
    match view {
        QosView::Flows { .. } => flows(qos),
        QosView::Users(_) => users(qos),
        QosView::Ports(_) => ports(qos),
        QosView::Classes { .. } => classes(qos),
        QosView::Rules { .. } => rules(qos),
        QosView::Why { .. } => why(qos),
    }
}

fn flows(qos: &Qos) -> String {
    let mut table =
        Table::new(&["FLOW", "USER", "CLASS", ">SENT", ">BACK", ">ASKED", ">GRANTED", "VERDICT", ">DROPPED"])
            .give_way(&["DROPPED", "USER", "ASKED", "BACK"], &["FLOW", "USER"]);
    for flow in &qos.flows {
        table.row([
            flow.flow.clone(),
            flow.user.clone(),
            flow.class.clone(),
            rate(flow.sent_bps),
            rate(flow.returned_bps),
            rate_or_dash(flow.asked_bps),
            rate_or_dash(flow.granted_bps),
            flow.verdict.replace('-', " "),
            flow.dropped.to_string(),
        ]);
    }
    let Qos { flow_count, began, evicted, refused, .. } = qos;
    let totals = format!(
        "{flow_count} flows now; since the node started, {began} began; for lack of space in the flow table {evicted} \
         were removed and {refused} not stored\n"
    );
    if table.is_empty() { format!("no flows\n{totals}") } else { format!("{table}\n{totals}") }
}

fn users(qos: &Qos) -> String {
    let mut table = Table::new(&["USER", ">WEIGHT", ">FLOWS", ">RATE", ">BYTES"]).give_way(&["BYTES"], &["USER"]);
    for user in &qos.users {
        table.row([
            user.name.clone(),
            user.weight.to_string(),
            user.flows.to_string(),
            rate(user.bps),
            bytes(user.bytes),
        ]);
    }
    if table.is_empty() { "no users\n".to_owned() } else { table.to_string() }
}

fn ports(qos: &Qos) -> String {
    let headings = [
        "TOWARD",
        "CLASS",
        ">CAPACITY",
        ">RESERVABLE",
        ">GUARANTEED",
        ">ARRIVES",
        ">LEAVES",
        ">WAITS",
        ">DELAY",
        ">FLOWS",
    ];
    let mut table = Table::new(&headings).give_way(&["FLOWS", "RESERVABLE", "ARRIVES", "WAITS"], &["TOWARD", "CLASS"]);
    let mut row = |first: [String; 5], load: &QosLoad| {
        let rest = [
            rate(load.arrived_bps),
            rate(load.left_bps),
            bytes(load.waiting_bytes),
            format!("{:.1} ms", load.delay_ms),
            load.flows.to_string(),
        ];
        table.row(first.into_iter().chain(rest));
    };
    for port in &qos.ports {
        let of_port = [
            port.peer.clone(),
            "all".to_owned(),
            rate(port.capacity_bps),
            rate(port.reservable_bps),
            rate(port.guaranteed_bps),
        ];
        row(of_port, &port.load);
        for (class, load) in port.classes.iter().filter(|(_, load)| load.flows > 0) {
            row([String::new(), class.clone(), String::new(), String::new(), String::new()], load);
        }
    }
    let ports = if table.is_empty() { "no peers\n".to_owned() } else { table.to_string() };
    if qos.heard.is_empty() { ports } else { format!("{ports}\n{}", heard(qos)) }
}

/// Returns the table of the reports about their ports that peers have sent.
fn heard(qos: &Qos) -> String {
    let headings = ["REPORTED BY", "TOWARD", "STATE", ">ARRIVES", ">DELAY", ">FLOWS", ">AGE", "HEADROOM"];
    let mut table = Table::new(&headings).give_way(&["FLOWS", "ARRIVES", "HEADROOM"], &["REPORTED BY", "TOWARD"]);
    for report in &qos.heard {
        let headroom = report.headroom_bps.iter().map(|(class, left)| format!("{class} {}", rate(*left)));
        table.row([
            report.peer.clone(),
            report.prefix.clone(),
            report.state.replace('-', " "),
            rate(report.arrived_bps),
            format!("{:.1} ms", report.delay_ms),
            report.flows.to_string(),
            format!("{:.1} s", report.age_ms as f64 / 1e3),
            headroom.collect::<Vec<_>>().join(", "),
        ]);
    }
    table.to_string()
}

fn classes(qos: &Qos) -> String {
    let headings =
        ["CLASS", "SERVICE", ">GUARANTEED", ">MAXIMUM", ">BURST", ">DELAY VARIANCE", ">PRECEDENCE", ">PRIORITY"];
    let mut table = Table::new(&headings).give_way(&["BURST", "SERVICE"], &["CLASS"]);
    for class in &qos.classes {
        table.row([
            class.name.clone(),
            class.service.clone() + if class.must_be_met { ", must be met" } else { "" },
            rate_or_dash(class.guaranteed_bps),
            rate_or_none(class.maximum_bps),
            format!("{} B", class.burst_bytes),
            class.delay_variance_ms.map_or_else(dash, |ms| format!("{ms} ms")),
            class.precedence.to_string(),
            class.delay_priority.to_string(),
        ]);
    }
    table.to_string()
}

fn rules(qos: &Qos) -> String {
    let mut table = Table::new(&[">#", "RULE", "MATCHES", "CLASS"]).give_way(&["#"], &["MATCHES", "RULE"]);
    for (number, rule) in (1..).zip(&qos.rules) {
        table.row([number.to_string(), rule.name.clone(), rule.matches.clone(), rule.class.clone()]);
    }
    match table.is_empty() {
        true => "no rules are configured: every flow gets the class `bulk`\n".to_owned(),
        false => format!("{table}\na flow that no rule matches gets the class `bulk`\n"),
    }
}

fn why(qos: &Qos) -> String {
    let line = |flow: &crate::status::QosFlow| {
        format!(
            "{}\n  {}\n  guaranteed rate: asked {}, granted {}; sends {}; {} packets marked (ECN CE), {} packets \
             dropped\n",
            flow.flow,
            flow.why,
            rate_or_dash(flow.asked_bps),
            rate_or_dash(flow.granted_bps),
            rate(flow.sent_bps),
            flow.marked,
            flow.dropped
        )
    };
    qos.flows.iter().map(line).collect()
}

fn rate(bps: u64) -> String {
    rate_or_none(Some(bps))
}

fn rate_or_dash(bps: u64) -> String {
    rate_or_none(Some(bps).filter(|bps| *bps > 0))
}
