//! Transparent TCP proxies at the two edges of a tunnel (papers 001 and 002).
//!
//! Between the two proxies a connection uses explicit rates, and neither end host knows of it.
//!
//! A proxy is a separate process that the daemon starts. One thread receives the daemon's orders (`head`), and others
//! forward connections (`worker`). Each worker has its own descriptor table, because the kernel limits each table, not
//! the process.
//! Everything that the proxy diverts ends with it. The nftables table ends with its owner ([`crate::nft`]). The daemon
//! removes the routing ([`detour`]). The kernel resets every connection that has not ended, because its sockets are set
//! to reset on close.

mod bell;
mod capacity;
mod connection;
mod descriptors;
pub mod detour;
mod direction;
mod granting;
mod head;
mod listeners;
pub mod nft;
mod orders;
pub mod permit;
pub mod policy;
mod pool;
mod rates;
mod repetition;
mod ruleset;
mod shadow;
mod share;
mod shared;
mod status;
mod sys;
mod table;
mod worker;

pub use capacity::{ProxyCapacity, plan_capacity, workers};
pub use orders::Order;
pub use rates::{PeerTotals, Total};
pub use ruleset::DiversionNames;
pub use shadow::{Shade, shades};
pub use share::level;
pub use status::{ProxyLine, ProxyStatus, RefusedConnection};

use head::HeadThread;
use listeners::Listeners;
use shared::ProxyState;
use std::io;
use std::thread;
use worker::Worker;

/// Returns the first of these congestion controls that a socket on this machine can use, or `None` if there is none.
///
/// # Errors
/// Fails if the kernel refuses a socket.
pub fn congestion(names: &[String]) -> io::Result<Option<&str>> {
    let socket = sys::Socket::new((std::net::Ipv4Addr::LOCALHOST, 0).into(), 0)?;
    Ok(names.iter().map(String::as_str).find(|name| socket.set_congestion(name).is_ok()))
}

/// Runs the proxy of the node with the TUN device `tun`, until standard input ends.
///
/// It reads its orders from standard input. The daemon sets up the routing. The proxy also removes it at the end, in
/// case the daemon has died.
///
/// # Errors
/// Fails if the kernel or nft returns an error.
pub fn run(tun: &str) -> io::Result<()> {
    let names = DiversionNames::of(tun);
    let result = relay(&names);
    detour::unlead(&names);
    result
}

fn relay(names: &DiversionNames) -> io::Result<()> {
    let mut head = HeadThread::new(names)?;
    let Some(first) = head.first_orders()? else { return Ok(()) };
    let workers = workers(first.policy.capacity)?;
    let (shared, listeners) = (ProxyState::new(workers)?, Listeners::open(names.own, workers)?);
    thread::scope(|scope| {
        let running = shared.running();
        let work = |index| {
            let (shared, listeners) = (&shared, &listeners);
            let work = move || {
                let _running = shared.running();
                Worker::new(index, names.own, shared, listeners)?.run()
            };
            thread::Builder::new().name(format!("worker {index}")).spawn_scoped(scope, work)
        };
        let threads: Vec<_> = (0..workers).map(work).collect::<io::Result<_>>()?;
        let result = head.run(first, &shared, &listeners);
        drop(running);
        let panicked = |_| Err(io::Error::other("a worker panicked"));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked)).and(result)
    })
}
