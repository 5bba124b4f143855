//! Answers about the node's sockets and devices, for a capture of its traffic.

use super::*;
use crate::daemon::links::Active;
use crate::daemon::machine::kill_switch::TUNNEL_MARK;
use crate::status::{LinkSockets, Sockets, TunDevice};
use std::net::SocketAddr;
use weft_engine::relays_to;

impl DaemonNode {
    /// Returns the sockets and devices, and the remote addresses of a peer if one is named.
    pub(super) fn sockets(&self, peer: Option<&str>) -> Response {
        let remotes = match peer.map(|name| self.remotes(name)).transpose() {
            Ok(remotes) => remotes,
            Err(why) => return why,
        };
        Response::Sockets(Box::new(Sockets {
            schema: status::SCHEMA,
            links: self.links.active().iter().map(|active| self.link_sockets(active, peer)).collect(),
            tcp_port: self.config.tcp.as_ref().filter(|_| self.carriers.accepts()).map(|door| door.port),
            tcp_mark: TUNNEL_MARK,
            devices: self.tun_devices(),
            remotes,
        }))
    }

    /// Returns the known addresses of a peer: configured ones, and those of its paths except through relays.
    fn remotes(&self, peer: &str) -> Result<Vec<SocketAddr>, Response> {
        let Some(known) = self.engine.peer_snapshot(self.clock.now(), peer) else {
            return Err(Response::Refused { why: config::unknown_name("peer", peer, self.engine.peer_names()) });
        };
        let configured = self.config.peers.iter().filter(|of| of.name.value == peer);
        let paths = known.paths.iter().map(|path| path.remote).filter(|remote| relays_to(remote).is_none());
        let all: BTreeSet<SocketAddr> = configured.flat_map(|of| of.endpoints.iter().copied()).chain(paths).collect();
        Ok(all.into_iter().collect())
    }

    fn link_sockets(&self, active: &Active, peer: Option<&str>) -> LinkSockets {
        let link = self.config.link.iter().find(|of| of.name.value == active.name);
        let proxy = link.and_then(|link| link.tcp.proxy);
        let peers = self.config.peers.iter().filter(|of| peer.is_none_or(|peer| of.name.value == peer));
        let called = peers.filter_map(|of| Some((of.tcp.as_ref()?.port, &of.endpoints)));
        let called = called.flat_map(|(port, endpoints)| {
            endpoints.iter().map(move |to| proxy.unwrap_or(SocketAddr::new(to.ip(), port)))
        });
        let called: BTreeSet<SocketAddr> = called.collect();
        LinkSockets {
            name: active.name.clone(),
            index: active.id.0,
            addresses: active.addresses.clone(),
            udp_port: active.socket.local_address().port(),
            tcp: called.into_iter().collect(),
        }
    }

    fn tun_devices(&self) -> Vec<TunDevice> {
        let named = self.config.vpns.iter().map(|vpn| (VpnId(vpn.id.value), vpn.name.value.as_str()));
        let all = std::iter::once((VpnId::DEFAULT, config::flows::DEFAULT_VPN)).chain(named);
        let device = |(id, vpn): (VpnId, &str)| {
            let tun = self.devices.get(id)?.tun();
            Some(TunDevice { vpn: vpn.to_owned(), name: tun.name().to_owned(), index: tun.index() })
        };
        all.filter_map(device).collect()
    }
}
