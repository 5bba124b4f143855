//! Questions about whether a flow may enter: those of `[[allow-test]]` and of `weft acl test`.

use super::own_groups;
use crate::config::{Config, Peer, host_bits, vpn_number};
use std::net::IpAddr;
use weft_engine::FlowKey;
use weft_engine::allow::{AllowRules, NodeGroups, Party};
use weft_flows::rules::FlowPrefix;
use weft_session::Certificate;
use weft_units::VpnId;

/// A flow that is checked against the rules of access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowQuestion {
    /// The sender: its node, its groups, its address. `[[peer]]` and the certificate supply missing ones.
    pub from: Vec<Party>,
    /// The destination: its node, its groups, its address. `[[peer]]` and the certificate supply missing ones.
    pub to: Vec<Party>,
    /// Protocol number.
    pub protocol: u8,
    /// Destination port, or zero for protocols without ports.
    pub port: u16,
    /// Name of the VPN, or `None` for the default one.
    pub vpn: Option<String>,
}

/// Decision of the rules about a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllowAnswer {
    /// There are no rules, so every flow enters.
    NoRules,
    /// The rule at this position in the file, counted from 0, lets the flow in.
    Enters(usize),
    /// No rule lets the flow in.
    Denied,
}

impl AllowAnswer {
    /// True if the flow may enter.
    pub fn enters(&self) -> bool {
        *self != AllowAnswer::Denied
    }
}

/// One end of the flow: its node and its address.
struct AskedEnd {
    node: NodeGroups,
    address: Option<IpAddr>,
}

impl AllowQuestion {
    /// Returns the decision of a configuration's rules. `own` is this node's certificate.
    ///
    /// # Errors
    /// Returns the missing property of the flow, or the reason why the rules are not valid.
    pub fn answer(&self, config: &Config, own: Option<&Certificate>) -> Result<AllowAnswer, String> {
        if config.allow.rules.is_empty() {
            return Ok(AllowAnswer::NoRules);
        }
        let rules = config.allow.compile(&config.vpns).map_err(|why| why.to_string())?;
        self.answer_by(&rules, config, own)
    }

    /// Returns the decision that `rules` make about this flow. `own` is this node's certificate.
    pub(super) fn answer_by(
        &self,
        rules: &AllowRules,
        config: &Config,
        own: Option<&Certificate>,
    ) -> Result<AllowAnswer, String> {
        let own = own_groups(own);
        let (from, to) = (end(&self.from, config, &own, "from")?, end(&self.to, config, &own, "to")?);
        let is_ipv4 = from.address.or(to.address).is_none_or(|address| address.is_ipv4());
        let (src, dst) = (place(&from, config, &own, is_ipv4), place(&to, config, &own, is_ipv4));
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(format!(
                "the sender {src} and the destination {dst} are of two IP versions: write both in IPv4 or both in IPv6"
            ));
        }
        let vpn = match &self.vpn {
            Some(name) => vpn_number(name, &config.vpns).ok_or_else(|| {
                format!("there is no VPN `{name}`: name a [[vpn]] of the configuration, or `default`")
            })?,
            None => VpnId::DEFAULT,
        };
        let key = FlowKey { src, dst, protocol: self.protocol, src_port: 0, dst_port: self.port, flow_label: 0 };
        let found = rules.decide(&rules.rows_of(&from.node), &rules.rows_of(&to.node), vpn, &key);
        Ok(found.map_or(AllowAnswer::Denied, AllowAnswer::Enters))
    }
}

/// Returns the node and the address that `parties` describe together. Messages call this end of the flow `key`.
fn end(parties: &[Party], config: &Config, own: &NodeGroups, key: &str) -> Result<AskedEnd, String> {
    let mut end = AskedEnd { node: NodeGroups::default(), address: None };
    for party in parties {
        match party {
            Party::Any => {
                return Err(format!("`{key}` of the tested flow needs a node, a group or an address, not `any`"));
            }
            Party::Node(name) if end.node.name.is_empty() => end.node.name.clone_from(name),
            Party::Node(_) => {
                return Err(format!(
                    "`{key}` of the tested flow names two nodes, but a flow has one at each end: write only one"
                ));
            }
            Party::Group(group) => end.node.groups.push(group.clone()),
            Party::Prefix(FlowPrefix { address, length }) => {
                if *length != host_bits(*address) {
                    return Err(format!(
                        "`{key}` of the tested flow needs the address of one host, not the prefix {address}/{length}"
                    ));
                }
                if end.address.replace(*address).is_some() {
                    return Err(format!(
                        "`{key}` of the tested flow names two addresses, but a flow has one at each end: write only one"
                    ));
                }
            }
        }
    }
    if end.node == NodeGroups::default() {
        end.node.name = owner(end.address, config, own);
    }
    if !own.name.is_empty() && end.node.name == own.name {
        end.node.groups.extend(own.groups.iter().cloned());
    }
    let known = config.peers.iter().find(|peer| peer.name.value == end.node.name);
    end.node.groups.extend(known.iter().flat_map(|peer| peer.groups.iter().cloned()));
    Ok(end)
}

/// Returns the name of the node behind which an address lies, or an empty name.
fn owner(address: Option<IpAddr>, config: &Config, own: &NodeGroups) -> String {
    let Some(address) = address else { return String::new() };
    if config.tun.addresses.iter().any(|tun| tun.address == address) {
        return own.name.clone();
    }
    let holds = |peer: &&Peer| peer.prefixes.iter().any(|at| at.value.length > 0 && at.value.contains(address));
    config.peers.iter().find(holds).map_or_else(String::new, |peer| peer.name.value.clone())
}

/// Returns the address of one end of a flow.
///
/// If no address was given, it is an address of the end's node. If none is known, it is 0.0.0.0 or ::.
fn place(end: &AskedEnd, config: &Config, own: &NodeGroups, is_ipv4: bool) -> IpAddr {
    if let Some(address) = end.address {
        return address;
    }
    let mut of_peer = config.peers.iter().filter(|peer| peer.name.value == end.node.name);
    let of_peer = of_peer.find_map(|peer| {
        let addresses = peer.prefixes.iter().map(|prefix| prefix.value);
        addresses.filter(|prefix| prefix.length > 0).map(|prefix| prefix.address).find(|at| at.is_ipv4() == is_ipv4)
    });
    let is_own = !own.name.is_empty() && end.node.name == own.name;
    let own = config.tun.addresses.iter().map(|tun| tun.address).find(|at| is_own && at.is_ipv4() == is_ipv4);
    let unknown: IpAddr = if is_ipv4 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    of_peer.or(own).unwrap_or(unknown)
}
