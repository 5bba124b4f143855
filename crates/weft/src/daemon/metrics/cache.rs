//! Cache of the last answer to a scrape, for one second.
//!
//! A snapshot of the engine takes time from the packet loop (`datapath`). The cache bounds this time, however often
//! the metrics are scraped.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time for which an answer is used again.
const FRESH: Duration = Duration::from_secs(1);

/// The last answer, and when it was requested.
pub struct Cache<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Cache<T> {
    fn default() -> Cache<T> {
        Cache(Mutex::default())
    }
}

impl<T> Cache<T> {
    /// Returns the last answer, or a new one if it is older than a second.
    ///
    /// If another thread is making the answer, the caller waits for it.
    pub fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((at, answer)) if at.elapsed() < FRESH => Arc::clone(answer),
            _ => {
                let answer = Arc::new(make());
                *kept = Some((Instant::now(), Arc::clone(&answer)));
                answer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    #[test]
    fn one_answer_is_made_a_second_however_many_ask() {
        let (cache, made) = (Cache::default(), AtomicU32::new(0));
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while began.elapsed() < Duration::from_millis(1_500) {
                        let answer = cache.get(|| made.fetch_add(1, Ordering::Relaxed));
                        assert!(*answer < made.load(Ordering::Relaxed));
                        thread::sleep(Duration::from_millis(1));
                    }
                });
            }
        });
        let most = 1 + began.elapsed().as_secs() as u32;
        assert!((2..=most).contains(&made.into_inner()), "{most} at most");
    }
}
