//! Addresses of servers.

use hyper::Uri;
use std::fmt;
use std::str::FromStr;

/// Address of a server, such as `https://hub.example:8443`, with a path that precedes the path of each request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// True for HTTPS.
    pub is_secure: bool,
    /// Host name, or IP address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path without a slash at its end; empty for most servers.
    pub path: String,
}

impl Endpoint {
    /// True if no third party can read the traffic: the connection uses TLS, or the server is on this machine.
    pub fn is_private(&self) -> bool {
        let is_loopback = self.host.parse().map_or(self.host == "localhost", |ip: std::net::IpAddr| ip.is_loopback());
        self.is_secure || is_loopback
    }

    /// Returns the value of the header `Host`.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == default_port(self.is_secure) { host } else { format!("{host}:{}", self.port) }
    }
}

fn default_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        let form = || {
            format!("`{}` is no address of a server: give one such as https://hub.example:8443", text.escape_debug())
        };
        let uri: Uri = text.parse().map_err(|_| form())?;
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(form()),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(form)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        // For a port that is too large, `Authority` returns no port. This detects that the text has one.
        let has_port = authority.as_str().len() > authority.host().len();
        let port = authority.port_u16().or((!has_port).then(|| default_port(is_secure))).ok_or_else(form)?;
        if uri.query().is_some() || host.is_empty() {
            return Err(form());
        }
        Ok(Endpoint { is_secure, host, port, path: uri.path().trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_reads_as_it_is_written(
            is_secure: bool,
            host in "(localhost|[a-z]{1,8}\\.example|192\\.0\\.2\\.[1-9]|2001:db8::[1-9a-f]{1,4})",
            port in 1u16..,
            path in "(/[a-z]{1,5}){0,2}",
        ) {
            let endpoint = Endpoint { is_secure, host, port, path };
            prop_assert_eq!(endpoint.to_string().parse::<Endpoint>(), Ok(endpoint.clone()));
            prop_assert_eq!(format!("{endpoint}/").parse::<Endpoint>(), Ok(endpoint));
        }

        #[test]
        fn any_text_is_an_address_or_an_error(text in "(https?://)?[ -~]{0,30}") {
            if let Ok(endpoint) = text.parse::<Endpoint>() {
                prop_assert_eq!(endpoint.to_string().parse::<Endpoint>(), Ok(endpoint));
            }
        }
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for bad in [
            "hub.example",
            "ftp://hub.example",
            "https://",
            "https://a@hub",
            "http://hub:99999",
            "http://hub?a=b",
            "/x",
        ] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad}");
        }
        let private = |text: &str| text.parse::<Endpoint>().unwrap().is_private();
        assert!(private("http://127.0.0.1:2379") && private("http://[::1]:1") && private("https://192.0.2.1"));
        assert!(!private("http://192.0.2.1") && !private("http://127.0.0.1.example"));
    }
}
