//! How many connections descriptors are enough for, and how many workers: each has descriptors of its own, as many as the limit.

use super::sys;
use std::io;
use std::num::NonZero;
use std::thread::available_parallelism;

/// Descriptors of a worker beside those of connections, pipes and listening sockets.
const OTHERS: usize = 80;
/// Listening sockets of a worker, which all workers' descriptors name, and what wakes it.
const LISTENING: usize = 9;
/// Connections that may come on top while the diversion is taken back, as a part of those there is room for.
const SPARE: usize = 64;
/// Pipes that may be in use; who finds none is copied for. The kernel gives so many their full size to a user without privileges.
const PIPES: usize = 256;
/// Workers where there are cores for them: the tunnel itself has one thread.
const WANTED_WORKERS: usize = 2;
/// The most there are, however few descriptors.
const MOST_WORKERS: usize = 16;
/// Connections fall to workers by chance: by how many standard deviations a worker may have more than the mean.
const DEVIATIONS: usize = 6;

/// What there is room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Connections that are taken in, by all workers.
    pub connections: usize,
    /// Connections of one worker that are taken in.
    pub each: usize,
    /// Pipes of one worker.
    pub pipes: usize,
}

impl Room {
    /// Whether there are so many connections, `own` of them one worker's, that no more are to be taken in.
    pub fn is_full(&self, own: usize, all: usize) -> bool {
        own >= self.each || all >= self.connections
    }

    /// Whether there are so many that those which come nevertheless do not fit.
    pub fn is_crammed(&self, own: usize, all: usize) -> bool {
        own >= self.each + self.each / SPARE || all > self.connections + self.connections / SPARE
    }
}

/// What `descriptors` for each of `workers` are enough for, `wanted` connections at most: each has two, so has each pipe.
pub fn room_in(descriptors: usize, wanted: usize, workers: usize) -> Room {
    let pipes = (PIPES / workers).min(descriptors / 32);
    let most = descriptors.saturating_sub(OTHERS + LISTENING * workers + 2 * pipes) / 2;
    let each = most - most / SPARE;
    let fitting = workers * if workers > 1 { mean_within(each) } else { each };
    Room { connections: wanted.min(fitting), each, pipes }
}

/// The mean m of a number that as good as never exceeds `most`: m + d √m = `most`, where √m is the standard deviation.
fn mean_within(most: usize) -> usize {
    let half = DEVIATIONS * DEVIATIONS / 2;
    most + half - DEVIATIONS * (most + half / 2).isqrt()
}

/// Workers for `wanted` connections.
fn workers_in(descriptors: usize, wanted: usize, cores: usize) -> usize {
    let fits = |workers: &usize| room_in(descriptors, wanted, *workers).connections >= wanted;
    (WANTED_WORKERS.min(cores)..MOST_WORKERS).find(fits).unwrap_or(MOST_WORKERS)
}

/// Descriptors that one worker wants for `connections`.
fn descriptors_for(connections: usize) -> usize {
    OTHERS + LISTENING * MOST_WORKERS + 2 * PIPES + 2 * (connections + connections / (SPARE - 1) + 1)
}

/// Raises the limit of descriptors for `wanted` connections.
fn raise(wanted: usize) -> io::Result<usize> {
    let descriptors = sys::raise_descriptors(descriptors_for(wanted) as u64)?;
    Ok(usize::try_from(descriptors).unwrap_or(usize::MAX))
}

/// How many workers `wanted` connections are for.
///
/// # Errors
/// When the kernel does not tell the limit of descriptors.
pub fn workers(wanted: usize) -> io::Result<usize> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    Ok(workers_in(raise(wanted)?, wanted, cores))
}

/// Raises the limit of descriptors for `wanted` connections of so many workers, and says for how many it is enough.
///
/// # Errors
/// When the kernel does not tell the limit.
pub fn room(wanted: usize, workers: usize) -> io::Result<Room> {
    Ok(room_in(raise(wanted)?, wanted, workers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_within_the_descriptors() {
        for descriptors in [0, 100, 256, 1_024, 20_000, 1 << 20] {
            for wanted in [0, 1, 100, 16_384, 1 << 20] {
                for workers in 1..=MOST_WORKERS {
                    let room = room_in(descriptors, wanted, workers);
                    assert!(room.connections <= wanted && room.connections <= workers * room.each);
                    let most = (0..descriptors).rev().find(|own| !room.is_crammed(*own, 0)).map_or(0, |own| own + 1);
                    assert!(most == 0 || OTHERS + LISTENING * workers + 2 * (most + room.pipes) <= descriptors);
                }
            }
        }
        for wanted in [1, 500, 10_000, 16_384] {
            assert_eq!(room_in(descriptors_for(wanted), wanted, 1).connections, wanted);
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
