//! Routing rules that combine the main table and the tunnel's.
//!
//! With them the longest prefix wins, whichever table it is in.
//!
//! For each prefix length in the tunnel's table, longest first, the kernel searches the main table and then the
//! tunnel's for a route at least as long. This is one longest-prefix match over both tables, in which the machine's own
//! route wins between equals. Lengths are only added: a rule for a length that the table no longer has matches nothing
//! new.

use crate::daemon::machine::changes::{By, Change, Changes};
use std::collections::BTreeSet;
use std::io;
use weft_engine::Prefix;
use weft_io::netlink::MAIN_TABLE;

/// The routing rules of one address family: two for each prefix length in the tunnel's table.
struct Chain {
    ipv6: bool,
    lengths: BTreeSet<u8>,
}

/// The routing rules that lead to the tunnel's routing table.
pub struct Lookup {
    table: u32,
    chains: [Chain; 2],
    changes: Changes,
}

impl Drop for Lookup {
    fn drop(&mut self) {
        for chain in &self.chains {
            self.changes.undo(&rules(chain, self.table));
        }
    }
}

impl Lookup {
    /// Creates a lookup in routing table `table`, without routing rules; [`Lookup::cover`] adds them.
    pub fn new(table: u32, changes: &Changes) -> Lookup {
        let chains = [false, true].map(|ipv6| Chain { ipv6, lengths: BTreeSet::new() });
        Lookup { table, chains, changes: changes.clone() }
    }

    /// Adds routing rules for the lengths of these prefixes.
    ///
    /// # Errors
    /// Returns the kernel's error for the first rule that it refuses.
    pub fn cover(&mut self, prefixes: &[Prefix]) -> io::Result<()> {
        for chain in &mut self.chains {
            let of_family = prefixes.iter().filter(|prefix| prefix.address.is_ipv6() == chain.ipv6);
            let mut lengths: BTreeSet<u8> = of_family.map(|prefix| prefix.length).collect();
            lengths.extend(&chain.lengths);
            if lengths != chain.lengths {
                let old = rules(chain, self.table);
                let new = Chain { ipv6: chain.ipv6, lengths };
                // The old chain is removed only after the new one is added behind it. So each packet finds a chain.
                self.changes.make(&rules(&new, self.table))?;
                self.changes.undo(&old);
                *chain = new;
            }
        }
        Ok(())
    }
}

fn rules(chain: &Chain, table: u32) -> Vec<Change> {
    let of_length = |length| [MAIN_TABLE, table].map(|table| (By::AtLeast(length), table));
    let rules = chain.lengths.iter().rev().flat_map(|length| of_length(*length));
    rules.map(|(by, table)| Change::Rule { by, ipv6: chain.ipv6, table }).collect()
}
