//! The handshake itself: Noise `IKpsk2` (rev 34 §7.5 and §9.4), as in WireGuard, through the `snow` library.
//!
//! The prologue is a name and the clear header of the initiation, so that nobody can change the initiator's index on the way.

use crate::identity::{Identity, PresharedKey, PublicKey};
use crate::keys::SessionSecret;
use crate::random::SecretRng;
use crate::resolver::Resolver;
use snow::{Builder, Error, HandshakeState};
use weft_wire::certificate::MAX_CERTIFICATE_LEN;
use weft_wire::handshake::{INITIATION_PAYLOAD_LEN, RESPONSE_PAYLOAD_LEN};
use weft_wire::hop::PacketType;

const PROTOCOL: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const PSK_POSITION: u8 = 2;

fn prologue(initiator_index: u32) -> [u8; 12] {
    let mut prologue = *b"weft\0\0\0\0\0\0\0\0";
    prologue[4] = PacketType::HandshakeInitiation.byte();
    prologue[8..].copy_from_slice(&initiator_index.to_be_bytes());
    prologue
}

fn builder<'a>(rng: &mut SecretRng) -> Result<Builder<'a>, Error> {
    Ok(Builder::with_resolver(PROTOCOL.parse()?, Box::new(Resolver::new(rng))))
}

fn secret_of(state: &mut HandshakeState) -> SessionSecret {
    let split = state.dangerously_get_raw_split();
    SessionSecret::new(split, state.get_handshake_hash())
}

/// A handshake this node initiated, waiting for its response. The library's state is boxed, so that its memory is freed, which wipes it.
pub(crate) struct Initiator(Box<HandshakeState>);

impl Initiator {
    /// Writes the first message to `noise`, which is as long as it: [`INITIATION_NOISE_LEN`](weft_wire::handshake::INITIATION_NOISE_LEN) bytes and the certificate's.
    pub(crate) fn start(
        identity: &Identity,
        peer: (&PublicKey, &PresharedKey),
        index: u32,
        payload: &[u8],
        rng: &mut SecretRng,
        noise: &mut [u8],
    ) -> Result<Initiator, Error> {
        let mut state = Box::new(
            builder(rng)?
                .prologue(&prologue(index))?
                .local_private_key(identity.secret())?
                .remote_public_key(&peer.0.0)?
                .psk(PSK_POSITION, peer.1.secret())?
                .build_initiator()?,
        );
        state.write_message(payload, noise)?;
        Ok(Initiator(state))
    }

    /// Reads the second message: the payload, the certificate behind it, the secret. A message that does not authenticate changes nothing:
    /// the true one may still come.
    pub(crate) fn finish(
        &mut self,
        noise: &[u8],
    ) -> Result<([u8; RESPONSE_PAYLOAD_LEN], Vec<u8>, SessionSecret), Error> {
        let mut buffer = [0; RESPONSE_PAYLOAD_LEN + MAX_CERTIFICATE_LEN];
        let len = self.0.read_message(noise, &mut buffer)?;
        let (payload, certificate) =
            buffer.get(..len).and_then(|payload| payload.split_first_chunk()).ok_or(Error::Input)?;
        Ok((*payload, certificate.to_vec(), secret_of(&mut self.0)))
    }
}

/// A handshake a peer initiated, decrypted and not answered yet.
pub(crate) struct Responder {
    state: Box<HandshakeState>,
    /// The initiator's static key.
    pub(crate) peer: PublicKey,
    /// What the initiation carried.
    pub(crate) payload: [u8; INITIATION_PAYLOAD_LEN],
    /// The certificate behind it, and what fills the datagram; empty without one.
    pub(crate) certificate: Vec<u8>,
}

impl Responder {
    /// Reads the first message.
    pub(crate) fn read(identity: &Identity, index: u32, noise: &[u8], rng: &mut SecretRng) -> Result<Responder, Error> {
        let mut state = Box::new(
            builder(rng)?.prologue(&prologue(index))?.local_private_key(identity.secret())?.build_responder()?,
        );
        let mut buffer = [0; INITIATION_PAYLOAD_LEN + MAX_CERTIFICATE_LEN];
        let len = state.read_message(noise, &mut buffer)?;
        let (payload, certificate) =
            buffer.get(..len).and_then(|payload| payload.split_first_chunk()).ok_or(Error::Input)?;
        let peer = state.get_remote_static().and_then(|key| key.first_chunk()).ok_or(Error::Input)?;
        Ok(Responder { peer: PublicKey(*peer), payload: *payload, certificate: certificate.to_vec(), state })
    }

    /// Writes the second message to `noise`, which is as long as it: [`RESPONSE_NOISE_LEN`](weft_wire::handshake::RESPONSE_NOISE_LEN) bytes and the certificate's.
    pub(crate) fn answer(
        mut self,
        psk: &PresharedKey,
        payload: &[u8],
        noise: &mut [u8],
    ) -> Result<SessionSecret, Error> {
        self.state.set_psk(usize::from(PSK_POSITION), psk.secret())?;
        self.state.write_message(payload, noise)?;
        Ok(secret_of(&mut self.state))
    }
}
