//! Serves connections, with limits of their number and of the time that each may waste.

use crate::listen::{PageListener, PageStream};
use crate::patient::Patient;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections; further ones wait. Tuned: a browser opens six, so ten browsers have room.
const MAX_CONNECTIONS: usize = 64;
/// Maximum time for the head of a request, and between two requests.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time for which a browser may take no byte of an answer.
pub const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of the head of a request, in bytes. It also bounds what waits for a slow browser.
const MAX_BUFFER: usize = 64 << 10;
/// Pause after a failure to accept a connection, such as a lack of descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Serves connections for ever.
pub async fn serve(listener: &PageListener, router: Router) {
    let seats = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else { return };
        match listener.accept().await {
            Ok(PageStream::Tcp(stream)) => drop(tokio::spawn(converse(stream, router.clone(), seat))),
            Ok(PageStream::Unix(stream)) => drop(tokio::spawn(converse(stream, router.clone(), seat))),
            Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
        }
    }
}

/// Serves one connection.
async fn converse<S>(stream: S, router: Router, _seat: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(Patient::new(stream, WRITE_PATIENCE));
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(MAX_BUFFER);
    // A browser that goes away is no error of the server.
    let _ = connection.serve_connection(stream, TowerToHyperService::new(router)).await;
}
