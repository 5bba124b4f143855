//! The store in a file of this machine.

use super::{ABSENT, Change, Record, RecordStore, StoreError, Write};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use std::fmt::Display;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Table of the database with the key, revision and value of each record.
const RECORDS: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("records");
/// Table of the database with one entry, at key 0: the revision of the last commit.
const LAST: TableDefinition<'_, u8, u64> = TableDefinition::new("last revision");

/// A store in a file that only its owner can access.
pub struct RedbStore {
    database: Database,
}

impl RedbStore {
    /// Opens the file at `path`, and creates it if it is missing.
    ///
    /// # Errors
    /// Returns why the file cannot be opened, for instance because another process has it open.
    pub fn open(path: &Path) -> Result<RedbStore, StoreError> {
        let told = |why: String| {
            StoreError::Failed(format!(
                "cannot open the controller's database {}: {why}: check this file, or give another --dir",
                path.display()
            ))
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        drop(options.open(path).map_err(|why| told(why.to_string()))?);
        let database = Database::create(path).map_err(|why| match why {
            redb::DatabaseError::DatabaseAlreadyOpen => told("another weft-controller uses it".to_owned()),
            why => told(why.to_string()),
        })?;
        let store = RedbStore { database };
        store.create_tables().map_err(|why| told(why.to_string()))?;
        Ok(store)
    }

    fn create_tables(&self) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        drop(transaction.open_table(RECORDS)?);
        drop(transaction.open_table(LAST)?);
        Ok(transaction.commit()?)
    }

    fn try_commit(&self, changes: &[Change]) -> Result<Option<u64>, redb::Error> {
        let mut transaction = self.database.begin_write()?;
        // With quick repair, the start after a crash is as fast as any other. In return each commit is written in two
        // phases.
        transaction.set_quick_repair(true);
        let revision = {
            let mut records = transaction.open_table(RECORDS)?;
            for Change { key, expected, .. } in changes {
                let revision = records.get(key.as_str())?.map_or(ABSENT, |found| found.value().0);
                if revision != *expected {
                    return Ok(None);
                }
            }
            let mut last = transaction.open_table(LAST)?;
            let revision = last.get(0)?.map_or(0, |last| last.value()) + 1;
            for Change { key, write, .. } in changes {
                match write {
                    Write::Put(value) => drop(records.insert(key.as_str(), (revision, value.as_slice()))?),
                    Write::Delete => drop(records.remove(key.as_str())?),
                    Write::Keep => {}
                }
            }
            last.insert(0, revision)?;
            revision
        };
        transaction.commit()?;
        Ok(Some(revision))
    }

    fn try_list(&self, prefix: &str) -> Result<Vec<(String, Record)>, redb::Error> {
        let records = self.database.begin_read()?.open_table(RECORDS)?;
        let mut found = Vec::new();
        for entry in records.range(prefix..)? {
            let (key, value) = entry?;
            if !key.value().starts_with(prefix) {
                break;
            }
            let (revision, value) = value.value();
            found.push((key.value().to_owned(), Record { value: value.to_vec(), revision }));
        }
        Ok(found)
    }

    fn try_get(&self, key: &str) -> Result<Option<Record>, redb::Error> {
        let records = self.database.begin_read()?.open_table(RECORDS)?;
        Ok(records.get(key)?.map(|found| {
            let (revision, value) = found.value();
            Record { value: value.to_vec(), revision }
        }))
    }
}

impl RecordStore for RedbStore {
    fn get(&self, key: &str) -> Result<Option<Record>, StoreError> {
        self.try_get(key).map_err(failed)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Record)>, StoreError> {
        self.try_list(prefix).map_err(failed)
    }

    fn commit(&self, changes: &[Change]) -> Result<u64, StoreError> {
        self.try_commit(changes).map_err(failed)?.ok_or(StoreError::Conflict)
    }
}

fn failed(why: impl Display) -> StoreError {
    StoreError::Failed(format!("cannot access the database file in the directory of --dir: {why}: check its disk"))
}
