//! Clients that are not nodes: those of WireGuard and OpenVPN.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};

/// VPN program of a client.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClientProgram {
    /// WireGuard, which the node terminates itself.
    Wireguard,
    /// OpenVPN, which a separate server process terminates.
    Openvpn,
}

/// Counters of the clients' packets and handshakes that the edge has rejected since the start.
///
/// The edge sends no answer to a rejected packet or handshake.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClientRefusals {
    /// Packets whose source address was not their client's.
    pub strays: u64,
    /// Handshakes for another edge's key, or for an earlier key of this edge.
    pub for_another_edge: u64,
    /// Handshakes with a key that belongs to no client of this edge, for example because the client was removed.
    pub from_no_client: u64,
    /// Source of the last rejected handshake.
    pub last_from: Option<SocketAddr>,
}

/// A client of this edge.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AccessClient {
    /// Name of the client, for readers of output.
    pub name: String,
    /// Address of the client in the edge's address pool.
    pub address: Ipv4Addr,
    /// VPN program of the client.
    pub with: ClientProgram,
    /// WireGuard public key in base64, or common name in the OpenVPN certificate.
    pub key: String,
    /// Seconds since the last handshake, or since an OpenVPN client connected; absent: the client is not connected.
    pub handshake_s_ago: Option<u64>,
    /// Address and port of the client; absent: unknown.
    pub remote: Option<SocketAddr>,
    /// Bytes in packets received from the client.
    pub received_bytes: u64,
    /// Bytes in packets sent to the client.
    pub sent_bytes: u64,
}

impl AccessClient {
    /// Creates the entry of an admitted client that is not connected.
    pub fn absent(name: String, address: Ipv4Addr, with: ClientProgram, key: String) -> AccessClient {
        AccessClient { name, address, with, key, handshake_s_ago: None, remote: None, received_bytes: 0, sent_bytes: 0 }
    }
}
