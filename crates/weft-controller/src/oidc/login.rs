//! The two pages of a login.
//!
//! The first page sends the browser to the identity provider. The provider sends the browser back to the second page,
//! which shows the code of an invitation.

use super::id_token::{Expected, verified_address};
use super::pending::{LOGIN_TIME, PendingLogin, PendingLogins};
use super::provider::{Provider, encoded};
use crate::api::Site;
use crate::network::{NewInvitation, unix_s};
use crate::refusal::Refusal;
use crate::secret::Secret;
use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use percent_encoding::percent_decode_str;
use ring::digest::{SHA256, digest};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Time for which the code that a login shows is valid, in minutes.
const CODE_MINUTES: u32 = 15;
/// Name of the cookie that identifies the browser in which a login began.
const COOKIE: &str = "weft-login";

/// Data that both pages share.
struct LoginPages {
    site: Arc<Site>,
    provider: Provider,
    logins: PendingLogins,
}

/// Returns the routes of the two login pages, for logins at `provider`.
pub fn routes(site: &Arc<Site>, provider: Provider) -> Router {
    let pages = Arc::new(LoginPages { site: Arc::clone(site), provider, logins: PendingLogins::default() });
    let (begin, end) = (Arc::clone(&pages), pages);
    let begin = move |uri: Uri| {
        let pages = Arc::clone(&begin);
        async move { shown(pages.begin(&uri).await) }
    };
    let end = move |uri: Uri, headers: HeaderMap| {
        let pages = Arc::clone(&end);
        async move { shown(pages.end(&uri, &headers).await) }
    };
    Router::new().route("/login", get(begin)).route("/login/callback", get(end))
}

impl LoginPages {
    /// Begins a login, and returns the answer that sends the browser to the provider.
    async fn begin(&self, uri: &Uri) -> Result<Response, Refusal> {
        let failed =
            |why: String| Refusal::new(StatusCode::BAD_GATEWAY, format!("cannot use the identity provider: {why}"));
        let node = parameter(uri, "node");
        let no_secret = |why| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why);
        let (state, cookie) = (Secret::random().map_err(no_secret)?, Secret::random().map_err(no_secret)?);
        let login = PendingLogin::new(node, cookie.hash()).map_err(no_secret)?;
        let challenge = Base64UrlUnpadded::encode_string(digest(&SHA256, login.verifier.text().as_bytes()).as_ref());
        let description = self.provider.description().await.map_err(failed)?;
        let query = encoded(&[
            ("response_type", "code"),
            ("scope", "openid email"),
            ("client_id", &self.provider.client_id),
            ("redirect_uri", &self.provider.callback()),
            ("state", state.text()),
            ("nonce", login.nonce.text()),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        self.logins.add(&state, login);
        let secure = if self.provider.own.is_secure { "; Secure" } else { "" };
        let cookie = format!(
            "{COOKIE}={}; Path=/login; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            cookie.text(),
            LOGIN_TIME.as_secs()
        );
        let place = format!("{}?{query}", description.authorization_endpoint);
        Ok((StatusCode::SEE_OTHER, [(header::LOCATION, place), (header::SET_COOKIE, cookie)]).into_response())
    }

    /// Handles the browser's return from the provider, and shows a code for the user's node.
    async fn end(&self, uri: &Uri, headers: &HeaderMap) -> Result<Response, Refusal> {
        let refused = |why: String| Refusal::new(StatusCode::FORBIDDEN, why);
        let begin_again =
            || refused("this login has expired, or began in another browser: begin again at /login".to_owned());
        let (state, code) = (parameter(uri, "state"), parameter(uri, "code"));
        let state = state.ok_or_else(begin_again)?;
        let login = self.logins.take(&state, &cookie(headers).ok_or_else(begin_again)?);
        let login = login.ok_or_else(begin_again)?;
        let no_code = || {
            refused(
                "the identity provider has refused the login, and the address of this page gives the reason as \
                 `error`: ask the provider's administrator, or begin again at /login"
                    .to_owned(),
            )
        };
        let code = code.ok_or_else(no_code)?;
        let failed =
            |why: String| Refusal::new(StatusCode::BAD_GATEWAY, format!("cannot use the identity provider: {why}"));
        let (token, keys) = self.provider.exchange(&code, login.verifier.text()).await.map_err(failed)?;
        let expected = Expected {
            issuer: &self.provider.issuer,
            client: &self.provider.client_id,
            nonce: login.nonce.text(),
            now: unix_s(),
        };
        let address = verified_address(&token, &keys, &expected);
        let address =
            address.map_err(|why| refused(format!("the controller refuses the identity provider's token: {why}")))?;
        let site = Arc::clone(&self.site);
        let invited = spawn_blocking(move || invite(&site, &address, login.node)).await;
        let (node, code) = invited.unwrap_or_else(|why| Err(failed(why.to_string())))?;
        let text = format!(
            "Node {node}. On the machine that is to become it, run\n\n    weft controller join {}\n\nand give it this code, \
             which is valid once and for {CODE_MINUTES} minutes:\n\n    {code}\n",
            self.provider.own
        );
        Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
    }
}

/// Makes an invitation for a node that the user owns, and returns the node's name and the code.
///
/// `address` is the user's e-mail address. `named` is the node that the user asked for, if any.
fn invite(site: &Site, address: &str, named: Option<String>) -> Result<(String, String), Refusal> {
    let refused = |why: String| Refusal::new(StatusCode::FORBIDDEN, why);
    let own = site.network.nodes_of(address)?;
    let node = match (named, &own[..]) {
        (Some(named), own) if own.contains(&named) => named,
        (None, [only]) => only.clone(),
        (_, []) => {
            return Err(refused(format!(
                "no node belongs to {address}: ask the administrator to set the `owner` of your node to this address"
            )));
        }
        (_, several) => {
            return Err(refused(format!(
                "several nodes belong to you: open /login?node=NAME, where NAME is one of {}",
                several.join(", ")
            )));
        }
    };
    let code = site.network.invite(&NewInvitation { node: node.clone(), minutes: CODE_MINUTES }, address)?;
    Ok((node, code.code))
}

/// Returns the value of the parameter `name` in the query of a URL.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(key, _)| *key == name)?;
    percent_decode_str(value).decode_utf8().ok().map(|value| value.into_owned())
}

/// Returns the value of the login's cookie.
fn cookie(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|text| text.split("; ")).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned())
}

fn shown(result: Result<Response, Refusal>) -> Response {
    result.unwrap_or_else(|Refusal { status, detail }| {
        (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{detail}\n")).into_response()
    })
}
