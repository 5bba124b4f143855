//! The framing of the three handshake datagrams. What the Noise messages, MACs and cookies mean is the session's matter.
//!
//! ```text
//! initiation    type | 3 zero bytes | sender index | Noise message 1 | mac1 | mac2
//! response      type | 3 zero bytes | sender index | receiver index | Noise message 2 | mac1 | mac2
//! cookie reply  type | 3 zero bytes | receiver index | nonce | sealed cookie
//! ```
//!
//! An initiation is longer by the certificate in its payload, if there is one, and so is a response. An answer is never longer than the
//! initiation, so that nobody can use a responder to amplify traffic: who shows a certificate makes room for the longest.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use crate::certificate::MAX_CERTIFICATE_LEN;
use crate::hop::{PacketType, TAG_LEN};

/// Bytes of a MAC, and of a cookie.
pub const MAC_LEN: usize = 16;
/// Bytes of the nonce of a cookie reply.
pub const COOKIE_NONCE_LEN: usize = 12;
/// Bytes of a cookie with its authentication tag.
pub const SEALED_COOKIE_LEN: usize = MAC_LEN + TAG_LEN;
/// Bytes of an X25519 public key.
const KEY_LEN: usize = 32;
/// Bytes of an [`InitiationPayload`].
pub const INITIATION_PAYLOAD_LEN: usize = 32;
/// Bytes of a [`ResponsePayload`].
pub const RESPONSE_PAYLOAD_LEN: usize = 16;
/// Bytes of the first message of Noise IK without a certificate: ephemeral key, sealed static key, sealed payload.
pub const INITIATION_NOISE_LEN: usize = KEY_LEN + (KEY_LEN + TAG_LEN) + (INITIATION_PAYLOAD_LEN + TAG_LEN);
/// Bytes of the second message of Noise IK without a certificate: ephemeral key, sealed payload.
pub const RESPONSE_NOISE_LEN: usize = KEY_LEN + (RESPONSE_PAYLOAD_LEN + TAG_LEN);
/// Bytes of an initiation without a certificate.
pub const INITIATION_LEN: usize = 8 + INITIATION_NOISE_LEN + 2 * MAC_LEN;
/// Bytes of an initiation with the longest certificate.
pub const MAX_INITIATION_LEN: usize = INITIATION_LEN + MAX_CERTIFICATE_LEN;
/// Bytes of a response without a certificate.
pub const RESPONSE_LEN: usize = 12 + RESPONSE_NOISE_LEN + 2 * MAC_LEN;
/// Bytes of a response with the longest certificate.
pub const MAX_RESPONSE_LEN: usize = RESPONSE_LEN + MAX_CERTIFICATE_LEN;
/// Bytes of a cookie reply.
pub const COOKIE_REPLY_LEN: usize = 8 + COOKIE_NONCE_LEN + SEALED_COOKIE_LEN;

const _: () = assert!(RESPONSE_LEN <= INITIATION_LEN && COOKIE_REPLY_LEN <= INITIATION_LEN);
const _: () = assert!(MAX_RESPONSE_LEN <= MAX_INITIATION_LEN);

fn parse_type(r: &mut Reader<'_>, expected: PacketType) -> Result<(), WireError> {
    if PacketType::of(r.rest())? != expected {
        return Err(WireError::UnknownType);
    }
    if r.array()? == &[expected.byte(), 0, 0, 0] { Ok(()) } else { Err(WireError::Malformed) }
}

/// The two MACs at the end of an initiation or a response, and what they cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Macs<'a> {
    /// Over everything before it, keyed by the receiver's public key.
    pub mac1: &'a [u8; MAC_LEN],
    /// Over everything before it, keyed by a cookie; zeros without one.
    pub mac2: &'a [u8; MAC_LEN],
    /// The bytes `mac1` covers.
    pub mac1_covers: &'a [u8],
    /// The bytes `mac2` covers.
    pub mac2_covers: &'a [u8],
}

impl<'a> Macs<'a> {
    fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let (mac2_covers, mac2) = datagram.split_last_chunk().ok_or(WireError::Truncated)?;
        let (mac1_covers, mac1) = mac2_covers.split_last_chunk().ok_or(WireError::Truncated)?;
        Ok(Macs { mac1, mac2, mac1_covers, mac2_covers })
    }
}

/// `least` bytes, or more by a certificate at most.
fn check_len(len: usize, least: usize) -> Result<(), WireError> {
    match len.checked_sub(least) {
        None => Err(WireError::Truncated),
        Some(0..=MAX_CERTIFICATE_LEN) => Ok(()),
        Some(_) => Err(WireError::TooLong),
    }
}

/// A handshake initiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Initiation<'a> {
    /// The index by which the initiator wants to be addressed.
    pub sender: u32,
    /// First message of Noise IK: [`INITIATION_NOISE_LEN`] bytes, and those of the certificate.
    pub noise: &'a [u8],
    /// The MACs.
    pub macs: Macs<'a>,
}

impl<'a> Initiation<'a> {
    /// Reads a whole datagram.
    ///
    /// # Errors
    /// [`WireError`] for every other version or type, a length that no initiation has, and reserved bytes that are not zero.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(datagram);
        parse_type(&mut r, PacketType::HandshakeInitiation)?;
        check_len(datagram.len(), INITIATION_LEN)?;
        let sender = r.u32()?;
        let noise = r.slice(r.rest().len().saturating_sub(2 * MAC_LEN))?;
        Ok(Initiation { sender, noise, macs: Macs::parse(datagram)? })
    }
}

/// A handshake response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// The index by which the responder wants to be addressed.
    pub sender: u32,
    /// The initiator's index.
    pub receiver: u32,
    /// Second message of Noise IK: [`RESPONSE_NOISE_LEN`] bytes, and those of the certificate.
    pub noise: &'a [u8],
    /// The MACs.
    pub macs: Macs<'a>,
}

impl<'a> Response<'a> {
    /// Reads a whole datagram.
    ///
    /// # Errors
    /// As [`Initiation::parse`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(datagram);
        parse_type(&mut r, PacketType::HandshakeResponse)?;
        check_len(datagram.len(), RESPONSE_LEN)?;
        let (sender, receiver) = (r.u32()?, r.u32()?);
        let noise = r.slice(r.rest().len().saturating_sub(2 * MAC_LEN))?;
        Ok(Response { sender, receiver, noise, macs: Macs::parse(datagram)? })
    }
}

/// A cookie reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieReply<'a> {
    /// The index of the sender of the message this answers.
    pub receiver: u32,
    /// The nonce the cookie is sealed with.
    pub nonce: &'a [u8; COOKIE_NONCE_LEN],
    /// The cookie and its tag.
    pub sealed_cookie: &'a [u8; SEALED_COOKIE_LEN],
}

impl<'a> CookieReply<'a> {
    /// Reads a whole datagram.
    ///
    /// # Errors
    /// As [`Initiation::parse`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(datagram);
        parse_type(&mut r, PacketType::CookieReply)?;
        let reply = CookieReply { receiver: r.u32()?, nonce: r.array()?, sealed_cookie: r.array()? };
        r.end()?;
        Ok(reply)
    }

    /// Writes the datagram.
    pub fn emit(&self, out: &mut [u8; COOKIE_REPLY_LEN]) -> Result<(), WireError> {
        let mut w = Writer::new(out);
        w.put(&[PacketType::CookieReply.byte(), 0, 0, 0])?;
        w.u32(self.receiver)?;
        w.put(self.nonce)?;
        w.put(self.sealed_cookie)
    }
}

/// Builds an initiation or a response in place: the Noise message first, then [`MessageWriter::finish`].
#[derive(Debug)]
pub struct MessageWriter<'a> {
    datagram: &'a mut [u8],
    header_len: usize,
}

impl<'a> MessageWriter<'a> {
    /// Begins an initiation, as long as `out`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] and [`WireError::TooLong`] for a length that no initiation has.
    pub fn initiation(out: &'a mut [u8], sender: u32) -> Result<Self, WireError> {
        check_len(out.len(), INITIATION_LEN)?;
        Self::begin(out, PacketType::HandshakeInitiation, &[sender])
    }

    /// Begins a response, as long as `out`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] and [`WireError::TooLong`] for a length that no response has.
    pub fn response(out: &'a mut [u8], sender: u32, receiver: u32) -> Result<Self, WireError> {
        check_len(out.len(), RESPONSE_LEN)?;
        Self::begin(out, PacketType::HandshakeResponse, &[sender, receiver])
    }

    fn begin(datagram: &'a mut [u8], packet_type: PacketType, indices: &[u32]) -> Result<Self, WireError> {
        datagram.fill(0);
        let mut w = Writer::new(datagram);
        w.put(&[packet_type.byte(), 0, 0, 0])?;
        indices.iter().try_for_each(|&index| w.u32(index))?;
        let header_len = w.len();
        Ok(MessageWriter { datagram, header_len })
    }

    /// The room for the Noise message: exactly its length.
    pub fn noise_mut(&mut self) -> &mut [u8] {
        let end = self.datagram.len() - 2 * MAC_LEN;
        self.datagram.get_mut(self.header_len..end).unwrap_or_default()
    }

    /// Writes the MACs, each a function of the bytes before it; `mac2` stays zero without a cookie.
    pub fn finish(
        self,
        mac1: impl FnOnce(&[u8]) -> [u8; MAC_LEN],
        mac2: Option<impl FnOnce(&[u8]) -> [u8; MAC_LEN]>,
    ) -> Result<(), WireError> {
        let (before_mac2, mac2_field) = self.datagram.split_last_chunk_mut().ok_or(WireError::NoRoom)?;
        let (before_mac1, mac1_field) = before_mac2.split_last_chunk_mut().ok_or(WireError::NoRoom)?;
        *mac1_field = mac1(before_mac1);
        if let Some(mac2) = mac2 {
            *mac2_field = mac2(before_mac2);
        }
        Ok(())
    }
}

/// What an initiation says under seal; zero bytes fill it to its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InitiationPayload {
    /// Larger than in every earlier initiation of this node, against replay.
    pub stamp: u64,
    /// Names the sender's run: another number means that it has forgotten everything before.
    pub association: u64,
    /// The lowest protocol version the sender speaks.
    pub version_min: u8,
    /// The highest protocol version the sender speaks.
    pub version_max: u8,
}

impl InitiationPayload {
    /// Reads the decrypted payload, without the certificate; what follows the known fields is ignored.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for an empty range of versions, [`WireError::Truncated`] and [`WireError::TooLong`]
    /// for a wrong length.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut whole = Reader::new(payload);
        let mut r = Reader::new(whole.array::<INITIATION_PAYLOAD_LEN>()?);
        whole.end()?;
        let parsed =
            InitiationPayload { stamp: r.u64()?, association: r.u64()?, version_min: r.u8()?, version_max: r.u8()? };
        if parsed.version_min > parsed.version_max { Err(WireError::Malformed) } else { Ok(parsed) }
    }

    /// The payload as it is sealed.
    pub fn emit(&self) -> [u8; INITIATION_PAYLOAD_LEN] {
        let mut out = [0; INITIATION_PAYLOAD_LEN];
        out[..8].copy_from_slice(&self.stamp.to_be_bytes());
        out[8..16].copy_from_slice(&self.association.to_be_bytes());
        out[16..18].copy_from_slice(&[self.version_min, self.version_max]);
        out
    }
}

/// What a response says under seal; zero bytes fill it to its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResponsePayload {
    /// As [`InitiationPayload::association`].
    pub association: u64,
    /// The version both will speak.
    pub version: u8,
}

impl ResponsePayload {
    /// Reads the decrypted payload; what follows the known fields is ignored.
    ///
    /// # Errors
    /// [`WireError::Truncated`] and [`WireError::TooLong`] for a wrong length.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut whole = Reader::new(payload);
        let mut r = Reader::new(whole.array::<RESPONSE_PAYLOAD_LEN>()?);
        whole.end()?;
        Ok(ResponsePayload { association: r.u64()?, version: r.u8()? })
    }

    /// The payload as it is sealed.
    pub fn emit(&self) -> [u8; RESPONSE_PAYLOAD_LEN] {
        let mut out = [0; RESPONSE_PAYLOAD_LEN];
        out[..8].copy_from_slice(&self.association.to_be_bytes());
        out[8] = self.version;
        out
    }
}
