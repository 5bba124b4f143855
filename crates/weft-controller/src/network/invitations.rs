//! Invitations. A code lets one machine join as a given node, once and for a limited time.

use super::{Network, Stored, put, unix_s};
use crate::records::{INVITATIONS, InvitationRecord, NODES, NodeRecord};
use crate::refusal::Refusal;
use crate::secret::{Secret, SecretHash, sha256_hex};
use crate::store::{ABSENT, Change, Write};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_session::PublicKey;

/// Maximum time for which a code is valid, in minutes: 30 days.
const MAX_MINUTES: u32 = 30 * 24 * 60;
/// Maximum number of stored invitations. A new one first replaces those that are used or expired.
const MAX_INVITATIONS: usize = 1_024;
/// Number of hexadecimal digits of an identifier.
const ID_LEN: usize = 16;

/// The properties of an invitation that is to be made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewInvitation {
    /// Name of an existing node. If a machine has joined as this node before, the new machine replaces it.
    pub node: String,
    /// Time for which the code is valid, 1 to 43,200 minutes.
    pub minutes: u32,
}

/// A new invitation with its code. The controller shows the code only this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
pub struct Code {
    /// Identifier of the invitation, by which it can be withdrawn.
    pub id: String,
    /// The code, for `weft controller join`.
    pub code: String,
    /// Time at which the code expires, in seconds since 1970.
    pub expires_at: u64,
}

/// An invitation without its code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
pub struct InvitationView {
    /// Identifier of the invitation.
    pub id: String,
    /// Name of the node as which a machine may join.
    pub node: String,
    /// Time at which the code expires, in seconds since 1970.
    pub expires_at: u64,
    /// Public key of the machine that has used the invitation; absent: it is unused.
    pub used_by: Option<String>,
    /// Maker of the invitation: `administrator`, or a user of the identity provider.
    pub made_by: String,
}

/// The request of a machine that has a code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// Code of the invitation.
    pub code: String,
    /// Public key of the machine, base64.
    pub public_key: String,
    /// SHA-256 of the secret that the machine has drawn for itself, in hexadecimal.
    pub secret_sha256: String,
}

/// The controller's answer to a machine that joins.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
pub struct Joined {
    /// Name of the node as which the machine has joined.
    pub node: String,
}

impl Network {
    /// Returns all invitations.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn invitations(&self) -> Result<Vec<InvitationView>, Refusal> {
        let all: Vec<(String, Stored<InvitationRecord>)> = self.read_all(INVITATIONS)?;
        let view = |(id, Stored { record, .. }): (String, Stored<InvitationRecord>)| InvitationView {
            id,
            node: record.node,
            expires_at: record.expires_at,
            used_by: record.used_by,
            made_by: record.made_by,
        };
        Ok(all.into_iter().map(view).collect())
    }

    /// Makes an invitation and returns its code.
    ///
    /// # Errors
    /// Fails if there is no such node.
    pub fn invite(&self, new: &NewInvitation, made_by: &str) -> Result<Code, Refusal> {
        if !(1..=MAX_MINUTES).contains(&new.minutes) {
            return Err(Refusal::bad(format!(
                "`minutes`, the minutes for which an invitation is valid, must be from 1 to {MAX_MINUTES}"
            )));
        }
        let no_secret = |why| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why);
        let secret = Secret::random().map_err(no_secret)?;
        let id: String =
            sha256_hex(Secret::random().map_err(no_secret)?.text().as_bytes()).chars().take(ID_LEN).collect();
        let now = unix_s();
        let record = InvitationRecord {
            node: new.node.clone(),
            secret: secret.hash(),
            expires_at: now + u64::from(new.minutes) * 60,
            used_by: None,
            made_by: made_by.to_owned(),
        };
        self.change(|| {
            self.stored_node(&new.node)?;
            let all: Vec<(String, Stored<InvitationRecord>)> = self.read_all(INVITATIONS)?;
            let (over, open): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|(_, of)| of.record.used_by.is_some() || of.record.expires_at <= now);
            let excess = (over.len() + open.len() + 1).saturating_sub(MAX_INVITATIONS);
            if excess > over.len() {
                let why = format!(
                    "at most {MAX_INVITATIONS} invitations can wait for their nodes, and that many do: withdraw one \
                     with DELETE /v1/invitations/ID"
                );
                return Err(Refusal::new(StatusCode::CONFLICT, why));
            }
            let removed = |(id, of): (String, Stored<InvitationRecord>)| Change {
                key: format!("{INVITATIONS}{id}"),
                expected: of.revision,
                write: Write::Delete,
            };
            let mut changes: Vec<Change> = over.into_iter().take(excess).map(removed).collect();
            changes.push(put(INVITATIONS, &id, ABSENT, &record)?);
            Ok((changes, ()))
        })?;
        Ok(Code { code: format!("{id}.{}", secret.text()), id, expires_at: record.expires_at })
    }

    /// Withdraws an invitation.
    ///
    /// # Errors
    /// Fails if there is none of this identifier.
    pub fn withdraw(&self, id: &str) -> Result<(), Refusal> {
        let change = self.change(|| {
            let key = format!("{INVITATIONS}{id}");
            let found: Option<Stored<InvitationRecord>> = self.read(&key)?;
            let none = || Refusal::missing("there is no such invitation: GET /v1/invitations lists them");
            Ok((vec![Change { key, expected: found.ok_or_else(none)?.revision, write: Write::Delete }], ()))
        });
        change.map(|_| ())
    }

    /// Lets the machine with a code join as the node of the invitation.
    ///
    /// A machine that did not receive the answer may send the request again with the same key and secret.
    ///
    /// # Errors
    /// Fails if the code is wrong, has expired, or was used by another machine.
    pub fn join(&self, request: &JoinRequest) -> Result<Joined, Refusal> {
        let invalid = || {
            let why = "the code is wrong, was used or has expired: ask for a new invitation";
            Refusal::new(StatusCode::FORBIDDEN, why)
        };
        let key =
            request.public_key.parse::<PublicKey>().map_err(|why| Refusal::bad(format!("`public_key`: {why}")))?;
        let key = key.to_string();
        let hash = SecretHash::parse(&request.secret_sha256);
        let hash = hash.map_err(|why| Refusal::bad(format!("`secret_sha256`: {why}")))?;
        let (id, secret) = request.code.split_once('.').ok_or_else(invalid)?;
        if id.len() != ID_LEN || !id.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let found: Stored<InvitationRecord> = self.read(&format!("{INVITATIONS}{id}"))?.ok_or_else(invalid)?;
        if !found.record.secret.is_of(secret) {
            return Err(invalid());
        }
        if found.record.used_by.as_ref() == Some(&key) {
            let node = self.stored_node(&found.record.node)?.record;
            let is_again = node.public_key.as_ref() == Some(&key) && node.secret.as_ref() == Some(&hash);
            return if is_again { Ok(Joined { node: found.record.node }) } else { Err(invalid()) };
        }
        let (_, node) = self.change(|| {
            let found: Stored<InvitationRecord> = self.read(&format!("{INVITATIONS}{id}"))?.ok_or_else(invalid)?;
            if found.record.used_by.is_some() || found.record.expires_at <= unix_s() {
                return Err(invalid());
            }
            let name = found.record.node.clone();
            let nodes: Vec<(String, Stored<NodeRecord>)> = self.read_all(NODES)?;
            let old = nodes.iter().find(|(other, _)| *other == name).map(|(_, of)| of.clone()).ok_or_else(invalid)?;
            let node = NodeRecord { public_key: Some(key.clone()), secret: Some(hash.clone()), ..old.record };
            self.check_node(&name, &node, &nodes)?;
            let used = InvitationRecord { used_by: Some(key.clone()), ..found.record };
            Ok((vec![put(INVITATIONS, id, found.revision, &used)?, put(NODES, &name, old.revision, &node)?], name))
        })?;
        Ok(Joined { node })
    }
}
