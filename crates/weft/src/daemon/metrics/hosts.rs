//! Check of the `Host` header, against DNS rebinding.
//!
//! A browser sends a page's requests to any address to which the page's name resolves. If a foreign name resolves to
//! loopback, a page under that name could read the metrics. Its request still carries the foreign name in `Host`, so
//! this module refuses it.

use std::net::{IpAddr, SocketAddr};

/// Host names under which the endpoint answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// All names, for a Unix socket, which no page can reach.
    Any,
    /// Names and addresses of loopback, and this address, at which the endpoint listens.
    Loopback(SocketAddr),
}

impl Hosts {
    /// Checks if a request with this head may be answered.
    ///
    /// # Errors
    /// Returns the HTTP status that refuses it.
    pub fn check(self, head: &[u8], version: &str) -> Result<(), &'static str> {
        let Hosts::Loopback(own) = self else { return Ok(()) };
        let mut hosts = head.split(|byte| *byte == b'\n').skip(1).filter_map(host);
        match (hosts.next(), hosts.next()) {
            // Every browser sends `Host`, so a request without it comes from another program. HTTP/1.0 had no such
            // header.
            (None, _) if version == "HTTP/1.0" => Ok(()),
            (Some(Some(host)), None) if is_own(host, own) => Ok(()),
            (Some(Some(_)), None) => Err("421 Misdirected Request"),
            // RFC 9112 section 3.2 demands this for a request without `Host`, with several, or with an invalid one.
            _ => Err("400 Bad Request"),
        }
    }
}

/// Returns the value if the line is a `Host` header.
///
/// The inner `None` stands for a value that is not UTF-8.
fn host(line: &[u8]) -> Option<Option<&str>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
    name.eq_ignore_ascii_case(b"host").then(|| str::from_utf8(value).ok().map(str::trim))
}

/// Returns true if a `Host` names loopback or the listening address.
///
/// Any port is allowed, since a tunnel may change it.
fn is_own(host: &str, own: SocketAddr) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':').or(rest.is_empty().then_some("0"))),
        None => host.split_once(':').map_or((host, Some("0")), |(name, port)| (name, Some(port))),
    };
    if port.is_none_or(|port| port.parse::<u16>().is_err()) {
        return false;
    }
    match name.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback() || address == own.ip(),
        // RFC 6761 section 6.3: these names resolve to loopback everywhere.
        Err(_) => {
            let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &str, version: &str) -> Result<(), &'static str> {
        let head = format!("GET /metrics {version}\r\n{headers}\r\n");
        Hosts::Loopback(([127, 0, 0, 1], 9469).into()).check(head.as_bytes(), version)
    }

    #[test]
    fn loopback_is_answered_and_names_of_others_are_not() {
        for host in [
            "localhost",
            "LOCALHOST.:9469",
            "x.localhost:1",
            "127.0.0.1",
            "127.0.0.1:9469",
            "127.8.8.8",
            "[::1]:9469",
            "[::1]",
        ] {
            assert_eq!(check(&format!("Accept: */*\r\nhOST: {host}\r\n"), "HTTP/1.1"), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9469",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evillocalhost",
            "192.0.2.1:9469",
            "127.0.0.1:x",
            "[::2]:9469",
            "[::1]x",
            "",
        ] {
            assert_eq!(check(&format!("Host: {host}\r\n"), "HTTP/1.1"), Err("421 Misdirected Request"), "{host}");
            assert_eq!(check(&format!("Host: {host}\r\n"), "HTTP/1.0"), Err("421 Misdirected Request"), "{host}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let none = Err("400 Bad Request");
        assert_eq!((check("", "HTTP/1.1"), check("", "HTTP/1.0")), (none, Ok(())));
        assert_eq!(check("Host: localhost\r\nHost: evil.example\r\n", "HTTP/1.1"), none);
        assert_eq!(Hosts::Any.check(b"GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1"), Ok(()));
    }
}
