//! Codec of certificates and revocations, which the network's root key signs.
//!
//! A certificate states the name, prefixes and rights of a node. Any node can check certificates and revocations.
//!
//! ```text
//! certificate  version | 1 | flags | public key 32 | not before u64 | not after u64 | name length | name
//!              | prefix count | prefixes | in version 2: group count, groups | signature 64
//! prefix       4 or 6 | length | address, 4 or 16 bytes
//! group        length | name
//! revocation   version | 2 | public key 32 | revoked at u64 | signature 64
//! ```
//!
//! Each statement has exactly one encoding: the bits of an address behind its prefix length are zero, and so are
//! unknown flags. A certificate without groups has version 1. A certificate with groups has version 2, and its groups
//! are in rising order. The signature is Ed25519 (RFC 8032). It covers the bytes before it, and a context string that
//! the session crate defines.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
pub use crate::prefix::WirePrefix;
use crate::prefix::{is_canonical, parse_prefix, write_prefix};
use core::net::IpAddr;

/// Format version of revocations and of certificates without groups, in the first byte.
const VERSION: u8 = 1;
/// Format version of certificates with groups.
const WITH_GROUPS: u8 = 2;
/// Kind byte of a certificate.
const CERTIFICATE: u8 = 1;
/// Kind byte of a revocation.
const REVOCATION: u8 = 2;
/// Flag bit of a certificate for [`CertificateClaims::may_relay`].
const MAY_RELAY: u8 = 1;

/// Length of an X25519 public key, in bytes.
const KEY_LEN: usize = 32;
/// Length of an Ed25519 signature, in bytes.
pub const SIGNATURE_LEN: usize = 64;
/// Maximum length of a node's name, in bytes.
pub const MAX_NAME_LEN: usize = 63;
/// Maximum number of prefixes in a certificate.
pub const MAX_PREFIXES: usize = 16;
/// Maximum number of groups in a certificate.
pub const MAX_GROUPS: usize = 8;
/// Maximum length of a group's name, in bytes.
pub const MAX_GROUP_LEN: usize = 31;
/// Length of the longest certificate, in bytes. *Derived* from the limits of the name and the prefixes.
///
/// Groups must fit into the space that the name and the prefixes leave. Every certificate thus fits into a handshake
/// initiation.
pub const MAX_CERTIFICATE_LEN: usize =
    3 + KEY_LEN + 16 + (1 + MAX_NAME_LEN) + (1 + MAX_PREFIXES * (2 + 16)) + SIGNATURE_LEN;
/// Length of a revocation, in bytes.
pub const REVOCATION_LEN: usize = 2 + KEY_LEN + 8 + SIGNATURE_LEN;

/// The prefixes of a certificate, in their encoded order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodedPrefixes {
    entries: [WirePrefix; MAX_PREFIXES],
    count: usize,
}

impl EncodedPrefixes {
    /// Checks and stores `prefixes`.
    ///
    /// # Errors
    /// [`WireError::TooLong`] for more than [`MAX_PREFIXES`] entries. [`WireError::Malformed`] if a prefix length
    /// exceeds the address width, or if bits behind the prefix length are set.
    pub fn new(prefixes: &[WirePrefix]) -> Result<EncodedPrefixes, WireError> {
        let mut entries = [(IpAddr::from([0; 4]), 0); MAX_PREFIXES];
        let room = entries.get_mut(..prefixes.len()).ok_or(WireError::TooLong)?;
        room.copy_from_slice(prefixes);
        if prefixes.iter().all(is_canonical) {
            Ok(EncodedPrefixes { entries, count: prefixes.len() })
        } else {
            Err(WireError::Malformed)
        }
    }

    /// Returns the prefixes in their encoded order.
    pub fn as_slice(&self) -> &[WirePrefix] {
        self.entries.get(..self.count).unwrap_or_default()
    }

    fn parse(r: &mut ByteReader<'_>) -> Result<EncodedPrefixes, WireError> {
        let count = usize::from(r.u8()?);
        let mut entries = [(IpAddr::from([0; 4]), 0); MAX_PREFIXES];
        for entry in entries.get_mut(..count).ok_or(WireError::TooLong)? {
            *entry = parse_prefix(r)?;
        }
        Ok(EncodedPrefixes { entries, count })
    }
}

/// The groups of a certificate, in rising order and without duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EncodedGroups<'a> {
    names: [&'a str; MAX_GROUPS],
    count: usize,
}

impl<'a> EncodedGroups<'a> {
    /// Checks and stores `groups`.
    ///
    /// # Errors
    /// [`WireError::TooLong`] for more than [`MAX_GROUPS`] groups. [`WireError::Malformed`] if the groups are not in
    /// rising order, or if a name has white space or not 1 to [`MAX_GROUP_LEN`] bytes.
    pub fn new(groups: impl Iterator<Item = &'a str>) -> Result<EncodedGroups<'a>, WireError> {
        let mut encoded = EncodedGroups::default();
        for group in groups {
            encoded.push(group)?;
        }
        Ok(encoded)
    }

    /// Returns the groups.
    pub fn as_slice(&self) -> &[&'a str] {
        self.names.get(..self.count).unwrap_or_default()
    }

    fn push(&mut self, group: &'a str) -> Result<(), WireError> {
        let place = self.names.get_mut(self.count).ok_or(WireError::TooLong)?;
        *place = group;
        let rises = self.count.checked_sub(1).is_none_or(|last| self.names.get(last).is_some_and(|last| *last < group));
        if !rises || !is_group(group) {
            return Err(WireError::Malformed);
        }
        self.count += 1;
        Ok(())
    }

    fn parse(r: &mut ByteReader<'a>) -> Result<EncodedGroups<'a>, WireError> {
        let count = r.u8()?;
        if count == 0 {
            return Err(WireError::Malformed);
        }
        let mut encoded = EncodedGroups::default();
        for _ in 0..count {
            let len = usize::from(r.u8()?);
            encoded.push(core::str::from_utf8(r.slice(len)?).map_err(|_| WireError::Malformed)?)?;
        }
        Ok(encoded)
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), WireError> {
        w.u8(self.count as u8)?;
        for group in self.as_slice() {
            w.u8(group.len() as u8)?;
            w.put(group.as_bytes())?;
        }
        Ok(())
    }
}

/// True if `group` is a valid name of a group: 1 to [`MAX_GROUP_LEN`] bytes without white space.
fn is_group(group: &str) -> bool {
    (1..=MAX_GROUP_LEN).contains(&group.len()) && !group.contains(char::is_whitespace)
}

/// The statements that a certificate makes about a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CertificateClaims<'a> {
    /// X25519 public key of the certified node.
    pub public_key: [u8; KEY_LEN],
    /// Name of the node for people: 1 to 63 bytes without white space.
    pub name: &'a str,
    /// First second of the validity period, in seconds since 1970.
    pub not_before_unix_s: u64,
    /// Last second of the validity period, in seconds since 1970. It is not before the first second.
    pub not_after_unix_s: u64,
    /// True if the node may forward datagrams between other nodes.
    pub may_relay: bool,
    /// Prefixes of the hosts behind the node.
    pub prefixes: EncodedPrefixes,
    /// Names of the groups to which the node belongs. Access rules refer to them.
    pub groups: EncodedGroups<'a>,
}

impl CertificateClaims<'_> {
    /// Writes the signed certificate to `out` and returns its length.
    ///
    /// `sign` returns the signature over the bytes that it gets.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for an invalid name or an empty validity period, [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8], sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN]) -> Result<usize, WireError> {
        if !is_name(self.name) || self.not_before_unix_s > self.not_after_unix_s {
            return Err(WireError::Malformed);
        }
        let has_groups = self.groups.count > 0;
        let mut w = Writer::new(out);
        w.put(&[
            if has_groups { WITH_GROUPS } else { VERSION },
            CERTIFICATE,
            if self.may_relay { MAY_RELAY } else { 0 },
        ])?;
        w.put(&self.public_key)?;
        w.put(&self.not_before_unix_s.to_be_bytes())?;
        w.put(&self.not_after_unix_s.to_be_bytes())?;
        w.u8(self.name.len() as u8)?;
        w.put(self.name.as_bytes())?;
        w.u8(self.prefixes.count as u8)?;
        self.prefixes.as_slice().iter().try_for_each(|prefix| write_prefix(&mut w, *prefix))?;
        if has_groups {
            self.groups.write(&mut w)?;
        }
        finish(w, sign)
    }
}

/// True if `name` is a valid name of a node: 1 to [`MAX_NAME_LEN`] bytes without white space.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_LEN).contains(&name.len()) && !name.contains(char::is_whitespace)
}

/// Appends the signature over all bytes written so far and returns the total length.
fn finish(mut w: Writer<'_>, sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN]) -> Result<usize, WireError> {
    let signature = sign(w.written());
    w.put(&signature)?;
    Ok(w.len())
}

/// The signature of a certificate and the bytes that it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signed<'a> {
    /// The Ed25519 signature over [`Signed::covers`].
    pub signature: &'a [u8; SIGNATURE_LEN],
    /// The bytes before the signature.
    pub covers: &'a [u8],
}

impl<'a> Signed<'a> {
    fn split(bytes: &'a [u8]) -> Result<Signed<'a>, WireError> {
        let (covers, signature) = bytes.split_last_chunk().ok_or(WireError::Truncated)?;
        Ok(Signed { signature, covers })
    }
}

/// A parsed certificate whose signature is not yet verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CertificateView<'a> {
    /// Statements of the certificate. A reader must not trust them before it verifies the signature with a trusted key.
    pub claims: CertificateClaims<'a>,
    /// The signature and the bytes that it covers.
    pub signed: Signed<'a>,
}

impl<'a> CertificateView<'a> {
    /// Parses a complete certificate.
    ///
    /// # Errors
    /// [`WireError`] for every input that is not the canonical encoding of a certificate.
    pub fn parse(bytes: &'a [u8]) -> Result<CertificateView<'a>, WireError> {
        if bytes.len() > MAX_CERTIFICATE_LEN {
            return Err(WireError::TooLong);
        }
        let mut r = ByteReader::new(bytes);
        let version = r.u8()?;
        if !matches!(version, VERSION | WITH_GROUPS) {
            return Err(WireError::Version);
        }
        if r.u8()? != CERTIFICATE {
            return Err(WireError::UnknownType);
        }
        let may_relay = match r.u8()? {
            0 => false,
            MAY_RELAY => true,
            _ => return Err(WireError::Malformed),
        };
        let (public_key, not_before_unix_s, not_after_unix_s) = (*r.array()?, r.u64()?, r.u64()?);
        let len = usize::from(r.u8()?);
        let name = core::str::from_utf8(r.slice(len)?).map_err(|_| WireError::Malformed)?;
        let prefixes = EncodedPrefixes::parse(&mut r)?;
        let groups = if version == WITH_GROUPS { EncodedGroups::parse(&mut r)? } else { EncodedGroups::default() };
        r.array::<SIGNATURE_LEN>()?;
        r.end()?;
        if !is_name(name) || not_before_unix_s > not_after_unix_s {
            return Err(WireError::Malformed);
        }
        let claims =
            CertificateClaims { public_key, name, not_before_unix_s, not_after_unix_s, may_relay, prefixes, groups };
        Ok(CertificateView { claims, signed: Signed::split(bytes)? })
    }
}

/// A signed statement that invalidates every certificate of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RevocationView {
    /// X25519 public key of the revoked node.
    pub public_key: [u8; KEY_LEN],
    /// Time of the revocation, in seconds since 1970. Programs do not act on it. It is information for people.
    pub revoked_at_unix_s: u64,
    /// The root key's signature over [`RevocationView::covered`].
    pub signature: [u8; SIGNATURE_LEN],
}

impl RevocationView {
    /// Returns a signed revocation. `sign` returns the signature over the bytes that it gets.
    pub fn new(
        public_key: [u8; KEY_LEN],
        revoked_at_unix_s: u64,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN],
    ) -> RevocationView {
        let mut revocation = RevocationView { public_key, revoked_at_unix_s, signature: [0; SIGNATURE_LEN] };
        revocation.signature = sign(&revocation.covered());
        revocation
    }

    /// Parses a complete revocation.
    ///
    /// # Errors
    /// [`WireError`] for every input that is not the canonical encoding of a revocation.
    pub fn parse(bytes: &[u8]) -> Result<RevocationView, WireError> {
        let mut r = ByteReader::new(bytes);
        let revocation = RevocationView::read(&mut r)?;
        r.end()?;
        Ok(revocation)
    }

    pub(crate) fn read(r: &mut ByteReader<'_>) -> Result<RevocationView, WireError> {
        if r.u8()? != VERSION {
            return Err(WireError::Version);
        }
        if r.u8()? != REVOCATION {
            return Err(WireError::UnknownType);
        }
        Ok(RevocationView { public_key: *r.array()?, revoked_at_unix_s: r.u64()?, signature: *r.array()? })
    }

    /// Returns the encoded revocation.
    pub fn emit(&self) -> [u8; REVOCATION_LEN] {
        let mut out = [0; REVOCATION_LEN];
        let (covered, signature) = out.split_at_mut(REVOCATION_LEN - SIGNATURE_LEN);
        covered.copy_from_slice(&self.covered());
        signature.copy_from_slice(&self.signature);
        out
    }

    /// Returns the bytes that the signature covers.
    pub fn covered(&self) -> [u8; REVOCATION_LEN - SIGNATURE_LEN] {
        let mut covered = [0; REVOCATION_LEN - SIGNATURE_LEN];
        covered[..2].copy_from_slice(&[VERSION, REVOCATION]);
        covered[2..34].copy_from_slice(&self.public_key);
        covered[34..].copy_from_slice(&self.revoked_at_unix_s.to_be_bytes());
        covered
    }
}
