//! The policy, and the desired configurations of nodes.

use super::{Network, Precondition, Stored, expect, put};
use crate::check::{self, MAX_TEXT};
use crate::records::{CONFIGURATIONS, NODES, NodeRecord, POLICY, TextRecord};
use crate::refusal::Refusal;
use crate::secret::sha256_hex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text in TOML.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The text.
    pub toml: String,
}

/// The configuration that a node runs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
pub struct EffectiveConfiguration {
    /// The node's own configuration, with the rules of the policy.
    pub toml: String,
    /// SHA-256 of the text, in hexadecimal.
    pub digest: String,
}

impl Network {
    /// Returns the policy.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn policy(&self) -> Result<Stored<Text>, Refusal> {
        let none = || Refusal::missing("there is no policy: PUT /v1/policy with If-None-Match: * makes one");
        Ok(text(self.read(POLICY)?.ok_or_else(none)?))
    }

    /// Replaces the policy and returns its new revision.
    ///
    /// # Errors
    /// Fails if a test of the policy fails, or if a node's configuration together with the policy is invalid.
    pub fn put_policy(&self, precondition: Precondition, new: &Text) -> Result<u64, Refusal> {
        let record = checked_length(new)?;
        let rules = check::rules(&record.toml).map_err(Refusal::contradiction)?;
        let (revision, ()) = self.change(|| {
            let expected = expect("the policy", self.read::<TextRecord>(POLICY)?.as_ref(), precondition)?;
            let nodes: Vec<(String, Stored<NodeRecord>)> = self.read_all(NODES)?;
            let nodes = nodes.iter().map(|(name, of)| (name.as_str(), &of.record));
            check::policy(&record.toml, nodes).map_err(Refusal::contradiction)?;
            let configurations: Vec<(String, Stored<TextRecord>)> = self.read_all(CONFIGURATIONS)?;
            for (node, of) in configurations {
                check::configuration(&check::effective(&of.record.toml, &rules)).map_err(|why| {
                    Refusal::contradiction(format!(
                        "node {node} could not run with the new policy: correct the policy, or the node's \
                         configuration\n{why}"
                    ))
                })?;
            }
            Ok((vec![put(POLICY, "", expected, &record)?], ()))
        })?;
        Ok(revision)
    }

    /// Returns the desired configuration of a node.
    ///
    /// # Errors
    /// Fails if there is no such node, or if it has none.
    pub fn configuration(&self, node: &str) -> Result<Stored<Text>, Refusal> {
        self.stored_node(node)?;
        Ok(text(self.stored_configuration(node)?))
    }

    /// Replaces the desired configuration of a node and returns its new revision.
    ///
    /// # Errors
    /// Fails if there is no such node, or if the configuration together with the policy is invalid.
    pub fn put_configuration(&self, node: &str, precondition: Precondition, new: &Text) -> Result<u64, Refusal> {
        let record = checked_length(new)?;
        let (revision, ()) = self.change(|| {
            self.stored_node(node)?;
            let found = self.read::<TextRecord>(&format!("{CONFIGURATIONS}{node}"))?;
            let expected = expect(&format!("the configuration of node {node}"), found.as_ref(), precondition)?;
            let whole = check::effective(&record.toml, &self.rules()?);
            check::configuration(&whole).map_err(Refusal::contradiction)?;
            Ok((vec![put(CONFIGURATIONS, node, expected, &record)?], ()))
        })?;
        Ok(revision)
    }

    /// Returns the configuration that a node runs.
    ///
    /// # Errors
    /// Fails if the node has no configuration.
    pub fn effective(&self, node: &str) -> Result<EffectiveConfiguration, Refusal> {
        let toml = check::effective(&self.stored_configuration(node)?.record.toml, &self.rules()?);
        Ok(EffectiveConfiguration { digest: sha256_hex(toml.as_bytes()), toml })
    }

    fn stored_configuration(&self, node: &str) -> Result<Stored<TextRecord>, Refusal> {
        let none = || {
            Refusal::missing(format!(
                "node {node} has no configuration: create it with PUT /v1/nodes/{node}/configuration"
            ))
        };
        self.read(&format!("{CONFIGURATIONS}{node}"))?.ok_or_else(none)
    }

    /// Returns the rules of the policy as text, or an empty text if there is no policy.
    fn rules(&self) -> Result<String, Refusal> {
        let policy: Option<Stored<TextRecord>> = self.read(POLICY)?;
        policy.map_or(Ok(String::new()), |of| check::rules(&of.record.toml).map_err(Refusal::contradiction))
    }
}

fn text(of: Stored<TextRecord>) -> Stored<Text> {
    Stored { record: Text { toml: of.record.toml }, revision: of.revision }
}

fn checked_length(new: &Text) -> Result<TextRecord, Refusal> {
    match new.toml.len() <= MAX_TEXT {
        true => Ok(TextRecord { toml: new.toml.clone() }),
        false => Err(Refusal::bad(format!(
            "a configuration or policy may have at most {MAX_TEXT} bytes, but this one has {} bytes: shorten it",
            new.toml.len()
        ))),
    }
}
