//! The proxy's nftables table.

use super::policy::ProxyPolicy;
use super::ruleset::{self, DiversionNames, Listening};
use crate::nft::{self, NftSession};
use std::io;

/// Tests whether the kernel accepts the rules of a proxy. It changes nothing.
///
/// # Errors
/// Fails with nft's message, or if nft is missing.
pub fn check() -> io::Result<()> {
    let names = DiversionNames::of("weft0");
    let listening = Listening { ports: [[Some(1), Some(1)]; 4] };
    let policy = "1 *;both 192.0.2.0/24,2001:db8::/32 80".parse().map_err(io::Error::other)?;
    let open = ruleset::open(&names, &policy, &listening).replace("; ", "\n");
    nft::check(&format!("{}\n{open}", ruleset::table(&names)))
}

/// The nftables table of one node's proxy.
pub struct NftTable {
    names: DiversionNames,
    session: NftSession,
}

impl NftTable {
    /// Creates the nftables table, which diverts no connections to the proxy yet.
    ///
    /// # Errors
    /// Fails if nft is missing or rejects the rules.
    pub fn create(names: &DiversionNames) -> io::Result<NftTable> {
        let session = NftSession::create(&ruleset::table(names))?;
        Ok(NftTable { names: names.clone(), session })
    }

    /// Diverts to the proxy exactly the new connections that `policy` selects.
    ///
    /// # Errors
    /// Fails if nft rejects the rules.
    pub fn open(&mut self, policy: &ProxyPolicy, listening: &Listening) -> io::Result<()> {
        self.session.run(&ruleset::open(&self.names, policy, listening))
    }

    /// Stops diverting new connections to the proxy.
    ///
    /// # Errors
    /// Fails if nft rejects the rules.
    pub fn shut(&mut self) -> io::Result<()> {
        self.session.run(&ruleset::shut(&self.names))
    }
}
