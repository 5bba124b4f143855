//! Records with revisions, in `redb` on this machine or in `etcd`.
//!
//! A record is a key, a value and the revision of the commit that wrote it. A commit states the revisions that it
//! expects of the records, and fails if one has another. Two writers thus never overwrite each other's changes. Once a
//! commit has returned its revision, its changes are on disk.

mod etcd;
mod redb;

pub use etcd::EtcdStore;
pub use redb::RedbStore;

use std::fmt;

/// Maximum length of a value, in bytes.
///
/// *Standard*: etcd accepts requests of 1.5 MiB. A value in base64, with the other changes of its commit, is shorter.
pub const MAX_VALUE: usize = 512 << 10;

/// Revision of a record that does not exist.
pub const ABSENT: u64 = 0;

/// A stored value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The value.
    pub value: Vec<u8>,
    /// Revision of the commit that wrote the value, above [`ABSENT`].
    pub revision: u64,
}

/// A commit's effect on a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Stores a value.
    Put(Vec<u8>),
    /// Removes the record, if it exists.
    Delete,
    /// Leaves the record unchanged. The commit only fails if its revision is not the expected one.
    Keep,
}

/// A part of a commit. All parts have different keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Key of the record.
    pub key: String,
    /// Revision that the record must have before the commit; [`ABSENT`] if it must not exist.
    pub expected: u64,
    /// Effect on the record.
    pub write: Write,
}

/// Reason why an operation of a store failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// A record has another revision than the commit expects. Nothing was changed.
    Conflict,
    /// The store failed. A commit may have been made or not.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Conflict => f.write_str("a record has changed meanwhile"),
            StoreError::Failed(why) => f.write_str(why),
        }
    }
}

/// A durable map from keys to records.
pub trait RecordStore: Send + Sync {
    /// Returns a record.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    fn get(&self, key: &str) -> Result<Option<Record>, StoreError>;

    /// Returns all records whose keys begin with `prefix`, in the order of their keys.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    fn list(&self, prefix: &str) -> Result<Vec<(String, Record)>, StoreError>;

    /// Makes all changes or none, and returns their revision, which is above all earlier ones.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if a record has another revision than expected.
    fn commit(&self, changes: &[Change]) -> Result<u64, StoreError>;
}
