//! Parsing of settings for links on which UDP does not pass: `[tcp]`, and some keys of `[[link]]` and `[[peer]]`.

use super::host_name::is_name;
use super::read::{At, Section, names};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// TCP ports that a node can have.
const PORTS: Range<i64> = 1..65_536;

/// When a link carries datagrams in TCP connections.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TcpFallback {
    /// The link uses TCP while UDP does not pass.
    #[default]
    Auto,
    /// The link never uses TCP.
    Off,
    /// The link always uses TCP, and never UDP.
    Always,
}

names!(TcpFallback { Auto = "auto", Off = "off", Always = "always" });

/// Settings of a `[[link]]` about TCP.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LinkTcp {
    /// Condition under which the link uses TCP.
    pub fallback: TcpFallback,
    /// HTTP proxy by which the link makes TCP connections.
    pub proxy: Option<SocketAddr>,
}

/// Settings of a `[[peer]]` about TCP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerTcp {
    /// TCP port of the peer.
    pub port: u16,
    /// Host name that TLS sends to the peer (SNI); absent: the host name in `endpoints`, or no name.
    pub name: Option<String>,
}

/// `[tcp]`: the TCP port of this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpDoor {
    /// TCP port at which this node accepts connections.
    pub port: u16,
    /// Web server that receives the decrypted data of connections that are not from nodes.
    pub web: Option<SocketAddr>,
    /// Files of the certificate and of its key; absent: the node makes a certificate.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Parses `[tcp]`. File names in it are relative to `directory`.
pub fn read(mut section: Section<'_, '_>, directory: &Path) -> Option<TcpDoor> {
    let path = |text: &str| Ok::<_, Infallible>(directory.join(text));
    let port = section.integer("listen", PORTS).map(|port| port.value as u16);
    if !section.has("listen") {
        section.missing("listen", "for example listen = 443");
    }
    let web = section.parsed("web", "\"127.0.0.1:8080\"", |text| address("web", text));
    if let Some(At { value, span }) = &web
        && value.ip().is_loopback()
        && Some(value.port()) == port
    {
        section.complain(span.clone(), "`web` is this node's own `listen`", "the web server needs another port");
    }
    let certificate = section.parsed("certificate", "\"/etc/ssl/example.pem\"", path);
    let key = section.parsed("key", "\"/etc/ssl/example.key\"", path);
    let files = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate.value, key.value)),
        (None, None) => None,
        (Some(alone), None) => {
            section.complain(alone.span, "`certificate` needs `key`", "add the file of the certificate's private key");
            None
        }
        (None, Some(alone)) => {
            section.complain(alone.span, "`key` needs `certificate`", "add the file of the certificate");
            None
        }
    };
    section.finish();
    Some(TcpDoor { port: port?, web: web.map(|web| web.value), certificate: files })
}

/// Parses the keys of a `[[link]]` about TCP.
pub fn read_link(section: &mut Section<'_, '_>) -> LinkTcp {
    let fallback = section.choice("tcp-fallback").unwrap_or_default();
    let proxy = section.parsed("http-proxy", "\"192.0.2.1:3128\"", |text| address("http-proxy", text));
    if let Some(proxy) = proxy.as_ref().filter(|_| fallback == TcpFallback::Off) {
        let help = "remove one of the two: a proxy carries TCP alone";
        section.complain(proxy.span.clone(), "`http-proxy` has no use with `tcp-fallback = \"off\"`", help);
    }
    LinkTcp { fallback, proxy: proxy.map(|proxy| proxy.value) }
}

/// Parses the keys of a `[[peer]]` about TCP.
pub fn read_peer(section: &mut Section<'_, '_>, has_endpoints: bool) -> Option<PeerTcp> {
    let port = section.integer("tcp", PORTS);
    let name = section.parsed("tcp-name", "\"www.example.org\"", host);
    if port.is_some() && !has_endpoints {
        section.complain(
            section.key_span("tcp"),
            "`tcp` needs `endpoints`",
            "add the peer's address: this node calls it there",
        );
    }
    if let Some(name) = name.as_ref().filter(|_| !section.has("tcp")) {
        section.complain(name.span.clone(), "`tcp-name` needs `tcp`", "add the peer's TCP port, for example tcp = 443");
    }
    Some(PeerTcp { port: port?.value as u16, name: name.map(|name| name.value) })
}

fn address(key: &str, text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "expected an IP address and a port")?;
    if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
        return Err(format!(
            "`{key}` must be the address of one host, not 0.0.0.0, :: or multicast, with a port above 0"
        ));
    }
    Ok(address)
}

fn host(text: &str) -> Result<String, &'static str> {
    let name = text.to_ascii_lowercase();
    // `_` is no character of a host name in TLS (RFC 6066 §3).
    if is_name(&name) && !name.contains('_') { Ok(name) } else { Err("expected a host name, such as www.example.org") }
}
