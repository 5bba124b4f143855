//! Chooses the address of a peer that a link tries next.
//!
//! A *pair* is one local link and one remote address. A node opens at most [`MOST_OWN`] pairs to a peer at a time,
//! and the peer opens as many in the other direction. Each link has an equal share of them. Within its share, a link
//! first tries addresses that are likely to work, then those that other links have not tried. It repeats all
//! addresses until one answers.

use core::cmp::Reverse;
use core::net::SocketAddr;

/// Maximum number of paths between two nodes.
///
/// *Derived*: the number of bits of [`crate::path::Pending::reports`].
pub const MAX_PATHS: usize = 64;
/// Maximum number of paths to one peer that a node opens itself.
///
/// *Derived*: half of [`MAX_PATHS`], so that neither node can take the paths that the other needs.
pub const MOST_OWN: usize = MAX_PATHS / 2;
/// Number of a peer's addresses that a link tries at a time, if few links share [`MOST_OWN`].
///
/// Chosen: one address in use and some in reserve.
const FEW_AT_ONCE: usize = 4;
/// Number of unanswered probes after which a link gives up an address that has never answered on it, by attempt.
///
/// It then tries the next address. The values are for the first, second and later attempts. Probes leave 0, 0.4, 1.2
/// and 2.8 s after the path was opened. An address is thus given up after 1.2 s, the second time after 2.8 s, and later
/// after 6 s, because an RTT may be that long.
const PATIENCE: [u32; 3] = [2, 3, 4];
/// Number of unanswered probes after which a link gives up an address that has answered on it before.
///
/// It then tries the next address. A path that is down is probed once a second.
const PATIENCE_DOWN: u32 = 30;

/// Returns the number of a peer's addresses that each link tries at a time, if `room` paths may be opened.
///
/// The number is large enough that some link tries each address, if `room` allows it.
pub fn at_once(links: usize, addresses: usize, room: usize) -> usize {
    let links = links.max(1);
    FEW_AT_ONCE.max(addresses.div_ceil(links)).min(room / links).max(1)
}

/// Returns the number of unanswered probes after which a link gives up an address and tries another one.
///
/// `attempts` is the number of its earlier attempts at this address.
pub fn patience(has_answered: bool, attempts: u32) -> u32 {
    match PATIENCE.get(attempts as usize) {
        _ if has_answered => PATIENCE_DOWN,
        Some(probes) => *probes,
        None => PATIENCE[PATIENCE.len() - 1],
    }
}

/// An address of a peer that a link could try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub remote: SocketAddr,
    /// Number of the link's failed attempts at the address.
    pub attempts: u32,
    /// True if the address lies in an IP subnet of the link.
    pub is_near: bool,
    /// Number of open paths to the address on other links.
    pub elsewhere: usize,
    /// Distance of the address from the link's own position in the configured order.
    ///
    /// It is 0 for the first address and the first link, for the second address and the second link, and so on.
    pub distance: usize,
}

impl Candidate {
    /// Returns a sort key for the addresses that a link could try. The one with the least key is tried first.
    pub fn rank(&self) -> (u32, Reverse<bool>, bool, usize, usize) {
        (self.attempts, Reverse(self.is_near), self.distance != 0, self.elsewhere, self.distance)
    }
}

/// Returns the distance between the positions of an address and a link.
///
/// `position` is the address's index in the list of addresses, `addresses` the length of that list, and `ordinal` the
/// link's index in the list of links. All indices begin at 0.
pub fn distance(ordinal: usize, position: usize, addresses: usize) -> usize {
    let addresses = addresses.max(1);
    (position + addresses - ordinal % addresses) % addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fit_and_leave_no_link_and_no_address_out() {
        for links in 1..=MOST_OWN {
            for addresses in 1..=MOST_OWN {
                let each = at_once(links, addresses, MOST_OWN);
                assert!(each >= 1 && each * links <= MOST_OWN, "{links} links, {addresses} addresses: {each} each");
                if links * addresses.div_ceil(links) <= MOST_OWN {
                    assert!(each * links >= addresses, "{links} links, {addresses} addresses: {each} each");
                }
            }
        }
        assert_eq!((at_once(3, 3, 32), at_once(12, 8, 32), at_once(1, 8, 32), at_once(40, 2, 32)), (4, 2, 8, 1));
    }

    #[test]
    fn the_link_s_own_address_is_tried_first_and_what_failed_last() {
        let remote = "192.0.2.1:1".parse().unwrap();
        let of = |attempts, is_near, elsewhere, distance| {
            Candidate { remote, attempts, is_near, elsewhere, distance }.rank()
        };
        assert!(of(0, true, 5, 3) < of(0, false, 0, 0), "a neighbour before all else");
        assert!(of(0, false, 5, 0) < of(0, false, 0, 1), "its own address, whoever tries it too");
        assert!(of(0, false, 0, 4) < of(0, false, 1, 1), "one that no link tries");
        assert!(of(0, false, 9, 9) < of(1, true, 0, 0), "none a second time before all others");
    }

    #[test]
    fn the_i_th_link_is_at_the_i_th_address() {
        assert!((0..24).all(|ordinal| distance(ordinal, ordinal % 12, 12) == 0));
        assert_eq!((distance(3, 4, 8), distance(3, 2, 8), distance(0, 0, 0)), (1, 7, 0));
    }
}
