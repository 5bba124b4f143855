//! The newest claims of all members, and the messages that contained them.
//!
//! The author of a claim is the member that signed it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use weft_units::{Duration, Instant};
use weft_wire::link_map::{ClaimedLink, LinkClaim};
use weft_wire::relay::Label;

/// Maximum number of members whose claims are stored.
pub const MAX_AUTHORS: usize = 256;
/// Time after which a claim that was not repeated is deleted.
///
/// *Derived*: 2.8 times the interval at which a member of the largest network repeats its claims.
pub const LIFETIME: Duration = Duration::from_secs(3_600);
/// Greatest amount by which a claim's time of signature may lie in the future of this node's clock.
const CLOCK_SKEW: Duration = Duration::from_secs(120);
/// Maximum number of links stored for one member. Further links in its claims are ignored.
const MAX_LINKS: usize = 256;
/// Maximum number of messages kept of one member.
///
/// The claims of an honest member need up to five messages. If its newest claims lie in more than eight, the member
/// sends all its claims again in fewer messages.
const MAX_MESSAGES: usize = 16;
/// Maximum number of messages of one member that are accepted in succession before the rate limit applies.
const BURST: u32 = 12;
/// Interval after which one more message of a member may be accepted. Members send claims at twice this interval.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);

/// Result of [`LinkMap::receive`] for one claim message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimReceipt {
    /// The claim is stored, and should be forwarded to the other neighbours.
    News,
    /// Nothing in the claim is newer than the stored claims.
    Stale,
    /// The link map has no certificate of the claim's author.
    UnknownAuthor,
    /// The claim's signature is not that of its author.
    Forged,
    /// The claim's key is not that of the stored member with the same label (first 32 bits of the node id).
    ///
    /// The signature was not checked.
    OtherOwner,
    /// The author sent claims more often than allowed, so this one was ignored.
    TooOften,
    /// The claim was signed too long ago, or later than this node's clock allows.
    OutOfTime,
}

/// The newest claim about one link, and the number of the message that contained it.
#[derive(Clone, Copy, Debug)]
struct ToldLink {
    seq: u64,
    link: ClaimedLink,
}

/// One member with a known certificate, and the newest claims about its links.
#[derive(Debug)]
struct Author {
    public_key: [u8; 32],
    certificate: Box<[u8]>,
    /// Time at which the member's certificate expires, in seconds since 1970.
    until_unix_s: u64,
    /// True if the member's certificate allows the member to relay.
    may_relay: bool,
    /// Whether the member states that it relays, and the number of the message in which it did so.
    says_relay: (bool, u64),
    links: BTreeMap<Label, ToldLink>,
    /// Messages that hold the newest claim about at least one link, with their numbers, in rising order.
    messages: Vec<(u64, Box<[u8]>)>,
    /// A hash of the numbers of all stored claims of the member. Two nodes compare it to find differing claims.
    fingerprint: u64,
    /// Number of messages that may be accepted now, and the time at which this number last increased.
    allowance: (u32, Instant),
}

impl Author {
    /// Drops messages that no longer hold the newest claim about any link, and the oldest beyond [`MAX_MESSAGES`].
    ///
    /// A link is deleted with the message that claims it. Otherwise two nodes could never have the same fingerprint
    /// of the author.
    fn drop_superseded(&mut self) {
        let (links, says) = (&self.links, self.says_relay.1);
        let is_newest = |seq: u64| seq == says || links.values().any(|told| told.seq == seq);
        self.messages.retain(|(seq, _)| is_newest(*seq));
        let beyond = self.messages.len().saturating_sub(MAX_MESSAGES);
        if beyond > 0 {
            self.messages.drain(..beyond);
            let messages = &self.messages;
            self.links.retain(|_, told| messages.binary_search_by_key(&told.seq, |(seq, _)| *seq).is_ok());
        }
        let of_link = |(to, told): (&Label, &ToldLink)| mix(told.seq ^ u64::from(to.0) << 32);
        self.fingerprint = self.links.iter().map(of_link).fold(mix(self.says_relay.1), |sum, link| sum ^ link);
    }

    /// True if a claim contains anything newer than the stored claims.
    ///
    /// Returns true if it states anything about a link that is newer than the stored claim. Honest authors use each
    /// number once. Of two claims with the same number, the one with the greater bytes is kept, so that all nodes keep
    /// the same claim.
    fn has_news_in(&self, claim: &LinkClaim<'_>, bytes: &[u8]) -> bool {
        if let Ok(at) = self.messages.binary_search_by_key(&claim.seq, |(seq, _)| *seq) {
            return self.messages.get(at).is_some_and(|(_, kept)| **kept < *bytes);
        }
        let is_full = self.messages.len() >= MAX_MESSAGES;
        let is_newer = |link: &ClaimedLink| self.links.get(&link.to).is_none_or(|told| told.seq < claim.seq);
        let is_older_than_all = self.messages.first().is_some_and(|(oldest, _)| claim.seq < *oldest);
        !(is_full && is_older_than_all)
            && (claim.seq > self.says_relay.1 || claim.links.iter().any(|link| is_newer(&link)))
    }

    /// Removes the message with this number, and the links that only it claims.
    fn remove_claim(&mut self, seq: u64) {
        self.messages.retain(|(other, _)| *other != seq);
        self.links.retain(|_, told| told.seq != seq);
    }

    fn keep(&mut self, seq: u64, message: &[u8]) {
        let at = self.messages.partition_point(|(other, _)| *other < seq);
        self.messages.insert(at, (seq, message.into()));
        self.drop_superseded();
    }

    fn takes_another(&mut self, now: Instant) -> bool {
        let (left, since) = &mut self.allowance;
        let more = now.since(*since).as_nanos() / CLAIM_INTERVAL.as_nanos();
        if more > 0 {
            *left = u32::try_from(more).unwrap_or(BURST).saturating_add(*left).min(BURST);
            *since = now;
        }
        left.checked_sub(1).map(|fewer| *left = fewer).is_some()
    }
}

/// Mixes the bits of a number (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The link map of a node: all members, and their newest claims about their links.
#[derive(Debug, Default)]
pub struct LinkMap {
    authors: BTreeMap<Label, Author>,
    version: u64,
}

impl LinkMap {
    /// Returns a number that changes with every change of the map.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of members with a known certificate.
    pub fn members(&self) -> usize {
        self.authors.len()
    }

    /// Returns the labels of all members with a known certificate, in rising order.
    ///
    /// A label is the first 32 bits of a node id.
    pub fn labels(&self) -> impl Iterator<Item = Label> {
        self.authors.keys().copied()
    }

    /// Returns the public key and certificate of a member, or `None` if the member is unknown.
    pub fn member(&self, label: Label) -> Option<(&[u8; 32], &[u8])> {
        self.authors.get(&label).map(|author| (&author.public_key, &*author.certificate))
    }

    /// Returns the links that a member claims, each with the number of the message that claims it.
    pub fn links_of(&self, label: Label) -> impl Iterator<Item = (u64, ClaimedLink)> {
        self.authors.get(&label).into_iter().flat_map(|author| author.links.values().map(|told| (told.seq, told.link)))
    }

    /// Returns the number of stored claim messages of a member.
    pub fn messages_of(&self, label: Label) -> usize {
        self.authors.get(&label).map_or(0, |author| author.messages.len())
    }

    /// Returns a stored claim message of a member, or `None` if there are not that many.
    ///
    /// `newer` is the number of newer messages of the member: 0 selects its newest message.
    pub fn message(&self, label: Label, newer: usize) -> Option<&[u8]> {
        self.authors.get(&label)?.messages.iter().rev().nth(newer).map(|(_, message)| &**message)
    }

    /// True if a member relays: its certificate allows it, and its newest claim states it.
    pub fn is_relay(&self, label: Label) -> bool {
        self.authors.get(&label).is_some_and(|author| author.may_relay && author.says_relay.0)
    }

    /// Returns the newest claim of member `of` about its link to member `to`, if there is one.
    pub fn claim(&self, of: Label, to: Label) -> Option<&ClaimedLink> {
        Some(&self.authors.get(&of)?.links.get(&to)?.link)
    }

    /// True if [`LinkMap::admit`] would add or update this member, so that its certificate is worth a check.
    pub fn would_admit(&self, label: Label, key: &[u8; 32], until_unix_s: u64) -> bool {
        match self.authors.get(&label) {
            Some(author) => author.public_key == *key && until_unix_s > author.until_unix_s,
            None => self.authors.len() < MAX_AUTHORS,
        }
    }

    /// Adds a member whose certificate the caller has checked. Returns true if it is new or has a later certificate.
    ///
    /// Of two nodes with the same label (first 32 bits of the node id), the second is refused while the first is
    /// stored.
    pub fn admit(
        &mut self,
        now: Instant,
        label: Label,
        key: [u8; 32],
        certificate: &[u8],
        may_relay: bool,
        until_unix_s: u64,
    ) -> bool {
        if !self.would_admit(label, &key, until_unix_s) {
            return false;
        }
        if let Some(author) = self.authors.get_mut(&label) {
            (author.certificate, author.may_relay, author.until_unix_s) = (certificate.into(), may_relay, until_unix_s);
            self.version += 1;
            return true;
        }
        let author = Author {
            public_key: key,
            certificate: certificate.into(),
            may_relay,
            until_unix_s,
            says_relay: (false, 0),
            links: BTreeMap::new(),
            messages: Vec::new(),
            fingerprint: mix(0),
            allowance: (BURST, now),
        };
        self.authors.insert(label, author);
        self.version += 1;
        true
    }

    /// Removes a member whose certificate is no longer valid.
    pub fn remove(&mut self, label: Label) {
        self.version += u64::from(self.authors.remove(&label).is_some());
    }

    /// Stores a claim of the member with this label. `bytes` is the whole message that contains the claim.
    ///
    /// A label is the first 32 bits of a node id. `verify` checks the signature. It is called only if something in the
    /// claim is new, and only if the author's rate limit allows one more claim.
    pub fn receive(
        &mut self,
        (now, unix_ms): (Instant, u64),
        label: Label,
        claim: &LinkClaim<'_>,
        bytes: &[u8],
        verify: impl FnOnce() -> bool,
    ) -> ClaimReceipt {
        let Some(author) = self.authors.get_mut(&label) else { return ClaimReceipt::UnknownAuthor };
        if author.public_key != *claim.public_key {
            return ClaimReceipt::OtherOwner;
        }
        let (lifetime, skew) = (LIFETIME.as_millis() as u64, CLOCK_SKEW.as_millis() as u64);
        if claim.seq > unix_ms.saturating_add(skew) || claim.seq.saturating_add(lifetime + skew) < unix_ms {
            return ClaimReceipt::OutOfTime;
        }
        if !author.has_news_in(claim, bytes) {
            return ClaimReceipt::Stale;
        }
        if !author.takes_another(now) {
            return ClaimReceipt::TooOften;
        }
        if !verify() {
            return ClaimReceipt::Forged;
        }
        author.remove_claim(claim.seq);
        if claim.seq >= author.says_relay.1 {
            author.says_relay = (claim.is_relay, claim.seq);
        }
        for link in claim.links.iter().filter(|link| link.to != label) {
            let room = author.links.len() < MAX_LINKS;
            match author.links.get_mut(&link.to) {
                Some(told) if told.seq < claim.seq => *told = ToldLink { seq: claim.seq, link },
                None if room => drop(author.links.insert(link.to, ToldLink { seq: claim.seq, link })),
                _ => {}
            }
        }
        author.keep(claim.seq, bytes);
        self.version += 1;
        ClaimReceipt::News
    }

    /// Deletes claims that were not repeated for [`LIFETIME`].
    pub fn forget_old(&mut self, unix_ms: u64) {
        let oldest = unix_ms.saturating_sub(LIFETIME.as_millis() as u64);
        for author in self.authors.values_mut() {
            let before = author.links.len();
            author.links.retain(|_, told| told.seq >= oldest);
            if author.links.len() != before {
                author.drop_superseded();
                self.version += 1;
            }
        }
    }

    /// Returns up to `most` entries of a digest: members from label `from` on, and the fingerprints of their claims.
    pub fn digest(&self, from: Label, most: usize) -> Vec<(Label, u64)> {
        let authors = self.authors.range(from..).take(most);
        authors.map(|(label, author)| (*label, author.fingerprint)).collect()
    }
}
