//! The identity provider: its address, and the controller's registration with it.

use super::id_token::KeySet;
use crate::cli::OidcArguments;
use crate::http::{Client, Endpoint, Request};
use crate::tls;
use base64ct::{Base64, Encoding as _};
use hyper::{Method, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weft_config::files;

/// Time for which the provider's description is used before it is requested again.
///
/// Anyone can begin logins, so a login must not cause a request to the provider each time.
const DESCRIPTION_AGE: Duration = Duration::from_secs(3_600);
/// Maximum length of the file with the secret that the provider gave to the controller, in bytes.
const MAX_SECRET_FILE: u64 = 4_096;

/// An identity provider.
pub struct Provider {
    /// Name of the provider, which its tokens contain.
    pub issuer: String,
    /// Name under which the provider lists the controller (client id).
    pub client_id: String,
    /// Address at which browsers reach this controller.
    pub own: Endpoint,
    client: Client,
    secret: Option<String>,
    described: Mutex<Option<(Instant, Description)>>,
}

/// The provider's description of itself (OpenID Connect Discovery 1.0).
#[derive(Clone, Deserialize)]
pub struct Description {
    issuer: String,
    /// Address of the provider's page at which a browser logs in.
    pub authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

impl Provider {
    /// Reads the arguments; `None` without a provider.
    ///
    /// # Errors
    /// Returns which argument or file is wrong.
    pub fn new(arguments: &OidcArguments) -> Result<Option<Provider>, String> {
        let (Some(issuer), Some(client_id), Some(own)) =
            (&arguments.oidc_issuer, &arguments.oidc_client, &arguments.url)
        else {
            return Ok(None);
        };
        let secret = arguments.oidc_secret_file.as_ref().map(|file| {
            let read = files::open(file).and_then(|open| {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut std::io::Read::take(open, MAX_SECRET_FILE), &mut text)?;
                Ok(text.trim().to_owned())
            });
            read.map_err(|why| format!("{}: {why}", file.display()))
        });
        endpoint(issuer)?;
        Ok(Some(Provider {
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            own: own.clone(),
            client: Client::new(tls::client(arguments.oidc_ca.as_deref(), None)?),
            secret: secret.transpose()?,
            described: Mutex::default(),
        }))
    }

    /// Returns the address to which the provider sends the browser back.
    pub fn callback(&self) -> String {
        format!("{}/login/callback", self.own)
    }

    /// Returns the provider's description of itself.
    ///
    /// # Errors
    /// Fails if the provider does not answer, or if its description contains another issuer than the configured one.
    pub async fn description(&self) -> Result<Description, String> {
        let lock = || self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().clone().filter(|(since, _)| since.elapsed() < DESCRIPTION_AGE);
        if let Some((_, known)) = known {
            return Ok(known);
        }
        let address = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let found: Description = self.fetch(&address, Method::GET, vec![], String::new()).await?;
        if found.issuer != self.issuer {
            return Err(format!(
                "the identity provider at {} calls itself {}: give that name with --oidc-issuer",
                self.issuer, found.issuer
            ));
        }
        *lock() = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    /// Exchanges a login's authorization code for an ID token. Returns the token and the provider's keys.
    ///
    /// # Errors
    /// Fails if the provider refuses the code.
    pub async fn exchange(&self, code: &str, verifier: &str) -> Result<(String, KeySet), String> {
        let description = self.description().await?;
        let mut form = encoded(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.callback()),
            ("code_verifier", verifier),
        ]);
        let mut headers = vec![(header::CONTENT_TYPE, "application/x-www-form-urlencoded".to_owned())];
        match &self.secret {
            // RFC 6749 §2.3.1: name and secret are each encoded before they are joined.
            Some(secret) => {
                let pair = format!("{}:{}", percent(&self.client_id), percent(secret));
                headers.push((header::AUTHORIZATION, format!("Basic {}", Base64::encode_string(pair.as_bytes()))));
            }
            None => form = format!("{form}&{}", encoded(&[("client_id", &self.client_id)])),
        }
        let answer: TokenAnswer = self.fetch(&description.token_endpoint, Method::POST, headers, form).await?;
        let keys = self.fetch(&description.jwks_uri, Method::GET, vec![], String::new()).await?;
        Ok((answer.id_token, keys))
    }

    async fn fetch<T: DeserializeOwned>(
        &self,
        address: &str,
        method: Method,
        mut headers: Vec<(header::HeaderName, String)>,
        body: String,
    ) -> Result<T, String> {
        let to = endpoint(address)?;
        headers.push((header::ACCEPT, "application/json".to_owned()));
        let answer = self.client.request(&to, Request { method, path: "", headers, body }).await;
        let answer = answer.map_err(|why| format!("{address}: {why}"))?;
        if answer.status != 200 {
            return Err(format!(
                "the identity provider answered the request to {address} with HTTP status {} in place of 200: check \
                 --oidc-issuer, --oidc-client and --oidc-secret-file, or try again later",
                answer.status
            ));
        }
        serde_json::from_slice(&answer.body).map_err(|why| {
            format!("the answer of {address} is not that of an OpenID provider: {why}: check --oidc-issuer")
        })
    }
}

/// Parses the address of a server. Refuses an address whose traffic others could read: HTTP to another machine.
fn endpoint(address: &str) -> Result<Endpoint, String> {
    match address.parse::<Endpoint>()? {
        private if private.is_private() => Ok(private),
        open => Err(format!(
            "refused to use the identity provider's URL {open}, because other machines could read http: use https"
        )),
    }
}

/// Returns names and values, encoded, as the query of a URL.
pub fn encoded(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(name, value)| format!("{name}={}", percent(value))).collect::<Vec<_>>().join("&")
}

fn percent(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
