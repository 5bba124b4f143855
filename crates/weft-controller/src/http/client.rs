//! A client of HTTP/1.1, over TCP or TLS.
//!
//! Each request has its own connection: requests are rare. On a reused connection that the server has closed, it
//! would be unknown whether the request arrived.

use super::Endpoint;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Maximum time to open a connection, including the TLS handshake.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time until the whole answer has arrived.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// Reason why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientError {
    /// No connection: the server has received nothing.
    NotConnected(String),
    /// The connection failed after it was open. The server may have received the request.
    Broken(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ClientError::NotConnected(why) | ClientError::Broken(why)) = self;
        f.write_str(why)
    }
}

/// A request to a server.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// HTTP method of the request.
    pub method: Method,
    /// Path with its query. It is appended to the path in the server's address.
    ///
    /// It begins with a slash, or is empty.
    pub path: &'a str,
    /// Headers of the request besides `Host`.
    pub headers: Vec<(header::HeaderName, String)>,
    /// Body of the request; empty for none.
    pub body: String,
}

/// An answer of a server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status of the answer.
    pub status: u16,
    /// Headers of the answer.
    pub headers: HeaderMap,
    /// Body of the answer.
    pub body: Vec<u8>,
}

/// A client that trusts given certificate authorities.
#[derive(Clone)]
pub struct Client {
    tls: Arc<rustls::ClientConfig>,
}

impl Client {
    /// Makes a client with this configuration of TLS.
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Client {
        Client { tls }
    }

    /// Sends a JSON body by POST, and returns the status and the body of the answer.
    ///
    /// # Errors
    /// Fails without an answer in time.
    pub async fn post(&self, to: &Endpoint, path: &str, body: String) -> Result<(u16, Vec<u8>), ClientError> {
        let headers = vec![(header::CONTENT_TYPE, "application/json".to_owned())];
        let answer = self.request(to, Request { method: Method::POST, path, headers, body }).await?;
        Ok((answer.status, answer.body))
    }

    /// Sends a request and returns the answer.
    ///
    /// # Errors
    /// Fails without an answer in time.
    pub async fn request(&self, to: &Endpoint, request: Request<'_>) -> Result<Answer, ClientError> {
        let not_connected = |why: String| {
            ClientError::NotConnected(format!(
                "cannot connect to the server {to}: {why}: check its URL, and that it runs"
            ))
        };
        let late = |patience: Duration| format!("the server did not answer within {} s", patience.as_secs());
        let connected = timeout(CONNECT_PATIENCE, TcpStream::connect((to.host.as_str(), to.port))).await;
        let stream = connected.map_err(|_| not_connected(late(CONNECT_PATIENCE)))?;
        let stream = stream.map_err(|why| not_connected(why.to_string()))?;
        // A request leaves in two small segments. With Nagle's algorithm the second would wait for the acknowledgment
        // of the first.
        let _ = stream.set_nodelay(true);
        if !to.is_secure {
            return self.exchange(stream, to, request).await;
        }
        let name = ServerName::try_from(to.host.clone()).map_err(|why| not_connected(why.to_string()))?;
        let opened = timeout(CONNECT_PATIENCE, TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream)).await;
        let opened = opened.map_err(|_| not_connected(late(CONNECT_PATIENCE)))?;
        self.exchange(opened.map_err(|why| not_connected(why.to_string()))?, to, request).await
    }

    async fn exchange<S>(&self, stream: S, to: &Endpoint, request: Request<'_>) -> Result<Answer, ClientError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |why: String| {
            ClientError::Broken(format!("the request to the server {to} failed: {why}: check its URL, and see its log"))
        };
        let mut message = hyper::Request::builder().method(request.method).uri(target(to, request.path));
        message = message.header(header::HOST, to.authority());
        for (name, value) in &request.headers {
            message = message.header(name, value);
        }
        let message = message.body(Full::new(Bytes::from(request.body)));
        let message = message.map_err(|why| {
            ClientError::NotConnected(format!(
                "the URL {to} or a header is not valid in an HTTP request: {why}: check the URL"
            ))
        })?;
        let exchanged = timeout(ANSWER_PATIENCE, async {
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|why| why.to_string())?;
            let answered = async {
                let answer = sender.send_request(message).await.map_err(|why| why.to_string())?;
                let (head, body) = answer.into_parts();
                let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|why| why.to_string())?;
                Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes().to_vec() })
            };
            tokio::pin!(answered);
            tokio::select! {
                biased;
                answer = &mut answered => answer,
                // The connection may end before the last bytes of the answer have been read, so the answer is awaited
                // further.
                ended = connection => match ended {
                    Ok(()) => answered.await,
                    Err(why) => Err(why.to_string()),
                },
            }
        });
        match exchanged.await {
            Ok(result) => result.map_err(broken),
            Err(_) => {
                Err(broken(format!("the server did not complete its answer within {} s", ANSWER_PATIENCE.as_secs())))
            }
        }
    }
}

/// Returns the path for the request line: the path in the server's address, followed by that of the request.
fn target(to: &Endpoint, path: &str) -> String {
    match format!("{}{path}", to.path) {
        empty if empty.is_empty() => "/".to_owned(),
        whole => whole,
    }
}
