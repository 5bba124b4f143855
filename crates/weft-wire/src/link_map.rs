//! Codec of the link map: each overlay node sends the state of its links to all other nodes (paper 001 §IV-B).
//!
//! ```text
//! claim       13 | key 32 | seq u64 | flags | count | links | signature 64
//! certificate 14 | certificate                      the certificate of a node that claims links
//! digest      15 | flags | first u32 | last u32 | count | (label u32, seq u64) …
//!
//! link  label u32 | state | rtt u32, µs | jitter u16, 10 µs | loss, 1/256 | capacity u16 | available u16 | age, s
//! ```
//!
//! Messages travel in overlay frames, between two nodes that have a session. Their type numbers continue those of
//! [`crate::ownership`]. The *author* of a claim is the node whose links it describes. The author signs the claim with
//! its static key, so that other nodes can forward it. A digest lists the sequence number of the newest claim that its
//! sender has of each author whose label lies between `first` and `last`. Rates are 16-bit floating-point numbers
//! ([`Rate16`]); 0 means unknown.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use crate::certificate::{MAX_CERTIFICATE_LEN, SIGNATURE_LEN};
use crate::er_sig::Rate16;
use crate::relay::Label;

const CLAIM: u8 = 13;
const CERTIFICATE: u8 = 14;
const DIGEST: u8 = 15;

/// Flag bit of a claim for [`LinkClaim::is_relay`].
const IS_RELAY: u8 = 1;
/// Flag bit of a digest for [`Digest::wants_answer`].
const WANTS_ANSWER: u8 = 1;
/// Bit of a link's state: the link is down.
const DOWN: u8 = 0x80;

/// Length of the description of one link in a claim, in bytes.
const LINK_LEN: usize = 4 + 1 + 4 + 2 + 1 + 2 + 2 + 1;
/// Length of an entry of a digest, in bytes.
const ENTRY_LEN: usize = 4 + 8;
/// Length of a claim without links and signature, in bytes.
const CLAIM_HEAD_LEN: usize = 1 + 32 + 8 + 1 + 1;

/// Maximum number of links in a claim. Derived: the claim is at most 1,043 bytes long and fits into any datagram.
pub const MAX_LINKS: usize = 55;
/// Maximum number of entries in a digest. Derived: the digest is at most 1,091 bytes long.
pub const MAX_ENTRIES: usize = 90;
/// Length of the longest message of the link map, a digest, in bytes.
pub const MAX_MESSAGE: usize = 11 + MAX_ENTRIES * ENTRY_LEN;

const _: () = assert!(CLAIM_HEAD_LEN + MAX_LINKS * LINK_LEN + SIGNATURE_LEN <= MAX_MESSAGE);
const _: () = assert!(MAX_CERTIFICATE_LEN < MAX_MESSAGE);

/// One link of the author to a neighbour, as the author measures it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClaimedLink {
    /// Label of the neighbour: the first 32 bits of its id.
    pub to: Label,
    /// True if the link does not answer. The measured values below then have no meaning.
    pub is_down: bool,
    /// Confidence in the measured values: 0 after the first measurement, 127 after a hundred or more.
    pub confidence: u8,
    /// Round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Mean deviation of the round-trip time, in units of 10 microseconds.
    pub jitter_10us: u16,
    /// Share of the datagrams sent on the link that are lost, in 1/256.
    pub loss: u8,
    /// Capacity of the link. Zero if unknown.
    pub capacity: Rate16,
    /// Available bandwidth: the part of the link's capacity that no traffic uses. Zero if unknown.
    pub available: Rate16,
    /// Age of the measurement when the claim was made, in seconds. 255 stands for all greater ages.
    pub age_s: u8,
}

/// The links of a claim in their encoded form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClaimedLinks<'a>(&'a [u8]);

impl<'a> ClaimedLinks<'a> {
    /// Returns the links in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = ClaimedLink> + use<'a> {
        self.0.chunks_exact(LINK_LEN).filter_map(|bytes| read_link(&mut ByteReader::new(bytes)).ok())
    }
}

/// A node's signed statement about some of its links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkClaim<'a> {
    /// Static public key of the author.
    pub public_key: &'a [u8; 32],
    /// Sequence number, which rises from claim to claim.
    ///
    /// It is the author's clock in milliseconds since 1970, or the previous number plus one.
    pub seq: u64,
    /// True if the author forwards datagrams between other nodes.
    pub is_relay: bool,
    /// The links of the author that this claim describes.
    pub links: ClaimedLinks<'a>,
    /// The bytes of the claim that the signature covers: all before the signature.
    pub covered: &'a [u8],
    /// The author's signature over `covered`.
    pub signature: &'a [u8; SIGNATURE_LEN],
}

/// The sequence numbers of the newest claims that the sender has, for authors in a range of labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest<'a> {
    /// True if the receiver should answer with its own digest if it lacks a claim that this digest lists.
    pub wants_answer: bool,
    /// Least author label that the digest covers. A label is the first 32 bits of a node id.
    pub first: Label,
    /// Greatest author label that the digest covers.
    pub last: Label,
    entries: &'a [u8],
}

impl Digest<'_> {
    /// Returns, for each author, its label and the sequence number of its newest claim that the sender has.
    pub fn iter(&self) -> impl Iterator<Item = (Label, u64)> {
        self.entries.chunks_exact(ENTRY_LEN).filter_map(|bytes| {
            let mut r = ByteReader::new(bytes);
            Some((Label(r.u32().ok()?), r.u64().ok()?))
        })
    }
}

/// One message of the link map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkMapMessage<'a> {
    /// A claim of one node about its links.
    Claim(LinkClaim<'a>),
    /// The encoded certificate of a node that claims links ([`crate::certificate`]), not parsed here.
    Certificate(&'a [u8]),
    /// The sequence numbers of the newest claims that the sender has.
    Digest(Digest<'a>),
}

/// True if the first byte of a message is that of a message of the link map.
pub fn is_link_map(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(CLAIM | CERTIFICATE | DIGEST)))
}

impl<'a> LinkMapMessage<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`], or [`WireError::Malformed`] for
    /// unknown flags, too many entries and an empty certificate.
    pub fn parse(bytes: &'a [u8]) -> Result<LinkMapMessage<'a>, WireError> {
        let mut r = ByteReader::new(bytes);
        match r.u8()? {
            CLAIM => read_claim(bytes, &mut r).map(LinkMapMessage::Claim),
            CERTIFICATE => match r.rest() {
                [] => Err(WireError::Truncated),
                rest if rest.len() > MAX_CERTIFICATE_LEN => Err(WireError::TooLong),
                rest => Ok(LinkMapMessage::Certificate(rest)),
            },
            DIGEST => read_digest(&mut r).map(LinkMapMessage::Digest),
            _ => Err(WireError::UnknownType),
        }
    }
}

/// Writes a claim at the start of `out` and returns its length.
///
/// `sign` returns the signature over the bytes that it gets.
///
/// # Errors
/// [`WireError::NoRoom`], or [`WireError::TooLong`] for more than [`MAX_LINKS`] links.
pub fn emit_claim(
    out: &mut [u8],
    (public_key, seq, is_relay): (&[u8; 32], u64, bool),
    links: &[ClaimedLink],
    sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN],
) -> Result<usize, WireError> {
    let mut w = Writer::new(out);
    w.u8(CLAIM)?;
    w.put(public_key)?;
    w.put(&seq.to_be_bytes())?;
    w.put(&[if is_relay { IS_RELAY } else { 0 }, count(links.len(), MAX_LINKS)?])?;
    links.iter().try_for_each(|link| write_link(&mut w, link))?;
    let signature = sign(w.written());
    w.put(&signature)?;
    Ok(w.len())
}

/// Writes a message with the certificate of an author at the start of `out`, and returns the message's length.
///
/// # Errors
/// [`WireError::NoRoom`], or [`WireError::Malformed`] for an empty or too long certificate.
pub fn emit_certificate(out: &mut [u8], certificate: &[u8]) -> Result<usize, WireError> {
    if certificate.is_empty() || certificate.len() > MAX_CERTIFICATE_LEN {
        return Err(WireError::Malformed);
    }
    let mut w = Writer::new(out);
    w.u8(CERTIFICATE)?;
    w.put(certificate)?;
    Ok(w.len())
}

/// Writes a digest of the claims `entries` at the start of `out` and returns its length.
///
/// It covers the authors with labels from `first` to `last`.
///
/// # Errors
/// [`WireError::NoRoom`], or [`WireError::TooLong`] for more than [`MAX_ENTRIES`] entries.
pub fn emit_digest(
    out: &mut [u8],
    wants_answer: bool,
    (first, last): (Label, Label),
    entries: &[(Label, u64)],
) -> Result<usize, WireError> {
    let mut w = Writer::new(out);
    w.put(&[DIGEST, if wants_answer { WANTS_ANSWER } else { 0 }])?;
    w.u32(first.0)?;
    w.u32(last.0)?;
    w.u8(count(entries.len(), MAX_ENTRIES)?)?;
    for (label, seq) in entries {
        w.u32(label.0)?;
        w.put(&seq.to_be_bytes())?;
    }
    Ok(w.len())
}

fn count(len: usize, most: usize) -> Result<u8, WireError> {
    u8::try_from(len).ok().filter(|_| len <= most).ok_or(WireError::TooLong)
}

/// Reads a byte of flags and returns its lowest bit. The other bits must be zero.
fn read_flag(r: &mut ByteReader<'_>) -> Result<bool, WireError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WireError::Malformed),
    }
}

fn read_counted<'a>(r: &mut ByteReader<'a>, each: usize, most: usize) -> Result<&'a [u8], WireError> {
    let count = usize::from(r.u8()?);
    if count > most { Err(WireError::Malformed) } else { r.slice(count * each) }
}

fn read_claim<'a>(bytes: &'a [u8], r: &mut ByteReader<'a>) -> Result<LinkClaim<'a>, WireError> {
    let (public_key, seq, is_relay) = (r.array()?, r.u64()?, read_flag(r)?);
    let links = ClaimedLinks(read_counted(r, LINK_LEN, MAX_LINKS)?);
    let covered = bytes.get(..bytes.len() - r.rest().len()).unwrap_or_default();
    let signature = r.array()?;
    r.end()?;
    Ok(LinkClaim { public_key, seq, is_relay, links, covered, signature })
}

fn read_digest<'a>(r: &mut ByteReader<'a>) -> Result<Digest<'a>, WireError> {
    let (wants_answer, first, last) = (read_flag(r)?, Label(r.u32()?), Label(r.u32()?));
    let entries = read_counted(r, ENTRY_LEN, MAX_ENTRIES)?;
    r.end()?;
    Ok(Digest { wants_answer, first, last, entries })
}

fn read_link(r: &mut ByteReader<'_>) -> Result<ClaimedLink, WireError> {
    let (to, state) = (Label(r.u32()?), r.u8()?);
    Ok(ClaimedLink {
        to,
        is_down: state & DOWN != 0,
        confidence: state & !DOWN,
        rtt_us: r.u32()?,
        jitter_10us: r.u16()?,
        loss: r.u8()?,
        capacity: Rate16(r.u16()?),
        available: Rate16(r.u16()?),
        age_s: r.u8()?,
    })
}

fn write_link(w: &mut Writer<'_>, link: &ClaimedLink) -> Result<(), WireError> {
    w.u32(link.to.0)?;
    w.u8(link.confidence & !DOWN | if link.is_down { DOWN } else { 0 })?;
    w.u32(link.rtt_us)?;
    w.u16(link.jitter_10us)?;
    w.u8(link.loss)?;
    w.u16(link.capacity.0)?;
    w.u16(link.available.0)?;
    w.u8(link.age_s)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    const SIGNATURE: [u8; SIGNATURE_LEN] = [0x77; SIGNATURE_LEN];

    fn link(to: u32) -> ClaimedLink {
        ClaimedLink {
            to: Label(to),
            is_down: to % 2 == 1,
            confidence: (to % 128) as u8,
            rtt_us: 20_000 + to,
            jitter_10us: 40,
            loss: 3,
            capacity: Rate16(0x1234),
            available: Rate16(0),
            age_s: 9,
        }
    }

    #[test]
    fn a_claim_has_these_bytes() {
        let mut out = [0; MAX_MESSAGE];
        let len = emit_claim(&mut out, (&[5; 32], 0x0102, true), &[link(0x0a0b_0c0d)], |covered| {
            assert_eq!(covered.len(), CLAIM_HEAD_LEN + LINK_LEN);
            SIGNATURE
        })
        .unwrap();
        assert_eq!(len, CLAIM_HEAD_LEN + LINK_LEN + SIGNATURE_LEN);
        assert_eq!(&out[..2], &[13, 5]);
        assert_eq!(&out[33..43], &[0, 0, 0, 0, 0, 0, 1, 2, 1, 1]);
        assert_eq!(
            &out[43..60],
            &[0x0a, 0x0b, 0x0c, 0x0d, 0x8d, 0x0a, 0x0b, 0x5a, 0x2d, 0, 40, 3, 0x12, 0x34, 0, 0, 9]
        );
    }

    #[test]
    fn a_written_contact_is_read_unchanged() {
        for count in [0, 1, MAX_LINKS] {
            let links: Vec<ClaimedLink> = (0..count as u32).map(link).collect();
            let mut out = [0; MAX_MESSAGE];
            let len = emit_claim(&mut out, (&[5; 32], 7, false), &links, |_| SIGNATURE).unwrap();
            let Ok(LinkMapMessage::Claim(claim)) = LinkMapMessage::parse(&out[..len]) else { panic!("a claim") };
            assert_eq!((claim.public_key, claim.seq, claim.is_relay), (&[5; 32], 7, false));
            assert_eq!(claim.links.iter().collect::<Vec<_>>(), links);
            assert_eq!((claim.covered, claim.signature), (&out[..len - SIGNATURE_LEN], &SIGNATURE));
            assert!((0..len).all(|cut| LinkMapMessage::parse(&out[..cut]).is_err()));
        }
        for count in [0, 1, MAX_ENTRIES] {
            let entries: Vec<(Label, u64)> = (0..count as u32).map(|n| (Label(n), u64::from(n) << 33)).collect();
            let mut out = [0; MAX_MESSAGE];
            let len = emit_digest(&mut out, true, (Label(0), Label(u32::MAX)), &entries).unwrap();
            let Ok(LinkMapMessage::Digest(digest)) = LinkMapMessage::parse(&out[..len]) else { panic!("a digest") };
            assert!(digest.wants_answer && digest.last == Label(u32::MAX));
            assert_eq!(digest.iter().collect::<Vec<_>>(), entries);
            assert!((0..len).all(|cut| LinkMapMessage::parse(&out[..cut]).is_err()));
        }
    }

    #[test]
    fn too_much_is_refused() {
        let mut out = [0; 4_096];
        let links = [link(1); MAX_LINKS + 1];
        assert_eq!(emit_claim(&mut out, (&[5; 32], 7, false), &links, |_| SIGNATURE), Err(WireError::TooLong));
        let range = (Label(0), Label(1));
        let entries = [(Label(0), 0); MAX_ENTRIES + 1];
        assert_eq!(emit_digest(&mut out, false, range, &entries), Err(WireError::TooLong));
        assert_eq!(emit_certificate(&mut out, &[0; MAX_CERTIFICATE_LEN + 1]), Err(WireError::Malformed));
        assert_eq!(LinkMapMessage::parse(&[15, 0, 0, 0, 0, 0, 0, 0, 0, 1, 91]), Err(WireError::Malformed));
        assert_eq!(LinkMapMessage::parse(&[15, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0]), Err(WireError::Malformed));
        assert_eq!(LinkMapMessage::parse(&[14]), Err(WireError::Truncated));
        assert_eq!(LinkMapMessage::parse(&[12, 0]), Err(WireError::UnknownType));
    }
}
