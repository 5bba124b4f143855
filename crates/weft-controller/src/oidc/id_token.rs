//! ID tokens: their signature and their claims (OpenID Connect Core 1.0, section 3.1.3.7).

use base64ct::{Base64UrlUnpadded, Encoding as _};
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Maximum difference between the clocks of provider and controller, in seconds.
///
/// *Tuned*: NTP keeps the difference below one second.
const CLOCK_TOLERANCE_S: u64 = 60;

/// Keys of a provider (RFC 7517).
#[derive(Deserialize)]
pub struct KeySet {
    keys: Vec<ProviderKey>,
}

/// A key in the form of RFC 7518. The optional fields are absent in keys of kinds that are not supported.
#[derive(Deserialize)]
struct ProviderKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: TokenAudience,
    azp: Option<String>,
    exp: u64,
    nonce: Option<String>,
    email: Option<String>,
    email_verified: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TokenAudience {
    One(String),
    Several(Vec<String>),
}

/// The values that a token must contain.
pub struct Expected<'a> {
    /// Name of the identity provider, which is a URL.
    pub issuer: &'a str,
    /// Name under which the provider lists the controller (client id).
    pub client: &'a str,
    /// Random value that the controller sent to the provider when the login began.
    pub nonce: &'a str,
    /// The present time, in seconds since 1970.
    pub now: u64,
}

/// Checks a token and returns the user's verified e-mail address.
///
/// # Errors
/// Returns the reason why the token is refused.
pub fn verified_address(token: &str, keys: &KeySet, expected: &Expected<'_>) -> Result<String, &'static str> {
    let (signed, signature) = token.rsplit_once('.').ok_or("the token is not a JSON Web Token")?;
    let (header, claims) = signed.split_once('.').ok_or("the token is not a JSON Web Token")?;
    let header: TokenHeader = decoded(header)?;
    let signature = bytes(signature)?;
    let fitting = keys.keys.iter().filter(|key| {
        let is_named = header.kid.is_none() || key.kid.is_none() || key.kid == header.kid;
        is_named && key.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
    });
    let mut is_signed = false;
    for key in fitting {
        is_signed |= key.verifies(&header.alg, signed.as_bytes(), &signature);
    }
    if !is_signed {
        return Err("no key of the identity provider verifies the signature of its token: check --oidc-issuer");
    }
    let claims: Claims = decoded(claims)?;
    let is_for_us = match &claims.aud {
        TokenAudience::One(one) => one == expected.client,
        TokenAudience::Several(all) => {
            let is_only = all.len() == 1 || claims.azp.as_deref() == Some(expected.client);
            is_only && all.iter().any(|one| one == expected.client)
        }
    };
    if claims.iss != expected.issuer || !is_for_us || claims.azp.is_some_and(|azp| azp != expected.client) {
        return Err("the token is for another client or from another issuer: compare --oidc-client and --oidc-issuer \
                    with the identity provider");
    }
    if claims.exp.saturating_add(CLOCK_TOLERANCE_S) <= expected.now {
        return Err("the token has expired: compare the clocks of this machine and of the identity provider");
    }
    if claims.nonce.as_deref() != Some(expected.nonce) {
        return Err("the token belongs to another login: begin again at /login");
    }
    match (claims.email, claims.email_verified) {
        (Some(email), Some(true)) => Ok(email),
        _ => Err("the token has no verified e-mail address: the identity provider must release `email` and \
                  `email_verified`"),
    }
}

impl ProviderKey {
    /// True if `signature` over `message` is valid with this key.
    ///
    /// False if `algorithm` does not belong to the kind of the key.
    fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let part = |text: &Option<String>| text.as_deref().and_then(|text| bytes(text).ok());
        match (algorithm, self.kty.as_str()) {
            ("RS256", "RSA") => part(&self.n).zip(part(&self.e)).is_some_and(|(n, e)| {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }),
            ("ES256", "EC") if self.crv.as_deref() == Some("P-256") => {
                part(&self.x).zip(part(&self.y)).is_some_and(|(x, y)| {
                    let point = [&[4], &x[..], &y[..]].concat();
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
                })
            }
            // Every other algorithm is refused, such as `none` and algorithms with a shared secret.
            _ => false,
        }
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    Base64UrlUnpadded::decode_vec(text).map_err(|_| "the token is not a JSON Web Token")
}

fn decoded<T: DeserializeOwned>(text: &str) -> Result<T, &'static str> {
    serde_json::from_slice(&bytes(text)?).map_err(|_| "the token lacks a part that OpenID Connect requires")
}
