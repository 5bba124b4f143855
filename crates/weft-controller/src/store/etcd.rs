//! The store in etcd, which it reaches through etcd's gateway for JSON over HTTP.
//!
//! A commit is one transaction of etcd, and the revision of a record is its `mod_revision`. Reads are linearizable, so
//! several controllers may share a cluster. A request goes to the first endpoint that accepts a connection.

use super::{Change, Record, RecordStore, StoreError, Write};
use crate::http::{Client, ClientError, Endpoint};
use base64ct::{Base64, Encoding as _};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Maximum number of records in one answer of etcd (a page). *Tuned*: a page of short records is below 1 MB.
const PAGE: usize = 512;

/// A store in an etcd cluster. All its keys begin with one prefix.
pub struct EtcdStore {
    endpoints: Vec<Endpoint>,
    client: Client,
    prefix: String,
    /// Runtime that runs the requests, so that callers need not be asynchronous.
    runtime: Runtime,
}

impl EtcdStore {
    /// Uses the cluster with these endpoints. All keys begin with `prefix`.
    ///
    /// # Errors
    /// Fails if the runtime of the requests cannot start.
    pub fn new(endpoints: Vec<Endpoint>, client: Client, prefix: String) -> Result<EtcdStore, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| {
            StoreError::Failed(format!(
                "cannot start the event loop of weft-controller: {why}: check the limits of open files and memory"
            ))
        })?;
        Ok(EtcdStore { endpoints, client, prefix, runtime })
    }

    /// Sends a request to the first endpoint that accepts a connection, and returns the answer.
    fn request<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, StoreError> {
        let mut last = "no etcd is configured: give --etcd".to_owned();
        for endpoint in &self.endpoints {
            match self.runtime.block_on(self.client.post(endpoint, path, body.to_string())) {
                Ok((200, answer)) => {
                    return serde_json::from_slice(&answer).map_err(|why| {
                        StoreError::Failed(format!("the answer of {endpoint} is not that of etcd: {why}: check --etcd"))
                    });
                }
                Ok((status, answer)) => {
                    let text = String::from_utf8_lossy(&answer).chars().take(200).collect::<String>();
                    return Err(StoreError::Failed(format!(
                        "etcd at {endpoint} refused a request with HTTP status {status}: {text}: see the log of etcd"
                    )));
                }
                // Nothing was sent, so another endpoint may be asked.
                Err(ClientError::NotConnected(why)) => last = format!("cannot query etcd at {endpoint}: {why}"),
                Err(ClientError::Broken(why)) => {
                    return Err(StoreError::Failed(format!("cannot query etcd at {endpoint}: {why}")));
                }
            }
        }
        Err(StoreError::Failed(last))
    }

    fn key(&self, key: &str) -> String {
        Base64::encode_string(format!("{}{key}", self.prefix).as_bytes())
    }

    /// Returns the records in a range of keys. `body` is the range request in the form of etcd's gateway.
    fn range(&self, body: &Value) -> Result<RangeAnswer, StoreError> {
        self.request("/v3/kv/range", body)
    }

    fn record(&self, found: KeyValue) -> Result<(String, Record), StoreError> {
        let wrong = || StoreError::Failed("etcd answered a record that is not of the controller".to_owned());
        let key = Base64::decode_vec(&found.key).ok().and_then(|key| String::from_utf8(key).ok());
        let key = key.as_deref().and_then(|key| key.strip_prefix(&self.prefix)).ok_or_else(wrong)?.to_owned();
        let value = Base64::decode_vec(&found.value).map_err(|_| wrong())?;
        Ok((key, Record { value, revision: found.mod_revision }))
    }
}

impl RecordStore for EtcdStore {
    fn get(&self, key: &str) -> Result<Option<Record>, StoreError> {
        let answer = self.range(&json!({ "key": self.key(key) }))?;
        answer.kvs.into_iter().next().map(|found| self.record(found).map(|(_, record)| record)).transpose()
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Record)>, StoreError> {
        let end = Base64::encode_string(&end_of(format!("{}{prefix}", self.prefix).as_bytes()));
        let (mut start, mut revision, mut all) = (self.key(prefix), None::<u64>, Vec::new());
        loop {
            let mut body = json!({ "key": start, "range_end": end, "limit": PAGE.to_string() });
            if let Some(revision) = revision {
                // All pages are read at the revision of the first page. Later commits thus do not change the result.
                body["revision"] = json!(revision.to_string());
            }
            let answer = self.range(&body)?;
            revision = Some(answer.header.revision);
            for found in answer.kvs {
                all.push(self.record(found)?);
            }
            match all.last() {
                Some((last, _)) if answer.more => start = self.key(&format!("{last}\0")),
                _ => return Ok(all),
            }
        }
    }

    fn commit(&self, changes: &[Change]) -> Result<u64, StoreError> {
        let compare: Vec<Value> = changes
            .iter()
            .map(|change| {
                let (key, expected) = (self.key(&change.key), change.expected.to_string());
                json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": expected })
            })
            .collect();
        let writes = changes.iter().filter_map(|change| match &change.write {
            Write::Put(value) => {
                Some(json!({ "request_put": { "key": self.key(&change.key), "value": Base64::encode_string(value) } }))
            }
            Write::Delete => Some(json!({ "request_delete_range": { "key": self.key(&change.key) } })),
            Write::Keep => None,
        });
        let body = json!({ "compare": compare, "success": writes.collect::<Vec<_>>() });
        let answer: CommitAnswer = self.request("/v3/kv/txn", &body)?;
        if answer.succeeded { Ok(answer.header.revision) } else { Err(StoreError::Conflict) }
    }
}

/// Returns the least key that is greater than every key that begins with `prefix`.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // No such key exists. In etcd, a range that ends with one zero byte includes all later keys.
    vec![0]
}

/// Reads a 64-bit number, which the gateway writes as text.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

#[derive(Deserialize)]
struct AnswerHeader {
    #[serde(deserialize_with = "number")]
    revision: u64,
}

#[derive(Deserialize)]
struct RangeAnswer {
    header: AnswerHeader,
    #[serde(default)]
    kvs: Vec<KeyValue>,
    #[serde(default)]
    more: bool,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(deserialize_with = "number")]
    mod_revision: u64,
}

#[derive(Deserialize)]
struct CommitAnswer {
    header: AnswerHeader,
    #[serde(default)]
    succeeded: bool,
}
