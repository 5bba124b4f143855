//! How packets leave by a link: what the kernel's routes say, kept until they may have changed.
//!
//! A socket that is bound to a device sends to every IPv4 address, whatever the routes say: without one the kernel takes the address to be
//! on the device's link, and broadcasts ARP requests for it there. So the routes are asked before.

use std::collections::HashMap;
use std::net::IpAddr;
use weft_io::netlink::RouteLookup;

/// Answers that are kept at most. An answer takes some 60 bytes.
const MAX_KNOWN: usize = 4_096;

/// How a packet may leave by a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// No route leads there.
    None,
    /// As it is.
    Plain,
    /// With this source address: a rule asks for it.
    From(IpAddr),
}

/// A link's index, a destination, and a source address that is set already.
type Question = (u32, IpAddr, Option<IpAddr>);

/// The kernel's answers.
#[derive(Default)]
pub struct Ways {
    lookup: Option<RouteLookup>,
    known: HashMap<Question, Way>,
}

impl Ways {
    /// Routes may have changed.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// How a packet can leave, and whether that was not known before. `own`: the link's addresses, tried as sources where the packet has none.
    pub fn find(&mut self, index: u32, to: IpAddr, from: Option<IpAddr>, own: &[IpAddr]) -> (Way, bool) {
        if let Some(way) = self.known.get(&(index, to, from)) {
            return (*way, false);
        }
        let way = self.look_up(index, to, from, own);
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert((index, to, from), way);
        (way, true)
    }

    fn look_up(&mut self, index: u32, to: IpAddr, from: Option<IpAddr>, own: &[IpAddr]) -> Way {
        if self.lookup.is_none() {
            self.lookup = RouteLookup::open().ok();
        }
        // A kernel that does not answer decides by itself when the packet leaves.
        let Some(lookup) = &mut self.lookup else { return Way::Plain };
        let mut leads = |source| lookup.has_route(to, index, source).unwrap_or(true);
        if leads(from) {
            return Way::Plain;
        }
        let sources = own.iter().filter(|own| from.is_none() && own.is_ipv4() == to.is_ipv4());
        sources.copied().find(|source| leads(Some(*source))).map_or(Way::None, Way::From)
    }
}
