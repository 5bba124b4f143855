//! The metrics of the node, its peers, paths, links and VPNs.
//!
//! They follow Prometheus's conventions: seconds and bytes, and counters in `_total`.

use super::text::{Exposition, Family, MetricKind, MetricLabels};
use crate::status::{Path, Peer, Status, Vpn, VpnLoop, VpnMember};

/// States of a path, as values of the label `state`.
const STATES: [&str; 5] = ["opening", "good", "degraded", "suspect", "down"];

const fn gauge<T>(name: &'static str, help: &'static str, value: fn(&T) -> Option<f64>) -> Family<T> {
    Family { kind: MetricKind::Gauge, name, help, value }
}

const fn counter<T>(name: &'static str, help: &'static str, value: fn(&T) -> Option<f64>) -> Family<T> {
    Family { kind: MetricKind::Counter, name, help, value }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn bytes_per_second(bps: u64) -> f64 {
    bps as f64 / 8.0
}

fn flag(is_so: bool) -> Option<f64> {
    Some(f64::from(u8::from(is_so)))
}

fn number(value: u64) -> Option<f64> {
    Some(value as f64)
}

/// Metrics of the node, without labels.
const NODE: &[Family<Status>] = &[
    gauge("weft_uptime_seconds", "Time since the node started.", |n| number(n.uptime_s)),
    gauge("weft_inner_mtu_bytes", "MTU inside the tunnel.", |n| number(n.inner_mtu.into())),
    counter("weft_rejected_datagrams_total", "Datagrams dropped before authentication.", |n| {
        number(n.rejected_datagrams)
    }),
    counter("weft_unroutable_packets_total", "Packets for which no peer has a prefix.", |n| {
        number(n.unroutable_packets)
    }),
    gauge("weft_buffers", "Packet buffers in use.", |n| number(n.buffers_in_use as u64)),
    gauge("weft_buffers_peak", "Maximum number of packet buffers in use since the start.", |n| {
        number(n.buffers_peak as u64)
    }),
    counter("weft_relayed_datagrams_total", "Datagrams forwarded between other nodes.", |n| {
        number(n.relay.as_ref()?.datagrams)
    }),
    counter("weft_relayed_bytes_total", "Bytes forwarded between other nodes, without IP and UDP headers.", |n| {
        number(n.relay.as_ref()?.bytes)
    }),
    counter(
        "weft_relay_refused_datagrams_total",
        "Datagrams for other nodes that this node refused to forward.",
        |n| number(n.relay.as_ref()?.refused_datagrams),
    ),
    counter(
        "weft_relay_dropped_datagrams_total",
        "Datagrams for other nodes dropped in the queue of a rate-limited link.",
        |n| number(n.relay.as_ref()?.dropped_datagrams),
    ),
    gauge("weft_relay_label_clashes", "Peers that are not relayed because another peer has their relay label.", |n| {
        number(n.relay.as_ref()?.label_clashes.len() as u64)
    }),
    gauge("weft_overlay_ready", "Whether this node has found its place in the overlay.", |n| {
        flag(n.overlay.as_ref()?.ready)
    }),
    gauge("weft_overlay_members", "Nodes of the overlay that this node uses.", |n| {
        Some(n.overlay.as_ref()?.members.iter().filter(|member| member.standing == "member").count() as f64)
    }),
    gauge("weft_overlay_calling", "Nodes called that have not answered yet.", |n| {
        number(n.overlay.as_ref()?.calling as u64)
    }),
    counter("weft_overlay_losses_total", "Nodes of the overlay that stopped answering.", |n| {
        number(n.overlay.as_ref()?.losses)
    }),
    gauge("weft_proxy_connections", "Open connections of the proxy.", |n| number(n.proxy.as_ref()?.connections)),
    counter("weft_proxy_taken_connections_total", "Connections that the proxy accepted.", |n| {
        number(n.proxy.as_ref()?.taken)
    }),
    counter(
        "weft_proxy_refused_connections_total",
        "Connections that the proxy refused because a rule denies them.",
        |n| number(n.proxy.as_ref()?.refused),
    ),
    counter(
        "weft_allow_denied_packets_total",
        "Packets of peers dropped because no [[allow]] table lets them in, with fragments.",
        |n| n.allow.as_ref().and_then(|of| number(of.denied_packets + of.denied_fragments + of.hidden_ports)),
    ),
    gauge("weft_flow_export_reachable", "Whether the collector of flow records takes messages.", |n| {
        flag(n.flow_export.as_ref()?.is_reachable)
    }),
    counter("weft_flow_export_sent_records_total", "Flow records sent to the collector.", |n| {
        number(n.flow_export.as_ref()?.sent_records)
    }),
    gauge("weft_flow_export_waiting_records", "Flow records that wait, or may still be refused.", |n| {
        number(n.flow_export.as_ref()?.waiting_records)
    }),
    counter("weft_flow_export_not_sent_records_total", "Flow records dropped: too many waited.", |n| {
        number(n.flow_export.as_ref()?.not_sent_records)
    }),
    counter("weft_no_buffer_drops_total", "Packets and datagrams dropped because no buffer was free.", |n| {
        number(n.no_buffer_drops)
    }),
    counter(
        "weft_socket_full_drops_total",
        "Datagrams that the kernel did not accept: a socket buffer was full.",
        |n| number(n.socket_full_drops),
    ),
    gauge("weft_tcp_connections", "TCP connections that carry datagrams.", |n| {
        number(n.tcp.iter().map(|of| of.connections as u64).sum())
    }),
    counter(
        "weft_tcp_dropped_datagrams_total",
        "Datagrams dropped because no TCP connection in use now could send them in time.",
        |n| number(n.tcp.iter().map(|of| of.dropped_datagrams).sum()),
    ),
    counter("weft_log_dropped_lines_total", "Log lines dropped: the log was not read in time.", |n| {
        number(n.dropped_log_lines)
    }),
    gauge("weft_longest_turn_seconds", "Longest turn of the packet loop since the start.", |n| {
        Some(seconds(n.longest_turn_us))
    }),
    counter("weft_long_turns_total", "Turns of the packet loop that took more than 50 ms.", |n| number(n.long_turns)),
];

/// Metrics of each peer.
const PEER: &[Family<Peer>] = &[
    gauge("weft_peer_up", "Whether a session is established.", |p| flag(p.established_s.is_some())),
    gauge("weft_peer_session_age_seconds", "Age of the session.", |p| number(p.established_s?)),
    gauge("weft_peer_last_heard_seconds", "Time since the last authentic datagram arrived.", |p| {
        Some(p.last_heard_ms? as f64 / 1e3)
    }),
    gauge(
        "weft_peer_links_without_path",
        "Links without a path to the peer because the limit of paths is reached.",
        |p| number(p.not_tried.as_ref().map_or(0, |pairs| pairs.links_without_path.len() as u64)),
    ),
    counter("weft_peer_refused_datagrams_total", "Datagrams dropped: the peer opened more paths than it may.", |p| {
        number(p.not_tried.as_ref().map_or(0, |pairs| pairs.refused_datagrams))
    }),
    counter("weft_peer_received_packets_total", "Packets delivered to TUN devices.", |p| number(p.received_packets)),
    counter("weft_peer_received_bytes_total", "IP bytes delivered to TUN devices.", |p| number(p.received_bytes)),
    counter("weft_peer_sent_units_total", "Units sent for the first time.", |p| number(p.sent_units)),
    counter("weft_peer_sent_bytes_total", "Bytes of units sent for the first time.", |p| number(p.sent_bytes)),
    counter("weft_peer_repeated_units_total", "Units retransmitted.", |p| number(p.repeated_units)),
    counter("weft_peer_abandoned_units_total", "Units given up.", |p| number(p.abandoned_units)),
    counter("weft_peer_queue_drops_total", "Packets dropped by queues toward the peer.", |p| number(p.queue_drops)),
    counter(
        "weft_peer_replaced_acks_total",
        "TCP acknowledgments that a newer one replaced in queues toward the peer.",
        |p| number(p.replaced_acks),
    ),
    gauge("weft_peer_queue_bytes", "Bytes that wait for a path.", |p| number(p.queue_bytes)),
    counter(
        "weft_peer_unserved_datagrams_total",
        "Datagrams dropped because the node was overloaded and the peer had used its share.",
        |p| number(p.unserved_datagrams),
    ),
    counter("weft_peer_duplicate_units_total", "Duplicate units received.", |p| number(p.duplicate_units)),
    counter("weft_peer_broken_parts_total", "Parts that could not be joined to a unit.", |p| number(p.broken_parts)),
    gauge("weft_peer_held_units", "Units that wait in the resequencer.", |p| number(p.held_units as u64)),
    gauge("weft_peer_hold_seconds", "Maximum time for which the resequencer waits for a missing unit.", |p| {
        Some(seconds(p.hold_us))
    }),
];

/// Metrics of each path.
const PATH: &[Family<Path>] = &[
    gauge("weft_path_in_bundle", "Whether bulk may use the path now.", |p| flag(p.in_bundle)),
    gauge("weft_path_rtt_seconds", "Smoothed round-trip time.", |p| Some(seconds(p.rtt_us?))),
    gauge("weft_path_rtt_min_seconds", "Least round-trip time.", |p| Some(seconds(p.rtt_min_us?))),
    gauge("weft_path_queue_delay_seconds", "One-way delay above the base delay.", |p| Some(seconds(p.queue_delay_us))),
    gauge("weft_path_skew_seconds", "One-way delay above that of the fastest path.", |p| Some(seconds(p.skew_us))),
    gauge("weft_path_jitter_seconds", "Jitter of the one-way delay.", |p| Some(seconds(p.jitter_us))),
    gauge("weft_path_loss_ratio", "Share of the datagrams lost.", |p| Some(p.loss)),
    gauge("weft_path_capacity_bytes_per_second", "Estimated capacity.", |p| Some(bytes_per_second(p.capacity_bps?))),
    gauge("weft_path_pacing_bytes_per_second", "Pacing rate.", |p| Some(bytes_per_second(p.pacing_bps))),
    gauge("weft_path_delivery_bytes_per_second", "Latest delivery rate.", |p| Some(bytes_per_second(p.delivery_bps))),
    gauge("weft_path_available_bytes_per_second", "Capacity of an idle path that other traffic leaves free.", |p| {
        let sensed = p.sensed.as_ref().filter(|sensed| sensed.is_fresh())?;
        Some(bytes_per_second(sensed.available_bps?))
    }),
    gauge("weft_path_weight", "Weight of the path for weighted schedulers.", |p| number(p.weight.into())),
    gauge("weft_path_mtu_bytes", "Path MTU.", |p| number(p.mtu.into())),
    counter("weft_path_sent_datagrams_total", "Datagrams sent.", |p| number(p.sent_datagrams)),
    counter("weft_path_sent_bytes_total", "IP bytes sent.", |p| number(p.sent_bytes)),
    counter("weft_path_received_datagrams_total", "Datagrams received.", |p| number(p.received_datagrams)),
    counter("weft_path_received_bytes_total", "IP bytes received.", |p| number(p.received_bytes)),
    counter("weft_path_lost_datagrams_total", "Datagrams lost.", |p| number(p.lost_datagrams)),
];

/// Metrics of each VPN.
const VPN: &[Family<Vpn>] = &[
    gauge("weft_vpn_weight", "Weight of the VPN relative to other VPNs.", |v| number(v.weight.into())),
    gauge("weft_vpn_promised_bytes_per_second", "Promised rate of the VPN.", |v| {
        Some(bytes_per_second(v.promised_bps?))
    }),
    counter("weft_vpn_sent_packets_total", "Units sent for the first time.", |v| number(v.sent_packets)),
    counter("weft_vpn_sent_bytes_total", "Bytes of units sent for the first time.", |v| number(v.sent_bytes)),
    counter("weft_vpn_received_packets_total", "Packets delivered to the TUN device.", |v| number(v.received_packets)),
    counter("weft_vpn_received_bytes_total", "IP bytes delivered to the TUN device.", |v| number(v.received_bytes)),
    counter("weft_vpn_dropped_packets_total", "Packets dropped before they were sent.", |v| number(v.dropped_packets)),
    counter(
        "weft_vpn_strays_total",
        "Units refused: source outside the sender's prefixes, or sender not a member.",
        |v| number(v.strays),
    ),
    counter("weft_vpn_unroutable_packets_total", "Packets for which no member has a prefix.", |v| {
        number(v.unroutable_packets)
    }),
];

/// Metrics of each member of a VPN.
const MEMBER: &[Family<VpnMember>] = &[
    gauge("weft_vpn_open", "Whether packets can be sent to the member now.", |m| flag(m.open)),
    gauge("weft_vpn_queue_packets", "Packets that wait in the VPN's queue.", |m| number(m.queue_packets as u64)),
    gauge("weft_vpn_queue_bytes", "Bytes that wait in the VPN's queue.", |m| number(m.queue_bytes)),
    counter("weft_vpn_queue_sent_packets_total", "Packets that left the queue.", |m| number(m.sent_packets)),
    counter("weft_vpn_queue_sent_bytes_total", "Bytes that left the queue.", |m| number(m.sent_bytes)),
    counter("weft_vpn_queue_full_drops_total", "Packets dropped because the queue was full.", |m| {
        number(m.dropped_full)
    }),
    counter("weft_vpn_queue_aqm_drops_total", "Packets dropped by the AQM.", |m| number(m.dropped_aqm)),
    counter("weft_vpn_queue_marked_packets_total", "Packets marked by the AQM.", |m| number(m.marked)),
];

/// Metrics of each loop.
const LOOP: &[Family<VpnLoop>] = &[
    gauge("weft_vpn_loop_rate_bytes_per_second", "Rate of the loop.", |l| Some(bytes_per_second(l.rate_bps))),
    gauge("weft_vpn_loop_window_bytes", "Window of the loop, or its rate times the round-trip time.", |l| {
        number(l.window_bytes)
    }),
    gauge("weft_vpn_loop_delivered_bytes_per_second", "Latest delivery rate of the loop.", |l| {
        Some(bytes_per_second(l.delivered_bps))
    }),
    gauge("weft_vpn_loop_rtt_seconds", "Smoothed round-trip time between the edges.", |l| Some(seconds(l.rtt_us))),
    gauge("weft_vpn_loop_loss_event_ratio", "Loss events per packet.", |l| l.loss_event_rate),
    counter("weft_vpn_loop_lost_packets_total", "Packets lost for good; wraps at 2^32.", |l| {
        number(l.lost_packets.into())
    }),
    gauge("weft_vpn_loop_in_flight_bytes", "Bytes sent that are neither received nor lost.", |l| {
        number(l.in_flight_bytes.into())
    }),
    gauge("weft_vpn_loop_accumulation_bytes", "Bytes in queues between the edges.", |l| number(l.accumulation_bytes)),
];

/// Returns all metrics as text.
pub fn write(status: &Status) -> String {
    let mut out = Exposition::default();
    let version = vec![("version", status.version.as_str())];
    out.family(MetricKind::Gauge, "weft_build_info", "Version of the program.", [(version, 1.0)].into_iter());
    out.add(NODE, std::iter::once((MetricLabels::new(), status)));
    let links = status.links.iter().map(|link| (vec![("link", link.name.as_str())], f64::from(link.mtu)));
    out.family(MetricKind::Gauge, "weft_link_mtu_bytes", "MTU of a link in use.", links);
    out.add(PEER, status.peers.iter().map(|peer| (vec![("peer", peer.name.as_str())], peer)));
    paths(&mut out, status);
    vpns(&mut out, status);
    out.into_text()
}

fn paths(out: &mut Exposition, status: &Status) {
    let ids: Vec<String> = (0..=u8::MAX).map(|id| id.to_string()).collect();
    let paths: Vec<(MetricLabels<'_>, &Path)> = status
        .peers
        .iter()
        .flat_map(|peer| peer.paths.iter().map(|path| (peer.name.as_str(), path)))
        .map(|(peer, path)| {
            let id = ids[usize::from(path.id)].as_str();
            (vec![("peer", peer), ("path", id), ("link", path.link.as_str()), ("remote", path.remote.as_str())], path)
        })
        .collect();
    let states = paths.iter().flat_map(|(labels, path)| {
        STATES.map(|state| {
            let labels = labels.iter().copied().chain([("state", state)]).collect();
            (labels, f64::from(u8::from(path.state == state)))
        })
    });
    out.family(MetricKind::Gauge, "weft_path_state", "1 for the current state of the path.", states);
    out.add(PATH, paths.iter().map(|(labels, path)| (labels.clone(), *path)));
}

fn vpns(out: &mut Exposition, status: &Status) {
    let ids: Vec<String> = status.vpns.iter().map(|vpn| vpn.id.to_string()).collect();
    let vpns = || {
        let named = status.vpns.iter().zip(&ids);
        named.map(|(vpn, id)| (vec![("vpn", vpn.name.as_str()), ("id", id.as_str())], vpn))
    };
    out.add(VPN, vpns());
    let members: Vec<(MetricLabels<'_>, &VpnMember)> = vpns()
        .flat_map(|(labels, vpn)| {
            let labels_of = move |member| labels.iter().copied().chain([("peer", member)]).collect();
            vpn.members.iter().map(move |member| (labels_of(member.peer.as_str()), member))
        })
        .collect();
    let sums = status.sent_by_vpns();
    let shares = members.iter().filter_map(|(labels, member)| Some((labels.clone(), member.share_of(&sums)?)));
    out.family(
        MetricKind::Gauge,
        "weft_vpn_share_ratio",
        "The VPN's share of the bytes that all VPNs have sent to the member.",
        shares,
    );
    out.add(MEMBER, members.iter().map(|(labels, member)| (labels.clone(), *member)));
    out.add(LOOP, members.iter().filter_map(|(labels, member)| Some((labels.clone(), member.control.as_ref()?))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<(MetricKind, &'static str)> {
        fn of<T>(families: &[Family<T>]) -> impl Iterator<Item = (MetricKind, &'static str)> {
            families.iter().map(|family| (family.kind, family.name))
        }
        of(NODE).chain(of(PEER)).chain(of(PATH)).chain(of(VPN)).chain(of(MEMBER)).chain(of(LOOP)).collect()
    }

    #[test]
    fn names_differ_and_follow_the_rules() {
        let mut names = names();
        for (kind, name) in &names {
            assert!(name.starts_with("weft_") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert_eq!(*kind == MetricKind::Counter, name.ends_with("_total"), "{name}");
        }
        names.sort_unstable_by_key(|(_, name)| *name);
        assert!(names.windows(2).all(|pair| pair[0].1 != pair[1].1), "{names:?}");
    }

    #[test]
    fn rates_are_bytes_a_second_and_absent_values_are_left_out() {
        let member = VpnMember {
            peer: "hub".to_owned(),
            open: true,
            queue_packets: 2,
            queue_bytes: 3_000,
            sent_packets: 5,
            sent_bytes: 700,
            dropped_full: 0,
            dropped_aqm: 0,
            marked: 0,
            control: Some(VpnLoop {
                rate_bps: 8_000_000,
                window_bytes: 9,
                delivered_bps: 0,
                rtt_us: 1_500,
                loss_event_rate: None,
                lost_packets: 0,
                in_flight_bytes: 0,
                accumulation_bytes: 0,
            }),
        };
        let vpn = |id, name: &str, members| Vpn {
            id,
            name: name.to_owned(),
            weight: 1,
            service: "best-effort".to_owned(),
            promised_bps: None,
            control: None,
            device: String::new(),
            members,
            sent_packets: 0,
            sent_bytes: 0,
            received_packets: 0,
            received_bytes: 0,
            dropped_packets: 0,
            strays: 0,
            unroutable_packets: 0,
        };
        let status = Status {
            schema: 1,
            version: "0".to_owned(),
            public_key: String::new(),
            tun: String::new(),
            uptime_s: 1,
            kill_switch: false,
            trial_ends_in_ms: None,
            inner_mtu: 1_440,
            unused_links: Vec::new(),
            tcp: Vec::new(),
            links: Vec::new(),
            peers: Vec::new(),
            // A VPN may have the name that stands for the default VPN.
            vpns: vec![vpn(0, "default", Vec::new()), vpn(7, "default", vec![member])],
            signal: None,
            tcp_er: None,
            proxy: None,
            refused_prefixes: Vec::new(),
            strangers: Vec::new(),
            rejected_datagrams: 0,
            unroutable_packets: 0,
            buffers_in_use: 0,
            buffers_peak: 0,
            relay: None,
            overlay: None,
            allow: None,
            flow_export: None,
            no_buffer_drops: 0,
            socket_full_drops: 0,
            dropped_log_lines: 0,
            longest_turn_us: 0,
            long_turns: 0,
        };
        let text = write(&status);
        let of = "{vpn=\"default\",id=\"7\",peer=\"hub\"}";
        for line in [
            format!("weft_vpn_loop_rate_bytes_per_second{of} 1000000"),
            format!("weft_vpn_loop_rtt_seconds{of} 0.0015"),
            format!("weft_vpn_queue_bytes{of} 3000"),
            format!("weft_vpn_share_ratio{of} 1"),
            "weft_vpn_weight{vpn=\"default\",id=\"0\"} 1".to_owned(),
            "weft_build_info{version=\"0\"} 1".to_owned(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("loss_event") && !text.contains("promised") && !text.contains("weft_peer"), "{text}");
    }
}
