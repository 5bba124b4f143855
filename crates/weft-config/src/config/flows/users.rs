//! Parsing of `[users]`: the units between which a port's rate is shared.

use crate::config::policy::MAX_WEIGHT;
use crate::config::prefix;
use crate::config::read::{At, Section, names};
use std::net::IpAddr;
use weft_flows::router::{UserBy, UserName, UserRule};

/// Kind of the users between which a port's rate is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UserKind {
    /// A host: one address.
    #[default]
    Host,
    /// All addresses of a prefix of a configured length.
    Prefix,
    /// A node, by the name in its certificate.
    Certificate,
}

names!(UserKind { Host = "host", Prefix = "prefix", Certificate = "certificate" });

/// Length of a user's IPv4 prefix, if users are prefixes and no length is set.
///
/// *Standard*: a site usually has at least a prefix of this length.
const IPV4_LENGTH: u8 = 24;
/// Length of a user's IPv6 prefix, if users are prefixes and no length is set.
///
/// *Standard*: the length of a subnet (RFC 4291 §2.5.4).
const IPV6_LENGTH: u8 = 64;

/// `[users]`: the units between which a port's rate is shared.
#[derive(Clone, PartialEq, Debug)]
pub struct UserSettings {
    /// Kind of the users between which a port's rate is shared.
    pub by: UserKind,
    /// Length of a user's IPv4 prefix, if users are prefixes.
    pub ipv4_length: u8,
    /// Length of a user's IPv6 prefix, if users are prefixes.
    pub ipv6_length: u8,
    /// Users whose weight in fair sharing is not 1: name and weight.
    pub weights: Vec<(At<String>, u32)>,
}

impl Default for UserSettings {
    fn default() -> UserSettings {
        UserSettings { by: UserKind::Host, ipv4_length: IPV4_LENGTH, ipv6_length: IPV6_LENGTH, weights: Vec::new() }
    }
}

impl UserSettings {
    /// Returns the rule by which the engine's router finds a flow's user and the user's weight.
    pub fn rule(&self) -> UserRule {
        let by = match self.by {
            UserKind::Host => UserBy::Host,
            UserKind::Prefix => UserBy::Prefix(self.ipv4_length, self.ipv6_length),
            UserKind::Certificate => UserBy::Node,
        };
        let name = |text: &str| match prefix::parse(text) {
            Ok(prefix) => UserName::Address(prefix.address),
            Err(_) => text.parse().map_or_else(|_| UserName::Node(text.to_owned()), UserName::Address),
        };
        let weight = |(at, weight): &(At<String>, u32)| (name(&at.value), u16::try_from(*weight).unwrap_or(u16::MAX));
        UserRule { by, weights: self.weights.iter().map(weight).collect() }
    }

    /// Returns the name under which `weft qos` lists a user. `text` is an address, a prefix or a node's name.
    ///
    /// # Errors
    /// Returns the reason why the text names no user.
    pub fn user_name(&self, text: &str) -> Result<String, String> {
        match self.by {
            UserKind::Host => {
                let address: IpAddr =
                    text.parse().map_err(|_| "users are hosts ([users] by = \"host\"): write an address".to_owned())?;
                Ok(address.to_string())
            }
            UserKind::Prefix => {
                let value = prefix::parse(text)
                    .map_err(|_| "users are prefixes ([users] by = \"prefix\"): write a prefix".to_owned())?;
                let (length, key) = match value.address.is_ipv4() {
                    true => (self.ipv4_length, "ipv4-length"),
                    false => (self.ipv6_length, "ipv6-length"),
                };
                match prefix::trimmed(value) {
                    trimmed if value.length == length => Ok(prefix::text(trimmed)),
                    _ => Err(format!("a user must be a prefix of the length {length}, which `{key}` in [users] sets")),
                }
            }
            UserKind::Certificate => Ok(text.to_owned()),
        }
    }
}

/// Parses `[users]`.
pub fn read(mut section: Section<'_, '_>) -> UserSettings {
    let default = UserSettings::default();
    let by = section.choice("by").unwrap_or_default();
    let length = |at: Option<At<i64>>, otherwise| at.map_or(otherwise, |at| at.value as u8);
    let ipv4_length = length(section.integer("ipv4-length", 1..33), default.ipv4_length);
    let ipv6_length = length(section.integer("ipv6-length", 1..129), default.ipv6_length);
    for key in ["ipv4-length", "ipv6-length"] {
        if section.has(key) && by != UserKind::Prefix {
            let message = format!("`{key}` in [users] has no effect unless users are prefixes (by = \"prefix\")");
            section.complain(section.key_span(key), &message, "set by = \"prefix\", or remove it");
        }
    }
    let weights = weights(&mut section).unwrap_or_default();
    section.finish();
    UserSettings { by, ipv4_length, ipv6_length, weights }
}

fn weights(section: &mut Section<'_, '_>) -> Option<Vec<(At<String>, u32)>> {
    let value = section.value("weights")?;
    if !value.get_ref().is_table() {
        section.complain(value.span(), "`weights` must be a table", "for example weights = { \"10.9.1.7\" = 4 }");
        return None;
    }
    let table = section.numbers("weights", 1..MAX_WEIGHT + 1)?;
    Some(table.into_iter().map(|(name, weight)| (name, weight as u32)).collect())
}
