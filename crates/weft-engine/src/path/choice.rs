//! Which address of a peer a link tries next.
//!
//! A *pair* is one link here and one address there. A node opens at most [`MOST_OWN`] pairs to a peer at a time, and the peer opens as many
//! the other way. Each link has an equal share of them; within its share a link tries first what is likely to work, then what the other
//! links have not tried, and every address again and again until one answers.

use core::cmp::Reverse;
use core::net::SocketAddr;

/// Paths between two nodes at most: as many as a set of bits holds ([`crate::path::Pending::reports`]).
pub(crate) const MAX_PATHS: usize = 64;
/// Paths that each of the two nodes opens at most: half of [`MAX_PATHS`], so that neither can take the paths that the other needs.
pub(crate) const MOST_OWN: usize = MAX_PATHS / 2;
/// Addresses that a link tries at a time, where few links share [`MOST_OWN`]. Chosen: one in use and some in reserve.
const FEW_AT_ONCE: usize = 4;
/// Unanswered probes after which a path that never answered makes room for the next address. Probes leave 0, 0.4, 1.2 and 2.8 s after the
/// path was opened, so an address is left after 1.2 s, the second time after 2.8 s, later after 6 s: a round trip may take as long.
const PATIENCE: [u32; 3] = [2, 3, 4];
/// The same for a path that has answered once and is down. Probes are a second apart then.
const PATIENCE_DOWN: u32 = 30;

/// How many addresses each of `links` links tries at a time, where `room` paths may be opened: so many that every address has a link.
pub(crate) fn at_once(links: usize, addresses: usize, room: usize) -> usize {
    let links = links.max(1);
    FEW_AT_ONCE.max(addresses.div_ceil(links)).min(room / links).max(1)
}

/// Unanswered probes after which a path makes room for another address of its link.
pub(crate) fn patience(has_answered: bool, attempts: u32) -> u32 {
    match PATIENCE.get(attempts as usize) {
        _ if has_answered => PATIENCE_DOWN,
        Some(probes) => *probes,
        None => PATIENCE[PATIENCE.len() - 1],
    }
}

/// An address that a link could try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) remote: SocketAddr,
    /// How often the link has tried it in vain.
    pub(crate) attempts: u32,
    /// It lies in a subnet of the link.
    pub(crate) is_near: bool,
    /// Paths to it that are open on other links.
    pub(crate) elsewhere: usize,
    /// Its distance from the link's own place, in the order of the configuration: 0 for the i-th address and the i-th link.
    pub(crate) distance: usize,
}

impl Candidate {
    /// The candidate with the least rank is tried first.
    pub(crate) fn rank(&self) -> (u32, Reverse<bool>, bool, usize, usize) {
        (self.attempts, Reverse(self.is_near), self.distance != 0, self.elsewhere, self.distance)
    }
}

/// The distance of the address at `position` of `addresses` from the place of the link at `ordinal`.
pub(crate) fn distance(ordinal: usize, position: usize, addresses: usize) -> usize {
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
