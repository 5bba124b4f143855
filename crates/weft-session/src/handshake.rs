//! The Noise handshake `IKpsk2`, as in WireGuard, through the `snow` library.
//!
//! The pattern is defined in Noise revision 34, §7.5 and §9.4. The prologue is a name and the unencrypted header of the
//! initiation. Noise authenticates the prologue, so an attacker cannot change the initiator's receiver index in
//! transit.

use crate::identity::{Identity, PresharedKey, PublicKey};
use crate::keys::SessionSecret;
use crate::random::SecretRng;
use crate::resolver::Resolver;
use snow::{Builder, Error, HandshakeState};
use weft_wire::certificate::MAX_CERTIFICATE_LEN;
use weft_wire::handshake::{INITIATION_PAYLOAD_LEN, RESPONSE_PAYLOAD_LEN};
use weft_wire::hop::PacketType;

/// Name of the Noise protocol, as defined in Noise §8.
const PROTOCOL: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// Position of the pre-shared key in Noise's handshake pattern: after the second message (`psk2`).
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

/// A handshake that this node initiated and that waits for its response.
///
/// The state is in a box: when the handshake ends, the box is freed, and the allocator wipes freed memory.
pub(crate) struct Initiator(Box<HandshakeState>);

impl Initiator {
    /// Starts a handshake: writes the Noise part of its first message into `noise`.
    ///
    /// The length of `noise` must be [`INITIATION_NOISE_LEN`](weft_wire::handshake::INITIATION_NOISE_LEN) plus that of
    /// the certificate, in bytes. `peer` has the public key and the pre-shared key of the responder. `index` is this
    /// node's receiver index.
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

    /// Reads the Noise part of the second message.
    ///
    /// Returns its payload, the certificate behind the payload, and the session secret. A message that does not
    /// authenticate changes nothing, because the true response may still arrive.
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

/// A handshake that a peer initiated: its first message is decrypted, and the second one not yet written.
pub(crate) struct Responder {
    state: Box<HandshakeState>,
    /// The initiator's static public key.
    pub(crate) peer: PublicKey,
    /// The payload of the first message, as [`crate::payload`] decodes it.
    pub(crate) payload: [u8; INITIATION_PAYLOAD_LEN],
    /// The certificate behind the payload, with the zero bytes that pad it. Empty if the initiator sent none.
    pub(crate) certificate: Vec<u8>,
}

impl Responder {
    /// Reads the Noise part of a first message and returns the handshake.
    ///
    /// `index` is the initiator's receiver index, from the header of the message.
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

    /// Writes the Noise part of the second message into `noise`. Returns the session secret.
    ///
    /// The length of `noise` must be [`RESPONSE_NOISE_LEN`](weft_wire::handshake::RESPONSE_NOISE_LEN) plus that of the
    /// certificate, in bytes.
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
