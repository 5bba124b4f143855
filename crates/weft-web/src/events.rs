//! The last changes of the node's paths, as the node reports them.

use crate::snapshot::{ask, unix_ms};
use serde::Serialize;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use weft_control::{PathChange, Request, Response};

/// Maximum number of events that are kept.
///
/// *Tuned*: the user looks at the last few; 100 events are 20 kB.
const KEPT: usize = 100;

/// A change of a path's state, and the time at which this program received it.
#[derive(Clone, Serialize, Debug)]
pub struct PathEvent {
    /// Time at which this program received the change, in milliseconds since 1970.
    ///
    /// Absent: the change happened before this program began to watch the node.
    pub at_ms: Option<u64>,
    /// The change of the path, as the node reported it.
    #[serde(flatten)]
    pub change: PathChange,
}

/// The last changes of paths, at most `KEPT` of them.
#[derive(Default, Debug)]
pub struct EventLog(Mutex<Kept>);

#[derive(Default, Debug)]
struct Kept {
    events: VecDeque<PathEvent>,
    /// Number that the node gave to its last change.
    ///
    /// Absent: the node was not asked yet, or the last request failed, so that it may have restarted.
    last: Option<u64>,
}

impl EventLog {
    /// Waits some seconds for changes of paths of the node at `control`, and keeps them.
    ///
    /// Returns false if the node is unreachable.
    pub fn follow(&self, control: &Path) -> bool {
        let last = self.kept().last;
        let answer = ask(control, &Request::Watch { after: last.unwrap_or(0) });
        match answer {
            Ok(Response::Changes { changes }) => self.add(changes, last.is_some().then(unix_ms)),
            Ok(Response::Nothing) => {
                self.kept().last.get_or_insert(0);
            }
            _ => {
                // The node may restart, and it then numbers its changes from the beginning. All of them are therefore
                // requested again.
                self.kept().last = None;
                return false;
            }
        }
        true
    }

    /// Returns the last events, the newest last.
    pub fn events(&self) -> Vec<PathEvent> {
        self.kept().events.iter().cloned().collect()
    }

    fn add(&self, changes: Vec<PathChange>, at_ms: Option<u64>) {
        let mut kept = self.kept();
        if kept.last.is_none() {
            kept.events.clear();
        }
        for change in changes {
            kept.last = Some(change.number);
            kept.events.push_back(PathEvent { at_ms, change });
        }
        let surplus = kept.events.len().saturating_sub(KEPT);
        kept.events.drain(..surplus);
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_stay_and_a_restarted_node_begins_anew() {
        let change = |number| PathChange { number, peer: "hub".to_owned(), ..PathChange::default() };
        let log = EventLog::default();
        log.add((1..=70).map(change).collect(), None);
        log.add((71..=150).map(change).collect(), Some(5));
        let events = log.events();
        let numbers: Vec<u64> = events.iter().map(|event| event.change.number).collect();
        assert_eq!(numbers, (51..=150).collect::<Vec<_>>());
        assert!(events[0].at_ms.is_none() && events[99].at_ms == Some(5));
        assert!(!log.follow(Path::new("/nonexistent/control.sock")));
        log.add(vec![change(1)], None);
        assert_eq!(log.events().len(), 1);
    }
}
