//! Protection against handshake floods, as in WireGuard (its paper, §5.3, §5.4.4 and §5.4.7).
//!
//! MAC1 proves that the sender has the receiver's public key. MAC2 proves that the sender can receive at its source
//! address. MAC1 and MAC2 are checked before any public-key operation.

use crate::identity::PublicKey;
use crate::random::SecretRng;
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use blake2::digest::consts::U16;
use blake2::digest::{FixedOutput, KeyInit, Mac, Update};
use blake2::{Blake2s256, Blake2sMac, Digest};
use weft_units::{Duration, Instant};
use weft_wire::handshake::{COOKIE_NONCE_LEN, CookieReply, MAC_LEN, Macs, SEALED_COOKIE_LEN};
use weft_wire::hop::TAG_LEN;

/// Lifetime of a cookie and of the secret from which it is computed. Standard: WireGuard paper §5.4.7.
pub(crate) const COOKIE_LIFETIME: Duration = Duration::from_secs(120);

/// A cookie: the value by which a sender proves that it can receive at its source address.
pub(crate) type Cookie = [u8; MAC_LEN];

type KeyedHash = Blake2sMac<U16>;

/// Returns a keyed BLAKE2s-128 hash for this key. All keys in this module have a length that BLAKE2s accepts.
fn keyed_hash(key: &[u8]) -> Option<KeyedHash> {
    <KeyedHash as KeyInit>::new_from_slice(key).ok()
}

fn mac(key: &[u8], bytes: &[u8]) -> [u8; MAC_LEN] {
    keyed_hash(key).map_or([0; MAC_LEN], |hash| Mac::chain_update(hash, bytes).finalize_fixed().into())
}

/// Returns true if the MAC of `bytes` under `key` is `expected`. The comparison takes constant time.
fn mac_is(key: &[u8], bytes: &[u8], expected: &[u8; MAC_LEN]) -> bool {
    keyed_hash(key).is_some_and(|hash| Mac::chain_update(hash, bytes).verify_slice(expected).is_ok())
}

fn labelled(label: &[u8; 8], key: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain(label).chain(key.0).finalize().into()
}

/// The two keys that are derived from a receiver's public key: for MAC1 and for sealing cookies.
#[derive(Clone)]
pub(crate) struct MacKeys {
    /// Key of MAC1.
    mac1: [u8; 32],
    /// Key that encrypts the cookies that this receiver sends.
    cookie: [u8; 32],
}

impl MacKeys {
    /// Derives the two keys for messages to the node with the public key `key`.
    pub(crate) fn of(key: &PublicKey) -> MacKeys {
        MacKeys { mac1: labelled(b"weftmac1", key), cookie: labelled(b"weftcook", key) }
    }

    /// Returns MAC1 of a message. `covered` holds the bytes of the message before MAC1.
    pub(crate) fn mac1(&self, covered: &[u8]) -> [u8; MAC_LEN] {
        mac(&self.mac1, covered)
    }

    /// True if the message has the right MAC1, so that its sender has the public key of the receiver.
    pub(crate) fn mac1_is_right(&self, macs: &Macs<'_>) -> bool {
        mac_is(&self.mac1, macs.mac1_covers, macs.mac1)
    }

    fn cookie_key(&self) -> Result<LessSafeKey, Unspecified> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.cookie).map(LessSafeKey::new)
    }

    /// Decrypts the cookie in `reply`, which answers the message with this MAC1.
    pub(crate) fn open_cookie(&self, reply: &CookieReply<'_>, mac1: &[u8; MAC_LEN]) -> Result<Cookie, Unspecified> {
        let (sealed, tag) = reply.sealed_cookie.split_last_chunk::<TAG_LEN>().ok_or(Unspecified)?;
        let mut cookie = [0; MAC_LEN];
        let nonce = Nonce::assume_unique_for_key(*reply.nonce);
        self.cookie_key()?.open_separate_gather(nonce, Aad::from(mac1), sealed, tag, &mut cookie)?;
        Ok(cookie)
    }

    /// Encrypts a cookie for the sender of the message with this MAC1. Returns the encrypted cookie with its tag.
    pub(crate) fn seal_cookie(
        &self,
        mut cookie: Cookie,
        nonce: &[u8; COOKIE_NONCE_LEN],
        mac1: &[u8; MAC_LEN],
    ) -> Result<[u8; SEALED_COOKIE_LEN], Unspecified> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.cookie_key()?.seal_in_place_separate_tag(nonce, Aad::from(mac1), &mut cookie)?;
        let mut sealed = [0; SEALED_COOKIE_LEN];
        sealed.iter_mut().zip(cookie.iter().chain(tag.as_ref())).for_each(|(to, from)| *to = *from);
        Ok(sealed)
    }
}

/// Returns MAC2 of a message, computed with the cookie as key. `covered` holds the bytes of the message before MAC2.
pub(crate) fn mac2(cookie: &Cookie, covered: &[u8]) -> [u8; MAC_LEN] {
    mac(cookie, covered)
}

/// Makes a responder's cookies from a secret that it renews every [`COOKIE_LIFETIME`].
pub(crate) struct CookieMaker {
    secret: [u8; 32],
    /// Time at which the present secret was drawn.
    renewed: Instant,
}

impl CookieMaker {
    pub(crate) fn new(now: Instant, rng: &mut SecretRng) -> CookieMaker {
        CookieMaker { secret: rng.array(), renewed: now }
    }

    /// Returns the cookie of a sender at `source`, the bytes of its address and port.
    pub(crate) fn cookie(&mut self, now: Instant, source: &[u8], rng: &mut SecretRng) -> Cookie {
        if now.since(self.renewed) >= COOKIE_LIFETIME {
            *self = CookieMaker::new(now, rng);
        }
        mac(&self.secret, source)
    }

    /// True if the message's MAC2 was computed with this cookie. The sender has then received the cookie.
    pub(crate) fn mac2_is_right(cookie: &Cookie, macs: &Macs<'_>) -> bool {
        mac_is(cookie, macs.mac2_covers, macs.mac2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_survives_its_reply_and_belongs_to_one_message() {
        let keys = MacKeys::of(&PublicKey([7; 32]));
        let (nonce, mac1) = ([1; COOKIE_NONCE_LEN], [2; MAC_LEN]);
        let sealed_cookie = keys.seal_cookie([3; MAC_LEN], &nonce, &mac1).unwrap();
        let reply = CookieReply { receiver: 0, nonce: &nonce, sealed_cookie: &sealed_cookie };
        assert_eq!(keys.open_cookie(&reply, &mac1), Ok([3; MAC_LEN]));
        assert_eq!(keys.open_cookie(&reply, &[9; MAC_LEN]), Err(Unspecified));
    }

    #[test]
    fn cookies_differ_by_source_and_change_every_two_minutes() {
        let mut rng = SecretRng::new([5; 32]);
        let mut maker = CookieMaker::new(Instant::ZERO, &mut rng);
        let first = maker.cookie(Instant::ZERO, b"a", &mut rng);
        assert_ne!(first, maker.cookie(Instant::ZERO, b"b", &mut rng));
        assert_eq!(first, maker.cookie(Instant::from_millis(119_999), b"a", &mut rng));
        assert_ne!(first, maker.cookie(Instant::from_millis(120_000), b"a", &mut rng));
    }
}
