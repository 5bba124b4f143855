//! Conversion of the engine's snapshots into the status types.

use crate::config;
use crate::daemon::machine::device::Device;
use crate::daemon::shown::live;
use crate::status::{Flow, NotTried, Path, Peer, Reach, Relay, Sensed, TcpEr, Vpn, VpnLoop, VpnMember};
use std::net::SocketAddr;
use std::time::Duration;
use weft_core::control_loop::LoopConfig;
use weft_core::service::Service;
use weft_engine::{
    AddressPairs, FlowSnapshot, MemberSnapshot, PathSnapshot, PeerSnapshot, ReachSnapshot, RelayTotals, VpnSnapshot,
    VpnTotals,
};
use weft_tcp_er::congestion::CongestionChoice;
use weft_units::VpnId;

/// Converts the choice of congestion control for sockets with an explicit rate.
pub fn tcp_er(choice: &CongestionChoice, config: Option<&config::TcpEr>) -> TcpEr {
    TcpEr {
        congestion: choice.available.name().unwrap_or("plain").to_owned(),
        because: Some(choice.because.clone()).filter(|why| !why.is_empty()),
        grants: config.map_or(0, |config| config.grants.len()),
    }
}

/// Returns the duration in microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the duration in milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Converts the counters of relayed datagrams.
///
/// `clashes` are pairs of peers that relays cannot distinguish: the first bits of their keys' hashes are equal.
pub fn relay<'a>(totals: RelayTotals, clashes: impl Iterator<Item = (&'a str, &'a str)>) -> Relay {
    let RelayTotals { datagrams, bytes, refused_datagrams, dropped_datagrams } = totals;
    let label_clashes = clashes.map(|(peer, owner)| label_clash(peer, owner)).collect();
    Relay { datagrams, bytes, refused_datagrams, dropped_datagrams, label_clashes }
}

/// Returns the message about two peers with the same relay label: the first bits of a key's hash, which relays read.
pub fn label_clash(peer: &str, owner: &str) -> String {
    format!(
        "peer {peer} gets no relayed data, because relays cannot distinguish its key from that of peer {owner}: make a \
         new key for peer {peer}: weft keygen"
    )
}

/// Converts the engine's snapshot of a peer to the status of the peer.
pub fn peer(peer: &PeerSnapshot) -> Peer {
    Peer {
        name: peer.name.clone(),
        public_key: peer.public_key.clone(),
        certified_until_unix_s: peer.certified_until_unix_s,
        established_s: peer.established_for.map(|time| time.as_secs()),
        without_session_s: None,
        findings: crate::why::of_paths(&peer.paths),
        tried: Vec::new(),
        last_heard_ms: peer.last_heard.map(millis),
        received_packets: peer.received_packets,
        received_bytes: peer.received_bytes,
        sent_units: peer.sent_units,
        sent_bytes: peer.sent_bytes,
        repeated_units: peer.repeated_units,
        abandoned_units: peer.abandoned_units,
        queue_drops: peer.queue_drops,
        replaced_acks: peer.replaced_acks,
        queue_bytes: peer.queue_bytes,
        unserved_datagrams: peer.unserved_datagrams,
        duplicate_units: peer.duplicate_units,
        broken_parts: peer.broken_parts,
        held_units: peer.held_units,
        hold_us: micros(peer.hold),
        schedule: live::schedule_name(peer.schedule).to_owned(),
        weights_count: peer.schedule.uses_weights(),
        paths: peer.paths.iter().map(path).collect(),
        not_tried: Some(&peer.address_pairs).filter(|pairs| !pairs.is_complete()).map(not_tried),
        flows: peer.flows.iter().map(flow).collect(),
        reaches: peer.reaches.iter().map(reach).collect(),
    }
}

fn not_tried(pairs: &AddressPairs) -> NotTried {
    NotTried {
        pairs: pairs.all,
        not_tried: pairs.not_tried,
        at_once: pairs.at_once,
        links_without_path: pairs.links_without_path.clone(),
        refused_datagrams: pairs.refused_datagrams,
        text: pairs.to_string(),
    }
}

fn reach(reach: &ReachSnapshot) -> Reach {
    let node = reach.name.clone().unwrap_or_else(|| format!("{:08x}", reach.node));
    Reach { node, rtt_us: micros(reach.rtt), loss: reach.loss }
}

/// Converts the engine's snapshot of a VPN to the status of the VPN.
pub fn vpn(vpn: &VpnSnapshot, device: Option<&Device>) -> Vpn {
    let VpnTotals { sent_packets, sent_bytes, received_packets, received_bytes, .. } = vpn.totals;
    let VpnTotals { dropped_packets, strays, unroutable_packets, .. } = vpn.totals;
    let members = vpn.members.iter();
    Vpn {
        id: vpn.id.0,
        name: if vpn.id == VpnId::DEFAULT { "default".to_owned() } else { vpn.name.clone() },
        weight: vpn.weight,
        device: device.map_or_else(String::new, |device| device.tun().name().to_owned()),
        service: service_name(vpn.service).to_owned(),
        promised_bps: Some(vpn.service.rate().bps()).filter(|bps| *bps > 0),
        control: vpn.control.as_ref().map(LoopConfig::to_string),
        members: members.map(vpn_member).collect(),
        sent_packets,
        sent_bytes,
        received_packets,
        received_bytes,
        dropped_packets,
        strays,
        unroutable_packets,
    }
}

fn service_name(service: Service) -> &'static str {
    match service {
        Service::BestEffort => "best-effort",
        Service::Assured { .. } => "assured",
        Service::LeasedLine { .. } => "leased",
    }
}

/// Converts the engine's snapshot of a VPN's member to the status of the member.
pub fn vpn_member(member: &MemberSnapshot) -> VpnMember {
    let entry = member.entry.as_ref();
    VpnMember {
        peer: member.peer.clone(),
        open: member.is_open,
        queue_packets: entry.map_or(0, |entry| entry.queued_packets),
        queue_bytes: entry.map_or(0, |entry| entry.queued_bytes),
        sent_packets: entry.map_or(0, |entry| entry.sent_packets),
        sent_bytes: entry.map_or(0, |entry| entry.sent_bytes),
        dropped_full: entry.map_or(0, |entry| entry.counters.dropped_full + entry.counters.dropped_stale),
        dropped_aqm: entry.map_or(0, |entry| entry.counters.dropped_aqm),
        marked: entry.map_or(0, |entry| entry.counters.marked),
        control: entry.and_then(|entry| entry.control).map(|control| VpnLoop {
            rate_bps: control.rate.bps(),
            window_bytes: control.window_bytes,
            delivered_bps: control.delivered.bps(),
            rtt_us: micros(control.rtt),
            loss_event_rate: control.loss_event_rate,
            lost_packets: control.lost_packets,
            in_flight_bytes: control.in_flight_bytes,
            accumulation_bytes: control.accumulation_bytes,
        }),
    }
}

/// Returns the remote end of a path as text: an address, or the number of relays.
pub fn remote(address: &SocketAddr) -> String {
    match weft_engine::relays_to(address) {
        None => address.to_string(),
        Some(1) => "1 relay".to_owned(),
        Some(relays) => format!("{relays} relays"),
    }
}

/// Converts the engine's snapshot of a path to the status of the path.
pub fn path(path: &PathSnapshot) -> Path {
    Path {
        id: path.id.0,
        link: path.link_name.clone(),
        remote: remote(&path.remote),
        remote_link: path.remote_link.clone(),
        state: path.state.to_string(),
        cause: path.cause.to_owned(),
        in_bundle: path.in_bundle,
        standby: path.standby,
        rtt_us: path.rtt.map(micros),
        rtt_min_us: path.rtt_min.map(micros),
        queue_delay_us: micros(path.queue_delay),
        skew_us: micros(path.skew),
        jitter_us: micros(path.jitter),
        loss: path.loss,
        capacity_bps: path.capacity.map(|rate| rate.bps()),
        pacing_bps: path.pacing.bps(),
        mode: path.mode.to_owned(),
        delivery_bps: path.delivery.bps(),
        sensed: path.sensed.as_ref().map(|sensed| Sensed {
            age_ms: millis(sensed.age),
            capacity_bps: sensed.capacity.map(|rate| rate.bps()),
            available_bps: sensed.available.map(|rate| rate.bps()),
            loss: sensed.loss,
            queue_us: sensed.queue.map(micros),
        }),
        weight: path.weight,
        mtu: path.mtu,
        sent_datagrams: path.sent_datagrams,
        sent_bytes: path.sent_bytes,
        received_datagrams: path.received_datagrams,
        received_bytes: path.received_bytes,
        sending_bps: None,
        receiving_bps: None,
        lost_datagrams: path.lost_datagrams,
    }
}

fn flow(flow: &FlowSnapshot) -> Flow {
    Flow {
        id: flow.id.0,
        vpn: flow.vpn.0,
        flow: flow.key.clone(),
        packets: flow.packets,
        bytes: flow.bytes,
        rate_bps: None,
        idle_ms: millis(flow.idle),
    }
}
