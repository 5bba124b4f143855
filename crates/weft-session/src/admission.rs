//! How many handshakes one place may ask for under load: a token bucket for each source prefix and for each relay, in tables of fixed size.

use weft_units::{Duration, Instant, PeerId};

/// Handshakes a source may ask for at once …
const BURST: u32 = 10;
/// … and then one each so long. Costs a processor about a percent.
const REFILL: Duration = Duration::from_millis(50);
/// Buckets. Prefixes that fall into the same one share it; a secret decides which, so that nobody can aim at another.
const BUCKETS: usize = 1_024;

/// Bytes of a source that is a route over relays.
const ROUTE_LEN: usize = 7;

/// The source of a handshake that came by a route over `via`; `route` tells the routes over it apart.
pub fn route_source(via: PeerId, route: u32) -> [u8; ROUTE_LEN] {
    let ([a, b], [c, d, e, f]) = (via.0.to_be_bytes(), route.to_be_bytes());
    [a, b, c, d, e, f, 0]
}

/// The relay that a source lies behind; `None` for an address.
pub(crate) fn via(source: &[u8]) -> Option<PeerId> {
    match source {
        [a, b, _, _, _, _, _] => Some(PeerId(u16::from_be_bytes([*a, *b]))),
        _ => None,
    }
}

/// The part of a source that one place can choose freely: an IPv4 address, or the first 48 bits of an IPv6 address (RFC 6177).
/// Sources are two bytes of port and the address; anything else counts as it is.
pub(crate) fn prefix(source: &[u8]) -> &[u8] {
    match source.len() {
        6 => &source[2..],
        18 => &source[2..8],
        _ => source,
    }
}

/// Token buckets.
pub(crate) struct Admission {
    /// When each would be full, by the hash of a source's prefix,
    full_at: Box<[Instant]>,
    /// and by the number of a relay. No address shares those.
    via_full_at: Box<[Instant]>,
}

/// Takes a token from a bucket.
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

    /// Takes a token from the bucket of `hash`, a keyed hash of the prefix; false if there is none.
    pub(crate) fn admits(&mut self, now: Instant, hash: &[u8; 16]) -> bool {
        let place = usize::from(u16::from_be_bytes([hash[0], hash[1]])) % BUCKETS;
        admits(now, self.full_at.get_mut(place))
    }

    /// Takes a token from the bucket of what comes over a relay; false if there is none.
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
