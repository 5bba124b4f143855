//! Checks each request before it is answered: its method, host, origin and token.
//!
//! A page of another server must neither read nor change a node. It can make the browser send requests to this
//! server, so the host name and the origin are checked as well as the token. No cookie exists: cookies would go to
//! every port of this machine, and the browser would add them to requests of other pages.

use crate::token::Token;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

/// Beginning of the URL paths whose answers contain data of the node.
pub const API: &str = "/api/";
/// Host names in requests that are answered.
///
/// A page of another server can make its own host name resolve to 127.0.0.1.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Decides whether a request may be answered.
///
/// # Errors
/// Returns the status and the reason of a refusal.
pub fn check(method: &Method, uri: &Uri, headers: &HeaderMap, token: &Token) -> Result<(), (StatusCode, &'static str)> {
    if *method != Method::GET && *method != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "the page answers only GET and POST"));
    }
    let host = only(headers, header::HOST).filter(|host| is_of_this_machine(host) && uri.authority().is_none());
    let no_host = "the header Host names no loopback address: open the address that weft web printed";
    let host = host.ok_or((StatusCode::FORBIDDEN, no_host))?;
    let origin = headers.contains_key(header::ORIGIN).then(|| only(headers, header::ORIGIN).unwrap_or_default());
    let is_own = |origin: &str| origin.strip_prefix("http://").is_some_and(|name| name.eq_ignore_ascii_case(host));
    if origin.is_some_and(|origin| !is_own(origin)) {
        let why = "the request comes from another page: open the address that weft web printed";
        return Err((StatusCode::FORBIDDEN, why));
    }
    if *method == Method::POST && origin.is_none() {
        return Err((StatusCode::FORBIDDEN, "a change needs the header Origin"));
    }
    let needs_token = *method == Method::POST || uri.path().starts_with(API);
    let given = only(headers, header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    if needs_token && !given.is_some_and(|given| token.is(given.as_bytes())) {
        return Err((
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong: open the address that weft web printed",
        ));
    }
    Ok(())
}

/// Returns the value of a header, or `None` unless the request has that header exactly once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let value = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(value)
}

/// True if `host` is a loopback name or address of this machine, with or without a port.
fn is_of_this_machine(host: &str) -> bool {
    HOSTS.iter().any(|name| {
        let rest = host.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name)).map(|_| &host[name.len()..]);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    /// The parts of a request that are checked. The tests make one of them wrong, by a random value.
    #[derive(Clone, Debug)]
    struct RequestParts {
        method: Method,
        path: &'static str,
        host: Option<String>,
        origin: Option<String>,
        token: Option<String>,
    }

    fn answered(shown: &RequestParts, token: &Token) -> Result<(), StatusCode> {
        let mut headers = HeaderMap::new();
        let given = shown.token.as_ref().map(|text| match text.as_str() {
            "right" => format!("Bearer {}", token.text()),
            other => other.to_owned(),
        });
        let all = [(header::HOST, &shown.host), (header::ORIGIN, &shown.origin), (header::AUTHORIZATION, &given)];
        for (name, value) in all {
            if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.append(name, value);
            }
        }
        check(&shown.method, &shown.path.parse().unwrap(), &headers, token).map_err(|(status, _)| status)
    }

    fn good(port: u16, method: &Method, path: &'static str) -> RequestParts {
        RequestParts {
            method: method.clone(),
            path,
            host: Some(format!("127.0.0.1:{port}")),
            origin: Some(format!("http://127.0.0.1:{port}")),
            token: Some("right".to_owned()),
        }
    }

    fn wrong_host() -> impl Strategy<Value = Option<String>> {
        let name = prop_oneof![
            "[a-z]{1,8}\\.example(:[0-9]{1,5})?",
            "127\\.0\\.0\\.1[.a-z0-9-][a-z]{0,8}",
            "(localhost|127\\.0\\.0\\.1)\\.[a-z]{1,5}(:[0-9]{1,4})?",
            "[a-z]{1,4}(@|\\.)(localhost|127\\.0\\.0\\.1)",
            "(localhost|\\[::1\\]):([0-9]{6}|[a-z]|)",
            "(10|192|172)\\.[0-9]\\.[0-9]\\.[0-9]",
            "::1",
            Just(String::new()),
        ];
        prop_oneof![Just(None), name.prop_map(Some)]
    }

    fn wrong_origin(port: u16) -> impl Strategy<Value = String> {
        prop_oneof![
            Just("null".to_owned()),
            Just(String::new()),
            Just(format!("https://127.0.0.1:{port}")),
            Just(format!("http://localhost:{port}")),
            Just(format!("http://127.0.0.1:{port}/")),
            Just(format!("http://127.0.0.1:{}", port.wrapping_add(1))),
            "https?://[a-z]{1,8}\\.example(:[0-9]{1,4})?",
            Just(format!("http://127.0.0.1:{port}.example")),
        ]
    }

    fn wrong_token() -> impl Strategy<Value = Option<String>> {
        let text = prop_oneof![
            "Bearer [A-Za-z0-9_-]{43}",
            "[ -~]{0,60}",
            "Basic [A-Za-z0-9=]{4,40}",
            Just("Bearer ".to_owned())
        ];
        prop_oneof![Just(None), text.prop_filter("right", |text| text != "right").prop_map(Some)]
    }

    proptest! {
        #[test]
        fn a_request_with_one_wrong_part_is_refused(
            port in 1u16..,
            post: bool,
            host in wrong_host(),
            (port_of_origin, origin) in (1u16..).prop_flat_map(|port| (Just(port), wrong_origin(port))),
            token in wrong_token(),
            method in "(PUT|DELETE|OPTIONS|TRACE|PATCH|HEAD|CONNECT|[A-Z]{5,9})",
        ) {
            let own = Token::random().unwrap();
            let method_of = if post { Method::POST } else { Method::GET };
            let (path, right) = ("/api/live", good(port, &method_of, "/api/live"));
            prop_assert_eq!(answered(&right, &own), Ok(()));
            prop_assert_eq!(answered(&RequestParts { host, ..right.clone() }, &own), Err(StatusCode::FORBIDDEN));
            let other = RequestParts { origin: Some(origin), ..good(port_of_origin, &method_of, path) };
            prop_assert_eq!(answered(&other, &own), Err(StatusCode::FORBIDDEN));
            let stranger = RequestParts { token: token.clone(), ..right.clone() };
            prop_assert_eq!(answered(&stranger, &own), Err(StatusCode::UNAUTHORIZED));
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            prop_assert_eq!(answered(&RequestParts { method, ..right.clone() }, &own), Err(StatusCode::METHOD_NOT_ALLOWED));
            // The page's files contain no data of the node, so a request for them needs no token. A request for a
            // change needs the header Origin on every path.
            let page = RequestParts { token, path: "/page.js", origin: None, ..right.clone() };
            let expected = if post { Err(StatusCode::FORBIDDEN) } else { Ok(()) };
            prop_assert_eq!(answered(&page, &own), expected);
        }
    }

    #[test]
    fn a_header_that_stands_there_twice_counts_as_none() {
        let own = Token::random().unwrap();
        for name in [header::HOST, header::ORIGIN, header::AUTHORIZATION] {
            let bearer = format!("Bearer {}", own.text());
            let mut headers = HeaderMap::new();
            for (name, value) in [
                (header::HOST, "localhost"),
                (header::ORIGIN, "http://localhost"),
                (header::AUTHORIZATION, bearer.as_str()),
            ] {
                headers.append(name, HeaderValue::from_str(value).unwrap());
            }
            let uri = "/api/set".parse().unwrap();
            assert_eq!(check(&Method::POST, &uri, &headers, &own), Ok(()));
            let again = headers[&name].clone();
            headers.append(&name, again);
            assert!(check(&Method::POST, &uri, &headers, &own).is_err(), "{name}");
        }
    }

    #[test]
    fn a_request_to_another_server_is_refused() {
        let own = Token::random().unwrap();
        let mut shown = good(8080, &Method::GET, "http://127.0.0.1:8080/");
        assert_eq!(answered(&shown, &own), Err(StatusCode::FORBIDDEN));
        shown.path = "/";
        assert_eq!(answered(&shown, &own), Ok(()));
    }
}
