//! Duplicate detection for packets that were deliberately sent twice.
//!
//! Source and packet number identify a packet, within a window of numbers.

use alloc::collections::BTreeMap;
use weft_units::{Duration, Instant, NodeId};

/// Maximum number of sources for which arrived packet numbers are stored. Beyond it, the oldest entry is deleted.
const SOURCES: usize = 256;
/// Time after which the stored numbers of a source are deleted if no packet that was sent twice arrived from it.
///
/// No copy of a packet stays in flight longer.
const MEMORY: Duration = Duration::from_secs(10);
/// Number of packet numbers of a source, the newest and those below it, for which it is stored whether they arrived.
const WINDOW: u32 = 128;

#[derive(Clone, Copy, Debug)]
struct DuplicateWindow {
    run: u32,
    newest: u32,
    /// Bit n is set if the number `newest` − n has arrived.
    seen: u128,
    used: Instant,
}

/// Packet numbers that arrived from each source, among packets that some node sent on two links.
#[derive(Clone, Debug, Default)]
pub struct Duplicates {
    windows: BTreeMap<NodeId, DuplicateWindow>,
}

impl Duplicates {
    /// True if the packet `seq` of this run of `source` is new.
    ///
    /// The run number rises when a node restarts. Packets of an earlier run, and packets older than the window, are
    /// not treated as new.
    pub fn is_new(&mut self, now: Instant, source: NodeId, run: u32, seq: u32) -> bool {
        self.evict_oldest(now, source);
        let fresh = DuplicateWindow { run, newest: seq, seen: 0, used: now };
        let window = self.windows.entry(source).or_insert(fresh);
        if run > window.run || now - window.used >= MEMORY {
            *window = fresh;
        } else if run < window.run {
            return false;
        }
        window.used = now;
        let ahead = seq.wrapping_sub(window.newest);
        if ahead as i32 > 0 {
            window.seen = window.seen.checked_shl(ahead).unwrap_or(0);
            window.newest = seq;
        }
        let age = window.newest.wrapping_sub(seq);
        let is_new = age < WINDOW && window.seen >> age & 1 == 0;
        if is_new {
            window.seen |= 1 << age;
        }
        is_new
    }

    fn evict_oldest(&mut self, now: Instant, source: NodeId) {
        if self.windows.len() < SOURCES || self.windows.contains_key(&source) {
            return;
        }
        self.windows.retain(|_, window| now - window.used < MEMORY);
        if self.windows.len() >= SOURCES
            && let Some(oldest) = self.windows.iter().min_by_key(|(_, window)| window.used).map(|(id, _)| *id)
        {
            self.windows.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_as_remembering_everything(start: u32, steps in prop::collection::vec((0u32..300, 0u32..2), 1..200)) {
            let mut duplicates = Duplicates::default();
            let mut seen: Vec<(u32, u32)> = Vec::new();
            let (mut run, mut newest) = (0, None);
            for (n, (offset, which)) in steps.into_iter().enumerate() {
                let (seq, of_run) = (start.wrapping_add(offset), which + u32::from(n > 100));
                let is_new = duplicates.is_new(Instant::ZERO, NodeId::default(), of_run, seq);
                if newest.is_none() || of_run > run {
                    (run, newest) = (of_run, Some(offset));
                }
                let latest = newest.unwrap_or(offset).max(offset);
                let expected = of_run == run && !seen.contains(&(of_run, seq)) && latest - offset < WINDOW;
                prop_assert_eq!(is_new, expected);
                if of_run == run {
                    newest = Some(latest);
                    seen.push((of_run, seq));
                }
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_ends() {
        let mut duplicates = Duplicates::default();
        let id = |n: u16| {
            let mut bytes = [0; 20];
            bytes[..2].copy_from_slice(&n.to_be_bytes());
            NodeId::new(bytes)
        };
        for n in 0..1_000 {
            assert!(duplicates.is_new(Instant::from_millis(n.into()), id(n), 5, 1));
            assert!(!duplicates.is_new(Instant::from_millis(n.into()), id(n), 5, 1));
            assert!(duplicates.windows.len() <= SOURCES);
        }
        let later = Instant::from_millis(999) + MEMORY;
        assert!(duplicates.is_new(later, id(999), 4, 1), "an older run after a clock that went back");
    }
}
