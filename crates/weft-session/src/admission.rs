//! Limits the handshakes that one source may request while this node is under load.
//!
//! There is a token bucket for each source prefix and for each relay, in tables of fixed size. An attacker can
//! therefore not make the tables grow.

use weft_units::{Duration, Instant, PeerId};

/// Number of handshakes that a source may request at once under load: the size of its token bucket.
const BURST: u32 = 10;
/// Time in which a bucket gains one token. One source can thus use about 1 % of a processor core.
const REFILL: Duration = Duration::from_millis(50);
/// Number of token buckets in each of the two tables.
///
/// Prefixes that hash to the same bucket share it. The hash is keyed, so that an attacker cannot choose another
/// source's bucket.
const BUCKETS: usize = 1_024;

/// Length in bytes of the text that identifies a source which is a route over relays.
const ROUTE_LEN: usize = 7;

/// Returns the bytes that identify the source of a handshake that arrived over the relay `via`.
///
/// `route` distinguishes the routes over that relay.
pub fn route_source(via: PeerId, route: u32) -> [u8; ROUTE_LEN] {
    let ([a, b], [c, d, e, f]) = (via.0.to_be_bytes(), route.to_be_bytes());
    [a, b, c, d, e, f, 0]
}

/// Returns the relay that the bytes of a source name. Returns `None` if they name an address.
pub(crate) fn via(source: &[u8]) -> Option<PeerId> {
    match source {
        [a, b, _, _, _, _, _] => Some(PeerId(u16::from_be_bytes([*a, *b]))),
        _ => None,
    }
}

/// Returns the prefix of a source's address. All addresses with this prefix may belong to one attacker.
///
/// The prefix is an IPv4 address, or the first 48 bits of an IPv6 address (RFC 6177). A source is two bytes of port and
/// the address. Any other source is returned unchanged.
pub(crate) fn prefix(source: &[u8]) -> &[u8] {
    match source.len() {
        6 => &source[2..],
        18 => &source[2..8],
        _ => source,
    }
}

/// The token buckets of all source prefixes and relays.
pub(crate) struct Admission {
    /// Time at which each bucket will be full, by the keyed hash of a source's prefix.
    full_at: Box<[Instant]>,
    /// Time at which each relay's bucket will be full, by the relay's peer number.
    via_full_at: Box<[Instant]>,
}

/// Takes a token from the bucket that will be full at `full_at`. Returns false if the bucket is empty.
fn admits(now: Instant, full_at: Option<&mut Instant>) -> bool {
    let Some(full_at) = full_at else { return false };
    let next = (*full_at).max(now) + REFILL;
    let admits = next - now <= REFILL * BURST;
    if admits {
        *full_at = next;
    }
    admits
}

impl Admission {
    pub(crate) fn new(now: Instant) -> Admission {
        Admission { full_at: vec![now; BUCKETS].into(), via_full_at: vec![now; BUCKETS].into() }
    }

    /// Takes a token from the bucket of a source's prefix. Returns false if the bucket is empty.
    ///
    /// `hash` is the keyed hash of the source's prefix.
    pub(crate) fn admits(&mut self, now: Instant, hash: &[u8; 16]) -> bool {
        let place = usize::from(u16::from_be_bytes([hash[0], hash[1]])) % BUCKETS;
        admits(now, self.full_at.get_mut(place))
    }

    /// Takes a token from the bucket of the relay `via`. Returns false if the bucket is empty.
    pub(crate) fn admits_via(&mut self, now: Instant, via: PeerId) -> bool {
        admits(now, self.via_full_at.get_mut(usize::from(via.0) % BUCKETS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_its_rate() {
        let mut admission = Admission::new(Instant::ZERO);
        let mut admitted = |at, hash| (0..100).filter(|_| admission.admits(at, &[hash; 16])).count();
        assert_eq!(admitted(Instant::ZERO, 1), 10);
        assert_eq!(admitted(Instant::ZERO, 2), 10, "others have their own");
        assert_eq!(admitted(Instant::from_millis(49), 1), 0);
        assert_eq!(admitted(Instant::from_millis(100), 1), 2);
        assert_eq!(admitted(Instant::from_millis(60_000), 1), 10, "rest earns one burst");
    }

    #[test]
    fn a_place_is_an_ipv4_address_or_48_bits_of_an_ipv6_address() {
        let v4 = [1, 2, 192, 0, 2, 1];
        assert_eq!(prefix(&v4), [192, 0, 2, 1]);
        let mut v6 = [7; 18];
        v6[2..8].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 9]);
        assert_eq!(prefix(&v6), [0x20, 1, 0xd, 0xb8, 0, 9]);
        assert_eq!(prefix(b"elsewhere"), b"elsewhere");
    }

    #[test]
    fn each_relay_has_a_bucket_whatever_its_routes() {
        let mut admission = Admission::new(Instant::ZERO);
        let mut admitted = |relay: u16| {
            let sources = (0..100).map(|route| route_source(PeerId(relay), route));
            sources.filter_map(|source| via(&source)).filter(|via| admission.admits_via(Instant::ZERO, *via)).count()
        };
        assert!((0..BUCKETS as u16).all(|relay| admitted(relay) == 10));
        assert_eq!((via(&[0; 6]), via(&[0; 18])), (None, None), "addresses lie behind none");
    }
}
