//! Unfinished pings: the clients that wait, and the paths that have answered so far.

use std::sync::mpsc::SyncSender;
use std::time::Duration;
use weft_control::{Pong, Response};
use weft_engine::PeerSnapshot;
use weft_units::{Instant, PathId};

/// Maximum time to wait for a path's answer.
const PATIENCE: Duration = Duration::from_secs(2);

struct Ping {
    id: u32,
    deadline: Instant,
    paths: Vec<Pong>,
    reply: SyncSender<Response>,
}

/// All unfinished pings.
#[derive(Default)]
pub struct Pings {
    next_id: u32,
    list: Vec<Ping>,
}

impl Pings {
    /// Returns the id for a new ping.
    pub fn new_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    /// Records that the ping `id` was sent on every path of `peer`.
    pub fn started(&mut self, id: u32, now: Instant, peer: &PeerSnapshot, reply: SyncSender<Response>) {
        let pong = |path: &weft_engine::PathSnapshot| Pong {
            path: path.id.0,
            link: path.link_name.clone(),
            remote: super::shown::view::remote(&path.remote),
            rtt_us: None,
        };
        let paths = peer.paths.iter().map(pong).collect();
        self.list.push(Ping { id, deadline: now + PATIENCE, paths, reply });
        self.finish(now);
    }

    /// Records that a path has answered the ping `id` after the round-trip time `rtt`.
    pub fn answered(&mut self, id: u32, path: PathId, rtt: Duration) {
        let paths = self.list.iter_mut().filter(|ping| ping.id == id).flat_map(|ping| &mut ping.paths);
        for pong in paths.filter(|pong| pong.path == path.0) {
            pong.rtt_us = u64::try_from(rtt.as_micros()).ok();
        }
    }

    /// Sends the response of each ping that is complete or has timed out.
    pub fn finish(&mut self, now: Instant) {
        self.list.retain_mut(|ping| {
            let done = now >= ping.deadline || ping.paths.iter().all(|pong| pong.rtt_us.is_some());
            if done {
                // A client that has disconnected needs no answer.
                let _ = ping.reply.try_send(Response::Pongs { paths: std::mem::take(&mut ping.paths) });
            }
            !done
        });
    }

    /// Returns the time at which the first ping times out. `None` if no ping is unfinished.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.list.iter().map(|ping| ping.deadline).min()
    }
}
