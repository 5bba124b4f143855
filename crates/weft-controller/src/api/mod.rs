//! The interface: HTTP and JSON.
//!
//! Each request passes the same checks before its operation runs: its headers, its sender's rights, the time in which
//! its body arrives, and the body's length. Operations wait for the store, so they run on separate threads. An
//! operation completes even if the client disconnects.

mod call;
mod openapi;
mod operations;

pub use call::{Call, Reply};
pub use operations::{Audience, Conditions, Operation, operations};

use crate::network::Network;
use crate::oidc::{self, Provider};
use crate::refusal::Refusal;
use crate::secret::SecretHash;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, get, on};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum length of a body, in bytes.
///
/// *Derived*: a text of 256 KiB with each byte escaped as two bytes, and the rest of the JSON object.
pub const MAX_BODY: usize = 520 << 10;
/// Maximum time to receive a request's body.
pub const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// Headers of each answer.
///
/// With them, a browser does not show the answer within another page, does not store it, and does not guess its type.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Data that all requests share.
pub struct Site {
    /// The network whose nodes, policy and configurations the requests read and change.
    pub network: Network,
    /// Hash of the administrator's token.
    pub administrator: SecretHash,
}

/// Returns the HTTP router for all requests. With an identity provider it also has the login pages.
pub fn router(site: &Arc<Site>, provider: Option<Provider>) -> Router {
    let document = openapi::document(&operations()).to_string();
    let described = move || async move { ([(header::CONTENT_TYPE, "application/json")], document) };
    let mut router = Router::new().route("/openapi.json", get(described));
    for operation in operations() {
        let Ok(filter) = MethodFilter::try_from(operation.method.clone()) else { continue };
        let (path, operation, site) = (operation.path, Arc::new(operation), Arc::clone(site));
        let answer = move |parameters: RawPathParams, request: Request| {
            let name = parameters.iter().next().map_or_else(String::new, |(_, value)| value.to_owned());
            let (site, operation) = (Arc::clone(&site), Arc::clone(&operation));
            async move { answered(&site, &operation, name, request).await.map_or_else(refused, replied) }
        };
        router = router.route(path, on(filter, answer));
    }
    if let Some(provider) = provider {
        router = router.merge(oidc::routes(site, provider));
    }
    router
        .fallback(|| async { refused(Refusal::missing("there is no such path: GET /openapi.json lists them")) })
        .method_not_allowed_fallback(|| async {
            let why = "this path does not have this method: see GET /openapi.json";
            refused(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, why))
        })
        .layer(from_fn(framed))
}

/// Refuses requests from scripts of web pages (with `Origin`), and adds [`HEADERS`] to each answer.
async fn framed(request: Request, next: Next) -> Response {
    let mut response = match request.headers().contains_key(header::ORIGIN) {
        true => {
            let why = "requests from a page in a browser are refused: use another HTTP client";
            refused(Refusal::new(StatusCode::FORBIDDEN, why))
        }
        false => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn answered(
    site: &Arc<Site>,
    operation: &Arc<Operation>,
    name: String,
    request: Request,
) -> Result<Reply, Refusal> {
    let (head, body) = request.into_parts();
    let (precondition, known) = call::conditions(&head.headers)?;
    let bearer = bearer(&head.headers)?.map(str::to_owned);
    let body = match operation.audience {
        Audience::Everybody => read_body(body).await?,
        audience => {
            let (site, path_name) = (Arc::clone(site), name.clone());
            blocking(move || permitted(&site, audience, &path_name, bearer.as_deref())).await?;
            read_body(body).await?
        }
    };
    let (site, operation) = (Arc::clone(site), Arc::clone(operation));
    let call = Call { name, precondition, known, body };
    blocking(move || (operation.run)(&site.network, &call)).await
}

/// Returns an error unless the sender may make the request: `bearer` must be a valid token for it.
///
/// A node's own secret is valid if `audience` includes nodes and `name` is the node.
fn permitted(site: &Site, audience: Audience, name: &str, bearer: Option<&str>) -> Result<(), Refusal> {
    let Some(bearer) = bearer else {
        let why = "send the header Authorization: Bearer TOKEN, with the token in the controller's file admin.token";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, why));
    };
    if site.administrator.is_of(bearer) || (audience == Audience::Node && site.network.is_secret_of(name, bearer)?) {
        return Ok(());
    }
    let why =
        "the token is wrong, or does not permit this request: a node's secret reads only the node's configuration";
    Err(Refusal::new(StatusCode::UNAUTHORIZED, why))
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    Ok(call::only(headers, header::AUTHORIZATION)?.and_then(|text| text.strip_prefix("Bearer ")))
}

async fn read_body(body: axum::body::Body) -> Result<Vec<u8>, Refusal> {
    match timeout(BODY_PATIENCE, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes.to_vec()),
        Ok(Err(_)) => {
            let why = format!("the body of the request is too long: send at most {MAX_BODY} bytes");
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time")),
    }
}

/// Runs work that waits for the store on a separate thread, and returns its result.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Refusal> {
    let failed =
        |_| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed: see the controller's log"));
    spawn_blocking(work).await.unwrap_or_else(failed)
}

fn replied(reply: Reply) -> Response {
    let mut response = match reply.body {
        Some(body) => ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response(),
        None => ().into_response(),
    };
    *response.status_mut() = reply.status;
    if let Some(tag) = reply.tag.and_then(|tag| HeaderValue::try_from(format!("\"{tag}\"")).ok()) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn refused(refusal: Refusal) -> Response {
    let Refusal { status, detail } = refusal;
    let title = status.canonical_reason().unwrap_or("Refused");
    let body = json!({ "title": title, "status": status.as_u16(), "detail": detail }).to_string();
    let mut response = (status, [(header::CONTENT_TYPE, openapi::PROBLEM)], body).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
