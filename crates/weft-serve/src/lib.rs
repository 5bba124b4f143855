//! One connection of a web server, with limits of the time and memory that its client may waste.
//!
//! The programs `weft-web` and `weft-controller` accept connections in their own ways, and serve them here.
#![forbid(unsafe_code)]

mod patient;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use patient::Patient;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Maximum number of connections; further ones wait. Tuned: a browser opens six, so ten browsers have room.
pub const MAX_CONNECTIONS: usize = 64;
/// Maximum time for the head of a request, and between two requests.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time for which a client may take no byte of an answer.
pub const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Pause after a failure to accept a connection, such as a lack of descriptors.
pub const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Maximum size of the head of a request, in bytes. It also bounds what waits for a slow client.
const MAX_BUFFER: usize = 64 << 10;

/// Answers the requests of a connection until it ends.
pub async fn serve_connection<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(Patient::new(stream, WRITE_PATIENCE));
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(MAX_BUFFER);
    // A client that goes away is no error of the server.
    let _ = connection.serve_connection(stream, TowerToHyperService::new(router)).await;
}
