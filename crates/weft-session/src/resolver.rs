//! Cryptographic primitives for the Noise library (`snow`).
//!
//! They are X25519 and ChaCha20-Poly1305 of AWS-LC, BLAKE2s, and random numbers of [`SecretRng`]. None of them requests
//! entropy from the operating system.

use crate::identity::x25519_public;
use crate::random::SecretRng;
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use blake2::{Blake2s256, Digest};
use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::{Zeroize, Zeroizing};

/// Length of an authentication tag, in bytes.
const TAG_LEN: usize = 16;

/// Gives the Noise library the primitives of `25519_ChaChaPoly_BLAKE2s`, and no others.
pub(crate) struct Resolver {
    /// Seed of the random numbers that the Noise library draws.
    seed: Zeroizing<[u8; 32]>,
}

impl Resolver {
    pub(crate) fn new(rng: &mut SecretRng) -> Resolver {
        Resolver { seed: Zeroizing::new(rng.array()) }
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SecretRng::new(*self.seed)))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(X25519Dh::default()) as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::Blake2s).then(|| Box::new(Blake2sHash::default()) as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::ChaChaPoly).then(|| Box::new(ChaChaPoly { key: None }) as Box<dyn Cipher>)
    }
}

impl Random for SecretRng {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        self.fill(dest);
        Ok(())
    }
}

/// X25519, named "25519" in Noise §12.1. It rejects a public key of the peer that yields an all-zero secret.
#[derive(Default)]
struct X25519Dh {
    secret: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl Dh for X25519Dh {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, secret: &[u8]) {
        self.secret.iter_mut().zip(secret).for_each(|(to, from)| *to = *from);
        self.public = x25519_public(&self.secret);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        let mut secret = Zeroizing::new([0; 32]);
        rng.try_fill_bytes(secret.as_mut())?;
        #[cfg(test)]
        crate::traces::note(secret.as_ref());
        self.set(secret.as_ref());
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.secret.as_ref()
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let secret = PrivateKey::from_private_key(&X25519, self.secret.as_ref()).map_err(|_| Error::Dh)?;
        let public = public.get(..32).ok_or(Error::Dh)?;
        agree(&secret, UnparsedPublicKey::new(&X25519, public), Error::Dh, |shared| {
            out.iter_mut().zip(shared).for_each(|(to, from)| *to = *from);
            #[cfg(test)]
            crate::traces::note(shared);
            Ok(())
        })
    }
}

/// ChaCha20-Poly1305, as Noise §12.3 uses it: the nonce is 32 zero bits and the counter in little-endian order.
struct ChaChaPoly {
    key: Option<LessSafeKey>,
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.key = UnboundKey::new(&CHACHA20_POLY1305, key).ok().map(LessSafeKey::new);
    }

    fn encrypt(&self, counter: u64, ad: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let sealed_len = plaintext.len() + TAG_LEN;
        let Some((key, out)) = self.key.as_ref().zip(out.get_mut(..sealed_len)) else { return 0 };
        let (text, tag) = out.split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        match key.seal_in_place_separate_tag(nonce(counter), Aad::from(ad), text) {
            Ok(made) => tag.copy_from_slice(made.as_ref()),
            Err(_) => {
                text.zeroize();
                return 0;
            }
        }
        sealed_len
    }

    fn decrypt(&self, counter: u64, ad: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (text, tag) = ciphertext.split_last_chunk::<TAG_LEN>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..text.len()).ok_or(Error::Decrypt)?;
        let key = self.key.as_ref().ok_or(Error::Decrypt)?;
        key.open_separate_gather(nonce(counter), Aad::from(ad), text, tag, out).map_err(|_| Error::Decrypt)?;
        Ok(text.len())
    }
}

/// The hash function BLAKE2s (Noise §12.8).
#[derive(Default)]
struct Blake2sHash(Blake2s256);

impl Hash for Blake2sHash {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Blake2s256::new();
    }

    fn input(&mut self, data: &[u8]) {
        Digest::update(&mut self.0, data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let hash = self.0.finalize_reset();
        out.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use snow::resolvers::{DefaultResolver, FallbackResolver};
    use snow::{Builder, HandshakeState};

    /// A resolver for tests that supplies only the random number generator of this crate.
    ///
    /// The Noise library supplies the other primitives.
    struct OnlyRandom(u8);

    impl CryptoResolver for OnlyRandom {
        fn resolve_rng(&self) -> Option<Box<dyn Random>> {
            Some(Box::new(SecretRng::new([self.0; 32])))
        }

        fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
            None
        }

        fn resolve_hash(&self, _: &HashChoice) -> Option<Box<dyn Hash>> {
            None
        }

        fn resolve_cipher(&self, _: &CipherChoice) -> Option<Box<dyn Cipher>> {
            None
        }
    }

    fn builder<'a>(ours: bool) -> Builder<'a> {
        let params = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s".parse().unwrap();
        if ours {
            Builder::with_resolver(params, Box::new(Resolver::new(&mut SecretRng::new([1; 32]))))
        } else {
            let reference = FallbackResolver::new(Box::new(OnlyRandom(2)), Box::new(DefaultResolver));
            Builder::with_resolver(params, Box::new(reference))
        }
    }

    fn pass(from: &mut HandshakeState, to: &mut HandshakeState, text: &[u8]) {
        let (mut message, mut payload) = ([0; 256], [0; 256]);
        let len = from.write_message(text, &mut message).unwrap();
        let len = to.read_message(&message[..len], &mut payload).unwrap();
        assert_eq!(&payload[..len], text);
    }

    #[test]
    fn our_primitives_are_those_of_an_independent_implementation() {
        let (a, b, psk) = (Identity::from_secret([3; 32]), Identity::from_secret([4; 32]), [5; 32]);
        for ours in [true, false] {
            let keys = |own| builder(own).psk(2, &psk).unwrap();
            let mut initiator = keys(ours).local_private_key(a.secret()).unwrap();
            let public = b.public_key();
            initiator = initiator.remote_public_key(&public.0).unwrap();
            let mut initiator = initiator.build_initiator().unwrap();
            let mut responder = keys(!ours).local_private_key(b.secret()).unwrap().build_responder().unwrap();
            pass(&mut initiator, &mut responder, b"first");
            pass(&mut responder, &mut initiator, b"second");
            assert_eq!(initiator.get_handshake_hash(), responder.get_handshake_hash());
            assert_eq!(initiator.dangerously_get_raw_split(), responder.dangerously_get_raw_split());
        }
    }
}
