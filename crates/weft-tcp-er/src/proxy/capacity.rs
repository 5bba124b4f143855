//! Computes the number of connections and workers that the descriptor limit allows.
//!
//! Each worker has its own descriptor table, which may hold as many descriptors as the limit.

use super::descriptors;
use std::io;
use std::num::NonZero;
use std::thread::available_parallelism;

/// Number of descriptors that a worker needs other than those of connections, pipes and [`LISTENING`].
const OTHERS: usize = 80;
/// Number of listening sockets and wake-up descriptors for each worker.
///
/// The descriptor table of every worker contains those of all workers.
const LISTENING: usize = 9;
/// A fraction 1/64 of the capacity is kept as a reserve.
///
/// The reserve is for connections that arrive before the kernel stops diverting new connections to a full proxy.
const SPARE: usize = 64;
/// Maximum number of pipes that all workers use. The bytes of a connection without a pipe are copied.
///
/// The kernel gives an unprivileged user this many pipes of full size.
const PIPES: usize = 256;
/// Preferred number of workers if the machine has enough cores. The tunnel itself uses one thread.
const WANTED_WORKERS: usize = 2;
/// Maximum number of workers, however low the descriptor limit is.
const MOST_WORKERS: usize = 16;
/// Number of standard deviations that a worker's capacity lies above its mean number of connections.
///
/// The kernel distributes the connections to the workers at random.
const DEVIATIONS: usize = 6;

/// Maximum numbers of the proxy's connections and pipes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxyCapacity {
    /// Maximum number of connections of all workers together.
    pub connections: usize,
    /// Maximum number of connections of one worker.
    pub each: usize,
    /// Maximum number of pipes of one worker.
    pub pipes: usize,
}

impl ProxyCapacity {
    /// True if the proxy should accept no more connections.
    ///
    /// `own` is the number of connections of one worker, `all` that of all workers.
    pub fn is_full(&self, own: usize, all: usize) -> bool {
        own >= self.each || all >= self.connections
    }

    /// True if even the reserve is used up, so that connections that still arrive must be dropped.
    ///
    /// The parameters are those of [`ProxyCapacity::is_full`].
    pub fn is_crammed(&self, own: usize, all: usize) -> bool {
        own >= self.each + self.each / SPARE || all > self.connections + self.connections / SPARE
    }
}

/// Returns the capacity with `descriptors` descriptors for each worker, at most `wanted` connections.
///
/// A connection uses two descriptors, and so does a pipe.
pub fn capacity_within(descriptors: usize, wanted: usize, workers: usize) -> ProxyCapacity {
    let pipes = (PIPES / workers).min(descriptors / 32);
    let most = descriptors.saturating_sub(OTHERS + LISTENING * workers + 2 * pipes) / 2;
    let each = most - most / SPARE;
    let fitting = workers * if workers > 1 { mean_within(each) } else { each };
    ProxyCapacity { connections: wanted.min(fitting), each, pipes }
}

/// Returns the mean number of connections of a worker at which the number practically never exceeds `most`.
///
/// *Derived*: for the mean m, m + d·√m = `most`, where √m is the standard deviation and d is [`DEVIATIONS`].
fn mean_within(most: usize) -> usize {
    let half = DEVIATIONS * DEVIATIONS / 2;
    most + half - DEVIATIONS * (most + half / 2).isqrt()
}

/// Returns the least number of workers that can have `wanted` connections together.
///
/// It is at least [`WANTED_WORKERS`] or `cores`, whichever is less, and at most [`MOST_WORKERS`].
fn workers_in(descriptors: usize, wanted: usize, cores: usize) -> usize {
    let fits = |workers: &usize| capacity_within(descriptors, wanted, *workers).connections >= wanted;
    (WANTED_WORKERS.min(cores)..MOST_WORKERS).find(fits).unwrap_or(MOST_WORKERS)
}

/// Returns the number of descriptors that one worker needs for `connections`.
fn descriptors_for(connections: usize) -> usize {
    OTHERS + LISTENING * MOST_WORKERS + 2 * PIPES + 2 * (connections + connections / (SPARE - 1) + 1)
}

/// Raises this process's descriptor limit so that it suffices for `wanted` connections, as far as permitted.
///
/// Returns the resulting limit.
fn raise(wanted: usize) -> io::Result<usize> {
    let descriptors = descriptors::raise_descriptors(descriptors_for(wanted) as u64)?;
    Ok(usize::try_from(descriptors).unwrap_or(usize::MAX))
}

/// Returns the number of workers for `wanted` connections on this machine.
///
/// # Errors
/// Fails if the kernel does not return the descriptor limit.
pub fn workers(wanted: usize) -> io::Result<usize> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    Ok(workers_in(raise(wanted)?, wanted, cores))
}

/// Raises the descriptor limit for `wanted` connections and returns the resulting capacity.
///
/// # Errors
/// Fails if the kernel does not return the descriptor limit.
pub fn plan_capacity(wanted: usize, workers: usize) -> io::Result<ProxyCapacity> {
    Ok(capacity_within(raise(wanted)?, wanted, workers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_within_the_descriptors() {
        for descriptors in [0, 100, 256, 1_024, 20_000, 1 << 20] {
            for wanted in [0, 1, 100, 16_384, 1 << 20] {
                for workers in 1..=MOST_WORKERS {
                    let capacity = capacity_within(descriptors, wanted, workers);
                    assert!(capacity.connections <= wanted && capacity.connections <= workers * capacity.each);
                    let most =
                        (0..descriptors).rev().find(|own| !capacity.is_crammed(*own, 0)).map_or(0, |own| own + 1);
                    assert!(most == 0 || OTHERS + LISTENING * workers + 2 * (most + capacity.pipes) <= descriptors);
                }
            }
        }
        for wanted in [1, 500, 10_000, 16_384] {
            assert_eq!(capacity_within(descriptors_for(wanted), wanted, 1).connections, wanted);
        }
    }

    #[test]
    fn there_are_as_many_workers_as_needed() {
        assert_eq!([1, 2, 64].map(|cores| workers_in(65_536, 16_384, cores)), [1, 2, 2]);
        assert_eq!([1, 2, 64].map(|cores| workers_in(20_000, 16_384, cores)), [2, 2, 2]);
        assert_eq!(workers_in(20_000, 30_000, 2), 4);
        assert_eq!(workers_in(1_024, 1 << 20, 2), MOST_WORKERS);
    }

    #[test]
    fn a_worker_has_room_for_more_than_the_mean() {
        for most in [0, 1, 50, 9_600, 1 << 20] {
            let mean = mean_within(most);
            let deviation = (mean as f64).sqrt();
            assert!(
                mean <= most
                    && (mean as f64 + DEVIATIONS as f64 * deviation - most as f64).abs() <= 8.0 + deviation / 100.0
            );
        }
    }
}
