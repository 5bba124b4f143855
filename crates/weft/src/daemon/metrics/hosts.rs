//! By which names the metrics may be asked for.
//!
//! A browser sends a page's requests wherever the page's name leads, so a name of somebody else that is made to lead to loopback would
//! let that page read the metrics (DNS rebinding). Such a request still carries the page's name in `Host`.

use std::net::{IpAddr, SocketAddr};

/// Names of the endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// A Unix socket: no page reaches it.
    Any,
    /// Loopback's names and addresses, and this one.
    Loopback(SocketAddr),
}

impl Hosts {
    /// Whether a request with this head may be answered.
    ///
    /// # Errors
    /// The status that refuses it.
    pub fn check(self, head: &[u8], version: &str) -> Result<(), &'static str> {
        let Hosts::Loopback(own) = self else { return Ok(()) };
        let mut hosts = head.split(|byte| *byte == b'\n').skip(1).filter_map(host);
        match (hosts.next(), hosts.next()) {
            // No browser leaves it out, and HTTP/1.0 did not know it.
            (None, _) if version == "HTTP/1.0" => Ok(()),
            (Some(Some(host)), None) if is_own(host, own) => Ok(()),
            (Some(Some(_)), None) => Err("421 Misdirected Request"),
            // RFC 9112 section 3.2: none, several and those that are no host.
            _ => Err("400 Bad Request"),
        }
    }
}

/// The value where a line is a `Host` header; within it `None` for what is no text.
fn host(line: &[u8]) -> Option<Option<&str>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
    name.eq_ignore_ascii_case(b"host").then(|| str::from_utf8(value).ok().map(str::trim))
}

/// Whether a `Host` names loopback or the address listened at. Its port may be that of a tunnel to it.
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
        // RFC 6761 section 6.3: these names lead to loopback everywhere.
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
