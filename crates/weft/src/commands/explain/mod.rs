//! `weft explain`: prints why a flow takes its route, and whether it may enter.

mod access;

use super::prefixes::address_behind;
use crate::cli::ExplainArguments;
use crate::config::peer_name;
use crate::control::{ask, unexpected};
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::screen::Screen;
use crate::status::{Explanation, FlowQuestion, PathReason};
use crate::table::{Table, bytes, dash, millis, percent, rate, span};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weft_control::{Request, Response};

/// Asks the node how it forwards a flow, and prints the answer.
pub fn explain(arguments: &ExplainArguments) -> Result<Outcome, Failure> {
    let words = with_addresses(arguments)?;
    let question = question(&words, arguments.vpn.clone())?;
    let response = ask(&arguments.control.control, &Request::Explain { flow: question.clone() })?;
    match &response {
        Response::Explanation(found) => {
            print!("{}", if arguments.json { json(found)? } else { Screen::get().fold(&text(found, &question)) });
            let takes = |path: &PathReason| path.takes_sparse || path.takes_bulk;
            let is_carried = found.session && found.paths.iter().any(takes);
            Ok(match &found.access {
                Some(access) if access.is_dropped() => Outcome::Failed,
                _ if is_carried => Outcome::Well,
                _ => Outcome::Degraded,
            })
        }
        Response::Access(access) => {
            let text = access::text(access, &question);
            print!("{}", if arguments.json { json(access)? } else { Screen::get().fold(&text) });
            Ok(if access.is_dropped() { Outcome::Failed } else { Outcome::Well })
        }
        other => Err(unexpected(other)),
    }
}

/// Replaces the name of a node by an address behind it.
///
/// The last word may be a protocol after an address. Such a word is not taken for a name.
fn with_addresses(arguments: &ExplainArguments) -> Result<Vec<String>, Failure> {
    let (socket, vpn) = (&arguments.control.control, arguments.vpn.as_deref());
    let mut words = Vec::new();
    for (at, word) in arguments.flow.iter().enumerate() {
        let may_be_protocol = at > 0 && at + 1 == arguments.flow.len() && protocol(word).is_some();
        let looks_like_address = word.contains([':', '/']) || word.parse::<IpAddr>().is_ok();
        let is_name = !may_be_protocol && !looks_like_address && peer_name(word).is_ok();
        words.push(if is_name { address_behind(socket, word, vpn)?.to_string() } else { word.clone() });
    }
    Ok(words)
}

/// Parses `SRC[:PORT] DST[:PORT] [PROTO]`, or `DST[:PORT] [PROTO]`.
fn question(words: &[String], vpn: Option<String>) -> Result<FlowQuestion, Failure> {
    let wrong = |word: &str| {
        let help = "expected SRC[:PORT] DST[:PORT] [PROTO], for example 10.9.0.1:40000 10.9.0.2:80 tcp, or only a \
            destination: an address or a node";
        Failure::with(Outcome::Usage, format!("`{word}`: {help}"))
    };
    let (words, protocol) = match words {
        [before @ .., last] if !before.is_empty() && end(last).is_none() => {
            (before, Some(protocol(last).ok_or_else(|| wrong(last))?))
        }
        all => (all, None),
    };
    let ends = words.iter().map(|word| end(word).ok_or_else(|| wrong(word))).collect::<Result<Vec<_>, _>>()?;
    let (source, destination) = match ends[..] {
        [destination] => (None, destination),
        [source, destination] => (Some(source), destination),
        _ => return Err(wrong(&words.join(" "))),
    };
    if source.is_some_and(|(source, _)| source.is_ipv4() != destination.0.is_ipv4()) {
        return Err(Failure::with(Outcome::Usage, "source and destination belong to different address families"));
    }
    Ok(FlowQuestion {
        vpn,
        destination: destination.0,
        destination_port: destination.1,
        source: source.map(|(address, _)| address),
        source_port: source.and_then(|(_, port)| port),
        protocol,
    })
}

fn end(word: &str) -> Option<(IpAddr, Option<u16>)> {
    let whole = word.parse::<SocketAddr>().map(|at| (at.ip(), Some(at.port())));
    whole.or_else(|_| word.parse().map(|address| (address, None))).ok()
}

fn protocol(word: &str) -> Option<u8> {
    match word {
        "icmp" => Some(1),
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmpv6" | "icmp6" => Some(58),
        number => number.parse().ok(),
    }
}

fn text(found: &Explanation, question: &FlowQuestion) -> String {
    let mut text = route(found);
    text += &found.access.as_ref().map_or_else(String::new, |access| access::text(access, question));
    text += &match &found.flow {
        Some(flow) => format!(
            "flow    {}: {} sent in {} packets or parts of packets, the last {} ago; {} wait in queues of paths\n",
            flow.flow,
            bytes(flow.bytes),
            flow.packets,
            span(Duration::from_millis(flow.idle_ms)),
            bytes(flow.waiting_bytes.into()),
        ),
        None => "flow    no packet of the flow was seen recently: the lines here describe a new flow\n".to_owned(),
    };
    text += &queue(found);
    text += &match &found.grant {
        Some(grant) => {
            let ends = grant.ends_in_ms.map_or_else(String::new, |ms| format!("; the grant ends in {ms} ms"));
            format!(
                "rate    the flow may send at {}; source of this rate: {}{ends}\n",
                rate(Some(grant.rate_bps)),
                if grant.by == "signalled" { "in-band signalling" } else { grant.by.as_str() }
            )
        }
        None => "rate    no rate is granted to the flow: its sender controls the rate\n".to_owned(),
    };
    let proxy = found.proxy.as_deref().unwrap_or("plain, no proxy terminates it");
    text += &format!(
        "proxy   {proxy}\nsize    at most {} B in a packet, and {} B of payload in a TCP segment (MSS)\n\n",
        found.mtu, found.mss
    );
    text + &paths(found)
}

fn route(found: &Explanation) -> String {
    let Some((longest, others)) = found.prefixes.split_last() else { return String::new() };
    let over =
        others.iter().rev().map(|other| format!("prefix {} of peer {}", other.prefix, other.peer)).collect::<Vec<_>>();
    let why = if over.is_empty() {
        "no other prefix contains the destination".to_owned()
    } else {
        format!("the prefix is chosen because it is longer than {}", over.join(" and "))
    };
    let session = match (found.session, found.open) {
        (false, _) => ", but NO SESSION with the peer exists (see weft status)",
        (true, false) => ", but packets wait until the peer confirms that it has the VPN",
        (true, true) => "",
    };
    format!("route   VPN {}, prefix {} → peer {}{session}: {why}\n", found.vpn, longest.prefix, found.peer)
}

fn queue(found: &Explanation) -> String {
    let Some(entry) = &found.vpn_entry else {
        return format!("queue   {} wait to be sent to peer {}\n", bytes(found.queue_bytes), found.peer);
    };
    let control = entry.control.as_ref().map_or_else(String::new, |control| {
        let (rate, in_flight) = (rate(Some(control.rate_bps)), bytes(control.in_flight_bytes.into()));
        format!("; the VPN's rate control allows {rate}, and {in_flight} are sent but not yet acknowledged")
    });
    let (own, all) = (bytes(entry.queue_bytes), bytes(found.queue_bytes));
    format!(
        "queue   {own} of this VPN wait to be sent, in {} packets{control}; all VPNs together: {all}\n",
        entry.queue_packets
    )
}

fn paths(found: &Explanation) -> String {
    let headings = ["PATH", "TAKES", "STATE", ">RTT", ">LOSS", ">CAPACITY", ">WEIGHT", ">WAITING", ">QUEUE", "WHY"];
    let mut table =
        Table::new(&headings).give_way(&["WEIGHT", "QUEUE", "WAITING", "LOSS", "CAPACITY", "STATE"], &["WHY", "PATH"]);
    for reason in &found.paths {
        let path = &reason.path;
        let takes = match (reason.takes_sparse, reason.takes_bulk) {
            (true, true) => "all",
            (true, false) => "sparse",
            (false, true) => "bulk",
            (false, false) => "–",
        };
        table.row([
            name(reason),
            takes.to_owned(),
            if path.standby { "standby".to_owned() } else { path.state.clone() },
            path.rtt_us.map_or_else(dash, millis),
            percent(path.loss),
            rate(path.capacity_bps),
            path.weight.to_string(),
            bytes(reason.waiting_bytes),
            millis(path.queue_delay_us),
            why(reason),
        ]);
    }
    let by = if found.bundle { "several at once" } else { "one at a time" };
    let next = |ids: &[u8]| {
        let names = found.paths.iter().filter(|reason| ids.contains(&reason.path.id)).map(name).collect::<Vec<_>>();
        if names.is_empty() { "no path: all packets would wait".to_owned() } else { names.join(", ") }
    };
    format!(
        "{table}\nchosen by {}, {by}; bulk: flows with more than one packet waiting\nif the path of sparse flows \
         failed: \
         sparse → {}; bulk → {}\n",
        found.schedule,
        next(&found.next_sparse),
        next(&found.next_bulk),
    )
}

fn name(reason: &PathReason) -> String {
    reason.path.name()
}

fn why(reason: &PathReason) -> String {
    let falls = match reason.falls {
        0 => String::new(),
        n => format!("; the path has {n} counted failures, one less after each 10 minutes without a failure"),
    };
    let left = reason
        .probation_left_ms
        .map(|ms| format!("; sparse flows avoid the path for {} more", span(Duration::from_millis(ms))));
    format!("{} ({}{falls}{})", reason.why, reason.path.cause, left.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<FlowQuestion, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        question(&words, None).map_err(|why| why.to_string())
    }

    #[test]
    fn a_flow_is_written_in_several_ways() {
        let only = asked("10.9.0.2").unwrap();
        assert_eq!((only.destination.to_string(), only.source, only.protocol), ("10.9.0.2".to_owned(), None, None));
        let whole = asked("10.9.0.1:40000 10.9.0.2:80 tcp").unwrap();
        assert_eq!((whole.source_port, whole.destination_port, whole.protocol), (Some(40_000), Some(80), Some(6)));
        let wide = asked("[fd00::2]:53 udp").unwrap();
        assert_eq!((wide.destination_port, wide.protocol, wide.source), (Some(53), Some(17), None));
        assert_eq!(asked("10.9.0.2 47").unwrap().protocol, Some(47));
    }

    #[test]
    fn text_that_names_no_flow_is_refused() {
        for wrong in ["hub", "10.9.0.1 10.9.0.2 10.9.0.3", "10.9.0.2 ftp", "10.9.0.2:99999", "10.9.0.1 fd00::1"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
