//! Polls the node once a second for all browsers together.
//!
//! A poll becomes one server-sent event, whose bytes all browsers share. When a browser can receive an event, it gets
//! the newest one. A slow browser thus skips events and delays no other browser. Without a browser the node is not
//! polled.

use crate::changes::NodeChanges;
use crate::events::EventLog;
use crate::snapshot::{NodeView, read, read_map};
use axum::body::Bytes;
use futures_util::Stream;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};
use weft_control::status::LinkMap;

/// Interval at which the node is polled.
///
/// *Standard*: the node computes rates once a second.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the link map is read.
///
/// *Tuned*: claims of nodes change every few seconds.
const MAP_INTERVAL: Duration = Duration::from_secs(5);
/// Pause before the next attempt to wait for path changes, if the node was unreachable.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// Maximum size of a server-sent event, in bytes. The largest status (8 MiB) fits with link map and flows.
const MAX_EVENT: usize = 32 << 20;

/// The newest server-sent event, and the time at which the node was polled for it.
#[derive(Clone, Default)]
struct LatestEvent {
    bytes: Bytes,
    polled: Option<Instant>,
}

/// The link map and the time at which it was read.
struct ReadMap {
    at: Instant,
    map: Option<LinkMap>,
}

/// The source of events for all browsers.
pub struct Feed {
    control: PathBuf,
    changes: Arc<NodeChanges>,
    frames: watch::Sender<LatestEvent>,
    wanted: Notify,
    events: Arc<EventLog>,
}

impl Feed {
    /// Creates a feed from the node at `control`.
    pub fn new(control: PathBuf, changes: Arc<NodeChanges>) -> Arc<Feed> {
        let frames = watch::Sender::new(LatestEvent::default());
        Arc::new(Feed { control, changes, frames, wanted: Notify::new(), events: Arc::default() })
    }

    /// Returns a stream of the events for one browser.
    ///
    /// It begins with the newest event if that is less than a second old.
    pub fn subscribe(&self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + use<> {
        let mut receiver = self.frames.subscribe();
        if receiver.borrow().polled.is_some_and(|polled| polled.elapsed() < INTERVAL) {
            receiver.mark_changed();
        }
        self.wanted.notify_waiters();
        self.wanted.notify_one();
        futures_util::stream::unfold(receiver, |mut receiver| async {
            receiver.changed().await.ok()?;
            let bytes = receiver.borrow_and_update().bytes.clone();
            Some((Ok(bytes), receiver))
        })
    }

    /// Polls the node as long as at least one browser receives the events.
    pub async fn run(self: Arc<Feed>) {
        tokio::spawn(Arc::clone(&self).watch());
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut map = None;
        loop {
            self.until_wanted().await;
            ticks.tick().await;
            let feed = Arc::clone(&self);
            let polled = spawn_blocking(move || feed.poll(map)).await;
            let Ok((bytes, read)) = polled else { return };
            map = read;
            self.frames.send_replace(LatestEvent { bytes, polled: Some(Instant::now()) });
        }
    }

    /// Records the path changes that the node reports, as long as at least one browser receives the events.
    async fn watch(self: Arc<Feed>) {
        loop {
            self.until_wanted().await;
            let feed = Arc::clone(&self);
            let followed = spawn_blocking(move || feed.events.follow(&feed.control)).await;
            if !followed.unwrap_or(false) {
                sleep(AFTER_FAILURE).await;
            }
        }
    }

    /// Waits until at least one browser receives the events.
    async fn until_wanted(&self) {
        while self.frames.receiver_count() == 0 {
            self.wanted.notified().await;
        }
    }

    /// Reads the node's status, and the link map if `map` is older than [`MAP_INTERVAL`].
    ///
    /// Returns the server-sent event and the link map.
    fn poll(&self, map: Option<ReadMap>) -> (Bytes, Option<ReadMap>) {
        let mut snapshot = read(&self.control);
        let has_overlay = snapshot.status.as_ref().is_some_and(|status| status.overlay.is_some());
        let map = match map {
            Some(known) if known.at.elapsed() < MAP_INTERVAL => Some(known),
            _ if has_overlay => Some(ReadMap { at: Instant::now(), map: read_map(&self.control) }),
            _ => None,
        };
        snapshot.map = map.as_ref().and_then(|read| read.map.clone());
        snapshot.events = self.events.events();
        snapshot.allows_changes = self.changes.are_allowed();
        snapshot.invitation = self.changes.invitations().state();
        (event(&snapshot), map)
    }
}

/// Returns a snapshot as a server-sent event, which is one line of JSON.
fn event(snapshot: &NodeView) -> Bytes {
    let mut bytes = b"data: ".to_vec();
    let written = serde_json::to_writer(&mut bytes, snapshot);
    if written.is_err() || bytes.len() > MAX_EVENT {
        bytes = b"data: {\"error\":\"the status of the node is too large for the page\"}".to_vec();
    }
    bytes.extend(b"\n\n");
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn an_event_is_one_line_and_an_empty_one_whatever_it_says() {
        let error = Some("a\nb\r\n\n\u{2028}data: c".to_owned());
        let bytes = event(&NodeView { error, ..NodeView::default() });
        let text = std::str::from_utf8(&bytes).unwrap();
        let line = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(!line.contains(['\n', '\r']), "{line}");
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["error"], "a\nb\r\n\n\u{2028}data: c");
    }

    #[test]
    fn a_missing_node_is_told_with_its_socket() {
        let error = read(Path::new("/nonexistent/control.sock")).error.unwrap();
        assert!(error.contains("no node is running at the control socket /nonexistent/control.sock"), "{error}");
    }
}
