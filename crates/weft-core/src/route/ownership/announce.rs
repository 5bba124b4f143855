//! The announcements of a node that owns prefixes: it sends its claim to the holders of its prefixes' keys.
//!
//! The holders of a key are the nodes next to the key on the ring. They store the claim for other nodes. Every minute
//! the owner asks the node nearest to each key for the key's holders, and sends its claim to each holder. It also
//! asks nodes on both sides of the key, at one mean node distance in one round and at four in the next. A node that
//! lies about the other holders thus cannot hide the owner.

use super::region::Region;
use super::{DIRECTORY, DirectoryContext, REFRESH, beside, question};
use crate::route::calls::{Calls, Patience};
use crate::route::overlay::NodeContact;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use weft_units::{Duration, Instant, NodeId};
use weft_wire::overlay::Contacts;
use weft_wire::ownership::OwnershipQuestion;

/// Time after which a query for the holders of a key is sent again, and the number of attempts.
const PATIENCE: Patience = Patience { first: Duration::from_millis(500), tries: 3 };
/// Minimum time between two queries about one key, however often its holders change.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Time after which a claim is sent again to a holder that did not answer.
///
/// The time doubles with each attempt, because the two nodes may first have to connect.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// Number of times that a claim is sent to a holder.
const TRIES: u32 = 4;
/// Number of rounds after which a holder that no answer has named receives no more claims.
///
/// In each round the owner asks for the holders of all its keys.
const ROUNDS_UNNAMED: u64 = 3;
/// Maximum number of holders to which an owner sends its claim.
///
/// It exceeds the number of holders of sixteen prefixes in a large network.
const MOST_HOLDERS: usize = 160;

/// A key on the ring to which some of this node's prefixes belong, and when to ask for its holders.
#[derive(Clone, Debug)]
struct PrefixKey {
    key: NodeId,
    asked_at: Option<Instant>,
    due: Instant,
}

/// A node that stores this node's claims, or that is to store them.
#[derive(Clone, Debug)]
struct ClaimHolder {
    contact: NodeContact,
    /// Number of the last claim that was sent, or is due to be sent, to the holder.
    seq: u64,
    /// Number of times that this claim was sent to the holder.
    tries: u32,
    /// Time at which the claim is sent again.
    ///
    /// It is far in the future once the holder has answered, or once all attempts are used up.
    due: Instant,
    named_in: u64,
}

/// Message of an owner to a holder of its claims.
#[derive(Clone, Debug)]
pub enum Telling {
    /// The sender owns the prefixes in its certificate. The values are the number of the claim and the certificate.
    Claim(u64, Box<[u8]>),
    /// The sender no longer owns the prefixes that it claimed. The value is the number of the withdrawal.
    Withdraw(u64),
}

/// The announcements of this node as an owner of prefixes: its keys, their holders, and the messages due.
#[derive(Clone, Debug)]
pub struct Announcer {
    /// Certificate that assigns the prefixes to this node. `None` if the node owns nothing or has withdrawn all.
    certificate: Option<Box<[u8]>>,
    started_unix_s: u64,
    seq: u64,
    round: u64,
    round_at: Instant,
    places: Vec<PrefixKey>,
    asked: BTreeMap<u32, NodeId>,
    holders: BTreeMap<NodeId, ClaimHolder>,
    to_tell: BTreeSet<NodeId>,
}

impl Announcer {
    /// Returns the state of a node that owns no prefix yet.
    ///
    /// `started_unix_s` is the wall-clock time at [`Instant::ZERO`], in seconds since 1970.
    pub fn new(started_unix_s: u64) -> Announcer {
        Announcer {
            certificate: None,
            started_unix_s,
            seq: 0,
            round: 0,
            round_at: Instant::FAR_FUTURE,
            places: Vec::new(),
            asked: BTreeMap::new(),
            holders: BTreeMap::new(),
            to_tell: BTreeSet::new(),
        }
    }

    /// Sets the certificate and the regions of the prefixes that this node owns. `None` withdraws all.
    pub fn own(&mut self, at: &DirectoryContext<'_>, certificate: Option<(&[u8], &[Region])>) {
        self.certificate = certificate.map(|(bytes, _)| bytes.into());
        let regions = certificate.into_iter().flat_map(|(_, regions)| regions);
        let keys: BTreeSet<NodeId> = regions.map(|region| region.key(at.authority)).collect();
        self.places = keys.into_iter().map(|key| PrefixKey { key, asked_at: None, due: at.now }).collect();
        self.asked.clear();
        self.begin_round(at.now);
        self.resend_to_all(at.now);
        if self.certificate.is_none() {
            self.round_at = Instant::FAR_FUTURE;
        }
    }

    /// Sends new claims to all holders, because this node's key or addresses changed.
    pub fn contact_changed(&mut self, now: Instant) {
        if self.certificate.is_some() {
            self.begin_round(now);
            self.resend_to_all(now);
        }
    }

    /// Processes the message of the holder `from` that the holders of `key` have changed.
    pub fn renew(&mut self, now: Instant, from: NodeId, key: NodeId) {
        if !self.holders.contains_key(&from) {
            return;
        }
        for place in self.places.iter_mut().filter(|place| place.key == key) {
            let earliest = place.asked_at.map_or(now, |at| (at + ASK_AGAIN).max(now));
            place.due = place.due.min(earliest);
        }
    }

    /// Processes an answer to the call `number` that names the holders of a key.
    ///
    /// Ignores it unless it belongs to one of this node's calls.
    pub fn on_holders(&mut self, now: Instant, number: u32, contacts: Contacts<'_>) {
        if self.asked.remove(&number).is_none() {
            return;
        }
        for named in contacts {
            if self.holders.len() >= MOST_HOLDERS && !self.holders.contains_key(&named.id) {
                continue;
            }
            let contact = NodeContact { id: named.id, details: named.details.into() };
            let is_new = ClaimHolder { contact: contact.clone(), seq: 0, tries: 0, due: now, named_in: self.round };
            let holder = self.holders.entry(named.id).or_insert(is_new);
            (holder.contact, holder.named_in) = (contact, self.round);
            if holder.seq < self.seq {
                (holder.seq, holder.tries, holder.due) = (self.seq, 0, now);
            }
        }
    }

    /// Processes the failure of a query for holders, which was the call `number`. The query is repeated soon.
    pub fn on_unanswered(&mut self, now: Instant, number: u32) {
        if let Some(key) = self.asked.remove(&number) {
            for place in self.places.iter_mut().filter(|place| place.key == key) {
                place.due = place.due.min(now + ASK_AGAIN);
            }
        }
    }

    /// True if the call with this number is an unanswered query of this announcer.
    pub fn has_asked(&self, number: u32) -> bool {
        self.asked.contains_key(&number)
    }

    /// Processes a holder's answer to a claim. Returns true if it answers the last claim sent to this holder.
    pub fn on_verdict(&mut self, from: NodeId, seq: u64) -> bool {
        match self.holders.get_mut(&from) {
            Some(holder) if holder.seq == seq && holder.due != Instant::FAR_FUTURE => {
                holder.due = Instant::FAR_FUTURE;
                true
            }
            _ => false,
        }
    }

    /// Sends the queries and claims that are due.
    pub fn handle_timeout(&mut self, at: &DirectoryContext<'_>, calls: &mut Calls) {
        if at.now >= self.round_at {
            self.begin_round(at.now);
        }
        for n in 0..self.places.len() {
            self.ask(at, calls, n);
        }
        for (id, holder) in self.holders.iter_mut().filter(|(_, holder)| holder.due <= at.now) {
            if holder.tries >= TRIES {
                holder.due = Instant::FAR_FUTURE;
            } else {
                holder.due = at.now + TELL_AGAIN * (1 << holder.tries);
                holder.tries += 1;
                self.to_tell.insert(*id);
            }
        }
    }

    /// Returns the time at which the next call of [`Announcer::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Instant {
        let places = self.places.iter().map(|place| place.due);
        places.chain(self.holders.values().map(|holder| holder.due)).min().unwrap_or(self.round_at).min(self.round_at)
    }

    /// Removes and returns the next message that is due, after the holder to which to send it.
    pub fn poll(&mut self) -> Option<(NodeId, Telling)> {
        loop {
            let holder = self.to_tell.first().copied()?;
            if let Some(telling) = self.take(holder) {
                return Some((holder, telling));
            }
        }
    }

    /// Removes and returns the message that is due for this holder, if there is one.
    pub fn take(&mut self, holder: NodeId) -> Option<Telling> {
        if !self.to_tell.remove(&holder) {
            return None;
        }
        let seq = self.holders.get(&holder)?.seq;
        Some(self.certificate.clone().map_or(Telling::Withdraw(seq), |certificate| Telling::Claim(seq, certificate)))
    }

    /// Returns the key and addresses needed to reach a holder.
    pub fn details(&self, holder: NodeId) -> Option<&[u8]> {
        self.holders.get(&holder).map(|holder| &*holder.contact.details)
    }

    /// Iterates over the nodes that hold this node's claims.
    pub fn holders(&self) -> impl Iterator<Item = NodeId> {
        self.holders.keys().copied()
    }

    fn begin_round(&mut self, now: Instant) {
        let clock = self.started_unix_s + (now - Instant::ZERO).as_secs();
        self.seq = clock.max(self.seq + 1);
        self.round += 1;
        self.round_at = now + REFRESH;
        self.places.iter_mut().for_each(|place| place.due = now);
        let (round, is_owner) = (self.round, self.certificate.is_some());
        self.holders.retain(|_, holder| !is_owner || holder.named_in + ROUNDS_UNNAMED >= round);
    }

    fn resend_to_all(&mut self, now: Instant) {
        for holder in self.holders.values_mut() {
            (holder.seq, holder.tries, holder.due) = (self.seq, 0, now);
        }
    }

    fn ask(&mut self, at: &DirectoryContext<'_>, calls: &mut Calls, n: usize) {
        let Some(place) = self.places.get_mut(n).filter(|place| place.due <= at.now) else { return };
        (place.asked_at, place.due) = (Some(at.now), Instant::FAR_FUTURE);
        let body = question(OwnershipQuestion::Holders(place.key));
        for attempt in if self.round.is_multiple_of(2) { [0, 1, 2] } else { [0, 3, 4] } {
            let key = beside(at.overlay.leaves(), place.key, attempt);
            if let Ok(number) = calls.call(at.now, at.overlay, key, DIRECTORY, &body, PATIENCE) {
                self.asked.insert(number, place.key);
            }
        }
    }
}
