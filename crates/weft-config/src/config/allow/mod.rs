//! Rules of access: `[[allow]]` and `[[allow-test]]`.
//!
//! The module `question` determines whether the rules let a flow enter. `[[allow-test]]`, `weft acl test` and the
//! engine use the same compiled rules.

mod check;
mod question;
mod read;

pub use check::check;
pub use question::{AllowAnswer, AllowQuestion};
pub use read::{group_name, party, read};

use super::{Config, Vpn, vpn_number};
use crate::config::read::At;
use std::ops::{Range, RangeInclusive};
use weft_engine::AccessConfig;
use weft_engine::allow::{AllowFault, AllowRule, AllowRules, NodeGroups, Party};
use weft_session::Certificate;
use weft_units::VpnId;

/// A `[[allow]]` table: flows that may enter.
#[derive(Clone, Debug)]
pub struct AllowSetting {
    /// Name of the rule, for readers of output.
    pub name: At<String>,
    /// Senders. One of them must match.
    pub from: Vec<At<Party>>,
    /// Destinations. One of them must match.
    pub to: Vec<At<Party>>,
    /// Protocol number; absent: every protocol.
    pub protocol: Option<u8>,
    /// Destination ports; empty: every port.
    pub ports: Vec<At<RangeInclusive<u16>>>,
    /// Name of the VPN; absent: every VPN.
    pub vpn: Option<At<String>>,
    /// Byte range of the table in the file.
    pub span: Range<usize>,
}

/// An `[[allow-test]]` table: a flow, and whether it may enter.
#[derive(Clone, Debug)]
pub struct AllowTest {
    /// The flow.
    pub question: AllowQuestion,
    /// True if the flow may enter.
    pub expects_entry: bool,
    /// Byte range of the table in the file.
    pub span: Range<usize>,
}

/// The rules of access and their tests.
#[derive(Clone, Debug, Default)]
pub struct AllowSettings {
    /// `[[allow]]`: flows that may enter.
    pub rules: Vec<AllowSetting>,
    /// `[[allow-test]]`: a flow, and the decision that the rules must make about it.
    pub tests: Vec<AllowTest>,
}

impl AllowSettings {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Returns the first fault. The checks of the configuration report it with its place.
    pub fn compile(&self, vpns: &[Vpn]) -> Result<AllowRules, AllowFault> {
        // A name that no VPN has gets a number that matches no flow. The checks report this name as an error.
        let number = |name: &str| vpn_number(name, vpns).unwrap_or(VpnId(u32::MAX));
        let rule = |setting: &AllowSetting| AllowRule {
            name: setting.name.value.clone(),
            from: setting.from.iter().map(|at| at.value.clone()).collect(),
            to: setting.to.iter().map(|at| at.value.clone()).collect(),
            protocol: setting.protocol,
            ports: setting.ports.iter().map(|at| at.value.clone()).collect(),
            vpn: setting.vpn.as_ref().map(|at| number(&at.value)),
        };
        AllowRules::compile(self.rules.iter().map(rule).collect())
    }
}

impl Config {
    /// Returns the rules of access for the engine; `None` without `[[allow]]`.
    ///
    /// # Errors
    /// Returns the fault of the rules. A configuration that passed the checks has none.
    pub fn engine_access(&self, own: Option<&Certificate>) -> Result<Option<AccessConfig>, AllowFault> {
        if self.allow.rules.is_empty() {
            return Ok(None);
        }
        let tun = self.tun.addresses.iter().map(|own| weft_engine::Prefix { length: u8::MAX, ..*own });
        let certified = own.iter().flat_map(|own| &own.claims().prefixes);
        let certified = certified.map(|&(address, length)| weft_engine::Prefix { address, length });
        let peers = self.peers.iter().filter(|peer| !peer.groups.is_empty());
        Ok(Some(AccessConfig {
            rules: self.allow.compile(&self.vpns)?,
            own: own_groups(own),
            groups: peers.map(|peer| (peer.public_key.value, peer.groups.clone())).collect(),
            local: tun.chain(certified).collect(),
        }))
    }
}

/// Returns this node's name and groups, which its certificate states.
fn own_groups(own: Option<&Certificate>) -> NodeGroups {
    let claims = own.map(Certificate::claims);
    claims.map_or_else(NodeGroups::default, |claims| NodeGroups {
        name: claims.name.clone(),
        groups: claims.groups.clone(),
    })
}
