//! Prefixes that would take addresses from this machine: refusal, and display of the refused ones.

use crate::config::{Config, prefix};
use crate::daemon::links::LinkTable;
use crate::status;
use std::collections::VecDeque;
use weft_engine::{Clash, Outside, Prefix, Rejection};
use weft_units::{Duration, Instant};

/// Time for which a refused certificate is shown.
///
/// The engine repeats its report at this interval while the certificate's owner tries again.
const SHOWN_FOR: Duration = Duration::from_secs(600);
/// Maximum number of refused certificates that are shown. A further one replaces the oldest.
const MAX_SHOWN: usize = 64;

/// A refused prefix, its owner, and the reason.
pub type Refused = status::RefusedPrefix;

/// Filter for prefixes that would take addresses from this machine.
pub struct Sieve {
    outside: Outside,
}

impl Sieve {
    /// Creates the filter for a machine with these interfaces.
    pub fn new(config: &Config, links: &LinkTable) -> Sieve {
        let openvpn = config.access.iter().filter_map(|access| access.openvpn.as_ref()).map(|of| of.device.as_str());
        let networks = links.foreign_networks(&openvpn.collect::<Vec<_>>());
        let peers = config.peers.iter().flat_map(|peer| &peer.endpoints);
        let contacts = config.network.iter().flat_map(|of| &of.contacts).map(|at| &at.value.1);
        let endpoints = peers.chain(contacts).map(|endpoint| endpoint.ip()).collect();
        Sieve { outside: Outside { networks, endpoints } }
    }

    /// Returns the IP networks and addresses of this machine that prefixes of peers must not contain.
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Returns the usable prefixes of the configuration.
    ///
    /// Adds the refused prefixes, with the names of their peers, to `refused`.
    ///
    /// A shorter prefix that contains a local network is returned. The longest prefix wins, so the local network keeps
    /// its traffic. A prefix that equals a local network is refused, because the local route always wins.
    pub fn pass<'a>(
        &self,
        prefixes: impl Iterator<Item = (&'a str, Prefix)>,
        refused: &mut Vec<Refused>,
    ) -> Vec<Prefix> {
        let passes = |(name, prefix): (&str, Prefix)| {
            let clash = self.outside.clash(prefix);
            let Some(clash) = clash.filter(|clash| is_same(clash, prefix)) else { return Some(prefix) };
            let (name, prefix, why) = (name.to_owned(), prefix::text(prefix), clash.to_string());
            refused.push(Refused { name, prefix, why });
            None
        };
        prefixes.filter_map(passes).collect()
    }
}

fn is_same(clash: &Clash, prefix: Prefix) -> bool {
    matches!(clash, Clash::Network(network) if network.length == prefix.length)
}

/// The refused prefixes, for `weft status`.
#[derive(Default)]
pub struct ShownRefusals {
    configured: Vec<Refused>,
    certified: VecDeque<(Instant, Refused)>,
}

impl ShownRefusals {
    /// Replaces the refused prefixes of the configuration. Returns the new ones for the log.
    pub fn set_configured(&mut self, refused: Vec<Refused>) -> Vec<Refused> {
        let new = refused.iter().filter(|of| !self.configured.contains(of)).cloned().collect();
        self.configured = refused;
        new
    }

    /// Adds a certificate that was refused for the reason `why` to those that `weft status` shows.
    pub fn add_certified(&mut self, now: Instant, name: &str, why: &Rejection) {
        let Rejection::Outside { prefix, clash } = why else { return };
        let refused = Refused { name: name.to_owned(), prefix: prefix::text(*prefix), why: clash.to_string() };
        self.certified.retain(|(_, of)| of.name != refused.name);
        self.certified.push_back((now, refused));
        while self.certified.len() > MAX_SHOWN {
            self.certified.pop_front();
        }
    }

    /// Returns all refused prefixes.
    pub fn all(&self, now: Instant) -> Vec<Refused> {
        let certified = self.certified.iter().filter(|(at, _)| now - *at < SHOWN_FOR).map(|(_, of)| of);
        self.configured.iter().chain(certified).cloned().collect()
    }
}
