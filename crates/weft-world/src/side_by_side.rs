//! Runs many jobs in parallel on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does every job, `threads` at a time. Returns the results in the order of the jobs.
///
/// The function calls `done` with the number of finished jobs and the number of all jobs.
pub fn side_by_side<J: Sync, R: Send>(
    threads: usize,
    jobs: &[J],
    work: impl Fn(&J) -> R + Sync,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Vec<R> {
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        let mut own = Vec::new();
        while let Some((number, job)) = take(&next, jobs) {
            own.push((number, work(job)));
            done(finished.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
        own
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, jobs.len().max(1))).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Vec<(usize, R)>>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().flat_map(join).collect()
    });
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

fn take<'a, J>(next: &AtomicUsize, jobs: &'a [J]) -> Option<(usize, &'a J)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(number).map(|job| (number, job))
}
