//! The proxy's table.

use super::policy::Policy;
use super::ruleset::{self, Listening, Names};
use crate::nft::{self, Session};
use std::io;

/// Asks the kernel, without changing anything, whether it takes the rules of a proxy.
///
/// # Errors
/// What nft says, or that there is none.
pub fn check() -> io::Result<()> {
    let names = Names::of("weft0");
    let listening = Listening { ports: [[Some(1), Some(1)]; 4] };
    let policy = "1 *;both 192.0.2.0/24,2001:db8::/32 80".parse().map_err(io::Error::other)?;
    let open = ruleset::open(&names, &policy, &listening).replace("; ", "\n");
    nft::check(&format!("{}\n{open}", ruleset::table(&names)))
}

/// The table of one node.
pub struct Table {
    names: Names,
    session: Session,
}

impl Table {
    /// Makes the table; it takes nothing in yet.
    ///
    /// # Errors
    /// When nft is missing or refuses.
    pub fn create(names: &Names) -> io::Result<Table> {
        let session = Session::create(&names.table, "untracked", &ruleset::table(names))?;
        Ok(Table { names: names.clone(), session })
    }

    /// Takes new connections in as `policy` says.
    ///
    /// # Errors
    /// When nft refuses.
    pub fn open(&mut self, policy: &Policy, listening: &Listening) -> io::Result<()> {
        self.session.run(&ruleset::open(&self.names, policy, listening))
    }

    /// Takes no new connections in.
    ///
    /// # Errors
    /// When nft refuses.
    pub fn shut(&mut self) -> io::Result<()> {
        self.session.run(&ruleset::shut(&self.names))
    }
}
