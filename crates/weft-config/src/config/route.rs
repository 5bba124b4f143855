//! Parsing and checks of `via` in `[[peer]]`: routes to a peer over relays.

use super::diagnose::{Report, did_you_mean};
use super::read::At;
use super::{Config, Peer};
use weft_engine::MAX_RELAYS;
use weft_session::PublicKey;

/// The relays of a route, in order: names of peers, or public keys of other nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route(Vec<String>);

/// Parses `hub` or `hub > far > farther`.
pub fn parse(text: &str) -> Result<Route, String> {
    let relays: Vec<String> = text.split('>').map(|relay| relay.trim().to_owned()).collect();
    if relays.iter().any(String::is_empty) {
        return Err(
            "the name of a relay is missing: write the relays with one `>` between them, such as hub > far".to_owned()
        );
    }
    if relays.len() > MAX_RELAYS {
        return Err(format!(
            "the route `{text}` has {} relays, but at most {MAX_RELAYS} are possible: remove some",
            relays.len()
        ));
    }
    Ok(Route(relays))
}

impl Route {
    /// Returns the relays' keys, or `None` if one of the names is unknown.
    pub fn keys(&self, peers: &[Peer]) -> Option<Vec<PublicKey>> {
        self.0.iter().map(|relay| key(relay, peers)).collect()
    }
}

fn key(relay: &str, peers: &[Peer]) -> Option<PublicKey> {
    let peer = peers.iter().find(|peer| peer.name.value == relay);
    peer.map(|peer| peer.public_key.value).or_else(|| relay.parse().ok())
}

/// Reports routes that contain an unknown node, or a node twice. `own` is this node's key.
pub fn check(config: &Config, own: &PublicKey, report: &Report) {
    if report.is_partial() {
        return;
    }
    for peer in &config.peers {
        for route in &peer.via {
            check_route(config, peer, route, own, report);
        }
    }
}

fn check_route(config: &Config, to: &Peer, route: &At<Route>, own: &PublicKey, report: &Report) {
    let complain = |message: String, help: Option<String>| report.error(route.span.clone(), message, help);
    let peers = &config.peers;
    let Route(relays) = &route.value;
    if let Some(unknown) = relays.iter().find(|relay| key(relay, peers).is_none()) {
        let names = peers.iter().map(|peer| peer.name.value.as_str());
        let help =
            did_you_mean(unknown, names).or_else(|| Some("name a peer, or give a relay's public key".to_owned()));
        let message = format!(
            "the relay `{unknown}` on the route to peer `{}` is neither the name of a [[peer]] nor a public key",
            to.name.value
        );
        return complain(message, help);
    }
    let keys = route.value.keys(peers).unwrap_or_default();
    let is_again =
        |(index, key): (usize, &PublicKey)| key == own || *key == to.public_key.value || keys[..index].contains(key);
    if let Some(again) = keys.iter().enumerate().position(is_again) {
        let message = format!(
            "the route to peer `{}` contains the node `{}` twice: list each relay once, and neither end",
            to.name.value, relays[again]
        );
        return complain(message, None);
    }
    if !peers.iter().any(|peer| keys.first() == Some(&peer.public_key.value)) {
        let message = format!("the first relay on the route to peer `{}` is not a peer of this node", to.name.value);
        complain(message, Some("add a [[peer]] for it, with endpoints".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_relay_and_several() {
        let names = |text| parse(text).map(|Route(relays)| relays);
        assert_eq!(names("hub"), Ok(vec!["hub".to_owned()]));
        assert_eq!(names(" hub >far> farther"), Ok(["hub", "far", "farther"].map(str::to_owned).to_vec()));
        assert!(names("").is_err() && names("hub >").is_err());
        assert!(names("a>b>c>d>e>f>g").is_err_and(|why| why.contains("at most 6")));
    }
}
