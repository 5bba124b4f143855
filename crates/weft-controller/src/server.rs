//! The listening socket: without TLS at loopback addresses, and with TLS at every other address.

use axum::Router;
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use weft_serve::{HEAD_PATIENCE, accept_connections, serve_connection};

/// A server at an address.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Server {
    /// Listens at an address.
    ///
    /// # Errors
    /// Fails if the address is not a loopback address and there is no certificate, or if the system refuses the
    /// address.
    pub async fn bind(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> Result<Server, String> {
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(format!(
                "refused to listen at {address} without TLS, because other machines could read the traffic: give \
                 --certificate and --key, or --listen with a loopback address"
            ));
        }
        let listener = TcpListener::bind(address).await;
        let listener =
            listener.map_err(|why| format!("cannot listen at {address}: {why}: name another address with --listen"))?;
        Ok(Server { listener, tls: tls.map(TlsAcceptor::from) })
    }

    /// Returns the address at which the server listens, with the port that the system chose.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn address(&self) -> std::io::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.listener.local_addr()?))
    }

    /// Accepts and serves connections, and never returns.
    pub async fn serve(&self, router: Router) {
        let accept = async || self.listener.accept().await.map(|(stream, client)| (stream, Some(client.ip())));
        accept_connections(accept, |stream| converse(stream, self.tls.clone(), router.clone())).await;
    }
}

/// Serves one connection.
async fn converse(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router) {
    // An answer leaves in small segments. With Nagle's algorithm each would wait for the acknowledgment of the one
    // before.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve_connection(stream, router).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HEAD_PATIENCE, tls.accept(stream)).await {
                serve_connection(stream, router).await;
            }
        }
    }
}
