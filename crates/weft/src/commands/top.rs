//! `weft top`: links, paths, peers and the fastest flows, live on one screen.

use super::pages::{self, Page};
use super::show;
use crate::cli::TopArguments;
use crate::control::node_status;
use crate::outcome::{Failure, Outcome};
use crate::screen::Screen;
use crate::status::{Flow, Link, Path, Peer, Status};
use crate::table::{Table, bytes, dash, millis, percent, rate, span};
use std::cmp::Reverse;
use std::io::{self, Write as _};
use std::time::Duration;

/// Maximum number of flows on the page that shows everything.
const FLOWS: usize = 10;
/// Width of a bar, in characters.
const BAR: usize = 10;
/// The pages of `weft top`, each with the key that shows it.
const PAGES: [Page<Status>; 4] = [
    Page { key: b'a', name: "all", text: all },
    Page { key: b'p', name: "paths", text: show::paths },
    Page { key: b'f', name: "flows", text: show::flows },
    Page { key: b'n', name: "node", text: show::status },
];

/// Shows the pages until a key ends it, or prints the first one once.
pub fn top(arguments: &TopArguments) -> Result<Outcome, Failure> {
    let read = || node_status(&arguments.control.control);
    if arguments.once {
        // A reader that closes the pipe early is no error.
        let _ = io::stdout().lock().write_all(Screen::get().fold(&all(&read()?)).as_bytes());
        return Ok(Outcome::Well);
    }
    pages::show(&PAGES, "weft top --once", read)
}

/// Returns links, paths, peers and the fastest flows.
pub(super) fn all(status: &Status) -> String {
    format!("{}\n{}\n{}\n{}\n{}", head(status), links(status), paths(status), peers(status), flows(status))
}

/// Returns all paths, each with its peer.
fn all_paths(status: &Status) -> impl Iterator<Item = (&Peer, &Path)> {
    status.peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path)))
}

fn head(status: &Status) -> String {
    let (up, good) =
        (span(Duration::from_secs(status.uptime_s)), all_paths(status).filter(|(_, path)| !path.is_down()).count());
    let sum = |rate: fn(&Path) -> Option<u64>| all_paths(status).filter_map(|(_, path)| rate(path)).sum::<u64>();
    let (sending, receiving) = (sum(|path| path.sending_bps), sum(|path| path.receiving_bps));
    let (sending, receiving) = (rate(Some(sending)), rate(Some(receiving)));
    let peers = status.peers.iter().filter(|peer| peer.established_s.is_some()).count();
    format!(
        "{} up {up}: session with {peers} of {} peers, {good} of {} paths usable; sending {sending}, receiving \
         {receiving}\n",
        status.tun,
        status.peers.len(),
        all_paths(status).count()
    )
}

fn links(status: &Status) -> String {
    let mut table = Table::new(&["LINK", ">PATHS", ">SENDING", "", ">RECEIVING", ">CAPACITY", ">LIMIT", ">QUOTA"])
        .give_way(&["", "QUOTA", "LIMIT", "PATHS", "CAPACITY"], &["LINK"]);
    for link in &status.links {
        let own: Vec<&Path> = all_paths(status).map(|(_, path)| path).filter(|path| is_over(path, link)).collect();
        let sum = |value: fn(&Path) -> Option<u64>| own.iter().filter_map(|path| value(path)).sum::<u64>();
        // Each path estimates the capacity of the same link. The greatest estimate is shown.
        let capacity = own.iter().filter_map(|path| path.capacity_bps).max();
        let sending = sum(|path| path.sending_bps);
        let quota = link.quota.as_ref().map(|quota| quota.used_bytes as f64 / quota.limit_bytes.max(1) as f64);
        table.row([
            link.name.clone(),
            format!("{}/{}", own.iter().filter(|path| !path.is_down()).count(), own.len()),
            rate(Some(sending)),
            bar(sending, capacity),
            rate(Some(sum(|path| path.receiving_bps))),
            rate(capacity),
            rate(link.max_rate_up_bps),
            quota.map_or_else(dash, percent),
        ]);
    }
    if table.is_empty() { "no usable link\n".to_owned() } else { table.to_string() }
}

/// True if a path uses a link: by UDP, or by TCP connections over it.
fn is_over(path: &Path, link: &Link) -> bool {
    path.link.strip_suffix("/tcp").unwrap_or(&path.link) == link.name
}

fn paths(status: &Status) -> String {
    let mut table = Table::new(&["PEER", "LINK", "STATE", ">RTT", ">LOSS", ">SENDING", "", ">RECEIVING"])
        .give_way(&["", "LOSS", "RECEIVING", "STATE"], &["PEER", "LINK"]);
    for (peer, path) in all_paths(status) {
        table.row([
            peer.name.clone(),
            path.link.clone(),
            if path.standby { format!("{}, spare", path.state) } else { path.state.clone() },
            path.rtt_us.map_or_else(dash, millis),
            percent(path.loss),
            rate(path.sending_bps),
            bar(path.sending_bps.unwrap_or(0), path.capacity_bps),
            rate(path.receiving_bps),
        ]);
    }
    if table.is_empty() { "no paths\n".to_owned() } else { table.to_string() }
}

fn peers(status: &Status) -> String {
    let mut table = Table::new(&["PEER", "STATE", ">SESSION", ">SENT", ">RECEIVED", ">WAITING", ">RESENT"])
        .give_way(&["RESENT", "WAITING", "SESSION", "RECEIVED"], &["PEER", "STATE"]);
    for peer in &status.peers {
        table.row([
            peer.name.clone(),
            peer.trouble().unwrap_or_else(|| "good".to_owned()),
            peer.established_s.map_or_else(dash, |s| span(Duration::from_secs(s))),
            bytes(peer.sent_bytes),
            bytes(peer.received_bytes),
            bytes(peer.queue_bytes),
            peer.repeated_units.to_string(),
        ]);
    }
    if table.is_empty() { "no peers\n".to_owned() } else { table.to_string() }
}

fn flows(status: &Status) -> String {
    let of_peers = status.peers.iter().flat_map(|peer| peer.flows.iter().map(move |flow| (peer, flow)));
    let mut all: Vec<(&Peer, &Flow)> = of_peers.collect();
    all.sort_by_key(|(_, flow)| Reverse((flow.rate_bps, flow.bytes)));
    let mut table =
        Table::new(&["FLOW", "PEER", ">RATE", ">BYTES", ">IDLE"]).give_way(&["IDLE", "BYTES", "PEER"], &["FLOW"]);
    for (peer, flow) in all.iter().take(FLOWS) {
        table.row([
            flow.flow.clone(),
            peer.name.clone(),
            rate(flow.rate_bps),
            bytes(flow.bytes),
            span(Duration::from_millis(flow.idle_ms)),
        ]);
    }
    if table.is_empty() { "no flows\n".to_owned() } else { table.to_string() }
}

/// Returns a bar that shows the rate `bps` as a part of the capacity, or spaces if the capacity is not known.
fn bar(bps: u64, capacity: Option<u64>) -> String {
    let Some(capacity) = capacity.filter(|capacity| *capacity > 0) else { return " ".repeat(BAR) };
    let full = (u128::from(bps) * BAR as u128).div_ceil(u128::from(capacity)).min(BAR as u128) as usize;
    "█".repeat(full) + &"░".repeat(BAR - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_the_rate() {
        assert_eq!(bar(0, Some(10)), "░░░░░░░░░░");
        assert_eq!(bar(1, Some(1_000)), "█░░░░░░░░░", "whatever is sent is seen");
        assert_eq!(bar(5, Some(10)), "█████░░░░░");
        assert_eq!(bar(u64::MAX, Some(1)), "██████████");
        assert_eq!(bar(5, None), " ".repeat(BAR));
        assert_eq!(bar(5, Some(0)), " ".repeat(BAR));
    }
}
