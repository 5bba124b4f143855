//! Accepts connections, and limits their number.

use crate::listen::{PageListener, PageStream};
use axum::Router;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_serve::{AFTER_FAILURE, MAX_CONNECTIONS, serve_connection};

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

/// Serves one connection, which keeps its place until it ends.
async fn converse<S>(stream: S, router: Router, _seat: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_connection(stream, router).await;
}
