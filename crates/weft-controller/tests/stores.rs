//! Both stores against a model, over drawn sequences of operations.

mod common;

use common::{Dir, Etcd};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use weft_controller::http::Client;
use weft_controller::store::{ABSENT, Change, EtcdStore, Record, RecordStore, RedbStore, StoreError, Write};
use weft_controller::{Secret, tls};

/// Keys. Some are prefixes of others, and some sort directly after all keys with such a prefix.
const KEYS: [&str; 8] = ["a", "a/", "a/b", "a/b/c", "a/ÿ", "a0", "b", "\u{10ffff}"];

/// The revision of a record that a change expects.
#[derive(Clone, Copy, Debug)]
enum Expectation {
    /// The revision that the record has.
    Right,
    /// Another revision: the next one, that of an absent record, or a distant one.
    Wrong(u8),
}

fn change() -> impl Strategy<Value = (usize, Expectation, Write)> {
    let expectation = prop_oneof![
        5 => Just(Expectation::Right),
        1 => (0u8..3).prop_map(Expectation::Wrong),
    ];
    let write = prop_oneof![
        4 => vec(any::<u8>(), 0..40).prop_map(Write::Put),
        2 => Just(Write::Delete),
        1 => Just(Write::Keep),
    ];
    (0..KEYS.len(), expectation, write)
}

/// Runs commits on a store below `prefix` and on a model, and compares everything that can be read.
fn compare(
    store: &dyn RecordStore,
    prefix: &str,
    commits: Vec<Vec<(usize, Expectation, Write)>>,
) -> Result<(), TestCaseError> {
    let mut model: BTreeMap<String, Record> = BTreeMap::new();
    let mut last = 0;
    for commit in commits {
        let mut changes: BTreeMap<String, Change> = BTreeMap::new();
        for (at, expectation, write) in commit {
            let key = format!("{prefix}{}", KEYS[at]);
            let present = model.get(&key).map_or(ABSENT, |record| record.revision);
            let expected = match expectation {
                Expectation::Right => present,
                Expectation::Wrong(0) => present + 1,
                Expectation::Wrong(1) if present != ABSENT => ABSENT,
                Expectation::Wrong(_) => present + (1 << 40),
            };
            changes.insert(key.clone(), Change { key, expected, write });
        }
        let changes: Vec<Change> = changes.into_values().collect();
        let fits = |change: &Change| model.get(&change.key).map_or(ABSENT, |record| record.revision) == change.expected;
        match store.commit(&changes) {
            Ok(revision) => {
                prop_assert!(changes.iter().all(fits), "{:?} was not refused", changes);
                let writes = changes.iter().any(|change| match change.write {
                    Write::Put(_) => true,
                    Write::Delete => model.contains_key(&change.key),
                    Write::Keep => false,
                });
                prop_assert!(revision > last || !writes, "{} after {}", revision, last);
                last = revision.max(last);
                for Change { key, write, .. } in changes {
                    match write {
                        Write::Put(value) => drop(model.insert(key, Record { value, revision })),
                        Write::Delete => drop(model.remove(&key)),
                        Write::Keep => {}
                    }
                }
            }
            Err(StoreError::Conflict) => prop_assert!(!changes.iter().all(fits), "{:?} was refused", changes),
            Err(why) => return Err(TestCaseError::fail(why.to_string())),
        }
        for part in ["", "a", "a/", "a/b", "b", "c", "\u{10ffff}"] {
            let part = format!("{prefix}{part}");
            let expected: Vec<_> = model
                .iter()
                .filter(|(key, _)| key.starts_with(&part))
                .map(|(key, record)| (key.clone(), record.clone()))
                .collect();
            prop_assert_eq!(store.list(&part), Ok(expected), "{}", part);
        }
        for key in KEYS {
            let key = format!("{prefix}{key}");
            prop_assert_eq!(store.get(&key), Ok(model.get(&key).cloned()));
        }
    }
    Ok(())
}

/// Each case has keys of its own, since the store stays open.
fn compare_many(store: &dyn RecordStore, cases: u32) {
    let mut runner = TestRunner::new(Config { cases, max_shrink_iters: 50, ..Config::default() });
    let own = || format!("{}/", Secret::random().unwrap().text());
    runner.run(&vec(vec(change(), 1..6), 1..12), |commits| compare(store, &own(), commits)).unwrap();
}

fn etcd_store(etcd: &Etcd) -> EtcdStore {
    let client = Client::new(tls::client(None, None).unwrap());
    // The first endpoint refuses connections.
    let endpoints = vec!["http://127.0.0.1:1".parse().unwrap(), etcd.url().parse().unwrap()];
    EtcdStore::new(endpoints, client, "test/".to_owned()).unwrap()
}

#[test]
fn redb_does_what_the_model_does() {
    let dir = Dir::new();
    compare_many(&RedbStore::open(&dir.path("a.redb")).unwrap(), 64);
}

#[test]
fn etcd_does_what_the_model_does() {
    let dir = Dir::new();
    let Some(etcd) = Etcd::start(&dir.path("etcd")) else { return };
    compare_many(&etcd_store(&etcd), 24);
}

#[test]
fn a_list_of_several_pages_is_complete() {
    let dir = Dir::new();
    let Some(etcd) = Etcd::start(&dir.path("etcd")) else { return };
    let store = etcd_store(&etcd);
    let put = |number: usize| Change { key: format!("many/{number:05}"), expected: ABSENT, write: Write::Put(vec![7]) };
    for first in (0..1_200).step_by(100) {
        store.commit(&(first..first + 100).map(put).collect::<Vec<_>>()).unwrap();
    }
    let keys: Vec<_> = store.list("many/").unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, (0..1_200).map(|number| format!("many/{number:05}")).collect::<Vec<_>>());
}

#[test]
fn a_file_serves_one_process_and_is_for_its_owner() {
    let dir = Dir::new();
    let path = dir.path("a.redb");
    let first = RedbStore::open(&path).unwrap();
    let Err(StoreError::Failed(why)) = RedbStore::open(&path).map(drop) else { panic!("opened twice") };
    assert!(why.contains("another weft-controller uses it"), "{why}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    drop(first);
    std::fs::write(&path, vec![9; 100_000]).unwrap();
    assert!(matches!(RedbStore::open(&path), Err(StoreError::Failed(_))), "any file is no database");
}

#[test]
fn an_etcd_that_is_away_is_an_error_with_its_address() {
    let client = Client::new(tls::client(None, None).unwrap());
    let store = EtcdStore::new(vec!["http://127.0.0.1:1".parse().unwrap()], client, String::new()).unwrap();
    let Err(StoreError::Failed(why)) = store.get("a") else { panic!("an answer of nobody") };
    assert!(why.contains("http://127.0.0.1:1"), "{why}");
}
