//! Transparent TCP proxies at the two edges of a tunnel (papers 001 and 002): between them a connection goes by explicit rates,
//! without either end host knowing.
//!
//! A proxy is a process of its own beside the daemon: a thread that hears the daemon (`head`) and some that hold connections (`worker`),
//! each with a table of descriptors of its own, since the kernel limits every table, not the process. What it diverts lives and dies with it: the nftables table by its
//! owner ([`crate::nft`]), the routing by the daemon ([`detour`]), and every connection is reset by the kernel, since it is closed with the
//! option to do so until it has ended in order.

mod bell;
mod connection;
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
mod room;
mod ruleset;
mod shadow;
mod share;
mod shared;
mod status;
mod sys;
mod table;
mod worker;

pub use orders::Order;
pub use rates::{Total, Totals};
pub use room::{Room, room, workers};
pub use ruleset::Names;
pub use shadow::{Shade, shades};
pub use share::level;
pub use status::{Refused, Status, Told};

use head::Head;
use listeners::Listeners;
use shared::Shared;
use std::io;
use std::thread;
use worker::Worker;

/// The first of these congestion controls that a socket gets here; `None` when it is none of them.
///
/// # Errors
/// When there is no socket.
pub fn congestion(names: &[String]) -> io::Result<Option<&str>> {
    let socket = sys::Socket::new((std::net::Ipv4Addr::LOCALHOST, 0).into(), 0)?;
    Ok(names.iter().map(String::as_str).find(|name| socket.set_congestion(name).is_ok()))
}

/// Proxies for the device `tun` until standard input ends, as the orders there say. The routing is the daemon's to set up; it is taken
/// back here too, in case nobody else is left to do so.
///
/// # Errors
/// When the kernel or nft refuse.
pub fn run(tun: &str) -> io::Result<()> {
    let names = Names::of(tun);
    let result = relay(&names);
    detour::unlead(&names);
    result
}

fn relay(names: &Names) -> io::Result<()> {
    let mut head = Head::new(names)?;
    let Some(first) = head.first_orders()? else { return Ok(()) };
    let workers = workers(first.policy.capacity)?;
    let (shared, listeners) = (Shared::new(workers)?, Listeners::open(names.own, workers)?);
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
