//! Login at an identity provider that this test runs.

mod common;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKey, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use base64ct::{Base64UrlUnpadded, Encoding as _};
use common::{Administrator, Answer, Connection, Controller, Dir};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// Behaviour of the provider at the next login.
#[derive(Default)]
struct Behaviour {
    /// Claims that replace those of a valid token; null removes a claim.
    claims: Value,
    /// Algorithm that the header of the token names instead of the key's.
    algorithm: Option<&'static str>,
    /// True if the token is signed by another key.
    is_forged: bool,
    /// Challenges and nonces of codes that were given out.
    codes: HashMap<String, (String, String)>,
}

enum SigningKey {
    Ec(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    fn ec() -> SigningKey {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        SigningKey::Ec(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref()).unwrap())
    }

    fn rsa() -> SigningKey {
        use aws_lc_rs::encoding::AsDer as _;
        let made = RsaKey::generate(KeySize::Rsa2048).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = made.as_der().unwrap();
        SigningKey::Rsa(Box::new(RsaKeyPair::from_pkcs8(der.as_ref()).unwrap()))
    }

    fn algorithm(&self) -> &'static str {
        if matches!(self, SigningKey::Ec(_)) { "ES256" } else { "RS256" }
    }

    fn jwk(&self) -> Value {
        match self {
            SigningKey::Ec(key) => {
                let point = key.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "kid": "a", "use": "sig", "x": text(&point[1..33]), "y": text(&point[33..]) })
            }
            SigningKey::Rsa(key) => {
                // RSAPublicKey of RFC 8017 in DER: a head of 9 bytes, 256 bytes of the modulus, and the exponent 65,537.
                let modulus = &key.public_key().as_ref()[9..265];
                json!({ "kty": "RSA", "kid": "a", "n": text(modulus), "e": text(&[1, 0, 1]) })
            }
        }
    }

    fn sign(&self, message: &str) -> Vec<u8> {
        match self {
            SigningKey::Ec(key) => key.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec(),
            SigningKey::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature).unwrap();
                signature
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// Reads a query or a form.
fn pairs(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), percent_decode_str(value).decode_utf8().unwrap().into_owned()))
        .collect()
}

/// A running identity provider.
struct TestProvider {
    issuer: String,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl TestProvider {
    fn start(key: SigningKey) -> TestProvider {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let issuer = format!("http://{}/realm", listener.local_addr().unwrap());
        let behaviour = Arc::new(Mutex::new(Behaviour::default()));
        let (own, shared, keys) = (issuer.clone(), Arc::clone(&behaviour), json!({ "keys": [key.jwk()] }).to_string());
        let description = json!({
            "issuer": issuer, "authorization_endpoint": format!("{issuer}/login"), "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
        });
        let key = Arc::new(key);
        let token = move |request: Request| {
            let (own, shared, key) = (own.clone(), Arc::clone(&shared), Arc::clone(&key));
            async move {
                // Name and secret of the client, percent-encoded as RFC 6749 requires.
                assert_eq!(request.headers()["authorization"], "Basic d2VmdDpzZWNyZXQlMjF4");
                let body = axum::body::to_bytes(request.into_body(), 1 << 16).await.unwrap();
                answer(&own, &shared, &key, &pairs(std::str::from_utf8(&body).unwrap()))
            }
        };
        let router = Router::new()
            .route("/realm/.well-known/openid-configuration", get(move || async move { description.to_string() }))
            .route("/realm/keys", get(move || async move { keys }))
            .route("/realm/token", post(token));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(weft_serve::serve_connection(stream, router.clone()));
                }
            });
        });
        TestProvider { issuer, behaviour }
    }

    /// Logs a user in, as the provider's page does, and returns the query with which the browser goes back.
    fn log_in(&self, place: &str) -> String {
        let (page, query) = place.split_once('?').unwrap();
        assert_eq!(page, format!("{}/login", self.issuer));
        let asked = pairs(query);
        assert_eq!((asked["response_type"].as_str(), asked["code_challenge_method"].as_str()), ("code", "S256"));
        let mut behaviour = self.behaviour.lock().unwrap();
        let code = format!("code {}&", behaviour.codes.len());
        behaviour.codes.insert(code.clone(), (asked["code_challenge"].clone(), asked["nonce"].clone()));
        format!("state={}&code={}", asked["state"], code.replace(' ', "%20").replace('&', "%26"))
    }
}

/// Answers at the token endpoint: each code serves once, with the verifier of its challenge.
fn answer(issuer: &str, behaviour: &Mutex<Behaviour>, key: &SigningKey, form: &HashMap<String, String>) -> String {
    let mut behaviour = behaviour.lock().unwrap();
    let Some((challenge, nonce)) = behaviour.codes.remove(&form["code"]) else { return "{}".to_owned() };
    let hash = ring::digest::digest(&ring::digest::SHA256, form["code_verifier"].as_bytes());
    assert_eq!((text(hash.as_ref()), form["grant_type"].as_str()), (challenge, "authorization_code"));
    assert!(form["redirect_uri"].ends_with("/login/callback"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({
        "iss": issuer, "aud": "weft", "exp": now + 300, "nonce": nonce, "email": "Ada@example.org", "email_verified": true,
    });
    for (name, value) in behaviour.claims.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    let algorithm = behaviour.algorithm.unwrap_or(key.algorithm());
    let signed =
        [json!({ "alg": algorithm, "kid": "a" }), claims].map(|part| text(part.to_string().as_bytes())).join(".");
    let signature = match (algorithm, behaviour.is_forged) {
        ("none", _) => vec![],
        (_, true) if key.algorithm() == "ES256" => SigningKey::ec().sign(&signed),
        (_, true) => SigningKey::rsa().sign(&signed),
        _ => key.sign(&signed),
    };
    json!({ "access_token": "a", "token_type": "Bearer", "id_token": format!("{signed}.{}", text(&signature)) })
        .to_string()
}

/// A controller that knows the provider.
struct Site {
    controller: Controller,
    dir: Dir,
}

impl Site {
    fn start(provider: &TestProvider) -> Site {
        let dir = Dir::new();
        std::fs::write(dir.path("secret"), "secret!x\n").unwrap();
        let file = dir.path("secret");
        let more = [
            "--oidc-issuer",
            &provider.issuer,
            "--oidc-client",
            "weft",
            "--oidc-secret-file",
            file.to_str().unwrap(),
            "--url",
            "http://127.0.0.1:9",
        ];
        let controller = Controller::start(&dir.0, &more);
        Site { controller, dir }
    }

    fn get(&self, path: &str, cookie: Option<&str>) -> Answer {
        let headers: Vec<_> = cookie.iter().map(|cookie| ("Cookie", *cookie)).collect();
        Connection::to(&self.controller.host).unwrap().request("GET", path, &headers, "").unwrap()
    }

    /// Begins a login, and returns the provider's page and the cookie.
    fn begin(&self, path: &str) -> (String, String) {
        let answer = self.get(path, None);
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
        (answer.header("location").unwrap().to_owned(), cookie.split(';').next().unwrap().to_owned())
    }

    /// Logs in and returns the last page.
    fn log_in(&self, provider: &TestProvider, path: &str) -> Answer {
        let (place, cookie) = self.begin(path);
        self.get(&format!("/login/callback?{}", provider.log_in(&place)), Some(&format!("other=1; {cookie}")))
    }
}

/// A user gets a code for the own node, and nothing for any token that is wrong in one way.
fn logins(key: SigningKey) {
    let provider = TestProvider::start(key);
    let site = Site::start(&provider);
    let mut admin = Administrator::of(&site.controller, &site.dir.0);
    let none = site.log_in(&provider, "/login");
    assert!(none.status == 403 && none.body.contains("no node belongs to"), "{none:?}");
    for (name, owner) in [("laptop", "ada@example.org"), ("phone", "bob@example.org")] {
        assert_eq!(admin.put(&format!("/v1/nodes/{name}"), "*", &json!({ "owner": owner })).unwrap().status, 200);
    }
    let page = site.log_in(&provider, "/login");
    assert!(page.status == 200 && page.body.contains("Node laptop."), "{page:?}");
    let code = page.body.trim().lines().last().unwrap().trim();
    let body = json!({ "code": code, "public_key": weft_session::Identity::from_secret([7; 32]).public_key().to_string(),
        "secret_sha256": "0".repeat(64) });
    assert_eq!(admin.post("/v1/join", &body).unwrap().json()["node"], "laptop");
    assert!(admin.get("/v1/invitations").body.contains("\"made_by\":\"Ada@example.org\""));
    assert_eq!(site.log_in(&provider, "/login?node=laptop").status, 200);
    assert_eq!(site.log_in(&provider, "/login?node=phone").status, 403);
    let invitations = admin.get("/v1/invitations").body;
    // Each wrong token.
    let wrong = [
        json!({ "nonce": "a" }),
        json!({ "nonce": null }),
        json!({ "iss": "http://127.0.0.1:1" }),
        json!({ "aud": "other" }),
        json!({ "aud": ["weft", "other"] }),
        json!({ "azp": "other" }),
        json!({ "exp": 1_000_000 }),
        json!({ "exp": "soon" }),
        json!({ "email": null }),
        json!({ "email_verified": false }),
        json!({ "email_verified": null }),
    ];
    for claims in wrong {
        provider.behaviour.lock().unwrap().claims = claims.clone();
        let page = site.log_in(&provider, "/login?node=laptop");
        assert!(page.status == 403 && page.body.contains("token"), "{claims}: {page:?}");
    }
    provider.behaviour.lock().unwrap().claims = json!({ "aud": ["other", "weft"], "azp": "weft" });
    assert_eq!(site.log_in(&provider, "/login?node=phone").status, 403);
    provider.behaviour.lock().unwrap().claims = Value::Null;
    for algorithm in ["none", "HS256", "ES256", "RS256", "PS256"] {
        let mut behaviour = provider.behaviour.lock().unwrap();
        (behaviour.algorithm, behaviour.is_forged) = (Some(algorithm), true);
        drop(behaviour);
        let page = site.log_in(&provider, "/login?node=laptop");
        assert!(page.status == 403 && page.body.contains("signature"), "{algorithm}: {page:?}");
    }
    let mut behaviour = provider.behaviour.lock().unwrap();
    (behaviour.algorithm, behaviour.is_forged) = (None, false);
    drop(behaviour);
    // A login of another browser, without its cookie, or twice.
    let (place, cookie) = site.begin("/login?node=laptop");
    let (_, other) = site.begin("/login?node=laptop");
    let back = format!("/login/callback?{}", provider.log_in(&place));
    for cookie in [None, Some(other.as_str()), Some("weft-login=")] {
        assert_eq!(site.get(&back, cookie).status, 403, "{cookie:?}");
    }
    assert_eq!(admin.get("/v1/invitations").body, invitations);
    assert_eq!((site.get(&back, Some(&cookie)).status, site.get(&back, Some(&cookie)).status), (200, 403));
    assert_eq!(site.get("/login/callback", Some(&cookie)).status, 403);
    assert_eq!(site.get("/login/callback?state=%ff&code=%", Some(&cookie)).status, 403);
}

#[test]
fn a_user_gets_a_code_by_a_token_signed_with_ecdsa() {
    logins(SigningKey::ec());
}

#[test]
fn a_user_gets_a_code_by_a_token_signed_with_rsa() {
    logins(SigningKey::rsa());
}

#[test]
fn a_provider_that_is_away_or_another_is_an_error_for_the_browser() {
    let provider = TestProvider::start(SigningKey::ec());
    let away = TestProvider { issuer: "http://127.0.0.1:1".to_owned(), behaviour: Arc::clone(&provider.behaviour) };
    assert_eq!(Site::start(&away).get("/login", None).status, 502);
    // The same server by another name.
    let renamed = TestProvider { issuer: format!("{}/", provider.issuer), behaviour: Arc::clone(&provider.behaviour) };
    let page = Site::start(&renamed).get("/login", None);
    assert!(page.status == 502 && page.body.contains("calls itself"), "{page:?}");
    // Without a provider there is no login.
    let dir = Dir::new();
    let controller = Controller::start(&dir.0, &[]);
    assert_eq!(controller.connect().request("GET", "/login", &[], "").unwrap().status, 404);
}
