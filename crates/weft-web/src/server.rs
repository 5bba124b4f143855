//! Accepts connections of browsers.

use crate::listen::{PageListener, PageStream};
use axum::Router;
use weft_serve::{accept_connections, serve_connection};

/// Serves connections for as long as the program runs.
pub async fn serve(listener: &PageListener, router: Router) {
    let accept = async || listener.accept().await.map(|stream| (stream, None));
    accept_connections(accept, |stream| converse(stream, router.clone())).await;
}

/// Serves one connection.
async fn converse(stream: PageStream, router: Router) {
    match stream {
        PageStream::Tcp(stream) => serve_connection(stream, router).await,
        PageStream::Unix(stream) => serve_connection(stream, router).await,
    }
}
