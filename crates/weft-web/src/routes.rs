//! The server's answers: the files of the page, the events, and the results of changes.

use crate::changes::{NewSetting, NodeChanges};
use crate::feed::Feed;
use crate::guard;
use crate::invitation::NewInvitation;
use crate::token::Token;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum length of a request's body, in bytes.
pub const MAX_BODY: usize = 16 << 10;
/// Maximum time in which the body of a request must arrive.
pub const BODY_PATIENCE: Duration = Duration::from_secs(5);

/// Headers of each answer.
///
/// With them, the page loads nothing from another server, and no other page can show this one.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// The files of the page: URL path, media type and content.
const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", include_str!("../page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("../page/page.js")),
    ("/views.js", "text/javascript; charset=utf-8", include_str!("../page/views.js")),
    ("/table.js", "text/javascript; charset=utf-8", include_str!("../page/table.js")),
    ("/map.js", "text/javascript; charset=utf-8", include_str!("../page/map.js")),
    ("/changes.js", "text/javascript; charset=utf-8", include_str!("../page/changes.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
];

/// Data that all requests share.
pub struct WebSite {
    /// The secret that each request for data must contain. It differs in each run of the server.
    pub token: Token,
    /// The source of the events that browsers receive.
    pub feed: Arc<Feed>,
    /// Makes the changes that the page requests.
    pub changes: Arc<NodeChanges>,
}

/// Returns the router, which answers each request by its path.
pub fn router(site: Arc<WebSite>) -> Router {
    let files = FILES.into_iter().fold(Router::new(), |router, (path, kind, content)| {
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], content) }))
    });
    files
        .route("/api/live", get(live))
        .route("/api/set", post(set))
        .route("/api/confirm", post(confirm))
        .route("/api/undo", post(undo))
        .route("/api/invite", post(invite))
        .route("/api/withdraw", post(withdraw))
        .layer(from_fn_with_state(Arc::clone(&site), guarded))
        .with_state(site)
}

/// Answers a request with a refusal if [`guard::check`] refuses it, and adds [`HEADERS`] to each answer.
async fn guarded(State(site): State<Arc<WebSite>>, request: Request, next: Next) -> Response {
    let mut response = match guard::check(request.method(), request.uri(), request.headers(), &site.token) {
        Ok(()) => next.run(request).await,
        Err((status, why)) => (status, why).into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn live(State(site): State<Arc<WebSite>>) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(site.feed.subscribe())).into_response()
}

async fn set(State(site): State<Arc<WebSite>>, request: Request) -> Response {
    match change::<NewSetting>(&site, request).await {
        Ok(setting) => told(whole(async move { site.changes.set(&setting).await }).await),
        Err(refusal) => refusal,
    }
}

async fn confirm(State(site): State<Arc<WebSite>>, request: Request) -> Response {
    match change::<Nothing>(&site, request).await {
        Ok(Nothing {}) => told(whole(async move { site.changes.confirm().await }).await),
        Err(refusal) => refusal,
    }
}

async fn undo(State(site): State<Arc<WebSite>>, request: Request) -> Response {
    match change::<Nothing>(&site, request).await {
        Ok(Nothing {}) => told(whole(async move { site.changes.undo().await }).await),
        Err(refusal) => refusal,
    }
}

async fn invite(State(site): State<Arc<WebSite>>, request: Request) -> Response {
    let new = match change::<NewInvitation>(&site, request).await {
        Ok(new) => new,
        Err(refusal) => return refusal,
    };
    match whole(async move { site.changes.invitations().invite(site.changes.program(), new).await }).await {
        Ok(code) => ([(header::CONTENT_TYPE, "application/json")], serde_json::json!(code).to_string()).into_response(),
        Err(why) => told(Err(why)),
    }
}

async fn withdraw(State(site): State<Arc<WebSite>>, request: Request) -> Response {
    match change::<Nothing>(&site, request).await {
        Ok(Nothing {}) if site.changes.invitations().withdraw() => told(Ok("withdrawn".to_owned())),
        Ok(Nothing {}) => told(Err("no invitation is open, so none can be withdrawn".to_owned())),
        Err(refusal) => refusal,
    }
}

/// The body of a request without data: an empty JSON object.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Reads the body of a request for a change.
///
/// Returns the answer with the refusal if the page may not change the node, or if the body is invalid.
async fn change<T: DeserializeOwned>(site: &WebSite, request: Request) -> Result<T, Response> {
    if !site.changes.are_allowed() {
        let why = "this page only shows: start it with --allow-changes";
        return Err((StatusCode::FORBIDDEN, why).into_response());
    }
    let refused = |status: StatusCode, why: String| (status, why).into_response();
    match timeout(BODY_PATIENCE, to_bytes(request.into_body(), MAX_BODY)).await {
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time".to_owned())),
        Ok(Err(_)) => {
            let why = format!("the body of the request is too long: send at most {MAX_BODY} bytes");
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Ok(Ok(bytes)) => serde_json::from_slice(&bytes).map_err(|why| {
            let why = format!("the body of the request is not valid: {why}: reload the page");
            refused(StatusCode::BAD_REQUEST, why)
        }),
    }
}

/// Completes a change, even if the browser disconnects meanwhile. Returns the result of the change.
async fn whole<T: Send + 'static>(
    change: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    tokio::spawn(change).await.unwrap_or_else(|why| {
        Err(format!(
            "weft-web failed during the change: {why}: see on the page whether the change is in effect; if not, try \
             again"
        ))
    })
}

/// Returns the answer to a change: the text of its result, or the reason of a refusal.
fn told(result: Result<String, String>) -> Response {
    match result {
        Ok(text) => text.into_response(),
        Err(why) => (StatusCode::CONFLICT, why).into_response(),
    }
}
