//! Enrolment: a new node proves that it has an invitation, and receives its certificate and configuration.
//!
//! The exchange is Noise `IKpsk1` (revision 34, §9.4) and one receipt. The invitation contains the inviting node's
//! public key and a secret. The secret authenticates the first message, so a sender without it gets no answer. The
//! handshake also authenticates the static key of the new node (the *applicant*), which its certificate will contain.
//! This module does no IO; seeds are arguments.

use crate::identity::{Identity, PresharedKey, PublicKey};
use crate::random::SecretRng;
use crate::resolver::Resolver;
use core::fmt;
use snow::{Builder, HandshakeState, TransportState};

/// Name of the Noise protocol (Noise §8).
const PROTOCOL: &str = "Noise_IKpsk1_25519_ChaChaPoly_BLAKE2s";
/// Position of the secret in Noise's handshake pattern: after the first message (`psk1`).
const PSK_POSITION: u8 = 1;
const PROLOGUE: &[u8] = b"weft enrolment 1";
/// Content of the receipt, by which the applicant confirms that it has stored the reply.
const RECEIPT: &[u8] = b"stored";
/// Maximum number of bytes that a Noise message of the exchange adds to its payload: two keys and two tags.
const OVERHEAD: usize = 128;
/// Maximum length of the reply to the applicant (certificate and configuration), in bytes.
pub const MAX_REPLY: usize = 4_096;
/// Maximum length of a message of the exchange, in bytes.
pub const MAX_MESSAGE: usize = MAX_REPLY + OVERHEAD;

/// Reason why a message of the exchange is rejected: it does not belong to the invitation, or is forged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnrolmentError;

impl fmt::Display for EnrolmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message does not belong to this invitation")
    }
}

impl std::error::Error for EnrolmentError {}

impl From<snow::Error> for EnrolmentError {
    fn from(_: snow::Error) -> EnrolmentError {
        EnrolmentError
    }
}

fn builder<'a>(
    identity: &'a Identity,
    secret: &'a PresharedKey,
    seed: [u8; 32],
) -> Result<Builder<'a>, EnrolmentError> {
    let protocol = PROTOCOL.parse().map_err(|_| EnrolmentError)?;
    let resolver = Box::new(Resolver::new(&mut SecretRng::new(seed)));
    let builder = Builder::with_resolver(protocol, resolver).prologue(PROLOGUE)?;
    Ok(builder.local_private_key(identity.secret())?.psk(PSK_POSITION, secret.secret())?)
}

/// Writes the next Noise message of the handshake `state` with this payload, and returns it.
fn written(state: &mut HandshakeState, payload: &[u8]) -> Result<Vec<u8>, EnrolmentError> {
    let mut message = vec![0; payload.len() + OVERHEAD];
    let len = state.write_message(payload, &mut message)?;
    message.truncate(len);
    Ok(message)
}

/// Reads the next Noise message of the handshake `state`, and returns its payload.
fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, EnrolmentError> {
    let mut payload = vec![0; message.len()];
    let len = state.read_message(message, &mut payload)?;
    payload.truncate(len);
    Ok(payload)
}

/// The state of the exchange at the new node (the applicant).
pub struct Applicant(HandshakeState);

impl Applicant {
    /// Starts the exchange at the applicant. Returns its state and the first message.
    ///
    /// `host` is the inviting node's public key, and `secret` the secret of the invitation.
    ///
    /// # Errors
    /// Fails if `host` is not a valid public key.
    pub fn start(
        identity: &Identity,
        host: &PublicKey,
        secret: &PresharedKey,
        seed: [u8; 32],
    ) -> Result<(Applicant, Vec<u8>), EnrolmentError> {
        let mut state = builder(identity, secret, seed)?.remote_public_key(&host.0)?.build_initiator()?;
        let message = written(&mut state, &[])?;
        Ok((Applicant(state), message))
    }

    /// Reads the second message.
    ///
    /// Returns the reply in it, and the receipt that the applicant sends once it has stored the reply.
    ///
    /// # Errors
    /// Fails if the message is not the answer of the inviting node.
    pub fn finish(mut self, message: &[u8]) -> Result<(Vec<u8>, Vec<u8>), EnrolmentError> {
        let reply = read(&mut self.0, message)?;
        let mut transport = self.0.into_transport_mode()?;
        let mut receipt = vec![0; RECEIPT.len() + OVERHEAD];
        let len = transport.write_message(RECEIPT, &mut receipt)?;
        receipt.truncate(len);
        Ok((reply, receipt))
    }
}

/// The state of the exchange at the inviting node, after a first message that proves the secret.
pub struct Inviter {
    state: HandshakeState,
    applicant: PublicKey,
}

impl Inviter {
    /// Reads an applicant's first message and returns the state of the exchange.
    ///
    /// `secret` is the secret of the invitation.
    ///
    /// # Errors
    /// Fails if the sender does not have the secret, or the message was changed. The caller sends no answer then.
    pub fn read(
        identity: &Identity,
        secret: &PresharedKey,
        message: &[u8],
        seed: [u8; 32],
    ) -> Result<Inviter, EnrolmentError> {
        let mut state = builder(identity, secret, seed)?.build_responder()?;
        read(&mut state, message)?;
        let applicant = state.get_remote_static().and_then(|key| key.first_chunk()).ok_or(EnrolmentError)?;
        Ok(Inviter { applicant: PublicKey(*applicant), state })
    }

    /// Returns the applicant's public key. It has proved that it owns the private key.
    pub fn applicant(&self) -> PublicKey {
        self.applicant
    }

    /// Returns the second message, which carries the reply, and the state that checks the applicant's receipt.
    ///
    /// # Errors
    /// Fails if the reply is longer than [`MAX_REPLY`].
    pub fn answer(mut self, reply: &[u8]) -> Result<(Vec<u8>, Receipt), EnrolmentError> {
        if reply.len() > MAX_REPLY {
            return Err(EnrolmentError);
        }
        let message = written(&mut self.state, reply)?;
        Ok((message, Receipt(self.state.into_transport_mode()?)))
    }
}

/// The state of the exchange at the inviting node that checks the applicant's receipt.
pub struct Receipt(TransportState);

impl Receipt {
    /// Returns true if the message is the receipt, so that the applicant has stored the reply.
    pub fn is_given_by(mut self, message: &[u8]) -> bool {
        let mut payload = vec![0; message.len()];
        self.0.read_message(message, &mut payload).is_ok_and(|len| payload.get(..len) == Some(RECEIPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity(seed: u8) -> Identity {
        Identity::from_secret([seed; 32])
    }

    fn secret(seed: u8) -> PresharedKey {
        PresharedKey::new([seed; 32])
    }

    fn first_message() -> (Applicant, Vec<u8>) {
        Applicant::start(&identity(1), &identity(2).public_key(), &secret(3), [4; 32]).unwrap()
    }

    #[test]
    fn an_applicant_with_the_secret_receives_the_reply_and_gives_a_receipt() {
        let (applicant, hello) = first_message();
        let host = Inviter::read(&identity(2), &secret(3), &hello, [5; 32]).unwrap();
        assert_eq!(host.applicant(), identity(1).public_key());
        let (answer, receipt) = host.answer(b"a certificate").unwrap();
        let (reply, given) = applicant.finish(&answer).unwrap();
        assert_eq!(reply, b"a certificate");
        assert!(receipt.is_given_by(&given));
    }

    #[test]
    fn another_secret_or_another_node_opens_nothing() {
        let (_, hello) = first_message();
        assert!(Inviter::read(&identity(2), &secret(9), &hello, [5; 32]).is_err());
        assert!(Inviter::read(&identity(9), &secret(3), &hello, [5; 32]).is_err());
        let host = Inviter::read(&identity(2), &secret(3), &hello, [5; 32]).unwrap();
        assert!(host.answer(&[0; MAX_REPLY + 1]).is_err());
    }

    #[test]
    fn the_answer_of_another_exchange_is_refused() {
        let (applicant, _) = first_message();
        let (_, other) = Applicant::start(&identity(1), &identity(2).public_key(), &secret(3), [8; 32]).unwrap();
        let (answer, _) = Inviter::read(&identity(2), &secret(3), &other, [5; 32]).unwrap().answer(b"x").unwrap();
        assert!(applicant.finish(&answer).is_err());
    }

    proptest! {
        #[test]
        fn a_changed_or_invented_message_is_refused(
            at in 0usize..96, flip in 1u8.., invented in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let (_, mut hello) = first_message();
            let at = at % hello.len();
            hello[at] ^= flip;
            // X25519 ignores the highest bit of a key (RFC 7748 §5). A change of it is still detected, because Noise
            // authenticates all bytes of the message.
            prop_assert!(Inviter::read(&identity(2), &secret(3), &hello, [5; 32]).is_err());
            prop_assert!(Inviter::read(&identity(2), &secret(3), &invented, [5; 32]).is_err());
            let (applicant, _) = first_message();
            prop_assert!(applicant.finish(&invented).is_err());
        }
    }
}
