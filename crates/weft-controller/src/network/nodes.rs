//! Nodes: names, public keys, addresses and groups.

use super::{Network, Precondition, Stored, expect, put};
use crate::check;
use crate::records::{CONFIGURATIONS, INVITATIONS, InvitationRecord, NODES, NodeRecord, POLICY, TextRecord};
use crate::refusal::Refusal;
use crate::store::{Change, Write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use weft_config::config::allow::group_name;
use weft_config::config::{peer_name, prefix};
use weft_engine::Prefix;
use weft_session::PublicKey;

/// Maximum number of nodes.
///
/// *Tuned*: a change of a node compares it with all others, so the duration of a change grows with the number of nodes.
pub const MAX_NODES: usize = 4_096;
/// Maximum number of addresses and of groups of a node.
const MAX_ITEMS: usize = 64;

/// A node as an administrator describes it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewNode {
    /// Public key, base64; absent: the node keeps its key, or gets the key of the machine that joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Prefixes behind the node, such as `10.9.0.2/32`. Two nodes cannot have the same prefix.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Networks, such as `10.9.0.0/24`, in each of which the node gets an address.
    ///
    /// If the node already has an address in the network, it keeps that one. Otherwise it gets the first address that
    /// no node has.
    #[serde(default)]
    pub networks: Vec<String>,
    /// Groups of the node, which the policy names.
    #[serde(default)]
    pub groups: Vec<String>,
    /// E-mail address of the user who may invite machines for the node at `/login`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A node as the controller stores it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
pub struct NodeView {
    /// Name of the node.
    pub name: String,
    /// Public key, base64; absent until the node joins.
    pub public_key: Option<String>,
    /// Prefixes behind the node.
    pub addresses: Vec<String>,
    /// Groups of the node.
    pub groups: Vec<String>,
    /// E-mail address of the user who may invite machines for the node.
    pub owner: Option<String>,
    /// True if the node has joined, so that it can read its configuration.
    pub has_joined: bool,
    /// Revision of the node's record, for `If-Match`.
    pub revision: u64,
}

impl NodeView {
    fn new(name: String, Stored { record, revision }: Stored<NodeRecord>) -> NodeView {
        NodeView {
            name,
            public_key: record.public_key,
            addresses: record.addresses,
            groups: record.groups,
            owner: record.owner,
            has_joined: record.secret.is_some(),
            revision,
        }
    }
}

impl Network {
    /// Returns all nodes, in the order of their names.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn nodes(&self) -> Result<Vec<NodeView>, Refusal> {
        Ok(self.read_all(NODES)?.into_iter().map(|(name, stored)| NodeView::new(name, stored)).collect())
    }

    /// Returns a node.
    ///
    /// # Errors
    /// Fails if there is none of this name.
    pub fn node(&self, name: &str) -> Result<NodeView, Refusal> {
        Ok(NodeView::new(name.to_owned(), self.stored_node(name)?))
    }

    /// Adds or changes a node, and returns its new state.
    ///
    /// # Errors
    /// Fails if the description is invalid, or contradicts another node or the policy.
    pub fn put_node(&self, name: &str, precondition: Precondition, new: &NewNode) -> Result<NodeView, Refusal> {
        let name = checked_name(name)?;
        let new = checked(new)?;
        let (revision, record) = self.change(|| {
            let nodes: Vec<(String, Stored<NodeRecord>)> = self.read_all(NODES)?;
            let found = nodes.iter().find(|(other, _)| *other == name).map(|(_, stored)| stored);
            let expected = expect(&format!("node {name}"), found, precondition)?;
            let old = found.map(|stored| stored.record.clone()).unwrap_or_default();
            let is_same_key = new.public_key.is_none() || new.public_key == old.public_key;
            let record = NodeRecord {
                public_key: new.public_key.clone().or(old.public_key),
                addresses: with_own_addresses(&new, &old.addresses, &name, &nodes)?,
                groups: new.groups.clone(),
                owner: new.owner.clone(),
                // The secret belongs to the machine with the old key. If the key changes, the secret is deleted.
                secret: old.secret.filter(|_| is_same_key),
            };
            self.check_node(&name, &record, &nodes)?;
            Ok((vec![put(NODES, &name, expected, &record)?], record))
        })?;
        Ok(NodeView::new(name, Stored { record, revision }))
    }

    /// Removes a node with its configuration and invitations.
    ///
    /// # Errors
    /// Fails if the node is not in the expected state, or if a test of the policy fails without it.
    pub fn remove_node(&self, name: &str, precondition: Precondition) -> Result<(), Refusal> {
        let change = self.change(|| {
            let nodes: Vec<(String, Stored<NodeRecord>)> = self.read_all(NODES)?;
            let found = nodes.iter().find(|(other, _)| other == name).map(|(_, stored)| stored);
            let found = found.ok_or_else(|| no_node(name))?;
            expect(&format!("node {name}"), Some(found), precondition)?;
            self.check_policy_with(
                nodes.iter().filter(|(other, _)| other != name).map(|(name, of)| (name.as_str(), &of.record)),
            )?;
            let removed = |key: String, expected: u64| Change { key, expected, write: Write::Delete };
            let mut changes = vec![removed(format!("{NODES}{name}"), found.revision)];
            if let Some(configuration) = self.read::<TextRecord>(&format!("{CONFIGURATIONS}{name}"))? {
                changes.push(removed(format!("{CONFIGURATIONS}{name}"), configuration.revision));
            }
            let invitations: Vec<(String, Stored<InvitationRecord>)> = self.read_all(INVITATIONS)?;
            let own = invitations.into_iter().filter(|(_, stored)| stored.record.node == name);
            changes.extend(own.map(|(id, stored)| removed(format!("{INVITATIONS}{id}"), stored.revision)));
            Ok((changes, ()))
        });
        change.map(|_| ())
    }

    /// Returns the names of the nodes whose owner is the user with this e-mail address.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn nodes_of(&self, owner: &str) -> Result<Vec<String>, Refusal> {
        let nodes: Vec<(String, Stored<NodeRecord>)> = self.read_all(NODES)?;
        let is_own = |of: &NodeRecord| of.owner.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(owner));
        Ok(nodes.into_iter().filter(|(_, of)| is_own(&of.record)).map(|(name, _)| name).collect())
    }

    pub(super) fn stored_node(&self, name: &str) -> Result<Stored<NodeRecord>, Refusal> {
        self.read(&format!("{NODES}{name}"))?.ok_or_else(|| no_node(name))
    }

    /// True if `given` is the secret of the node `name`.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn is_secret_of(&self, name: &str, given: &str) -> Result<bool, Refusal> {
        let node: Option<Stored<NodeRecord>> = self.read(&format!("{NODES}{name}"))?;
        Ok(node.and_then(|node| node.record.secret).is_some_and(|secret| secret.is_of(given)))
    }

    /// Checks the record of a new or changed node against all other nodes and the policy.
    pub(super) fn check_node(
        &self,
        name: &str,
        record: &NodeRecord,
        nodes: &[(String, Stored<NodeRecord>)],
    ) -> Result<(), Refusal> {
        let others = || nodes.iter().filter(|(other, _)| other != name).map(|(name, of)| (name.as_str(), &of.record));
        if others().count() >= MAX_NODES {
            return Err(Refusal::contradiction(format!(
                "a network has at most {MAX_NODES} nodes, and this one has that many: remove a node first"
            )));
        }
        if let Some((other, _)) = others().find(|(_, of)| of.public_key.is_some() && of.public_key == record.public_key)
        {
            return Err(Refusal::contradiction(format!(
                "node {other} already has this public key: give each node a key of its own"
            )));
        }
        let taken: HashMap<&str, &str> =
            others().flat_map(|(name, of)| of.addresses.iter().map(move |address| (address.as_str(), name))).collect();
        if let Some((address, other)) = record.addresses.iter().find_map(|own| taken.get_key_value(own.as_str())) {
            return Err(Refusal::contradiction(format!(
                "the address {address} belongs to node {other} already: remove it from that node's `addresses` first"
            )));
        }
        self.check_policy_with(others().chain([(name, record)]))
    }

    fn check_policy_with<'a>(&self, nodes: impl Iterator<Item = (&'a str, &'a NodeRecord)>) -> Result<(), Refusal> {
        let Some(policy) = self.read::<TextRecord>(POLICY)? else { return Ok(()) };
        let before = "with this change the policy would no longer hold: change the policy first";
        check::policy(&policy.record.toml, nodes).map_err(|why| Refusal::contradiction(format!("{before}\n{why}")))
    }
}

/// Returns the addresses in the description `new` of a node, and one address in each network that it lists.
///
/// `old` are the addresses that the node has had, of which it keeps those in a listed network.
fn with_own_addresses(
    new: &NewNode,
    old: &[String],
    name: &str,
    nodes: &[(String, Stored<NodeRecord>)],
) -> Result<Vec<String>, Refusal> {
    let parsed =
        |texts: &[String]| -> Vec<Prefix> { texts.iter().filter_map(|text| prefix::parse(text).ok()).collect() };
    let is_host = |of: &Prefix| of.length == prefix::host_bits(of.address);
    let others = nodes.iter().filter(|(other, _)| other != name);
    let taken: Vec<Prefix> = others.flat_map(|(_, of)| parsed(&of.record.addresses)).collect();
    let mut own = parsed(&new.addresses);
    for network in parsed(&new.networks) {
        let is_inside = |of: &Prefix| is_host(of) && network.contains(of.address);
        if own.iter().any(is_inside) {
            continue;
        }
        let kept = parsed(old).into_iter().find(is_inside).map(|of| of.address);
        // A prefix of another node that contains the whole network, such as a default route, does not make its
        // addresses taken.
        let within: Vec<Prefix> = taken.iter().copied().filter(|of| of.length >= network.length).collect();
        let free = || prefix::free_host(network, |address| within.iter().any(|of| of.contains(address)));
        let Some(address) = kept.or_else(free) else {
            let network = prefix::text(network);
            let why = format!("the network {network} has no free address: name another network in `networks`");
            return Err(Refusal::contradiction(why));
        };
        own.push(Prefix { address, length: prefix::host_bits(address) });
    }
    let mut own: Vec<String> = own.into_iter().map(prefix::text).collect();
    own.sort();
    Ok(own)
}

fn no_node(name: &str) -> Refusal {
    Refusal::missing(format!("there is no node `{}`: GET /v1/nodes lists them", name.escape_debug()))
}

/// Returns the name if it is valid as a node's name, as a part of a URL path, and as a host name.
fn checked_name(name: &str) -> Result<String, Refusal> {
    let is_plain = name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'));
    let is_plain = is_plain && name.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric());
    match peer_name(name) {
        Ok(name) if is_plain => Ok(name),
        _ => {
            Err(Refusal::bad("a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit"))
        }
    }
}

/// Checks the description of a node. Returns it with prefixes without host bits and the key in its usual text form.
fn checked(new: &NewNode) -> Result<NewNode, Refusal> {
    if new.addresses.len() + new.networks.len() > MAX_ITEMS || new.groups.len() > MAX_ITEMS {
        return Err(Refusal::bad(format!(
            "the node has {} entries in `addresses` and `networks` (together at most {MAX_ITEMS}) and {} in `groups` \
             (at most {MAX_ITEMS}): remove some",
            new.addresses.len() + new.networks.len(),
            new.groups.len()
        )));
    }
    let wrong = |what: &str, why: &dyn std::fmt::Display| Refusal::bad(format!("`{}`: {why}", what.escape_debug()));
    let key = |text: &String| text.parse::<PublicKey>().map(|key| key.to_string()).map_err(|why| wrong(text, &why));
    let address = |text: &String| match prefix::parse(text) {
        Ok(found) => Ok(prefix::text(prefix::trimmed(found))),
        Err(why) => Err(wrong(text, &why)),
    };
    let group = |text: &String| group_name(text).map_err(|why| wrong(text, &why));
    let mut addresses = new.addresses.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    addresses.sort();
    if let Some(pair) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Refusal::bad(format!("`addresses` lists the address {} twice: remove one of the two", pair[0])));
    }
    let is_address =
        |text: &String| text.len() <= 254 && text.contains('@') && text.bytes().all(|c| c.is_ascii_graphic());
    if let Some(wrong) = new.owner.as_ref().filter(|owner| !is_address(owner)) {
        return Err(Refusal::bad(format!(
            "`owner` must be an e-mail address such as ann@example.com, but it is `{}`",
            wrong.escape_debug()
        )));
    }
    Ok(NewNode {
        public_key: new.public_key.as_ref().map(key).transpose()?,
        addresses,
        networks: new.networks.iter().map(address).collect::<Result<_, _>>()?,
        groups: new.groups.iter().map(group).collect::<Result<_, _>>()?,
        owner: new.owner.clone(),
    })
}
