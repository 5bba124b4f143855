//! Metrics for Prometheus: the data of `weft status` and `weft vpns` in its text format.
//!
//! They are served over HTTP on a Unix socket or the loopback interface, by threads of their own. They are off unless
//! the configuration has `[metrics]`.

mod cache;
mod families;
mod hosts;
mod http;
mod text;

use super::control::{TaskSender, serve_some};
use super::threads::{Pulse, Threads};
use crate::config::MetricsAddress;
use crate::files::{self, SocketFile};
use cache::Cache;
use hosts::Hosts;
use http::{MetricsAnswer, Stream};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use weft_control::{Request, Response};

/// Maximum number of clients at the same time. A further one is disconnected.
const MAX_CLIENTS: usize = 4;

/// The listening endpoint. Dropping it removes the file of a Unix socket.
pub struct MetricsServer {
    _file: Option<SocketFile>,
}

impl MetricsServer {
    /// Listens at `address` and queries the packet loop (`datapath`) through `tasks`.
    ///
    /// # Errors
    /// Returns the reason why that fails, as text for a reader.
    pub fn start(address: &MetricsAddress, tasks: TaskSender, threads: &Threads) -> Result<MetricsServer, String> {
        let describe = |why: io::Error| match address {
            MetricsAddress::Loopback(address) => {
                format!("cannot serve metrics at {address}: {why}: set another `listen` in [metrics]")
            }
            MetricsAddress::Unix(path) => format!(
                "cannot serve metrics at the Unix socket {}: {why}: set another `listen` in [metrics]",
                path.display()
            ),
        };
        start(address, tasks, threads).map_err(describe)
    }
}

fn start(address: &MetricsAddress, tasks: TaskSender, threads: &Threads) -> io::Result<MetricsServer> {
    let (name, log, shared) = ("weft-metrics", threads.log(), threads.clone());
    match address {
        MetricsAddress::Loopback(address) => {
            let listener = TcpListener::bind(address)?;
            log.info(format_args!("metrics are served at http://{address}/metrics"));
            let hosts = Hosts::Loopback(*address);
            threads.spawn(name, move |pulse| {
                serve(|| listener.accept().map(|(stream, _)| stream), hosts, &tasks, &shared, pulse)
            })?;
            Ok(MetricsServer { _file: None })
        }
        MetricsAddress::Unix(path) => {
            // The socket's group may scrape if it may enter the directory.
            let (listener, file) = files::bind(path, 0o660)?;
            log.info(format_args!("metrics are served at the Unix socket {}", path.display()));
            threads.spawn(name, move |pulse| {
                serve(|| listener.accept().map(|(stream, _)| stream), Hosts::Any, &tasks, &shared, pulse)
            })?;
            Ok(MetricsServer { _file: Some(file) })
        }
    }
}

/// Answers each client on a thread of its own.
fn serve<S: Stream + 'static>(
    mut accept: impl FnMut() -> io::Result<S>,
    hosts: Hosts,
    tasks: &TaskSender,
    threads: &Threads,
    pulse: &Pulse,
) -> ! {
    let cache = Arc::new(Cache::default());
    serve_some(
        || pulse.resting(&mut accept),
        MAX_CLIENTS,
        (threads, "weft-scrape"),
        |stream| {
            let (tasks, cache) = (tasks.clone(), Arc::clone(&cache));
            // A client that disconnects during its request is no error of the node.
            Some(move || drop(http::exchange(stream, hosts, || cache.get(|| metrics(&tasks)))))
        },
    )
}

fn metrics(tasks: &TaskSender) -> MetricsAnswer {
    match tasks.ask(Request::Status) {
        Response::Status(status) => MetricsAnswer::Metrics(families::write(&status)),
        Response::Refused { why } => MetricsAnswer::Unavailable(why),
        _ => MetricsAnswer::Unavailable("no status".to_owned()),
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
