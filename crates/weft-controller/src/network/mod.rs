//! The state of a network, and its changes.
//!
//! A change reads the records that it depends on, checks them, and commits if no other commit was made meanwhile. To
//! detect other commits, every commit changes one record, the generation. Two controllers that use the same etcd thus
//! never commit contradictory records.

mod configurations;
mod invitations;
mod nodes;

pub use configurations::{EffectiveConfiguration, Text};
pub use invitations::{Code, InvitationView, JoinRequest, Joined, NewInvitation};
pub use nodes::{NewNode, NodeView};

use crate::records::GENERATION;
use crate::refusal::Refusal;
use crate::store::{ABSENT, Change, RecordStore, StoreError, Write};
use axum::http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of attempts of a change. An attempt fails if another controller commits meanwhile.
const ATTEMPTS: u32 = 8;

/// State that a record must have for a request to succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precondition {
    /// `If-Match`: the record has this revision.
    Revision(u64),
    /// `If-None-Match: *`: the record does not exist.
    Absent,
}

/// A record as a Rust value, with its revision in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored<T> {
    /// The record.
    pub record: T,
    /// Revision of the commit that wrote the record.
    pub revision: u64,
}

/// The network that a controller manages: its nodes, policy and configurations in the store.
pub struct Network {
    store: Box<dyn RecordStore>,
    /// Lock that a change holds, so that the changes of one controller run one after the other.
    turn: Mutex<()>,
}

impl Network {
    /// Returns the network whose records are in `store`.
    pub fn new(store: Box<dyn RecordStore>) -> Network {
        Network { store, turn: Mutex::default() }
    }

    /// Commits the changes that `plan` returns. Calls `plan` again if another commit was made meanwhile.
    ///
    /// Returns the new revision and the other result of `plan`.
    fn change<T>(&self, plan: impl Fn() -> Result<(Vec<Change>, T), Refusal>) -> Result<(u64, T), Refusal> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = Refusal::from(StoreError::Conflict);
        for _ in 0..ATTEMPTS {
            let generation = self.store.get(GENERATION)?.map_or(ABSENT, |record| record.revision);
            let (mut changes, result) = plan()?;
            changes.push(Change { key: GENERATION.to_owned(), expected: generation, write: Write::Put(Vec::new()) });
            match self.store.commit(&changes) {
                Ok(revision) => return Ok((revision, result)),
                Err(StoreError::Conflict) => last = StoreError::Conflict.into(),
                Err(why) => return Err(why.into()),
            }
        }
        Err(last)
    }

    fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<Stored<T>>, Refusal> {
        let found = self.store.get(key)?;
        found.map(|found| Ok(Stored { record: parsed(key, &found.value)?, revision: found.revision })).transpose()
    }

    /// Returns all records whose keys begin with `prefix`, each with the rest of its key.
    fn read_all<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<(String, Stored<T>)>, Refusal> {
        let all = self.store.list(prefix)?.into_iter();
        all.map(|(key, found)| {
            let stored = Stored { record: parsed(&key, &found.value)?, revision: found.revision };
            Ok((key.get(prefix.len()..).unwrap_or_default().to_owned(), stored))
        })
        .collect()
    }
}

/// Checks that a record is in the expected state. Returns the revision that the commit must expect.
///
/// `what` names the record in messages, and `found` is the record.
fn expect<T>(what: &str, found: Option<&Stored<T>>, precondition: Precondition) -> Result<u64, Refusal> {
    let failed = |detail: String| Refusal::new(StatusCode::PRECONDITION_FAILED, detail);
    match (found, precondition) {
        (None, Precondition::Absent) => Ok(ABSENT),
        (Some(found), Precondition::Revision(revision)) if found.revision == revision => Ok(revision),
        (Some(found), Precondition::Revision(_)) => Err(failed(format!(
            "another request has changed {what}, which now has revision {}: read it again, and repeat your change",
            found.revision
        ))),
        (Some(_), Precondition::Absent) => {
            Err(failed(format!("{what} exists already: to replace it, send the header If-Match with its revision")))
        }
        (None, Precondition::Revision(_)) => {
            Err(failed(format!("{what} does not exist: to create it, send the header If-None-Match: *")))
        }
    }
}

fn parsed<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(value).map_err(|why| {
        let why = format!(
            "the controller's database has a record {key} that is damaged or of another version of weft-controller: \
             {why}: use the newest weft-controller"
        );
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    })
}

/// Returns the change that stores `record`, whose revision must be `expected`.
fn put<T: Serialize>(prefix: &str, name: &str, expected: u64, record: &T) -> Result<Change, Refusal> {
    let value = serde_json::to_vec(record);
    let value = value.map_err(|why| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()))?;
    Ok(Change { key: format!("{prefix}{name}"), expected, write: Write::Put(value) })
}

/// Returns the wall clock in seconds since 1970.
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
