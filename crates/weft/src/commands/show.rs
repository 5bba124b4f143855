//! Views of the node's status, printed once or every second.
//!
//! The commands are `weft status`, `paths`, `flows`, `weights`, `vpns` and `sense`.
//!
//! Each view turns the same `Status` into text. Names in it come from other nodes, so they are escaped before they are
//! printed.

use super::watch::watch;
use crate::cli::Reading;
use crate::control::node_status;
use crate::outcome::{Failure, Outcome, json};
use crate::status::{
    LinkQuota, Overlay, OverlayContact, Peer, Proxy, RefusedPrefix, Relay, Status, TcpBundle, TcpEr, VpnMember,
};
use crate::table::{Table, bytes, dash, millis, percent, rate, span};
use std::time::Duration;

/// Prints the text that `view` makes of the node's status.
pub fn show(reading: &Reading, view: fn(&Status) -> String) -> Result<Outcome, Failure> {
    watch(reading.watch, !reading.json, || {
        let status = node_status(&reading.control.control)?;
        let text = if reading.json { json(&status)? } else { view(&status) };
        Ok((text, if status.is_degraded() { Outcome::Degraded } else { Outcome::Well }))
    })
}

/// Returns the text of `weft status`: the state of the node and its peers.
pub fn status(status: &Status) -> String {
    let up = span(Duration::from_secs(status.uptime_s));
    let mut text = format!(
        "weft {} on {}, up {up}, inner MTU {} B\npublic key {}\n\n",
        status.version, status.tun, status.inner_mtu, status.public_key
    );
    if status.kill_switch {
        text += "kill switch on: only the tunnel and local networks are reachable; weft down lifts it\n\n";
    }
    if let Some(ms) = status.trial_ends_in_ms {
        let left = span(Duration::from_millis(ms));
        text += &format!(
            "a changed configuration is on trial and is undone in {left}: keep it with weft confirm, or undo it now \
             with weft undo\n\n"
        );
    }
    if status.no_buffer_drops + status.socket_full_drops > 0 {
        let (buffers, sockets) = (status.no_buffer_drops, status.socket_full_drops);
        text += &format!(
            "dropped by this node: {buffers} packets because no buffer was free, {sockets} datagrams because a \
             socket's send buffer was full\n\n"
        );
    }
    if status.dropped_log_lines > 0 {
        let lines = status.dropped_log_lines;
        text += &format!(
            "log: {lines} lines were dropped, because the program that reads the node's standard error, such as \
             journald, was too slow\n\n"
        );
    }
    let mut table =
        Table::new(&["PEER", "STATE", ">SESSION", ">HEARD", ">PATHS", ">SENT", ">RECEIVED", ">RESENT", ">DROPPED"])
            .give_way(&["RESENT", "DROPPED", "HEARD", "SESSION", "RECEIVED", "SENT"], &["PEER", "STATE"]);
    for peer in &status.peers {
        let usable = peer.paths.iter().filter(|path| !path.is_down()).count();
        table.row([
            peer.name.clone(),
            peer.trouble().unwrap_or_else(|| "good".to_owned()) + by_certificate(peer),
            peer.established_s.map_or_else(dash, |s| span(Duration::from_secs(s))),
            peer.last_heard_ms.map_or_else(dash, |ms| format!("{} ago", span(Duration::from_millis(ms)))),
            format!("{usable}/{}", peer.paths.len()),
            bytes(peer.sent_bytes),
            bytes(peer.received_bytes),
            peer.repeated_units.to_string(),
            peer.queue_drops.to_string(),
        ]);
    }
    text += &table.to_string();
    text += &super::why::text(status);
    text += &not_tried(status);
    text += &tcp(status);
    text += &refused(status);
    if let Some(TcpEr { congestion, because, grants }) = &status.tcp_er {
        let because = because.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        text += &format!(
            "\nexplicit rates: TCP uses the congestion control {congestion}{because}; [tcp-er] sets a rate for \
             {grants} prefixes\n"
        );
    }
    if let Some(Relay {
        datagrams,
        bytes: passed,
        refused_datagrams: refused,
        dropped_datagrams: dropped,
        label_clashes,
    }) = &status.relay
    {
        let passed = bytes(*passed);
        text += &format!(
            "\nrelay: {datagrams} datagrams forwarded for other nodes ({passed}); {refused} refused, because the next \
             node is no reachable peer; {dropped} dropped from a link's full queue\n"
        );
        text.extend(label_clashes.iter().map(|clash| format!("{clash}\n")));
    }
    text += &status.overlay.as_ref().map_or_else(String::new, overlay);
    text += &status.proxy.as_ref().map_or_else(String::new, proxy);
    let mut links =
        Table::new(&["LINK", ">MTU", ">LIMIT", "ADDRESSES"]).give_way(&["MTU", "LIMIT"], &["LINK", "ADDRESSES"]);
    for link in &status.links {
        links.row([link.name.clone(), format!("{} B", link.mtu), rate(link.max_rate_up_bps), link.addresses.join(" ")]);
    }
    let quotas: String = status.links.iter().filter_map(|link| Some(quota(&link.name, link.quota.as_ref()?))).collect();
    text += "\n";
    text += &if links.is_empty() { "no usable link\n".to_owned() } else { links.to_string() };
    text += &quotas;
    text += &unused_links(status);
    text
}

/// Returns a line about a link's quota.
fn quota(link: &str, LinkQuota { used_bytes, limit_bytes, is_daily }: &LinkQuota) -> String {
    let period = if *is_daily { "today" } else { "this month" };
    let end = if used_bytes >= limit_bytes { ": used up" } else { "" };
    format!("\nlink {link}: {} of its quota of {} used {period}{end}\n", bytes(*used_bytes), bytes(*limit_bytes))
}

/// Returns a line for each peer with pairs of a link and an address that the node does not try.
fn not_tried(status: &Status) -> String {
    let peers = status.peers.iter().filter_map(|peer| Some((&peer.name, peer.not_tried.as_ref()?)));
    peers.map(|(name, not_tried)| format!("\npeer {name}: {}\n", not_tried.text)).collect()
}

/// Returns a line for each link that the configuration names and that is not in use.
fn unused_links(status: &Status) -> String {
    status.unused_links.iter().map(|link| format!("\nlink {} not used: {}\n", link.name, link.why)).collect()
}

/// Returns a line for each pair of a link and an address that uses TCP connections.
fn tcp(status: &Status) -> String {
    let line = |of: &TcpBundle| {
        let why = of.why.as_ref().map_or_else(|| "the peer has called".to_owned(), Clone::clone);
        let TcpBundle { link, remote, connections, dropped_datagrams, .. } = of;
        format!(
            "\n{link} → {remote} uses TCP ({why}): {connections} connections, {dropped_datagrams} datagrams dropped\n"
        )
    };
    status.tcp.iter().map(line).collect()
}

/// Returns a line for each refused prefix.
fn refused(status: &Status) -> String {
    let line = |RefusedPrefix { name, prefix, why }: &RefusedPrefix| {
        format!("\nprefix {prefix} of peer {name} is refused: {why}\n")
    };
    status.refused_prefixes.iter().map(line).collect()
}

fn by_certificate(peer: &Peer) -> &'static str {
    if peer.certified_until_unix_s.is_some() { ", by certificate" } else { "" }
}

/// Returns the state of the TCP proxy, in one line.
fn proxy(proxy: &Proxy) -> String {
    if proxy.state != "running" {
        return format!(
            "\nproxy not running: {}; new TCP connections pass without it; restarts so far: {}\n",
            proxy.state, proxy.restarts
        );
    }
    let Proxy { connections, capacity, taken, unreachable, reset, refused, .. } = proxy;
    let full = if proxy.is_open { "" } else { ", FULL: new connections are not proxied" };
    let congestion = if proxy.congestion.is_empty() { "system's congestion control" } else { &proxy.congestion };
    let early = if proxy.early_data { "" } else { ", no early data" };
    format!(
        "\nproxy {connections} of {capacity} connections{full}; {taken} accepted, {unreachable} without server, \
         {reset} reset, \
         {refused} refused; \
         {} up, {} down; {congestion}{early}\n",
        bytes(proxy.up_bytes),
        bytes(proxy.down_bytes),
    )
}

/// Returns the table of paths.
pub fn paths(status: &Status) -> String {
    let mut table = Table::new(&[
        "PEER",
        "PATH",
        "STATE",
        ">RTT",
        ">QUEUE",
        ">JITTER",
        ">LOSS",
        ">CAPACITY",
        ">SENDING",
        ">RECEIVING",
        ">SENT",
        ">RECEIVED",
        "BULK",
        "WHY",
    ])
    .give_way(
        &["SENT", "RECEIVED", "JITTER", "WHY", "QUEUE", "BULK", "CAPACITY", "PEER", "LOSS"],
        &["WHY", "PEER", "PATH"],
    );
    for (peer, path) in status.peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path))) {
        table.row([
            peer.name.clone(),
            path.name(),
            path.state.clone(),
            path.rtt_us.map_or_else(dash, millis),
            millis(path.queue_delay_us),
            millis(path.jitter_us),
            percent(path.loss),
            rate(path.capacity_bps),
            rate(path.sending_bps),
            rate(path.receiving_bps),
            bytes(path.sent_bytes),
            bytes(path.received_bytes),
            match (path.in_bundle, path.standby) {
                (true, _) => "yes".to_owned(),
                (_, true) => "standby".to_owned(),
                _ => "no".to_owned(),
            },
            path.cause.clone(),
        ]);
    }
    if table.is_empty() {
        return "no paths: no peer was reached\n".to_owned();
    }
    format!(
        "{table}\nQUEUE: delay above the base delay. CAPACITY: estimated, for sending. SENDING, RECEIVING: in the \
         last second. BULK: bulk flows \
         may use the path.\n{}",
        not_tried(status) + &tcp(status)
    )
}

/// Returns the table of recent flows.
pub fn flows(status: &Status) -> String {
    let mut table = Table::new(&["PEER", "VPN", "FLOW", ">RATE", ">UNITS", ">BYTES", ">IDLE"])
        .give_way(&["VPN", "UNITS", "PEER", "BYTES", "IDLE"], &["PEER", "FLOW"]);
    for (peer, flow) in status.peers.iter().flat_map(|peer| peer.flows.iter().map(move |flow| (peer, flow))) {
        table.row([
            peer.name.clone(),
            status.vpn_name(flow.vpn),
            flow.flow.clone(),
            rate(flow.rate_bps),
            flow.packets.to_string(),
            bytes(flow.bytes),
            span(Duration::from_millis(flow.idle_ms)),
        ]);
    }
    if table.is_empty() { "no flows\n".to_owned() } else { table.to_string() }
}

/// Returns the table of VPNs.
pub fn vpns(status: &Status) -> String {
    let headings =
        ["VPN", ">ID", ">WEIGHT", "DEVICE", "MEMBERS", ">SENT", ">RECEIVED", ">DROPPED", ">STRAYS", ">NO ROUTE"];
    let mut table = Table::new(&headings)
        .give_way(&["NO ROUTE", "STRAYS", "DROPPED", "ID", "DEVICE", "RECEIVED", "SENT"], &["MEMBERS", "VPN"]);
    for vpn in &status.vpns {
        let member = |member: &VpnMember| format!("{}{}", member.peer, if member.open { "*" } else { "" });
        table.row([
            vpn.name.clone(),
            vpn.id.to_string(),
            vpn.weight.to_string(),
            vpn.device.clone(),
            vpn.members.iter().map(member).collect::<Vec<_>>().join(" "),
            bytes(vpn.sent_bytes),
            bytes(vpn.received_bytes),
            vpn.dropped_packets.to_string(),
            vpn.strays.to_string(),
            vpn.unroutable_packets.to_string(),
        ]);
    }
    let mut loops = Table::new(&[
        "VPN",
        "TOWARD",
        ">SHARE",
        "PROMISE",
        ">QUEUE",
        ">DROPPED",
        ">RATE",
        ">WINDOW",
        ">DELIVERED",
        ">RTT",
        ">LOST",
        ">ACCUMULATED",
    ])
    .give_way(
        &["ACCUMULATED", "LOST", "WINDOW", "DROPPED", "PROMISE", "QUEUE", "DELIVERED", "RTT", "SHARE"],
        &["VPN", "TOWARD"],
    );
    let sums = status.sent_by_vpns();
    for (vpn, member) in status.vpns.iter().flat_map(|vpn| vpn.members.iter().map(move |member| (vpn, member))) {
        if vpn.id == 0 {
            continue;
        }
        let control = member.control.as_ref();
        let promise = vpn.promised_bps.map_or_else(dash, |bps| format!("{} {}", vpn.service, rate(Some(bps))));
        loops.row([
            vpn.name.clone(),
            member.peer.clone(),
            member.share_of(&sums).map_or_else(dash, percent),
            promise,
            bytes(member.queue_bytes),
            (member.dropped_full + member.dropped_aqm).to_string(),
            rate(control.map(|control| control.rate_bps)),
            control.map_or_else(dash, |control| bytes(control.window_bytes)),
            rate(control.map(|control| control.delivered_bps)),
            control.map_or_else(dash, |control| millis(control.rtt_us)),
            control.map_or_else(dash, |control| control.lost_packets.to_string()),
            control.map_or_else(dash, |control| bytes(control.accumulation_bytes)),
        ]);
    }
    let laws: String =
        status.vpns.iter().filter_map(|vpn| Some(format!("{}: {}\n", vpn.name, vpn.control.as_ref()?))).collect();
    let loops = if loops.is_empty() {
        String::new()
    } else {
        format!("\n{loops}\nSHARE: the VPN's part of the bytes that all VPNs sent to the peer.\n{laws}")
    };
    format!(
        "{table}\n*: open. STRAYS: refused, source outside the sender's prefixes. NO ROUTE: no member has a \
         prefix.\n{loops}"
    )
}

/// Returns the table of the overlay's nodes.
fn overlay(overlay: &Overlay) -> String {
    let place = overlay.id.get(..8).unwrap_or_default();
    let state = if overlay.ready { "has its place" } else { "is searching for its place" };
    let mut table = Table::new(&["NODE", "PLACE", "STATE", ">RTT", ">LOSS", "LINK"])
        .give_way(&["PLACE", "LOSS", "LINK"], &["NODE", "LINK"]);
    for member in &overlay.members {
        table.row([
            member.name.clone().unwrap_or_else(dash),
            member.id.get(..8).unwrap_or_default().to_owned(),
            member.standing.clone() + if member.leaf { ", leaf" } else { "" },
            member.rtt_us.map_or_else(dash, millis),
            percent(member.loss),
            member.link.clone() + if member.relayed { ", relayed" } else { "" },
        ]);
    }
    let troubles: String =
        overlay.contacts.iter().filter_map(OverlayContact::trouble).map(|trouble| format!("{trouble}\n")).collect();
    let members = if table.is_empty() { "no other node was reached\n".to_owned() } else { table.to_string() };
    let (owners, prefixes) = (overlay.kept_owners, overlay.kept_prefixes);
    format!(
        "\noverlay: this node, {place}, {state}; {} calls in progress; it stores {prefixes} prefixes of {owners} \
         owners\n\
         {members}{troubles}",
        overlay.calling
    )
}

/// Returns the table of measurements: paths from here, and reports of relays.
pub fn sense(status: &Status) -> String {
    let mut table =
        Table::new(&["FROM", "TO", "BY", ">RTT", ">JITTER", ">LOSS", ">CAPACITY", ">AVAILABLE", ">USED", "STATE"])
            .give_way(&["JITTER", "FROM", "USED", "AVAILABLE", "LOSS", "CAPACITY"], &["FROM", "TO", "BY"]);
    for peer in &status.peers {
        for path in &peer.paths {
            let sensed = path.sensed.as_ref().filter(|sensed| sensed.is_fresh());
            table.row([
                "here".to_owned(),
                peer.name.clone(),
                path.link.clone(),
                path.rtt_us.map_or_else(dash, millis),
                millis(path.jitter_us),
                percent(path.loss),
                rate(sensed.map_or(path.capacity_bps, |sensed| sensed.capacity_bps)),
                rate(sensed.and_then(|sensed| sensed.available_bps)),
                rate(Some(path.delivery_bps)),
                if path.standby { "standby".to_owned() } else { path.state.clone() },
            ]);
        }
    }
    for (relay, reach) in status.peers.iter().flat_map(|peer| peer.reaches.iter().map(move |reach| (peer, reach))) {
        let said = "reported".to_owned();
        let (rtt, loss) = (millis(reach.rtt_us), percent(reach.loss));
        table.row([relay.name.clone(), reach.node.clone(), dash(), rtt, dash(), loss, dash(), dash(), dash(), said]);
    }
    if table.is_empty() { "no measurements: no peer was reached\n".to_owned() } else { table.to_string() }
}

/// Returns the table of path weights.
pub fn weights(status: &Status) -> String {
    let mut table = Table::new(&["PEER", "LINK", "REMOTE", ">WEIGHT", ">CAPACITY"])
        .give_way(&["CAPACITY", "REMOTE"], &["PEER", "LINK", "REMOTE"]);
    for (peer, path) in status.peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path))) {
        let weight = path.weight.to_string();
        table.row([peer.name.clone(), path.link.clone(), path.remote.clone(), weight, rate(path.capacity_bps)]);
    }
    if table.is_empty() { "no paths\n".to_owned() } else { format!("{table}{}", unweighted(status)) }
}

/// Returns a line for each peer whose schedule ignores weights.
fn unweighted(status: &Status) -> String {
    let peers = status.peers.iter().filter(|peer| !peer.weights_count && !peer.schedule.is_empty());
    let line = |peer: &Peer| {
        format!(
            "the schedule {} toward peer {} ignores weights: to use them, set [policy] schedule = \
             \"weighted-round-robin\"\n",
            peer.schedule, peer.name
        )
    };
    peers.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape;
    use crate::hostile;
    use proptest::prelude::*;

    /// Creates a status in which `name` is the name of a member, a peer, a path and a VPN.
    ///
    /// Other nodes choose these names.
    fn told(name: &str) -> serde_json::Value {
        let path = serde_json::json!({
            "id": 0, "link": name, "remote": name, "state": name, "cause": name, "in_bundle": true, "rtt_us": 1,
            "rtt_min_us": 1, "queue_delay_us": 0, "skew_us": 0, "jitter_us": 0, "loss": 0.0, "capacity_bps": 1, "pacing_bps": 1,
            "mode": name, "delivery_bps": 1, "weight": 1, "mtu": 1_400, "sent_datagrams": 0, "sent_bytes": 0,
            "received_datagrams": 0, "received_bytes": 0, "lost_datagrams": 0, "remote_link": name,
        });
        let flow = serde_json::json!({ "id": 1, "vpn": 7, "flow": name, "packets": 1, "bytes": 1, "idle_ms": 1 });
        let peer = serde_json::json!({
            "name": name, "public_key": name, "established_s": 1, "last_heard_ms": 1, "received_packets": 0,
            "received_bytes": 0, "sent_units": 0, "sent_bytes": 0, "repeated_units": 0, "abandoned_units": 0,
            "queue_drops": 0, "replaced_acks": 0, "queue_bytes": 0, "unserved_datagrams": 0, "duplicate_units": 0, "broken_parts": 0,
            "held_units": 0, "hold_us": 0, "schedule": name, "paths": [path], "flows": [flow],
            "not_tried": { "pairs": 2, "not_tried": 1, "at_once": 1, "links_without_path": [name], "text": name },
            "reaches": [{ "node": name, "rtt_us": 1, "loss": 0.0 }],
        });
        let member = serde_json::json!({
            "id": name, "name": name, "standing": name, "leaf": false, "link": name, "rtt_us": 1, "loss": 0.0,
            "relayed": false,
        });
        let contact = serde_json::json!({ "public_key": name, "endpoints": [name], "name": null, "why_not": name });
        serde_json::json!({
            "schema": 1, "version": "0", "public_key": name, "tun": name, "uptime_s": 1, "inner_mtu": 1_400,
            "links": [{ "name": name, "index": 1, "mtu": 1_500, "addresses": [name] }], "peers": [peer], "vpns": [],
            "tcp_er": { "congestion": name, "because": name, "grants": 0 },
            "proxy": { "state": name, "pid": 1, "restarts": 0, "early_data": true, "congestion": name, "connections": 0,
                "capacity": 0, "is_open": true, "taken": 0, "unreachable": 0, "reset": 0, "ended": 0, "up_bytes": 0,
                "down_bytes": 0, "pipes": 0 },
            "overlay": { "id": name, "ready": true, "members": [member], "calling": 0, "losses": 0, "contacts": [contact],
                "kept_owners": 0, "kept_prefixes": 0 },
            "rejected_datagrams": 0, "unroutable_packets": 0, "buffers_in_use": 0, "buffers_peak": 0,
            "no_buffer_drops": 0, "socket_full_drops": 0,
        })
    }

    proptest! {
        #[test]
        fn a_name_acts_on_no_terminal_and_adds_no_line(name in hostile::name()) {
            let plain: Status = serde_json::from_value(told("x")).unwrap();
            let mut value = told(&name);
            escape::strings(&mut value);
            let escaped: Status = serde_json::from_value(value).unwrap();
            for view in [status, paths, flows, vpns, sense, weights, crate::commands::top::all] {
                let text = view(&escaped);
                prop_assert!(hostile::acting(&text).is_none(), "{text:?}");
                prop_assert_eq!(text.lines().count(), view(&plain).lines().count(), "{:?}", text);
            }
            let unescaped: Status = serde_json::from_value(told(&name)).unwrap();
            let text = json(&unescaped).unwrap();
            prop_assert!(hostile::acting(&text).is_none() && text.lines().count() == 1, "{text:?}");
            prop_assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), unescaped);
        }
    }
}
