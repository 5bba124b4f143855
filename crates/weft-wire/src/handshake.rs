//! Codec of the three handshake datagrams. The session crate gives the Noise messages, MACs and cookies their meaning.
//!
//! ```text
//! initiation    type | 3 zero bytes | sender index | Noise message 1 | mac1 | mac2
//! response      type | 3 zero bytes | sender index | receiver index | Noise message 2 | mac1 | mac2
//! cookie reply  type | 3 zero bytes | receiver index | nonce | sealed cookie
//! ```
//!
//! A certificate in the payload makes an initiation or a response longer by the length of the certificate.
//! An answer is never longer than the initiation, so that an attacker cannot use a responder to amplify traffic. An
//! initiation with a certificate is therefore padded to the length with the longest certificate.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use crate::certificate::MAX_CERTIFICATE_LEN;
use crate::hop::{PacketType, TAG_LEN};

/// Length of a MAC and of a cookie, in bytes.
pub const MAC_LEN: usize = 16;
/// Length of the nonce in a cookie reply, in bytes.
pub const COOKIE_NONCE_LEN: usize = 12;
/// Length of a cookie with its authentication tag, in bytes.
pub const SEALED_COOKIE_LEN: usize = MAC_LEN + TAG_LEN;
/// Length of an X25519 public key, in bytes.
const KEY_LEN: usize = 32;
/// Length of an [`InitiationPayload`], in bytes.
pub const INITIATION_PAYLOAD_LEN: usize = 32;
/// Length of a [`ResponsePayload`], in bytes.
pub const RESPONSE_PAYLOAD_LEN: usize = 16;
/// Length of the first Noise IK message without a certificate, in bytes.
///
/// It holds the ephemeral key, the sealed static key and the sealed payload.
pub const INITIATION_NOISE_LEN: usize = KEY_LEN + (KEY_LEN + TAG_LEN) + (INITIATION_PAYLOAD_LEN + TAG_LEN);
/// Length of the second Noise IK message without a certificate, in bytes.
///
/// It holds the ephemeral key and the sealed payload.
pub const RESPONSE_NOISE_LEN: usize = KEY_LEN + (RESPONSE_PAYLOAD_LEN + TAG_LEN);
/// Length of an initiation without a certificate, in bytes.
pub const INITIATION_LEN: usize = 8 + INITIATION_NOISE_LEN + 2 * MAC_LEN;
/// Length of an initiation with the longest certificate, in bytes.
pub const MAX_INITIATION_LEN: usize = INITIATION_LEN + MAX_CERTIFICATE_LEN;
/// Length of a response without a certificate, in bytes.
pub const RESPONSE_LEN: usize = 12 + RESPONSE_NOISE_LEN + 2 * MAC_LEN;
/// Length of a response with the longest certificate, in bytes.
pub const MAX_RESPONSE_LEN: usize = RESPONSE_LEN + MAX_CERTIFICATE_LEN;
/// Length of a cookie reply, in bytes.
pub const COOKIE_REPLY_LEN: usize = 8 + COOKIE_NONCE_LEN + SEALED_COOKIE_LEN;

// An answer longer than the initiation could be used to amplify traffic.
const _: () = assert!(RESPONSE_LEN <= INITIATION_LEN && COOKIE_REPLY_LEN <= INITIATION_LEN);
const _: () = assert!(MAX_RESPONSE_LEN <= MAX_INITIATION_LEN);

fn parse_type(r: &mut ByteReader<'_>, expected: PacketType) -> Result<(), WireError> {
    if PacketType::of(r.rest())? != expected {
        return Err(WireError::UnknownType);
    }
    if r.array()? == &[expected.byte(), 0, 0, 0] { Ok(()) } else { Err(WireError::Malformed) }
}

/// The two MACs at the end of an initiation or a response, and the bytes that they cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Macs<'a> {
    /// MAC over all bytes before it, keyed by the receiver's public key.
    pub mac1: &'a [u8; MAC_LEN],
    /// MAC over all bytes before it, keyed by a cookie, or zeros if the sender has no cookie.
    pub mac2: &'a [u8; MAC_LEN],
    /// The bytes that `mac1` covers.
    pub mac1_covers: &'a [u8],
    /// The bytes that `mac2` covers.
    pub mac2_covers: &'a [u8],
}

impl<'a> Macs<'a> {
    fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let (mac2_covers, mac2) = datagram.split_last_chunk().ok_or(WireError::Truncated)?;
        let (mac1_covers, mac1) = mac2_covers.split_last_chunk().ok_or(WireError::Truncated)?;
        Ok(Macs { mac1, mac2, mac1_covers, mac2_covers })
    }
}

/// Checks that the length `len` is `least`, or exceeds it by at most the length of the longest certificate, in bytes.
fn check_len(len: usize, least: usize) -> Result<(), WireError> {
    match len.checked_sub(least) {
        None => Err(WireError::Truncated),
        Some(0..=MAX_CERTIFICATE_LEN) => Ok(()),
        Some(_) => Err(WireError::TooLong),
    }
}

/// A parsed handshake initiation datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Initiation<'a> {
    /// Index by which the initiator finds this handshake in datagrams that the responder sends to it.
    pub sender: u32,
    /// First message of Noise IK: [`INITIATION_NOISE_LEN`] bytes plus the length of the certificate.
    pub noise: &'a [u8],
    /// The two MACs at the end of the initiation.
    pub macs: Macs<'a>,
}

impl<'a> Initiation<'a> {
    /// Parses a complete datagram.
    ///
    /// # Errors
    /// [`WireError`] for another version or type, an impossible length, or reserved bytes that are not zero.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let mut r = ByteReader::new(datagram);
        parse_type(&mut r, PacketType::HandshakeInitiation)?;
        check_len(datagram.len(), INITIATION_LEN)?;
        let sender = r.u32()?;
        let noise = r.slice(r.rest().len().saturating_sub(2 * MAC_LEN))?;
        Ok(Initiation { sender, noise, macs: Macs::parse(datagram)? })
    }
}

/// A parsed handshake response datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandshakeResponse<'a> {
    /// Index by which the responder finds this session in datagrams that the initiator sends to it.
    pub sender: u32,
    /// Index of the initiator, copied from the field `sender` of its initiation.
    pub receiver: u32,
    /// Second message of Noise IK: [`RESPONSE_NOISE_LEN`] bytes plus the length of the certificate.
    pub noise: &'a [u8],
    /// The two MACs at the end of the response.
    pub macs: Macs<'a>,
}

impl<'a> HandshakeResponse<'a> {
    /// Parses a complete datagram.
    ///
    /// # Errors
    /// As [`Initiation::parse`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let mut r = ByteReader::new(datagram);
        parse_type(&mut r, PacketType::HandshakeResponse)?;
        check_len(datagram.len(), RESPONSE_LEN)?;
        let (sender, receiver) = (r.u32()?, r.u32()?);
        let noise = r.slice(r.rest().len().saturating_sub(2 * MAC_LEN))?;
        Ok(HandshakeResponse { sender, receiver, noise, macs: Macs::parse(datagram)? })
    }
}

/// A parsed cookie reply datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieReply<'a> {
    /// Index of the node that sent the initiation or response to which this datagram is the answer.
    pub receiver: u32,
    /// The nonce that seals the cookie.
    pub nonce: &'a [u8; COOKIE_NONCE_LEN],
    /// The sealed cookie and its authentication tag.
    pub sealed_cookie: &'a [u8; SEALED_COOKIE_LEN],
}

impl<'a> CookieReply<'a> {
    /// Parses a complete datagram.
    ///
    /// # Errors
    /// As [`Initiation::parse`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        let mut r = ByteReader::new(datagram);
        parse_type(&mut r, PacketType::CookieReply)?;
        let reply = CookieReply { receiver: r.u32()?, nonce: r.array()?, sealed_cookie: r.array()? };
        r.end()?;
        Ok(reply)
    }

    /// Writes the cookie reply to `out`.
    pub fn emit(&self, out: &mut [u8; COOKIE_REPLY_LEN]) -> Result<(), WireError> {
        let mut w = Writer::new(out);
        w.put(&[PacketType::CookieReply.byte(), 0, 0, 0])?;
        w.u32(self.receiver)?;
        w.put(self.nonce)?;
        w.put(self.sealed_cookie)
    }
}

/// Writes an initiation or a response into a buffer of its length.
///
/// The caller writes the Noise message and then calls [`MessageWriter::finish`].
#[derive(Debug)]
pub struct MessageWriter<'a> {
    datagram: &'a mut [u8],
    /// Length of the fields before the Noise message, in bytes.
    header_len: usize,
}

impl<'a> MessageWriter<'a> {
    /// Begins an initiation that fills `out`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::TooLong`] if `out` does not have the length of an initiation.
    pub fn initiation(out: &'a mut [u8], sender: u32) -> Result<Self, WireError> {
        check_len(out.len(), INITIATION_LEN)?;
        Self::begin(out, PacketType::HandshakeInitiation, &[sender])
    }

    /// Begins a response that fills `out`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::TooLong`] if `out` does not have the length of a response.
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

    /// Returns the buffer for the Noise message, which must fill it exactly.
    pub fn noise_mut(&mut self) -> &mut [u8] {
        let end = self.datagram.len() - 2 * MAC_LEN;
        self.datagram.get_mut(self.header_len..end).unwrap_or_default()
    }

    /// Writes both MACs, each computed over the bytes before it.
    ///
    /// Without a cookie, `mac2` is `None` and the second MAC is zero.
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

/// The payload that the first Noise message of an initiation encrypts. Zero bytes pad it to its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InitiationPayload {
    /// Stamp: greater than in every earlier initiation of the sender, which makes replays visible.
    pub stamp: u64,
    /// Identifies the current run of the sender's program. A changed number means that the sender has lost all state.
    pub association: u64,
    /// The lowest protocol version that the sender supports.
    pub version_min: u8,
    /// The highest protocol version that the sender supports.
    pub version_max: u8,
}

impl InitiationPayload {
    /// Parses the decrypted payload without the certificate. Bytes behind the known fields are ignored.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for an empty version range, [`WireError::Truncated`] or [`WireError::TooLong`] for a
    /// wrong length.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut whole = ByteReader::new(payload);
        let mut r = ByteReader::new(whole.array::<INITIATION_PAYLOAD_LEN>()?);
        whole.end()?;
        let parsed =
            InitiationPayload { stamp: r.u64()?, association: r.u64()?, version_min: r.u8()?, version_max: r.u8()? };
        if parsed.version_min > parsed.version_max { Err(WireError::Malformed) } else { Ok(parsed) }
    }

    /// Returns the bytes of the payload before its encryption.
    pub fn emit(&self) -> [u8; INITIATION_PAYLOAD_LEN] {
        let mut out = [0; INITIATION_PAYLOAD_LEN];
        out[..8].copy_from_slice(&self.stamp.to_be_bytes());
        out[8..16].copy_from_slice(&self.association.to_be_bytes());
        out[16..18].copy_from_slice(&[self.version_min, self.version_max]);
        out
    }
}

/// The payload that the Noise message of a response encrypts. Zero bytes pad it to its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResponsePayload {
    /// Identifies the current run of the responder's program, as [`InitiationPayload::association`] does.
    pub association: u64,
    /// The protocol version that both ends use from now on.
    pub version: u8,
}

impl ResponsePayload {
    /// Parses the decrypted payload. Bytes behind the known fields are ignored.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::TooLong`] for a wrong length.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut whole = ByteReader::new(payload);
        let mut r = ByteReader::new(whole.array::<RESPONSE_PAYLOAD_LEN>()?);
        whole.end()?;
        Ok(ResponsePayload { association: r.u64()?, version: r.u8()? })
    }

    /// Returns the bytes of the payload before its encryption.
    pub fn emit(&self) -> [u8; RESPONSE_PAYLOAD_LEN] {
        let mut out = [0; RESPONSE_PAYLOAD_LEN];
        out[..8].copy_from_slice(&self.association.to_be_bytes());
        out[8] = self.version;
        out
    }
}
