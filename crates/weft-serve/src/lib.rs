//! A web server's connections, with limits of the time and memory that their clients may waste.
//!
//! The programs `weft-web` and `weft-controller` listen by themselves. This crate serves their connections.
#![forbid(unsafe_code)]

mod patient;
mod seats;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use patient::Patient;
use seats::Seats;
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Maximum time until the head of a request has arrived.
///
/// It counts from the beginning of the connection or from the end of the previous answer.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Time after which a connection is closed if its client accepts no byte of an answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Pause after `accept` has failed, for example for lack of file descriptors. Then it is called again.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Maximum size of the head of a request, in bytes. It also limits the bytes that wait for a slow client.
const MAX_BUFFER: usize = 64 << 10;

/// Accepts connections for ever, and calls `converse` to serve each.
///
/// `accept` returns a connection and its client's address, or `None` for this machine. The number of connections that
/// are served at once is limited, for each client and in all. Further connections wait. A connection of a client that
/// has very many is closed. A failure of `accept` is not fatal: the next attempt follows later.
pub async fn accept_connections<S, C>(
    accept: impl AsyncFn() -> io::Result<(S, Option<IpAddr>)>,
    converse: impl Fn(S) -> C,
) where
    C: Future<Output = ()> + Send + 'static,
{
    let mut seats = Seats::new();
    loop {
        match accept().await {
            Ok((stream, address)) => {
                let Some(waiting) = seats.admit(address) else { continue };
                let conversation = converse(stream);
                tokio::spawn(async move {
                    // The connection keeps its seat until it ends. A seat is the right to be served.
                    let _seat = waiting.seat().await;
                    conversation.await;
                });
            }
            Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
        }
    }
}

/// Answers the requests that arrive on a connection, by `router`, until the connection ends.
pub async fn serve_connection<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(Patient::new(stream, WRITE_PATIENCE));
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(MAX_BUFFER);
    // A client that closes the connection early is no error of the server.
    let _ = connection.serve_connection(stream, TowerToHyperService::new(router)).await;
}
