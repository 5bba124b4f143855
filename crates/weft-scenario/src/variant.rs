//! Defines variants, the alternatives that one run compares.

use crate::file::TcpFile;
use crate::{App, Flow, VpnEntry};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use weft_units::Rate;

/// The program or protocol that carries the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VariantKind {
    /// One run of the flows over each link alone, without a tunnel.
    ///
    /// There is one result for each link, with the name `link:NAME`.
    EachLink,
    /// The result of the best single link among those of `each-link`.
    BestLink,
    /// One link without a tunnel: the first link that the variant may use.
    Link,
    /// The kernel's MPTCP over all links.
    Mptcp,
    /// FRR's OSPF with BFD of 3 × 50 ms over all links, without a tunnel. Flows are spread over them (ECMP).
    Ospf,
    /// OpenVPN (UDP, AES-256-GCM) over the best link.
    Openvpn,
    /// wireguard-go over the best link.
    WireguardGo,
    /// weft over all links.
    Weft,
    /// One run of the flows with weft over each link alone.
    ///
    /// There is one result for each link, with the name `weft:NAME`.
    WeftEachLink,
    /// weft over all links, with a separate pair of daemons for each VPN.
    WeftEachVpn,
}

impl VariantKind {
    /// Every kind of variant with its keyword in scenario files.
    pub const ALL: [(&'static str, VariantKind); 10] = [
        ("each-link", VariantKind::EachLink),
        ("best-link", VariantKind::BestLink),
        ("link", VariantKind::Link),
        ("mptcp", VariantKind::Mptcp),
        ("ospf", VariantKind::Ospf),
        ("openvpn", VariantKind::Openvpn),
        ("wireguard-go", VariantKind::WireguardGo),
        ("weft", VariantKind::Weft),
        ("weft-each-link", VariantKind::WeftEachLink),
        ("weft-each-vpn", VariantKind::WeftEachVpn),
    ];

    /// Returns the kind's keyword in scenario files.
    pub fn word(self) -> &'static str {
        VariantKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// True if the variant runs weft itself.
    pub fn is_weft(self) -> bool {
        matches!(self, VariantKind::Weft | VariantKind::WeftEachLink | VariantKind::WeftEachVpn)
    }
}

/// The transport protocol of OpenVPN's own packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenvpnProto {
    /// UDP datagrams.
    Udp,
    /// One TCP connection, so that the VPN is a single flow, as in paper 002.
    Tcp,
}

/// One of the alternatives that a run compares.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Name of the variant in the results.
    pub name: String,
    /// The program or protocol that carries the flows.
    pub kind: VariantKind,
    /// Names of the links that the variant uses. Empty: all links.
    pub links: Vec<String>,
    /// Settings of the queues and loops of all VPNs, which override the VPNs' own settings.
    pub vpn: VpnEntry,
    /// Settings that override those of TCP flows.
    pub tcp: VariantTcp,
    /// Transport of an OpenVPN tunnel.
    ///
    /// For [`VariantKind::Openvpn`] it is the tunnel that the variant measures. For [`VariantKind::Weft`] OpenVPN runs between the
    /// flows and weft.
    pub openvpn: Option<OpenvpnProto>,
    /// Additional OpenVPN options for both ends.
    pub openvpn_options: Vec<String>,
    /// Sections that override the generated weft configuration of both nodes.
    ///
    /// This crate does not check them.
    pub weft: toml::Table,
}

/// The TCP settings that a variant changes.
///
/// `None` keeps the flow's own setting.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VariantTcp {
    /// Name of the only flow whose settings change; `None`: all TCP flows.
    pub flow: Option<String>,
    /// Name of the congestion control in the kernel.
    pub congestion: Option<String>,
    /// Rate at which the kernel paces the connection.
    pub pacing: Option<Rate>,
    /// Size of the receiving socket's buffer, in bytes.
    pub receive_buffer_bytes: Option<u64>,
}

impl VariantTcp {
    pub(crate) fn read(file: TcpFile) -> VariantTcp {
        VariantTcp {
            flow: file.flow.map(Spanned::into_inner),
            congestion: file.congestion,
            pacing: file.pacing.map(|q| q.0),
            receive_buffer_bytes: file.receive_buffer.map(|q| q.0.0),
        }
    }

    pub(crate) fn lay_over(&self, flow: &mut Flow) {
        if self.flow.as_ref().is_some_and(|only| *only != flow.name) {
            return;
        }
        if let Some(congestion) = &self.congestion {
            flow.congestion.clone_from(congestion);
        }
        flow.pacing = self.pacing.or(flow.pacing);
        if matches!(flow.app, App::Iperf3 | App::Transfer) {
            flow.receive_buffer_bytes = self.receive_buffer_bytes.or(flow.receive_buffer_bytes);
        }
    }
}

impl Variant {
    /// Returns a variant of `kind` with the kind's keyword as its name and no settings.
    pub fn plain(kind: VariantKind) -> Variant {
        Variant {
            name: kind.word().to_owned(),
            kind,
            links: Vec::new(),
            vpn: VpnEntry::default(),
            tcp: VariantTcp::default(),
            openvpn: None,
            openvpn_options: Vec::new(),
            weft: toml::Table::new(),
        }
    }

    /// Returns the static weight of each link, by name. Returns `None` unless the variant uses weighted round robin.
    pub fn weights(&self) -> Option<Vec<(String, u32)>> {
        let policy = self.weft.get("policy")?.as_table()?;
        if policy.get("schedule")?.as_str()? != "weighted-round-robin" {
            return None;
        }
        let weights = policy.get("weights")?.as_table()?;
        weights.iter().map(|(link, weight)| Some((link.clone(), u32::try_from(weight.as_integer()?).ok()?))).collect()
    }

    /// Returns `base`, a generated weft configuration, with the variant's own settings in place of those in `base`.
    pub fn laid_over(&self, base: toml::Table) -> toml::Table {
        overlaid(base, &self.weft)
    }
}

fn overlaid(mut base: toml::Table, overlay: &toml::Table) -> toml::Table {
    for (key, value) in overlay {
        let merged = match (base.remove(key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => toml::Value::Table(overlaid(below, above)),
            _ => value.clone(),
        };
        base.insert(key.clone(), merged);
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::Table;

    #[test]
    fn settings_are_laid_over_the_generated_sections() {
        let base: Table = "[tun]\nname = \"weft0\"\nmtu = 1400\n[[peer]]\nname = \"hub\"".parse().unwrap();
        let overlay: Table = "[tun]\nmtu = 1300\n[policy]\nrecovery = \"off\"".parse().unwrap();
        let merged = Variant { weft: overlay, ..Variant::plain(VariantKind::Weft) }.laid_over(base);
        let expected: Table =
            "[tun]\nname = \"weft0\"\nmtu = 1300\n[[peer]]\nname = \"hub\"\n[policy]\nrecovery = \"off\""
                .parse()
                .unwrap();
        assert_eq!(merged, expected);
        assert_eq!(merged.to_string().parse::<Table>().unwrap(), expected, "what is written can be read");
    }
}
