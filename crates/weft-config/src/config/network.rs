//! Parsing and checks of `[network]`.
//!
//! The table names the root key, this node's certificate, and the contacts of the overlay.

use super::Config;
use super::diagnose::Report;
use super::host_name::{self, Endpoint, HostName};
use super::parse;
use super::prefix;
use super::read::{At, Section};
use crate::keys;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use weft_engine::{Contact, MAX_FOUND_ROUTES, OverlayConfig, Prefix};
use weft_session::{Certificate, CertificateError, PublicKey, RootPublicKey};

/// Remaining validity of a certificate below which the check warns, in seconds.
const SOON_S: u64 = 14 * DAY_S;
/// Seconds in a day.
const DAY_S: u64 = 86_400;

/// `[network]`: which certificates this node accepts, and how it takes part in the overlay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// Root key of the network.
    pub root: At<RootPublicKey>,
    /// File of this node's own certificate; absent: it has none.
    pub certificate: Option<At<PathBuf>>,
    /// True if this node takes part in the overlay; absent: it does if it has a certificate.
    pub overlay: Option<At<bool>>,
    /// Addresses at which other nodes can reach this node.
    pub endpoints: Vec<At<SocketAddr>>,
    /// Number of routes over relays that this node keeps ready to each other node.
    pub routes: usize,
    /// Nodes that this node contacts first to join the overlay: a key and an address of each.
    pub contacts: Vec<At<(PublicKey, SocketAddr)>>,
    /// Nodes to contact first, by host name. The daemon adds their addresses to `contacts`.
    pub named_contacts: Vec<At<(PublicKey, HostName)>>,
    /// Prefixes of the network. weft receives packets to them and finds their owners in the overlay.
    pub prefixes: Vec<At<Prefix>>,
}

impl Network {
    /// Returns true if this node takes part in the overlay.
    pub fn has_overlay(&self) -> bool {
        self.overlay.as_ref().map_or(self.certificate.is_some(), |overlay| overlay.value)
    }

    /// Returns the engine's settings of the overlay.
    pub fn engine_overlay(&self) -> OverlayConfig {
        let mut contacts: Vec<Contact> = Vec::new();
        for (public_key, endpoint) in self.contacts.iter().map(|at| at.value) {
            match contacts.iter_mut().find(|contact| contact.public_key == public_key) {
                Some(contact) => contact.endpoints.push(endpoint),
                None => contacts.push(Contact { public_key, endpoints: vec![endpoint] }),
            }
        }
        let endpoints = self.endpoints.iter().map(|at| at.value).collect();
        OverlayConfig { endpoints, contacts, routes: self.routes }
    }
}

/// Parses `[network]`. A relative path is relative to `directory`.
pub fn read(mut section: Section<'_, '_>, directory: &Path) -> Option<Network> {
    let root = section.parsed("root", "the key that `weft ca init` prints", root_key);
    let certificate = section.parsed("certificate", "\"node.cert\"", |text| Ok::<_, Infallible>(directory.join(text)));
    let overlay = section.flag("overlay").map(|value| At { value, span: section.key_span("overlay") });
    let routes = section.integer("routes", 0..MAX_FOUND_ROUTES as i64 + 1);
    let routes = routes.and_then(|at| usize::try_from(at.value).ok()).unwrap_or(MAX_FOUND_ROUTES);
    let endpoints = section.list("endpoints", "[\"198.51.100.7:51900\"]", parse::endpoint).unwrap_or_default();
    let (mut contacts, mut named_contacts) = (Vec::new(), Vec::new());
    for At { value: (key, place), span } in
        section.list("contacts", "[\"KEY@192.0.2.1:51900\"]", host_name::contact).unwrap_or_default()
    {
        match place {
            Endpoint::Address(address) => contacts.push(At { value: (key, address), span }),
            Endpoint::Name(name) => named_contacts.push(At { value: (key, name), span }),
        }
    }
    let prefixes = section.list("prefixes", "[\"10.9.0.0/16\"]", prefix::parse).unwrap_or_default();
    if !section.has("root") {
        section.missing("root", "the key that `weft ca init` printed");
    }
    section.finish();
    Some(Network { root: root?, certificate, overlay, routes, endpoints, contacts, named_contacts, prefixes })
}

fn root_key(text: &str) -> Result<RootPublicKey, &'static str> {
    text.parse().map_err(|_| "a root key is 44 characters of base64")
}

/// Checks this node's certificate at `unix_s`, in seconds since 1970, and returns it.
pub fn check(config: &Config, own: &PublicKey, unix_s: u64, report: &Report) -> Option<Certificate> {
    let network = config.network.as_ref()?;
    if network.certificate.is_none() && config.node.listen.is_none() {
        let help = "set this node's `certificate`, or set [node] `listen` so that other nodes can present theirs";
        let message = "[network] has no effect: this node presents no certificate, and no other node can call it";
        report.warning(network.root.span.clone(), message, Some(help.to_owned()));
    }
    overlay(config, network, own, report);
    let at = network.certificate.as_ref()?;
    let error = |message: String, help: String| report.error(at.span.clone(), message, Some(help));
    let file = at.value.display();
    let sign_anew = format!(
        "on the machine with the root key, sign this node's certificate again, with its name and prefixes: \
         weft ca sign --public-key {own}"
    );
    let certificate = keys::load_certificate(&at.value)
        .map_err(|why| {
            let help = format!(
                "on the machine with the root key, sign a certificate for this node, with its name and prefixes: \
                 weft ca sign --public-key {own}"
            );
            error(why.to_string(), help);
        })
        .ok()?;
    let claims = certificate.claims();
    if claims.public_key != *own {
        let message =
            format!("the certificate {file} is for the key {}, not for this node's key {own}", claims.public_key);
        error(message, sign_anew);
        return None;
    }
    match network.root.value.check(&certificate, unix_s) {
        Err(CertificateError::Expired) => {
            let ago = days(unix_s - claims.not_after_unix_s);
            error(format!("the certificate {file} expired {ago} ago"), sign_anew);
        }
        Err(CertificateError::NotYetValid) => {
            let until = days(claims.not_before_unix_s - unix_s);
            let message = format!(
                "the certificate {file} is not valid yet, but only {until} from now: check this machine's clock"
            );
            report.warning(at.span.clone(), message, None);
        }
        Err(CertificateError::OtherRoot) => {
            let message = format!("the certificate {file} is not signed by the root key {}", network.root.value);
            let help = format!("{sign_anew}, or set `root` to the public key of the root that signed the certificate");
            error(message, help);
        }
        Err(why) => error(format!("this node cannot use the certificate {file}, because it is {why}"), sign_anew),
        Ok(()) if claims.not_after_unix_s - unix_s < SOON_S => {
            let message = format!("the certificate {file} expires in {}", days(claims.not_after_unix_s - unix_s));
            report.warning(at.span.clone(), message, Some(sign_anew));
        }
        Ok(()) => {}
    }
    if config.node.relay && !claims.may_relay {
        let message = format!(
            "`relay` in [node] is true, but the certificate {file} does not let this node relay: other nodes reject \
             datagrams that this node forwards"
        );
        let help = "have it signed with --relay, or remove `relay` from [node]";
        report.warning(at.span.clone(), message, Some(help.to_owned()));
    }
    Some(certificate)
}

/// Reports contradictions in the settings of the overlay.
fn overlay(config: &Config, network: &Network, own: &PublicKey, report: &Report) {
    if let Some(overlay) = network.overlay.as_ref().filter(|at| at.value && network.certificate.is_none()) {
        let help = "set this node's `certificate`, which the other nodes check";
        report.error(overlay.span.clone(), "`overlay` needs a `certificate`".to_owned(), Some(help.to_owned()));
    }
    for at in &network.contacts {
        let (key, endpoint) = at.value;
        let is_peer = config.peers.iter().find(|peer| peer.public_key.value == key);
        if key == *own {
            let help = "put another node's public key here".to_owned();
            report.error(at.span.clone(), "this public key is this node's own".to_owned(), Some(help));
        } else if let Some(peer) = is_peer.filter(|peer| !peer.endpoints.contains(&endpoint)) {
            let message = format!(
                "this entry of `contacts` has the public key of peer `{}`, but the `endpoints` of this peer do not \
                 contain the address {endpoint}",
                peer.name.value
            );
            report.warning(at.span.clone(), message, Some("add the address to the peer's `endpoints`".to_owned()));
        } else if !network.has_overlay() {
            let help =
                if network.certificate.is_none() { "set this node's `certificate`" } else { "set overlay = true" };
            let message = "without the overlay this node calls no `contacts`".to_owned();
            report.warning(at.span.clone(), message, Some(help.to_owned()));
        }
    }
    if let Some(at) = network.prefixes.first().filter(|_| !network.has_overlay()) {
        let message = "without the overlay other nodes cannot learn the owner of these prefixes".to_owned();
        report.warning(at.span.clone(), message, Some("set this node's `certificate`, or remove them".to_owned()));
    }
    let is_called = config.node.listen.is_some() || !network.endpoints.is_empty();
    let is_called_at = |peer: &super::Peer| !(peer.endpoints.is_empty() && peer.names.is_empty());
    let calls =
        !(network.contacts.is_empty() && network.named_contacts.is_empty()) || config.peers.iter().any(is_called_at);
    if network.has_overlay() && !is_called && !calls && !report.is_partial() {
        let message = "this node has no contact to call, and no other node can call it".to_owned();
        let help = "set one node of the network: contacts = [\"KEY@192.0.2.1:51900\"]";
        report.warning(network.root.span.clone(), message, Some(help.to_owned()));
    }
}

fn days(seconds: u64) -> String {
    match seconds / DAY_S {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}
