//! The directory of prefix owners as a whole: passes messages to its components and runs their timers.

use super::announce::{Announcer, Telling};
use super::cache::OwnerCache;
use super::lookup::Lookups;
use super::store::Store;
use super::{Conflict, DIRECTORY, DirectoryContext, DirectoryEvent, Found, Region, holders, verified};
use crate::route::calls::{self, CallError, Calls, Patience, ReceivedCall};
use crate::route::overlay::{LeafSet, OverlayState, OverlayTransmit};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_units::{Duration, Instant, NodeId, Rng};
use weft_wire::WireError;
use weft_wire::call;
use weft_wire::overlay::WireContact;
use weft_wire::ownership::{Claim, ClaimMessage, ClaimVerdict, OwnershipQuestion, Reply, emit_holders};

/// Interval at which expired claims of other nodes are searched for and deleted.
const SWEEP: Duration = Duration::from_secs(10);
/// Number of holders, those nearest to a key, that inform an owner when the holders of the key change.
///
/// There are several, because a single holder may be new itself, or fail.
const RENEWING: usize = 3;
/// Time since a conflict last occurred after which the same conflict is reported again.
const REPORT_AGAIN: Duration = Duration::from_secs(600);
/// Maximum number of reported conflicts that are remembered. While they are that many, no further one is reported.
const MOST_REPORTED: usize = 64;

/// One node's state of the directory of prefix owners: its claims, those that it stores, and its lookups.
#[derive(Clone, Debug)]
pub struct OwnershipDirectory {
    calls: Calls,
    store: Store,
    announcer: Announcer,
    lookups: Lookups,
    cache: OwnerCache,
    /// The next nodes on the ring when the directory last compared them with the overlay's; `None` before.
    leaves: Option<LeafSet>,
    sweep_at: Instant,
    reported: BTreeMap<Conflict, Instant>,
    replies: VecDeque<(NodeId, Reaction)>,
    events: VecDeque<DirectoryEvent>,
}

/// Answer of this node, as a holder, to an owner: a verdict on a claim, or a notice that the holders changed.
#[derive(Clone, Copy, Debug)]
enum Reaction {
    Verdict(u64, ClaimVerdict),
    Renew(NodeId),
}

impl OwnershipDirectory {
    /// Returns the state of a node that owns no prefix yet.
    ///
    /// `started_unix_s` is the wall-clock time at [`Instant::ZERO`], in seconds since 1970. `run` numbers the starts
    /// of the program: it must be higher than at the last start, so that receivers do not take calls for duplicates
    /// of earlier ones.
    pub fn new(started_unix_s: u64, run: u32, rng: Rng) -> OwnershipDirectory {
        OwnershipDirectory {
            calls: Calls::new(run, rng),
            store: Store::default(),
            announcer: Announcer::new(started_unix_s),
            lookups: Lookups::default(),
            cache: OwnerCache::default(),
            leaves: None,
            sweep_at: Instant::ZERO,
            reported: BTreeMap::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Claims the prefixes that a certificate assigns to this node.
    ///
    /// An invalid certificate claims nothing.
    pub fn own(&mut self, at: &DirectoryContext<'_>, certificate: &[u8]) {
        let grant = at.authority.check(certificate).filter(|grant| grant.owner == at.overlay.id());
        let regions: Vec<Region> =
            grant.iter().flat_map(|grant| &grant.prefixes).map(|prefix| Region::of(*prefix)).collect();
        self.announcer.own(at, grant.map(|_| (certificate, &*regions)));
        self.handle_timeout(at);
    }

    /// Withdraws all prefixes of this node, and informs all holders of its claims.
    pub fn withdraw(&mut self, at: &DirectoryContext<'_>) {
        self.announcer.own(at, None);
        self.handle_timeout(at);
    }

    /// Sends this node's claims to all holders again, because its overlay contact has changed.
    pub fn contact_changed(&mut self, at: &DirectoryContext<'_>) {
        self.announcer.contact_changed(at.now);
        self.handle_timeout(at);
    }

    /// Looks up the owner of an address. An event reports the result, at once if it is cached.
    pub fn look_up(&mut self, at: &DirectoryContext<'_>, address: IpAddr) {
        let kept = self.store.owner_of(at.now, address).and_then(|claim| verified(at.authority, claim, address));
        let kept = kept.filter(|owner| owner.prefix.1 > 0 && self.cache.failures(at.now, address) == 0);
        let found = match kept {
            Some(owner) => Some(Found::Owner(owner)),
            None => self.cache.get(at.now, address),
        };
        if let Some(found) = found {
            self.events.push_back(DirectoryEvent::Found(address, found));
            return;
        }
        let failures = self.cache.failures(at.now, address);
        if !self.lookups.begin(at, &mut self.calls, address, failures) {
            self.events.push_back(DirectoryEvent::Found(address, Found::NoAnswer));
        }
        self.settle(at);
    }

    /// Records that an owner was not reached at the contact details that a lookup returned.
    ///
    /// The cache drops the owner, and the next lookup asks other holders.
    pub fn handle_unreachable(&mut self, now: Instant, owner: NodeId) {
        self.cache.fail(now, owner);
    }

    /// Deletes the stored claims and the cached results of a node whose certificates were revoked.
    pub fn revoke(&mut self, owner: NodeId) {
        self.store.forget(owner);
        self.cache.forget(owner);
    }

    /// Sends a call to the node nearest to `key`. An event reports the result.
    ///
    /// `application` must not be 0, which is the directory's own number.
    ///
    /// # Errors
    ///
    /// Returns a [`CallError`] if nothing was sent.
    pub fn call(
        &mut self,
        at: &DirectoryContext<'_>,
        key: NodeId,
        application: u16,
        body: &[u8],
        patience: Patience,
    ) -> Result<u32, CallError> {
        let number = self.calls.call(at.now, at.overlay, key, application, body, patience);
        self.settle(at);
        number
    }

    /// Sends the answer `body` to a call that arrived for an application.
    ///
    /// # Errors
    ///
    /// Returns [`CallError::TooLong`] if the body is too long.
    pub fn answer(&mut self, at: &DirectoryContext<'_>, asked: &ReceivedCall, body: &[u8]) -> Result<(), CallError> {
        let answered = self.calls.answer(at.now, at.overlay, asked, body);
        self.settle(at);
        answered
    }

    /// True if a message between neighbours is for the directory and not for the overlay's routing.
    pub fn is_for(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|kind| *kind >= call::FIRST_TYPE)
    }

    /// Processes a message of the authenticated node `from`.
    ///
    /// # Errors
    ///
    /// Returns a [`WireError`] if the message is invalid. Nothing has changed then.
    pub fn handle_message(&mut self, at: &DirectoryContext<'_>, from: NodeId, bytes: &[u8]) -> Result<(), WireError> {
        match self.calls.handle_message(at.now, at.overlay, from, bytes) {
            Err(WireError::UnknownType) => match ClaimMessage::parse(bytes)? {
                ClaimMessage::Claim(claim) => self.on_claim(at, from, claim),
                ClaimMessage::Withdraw { seq } => self.on_withdrawal(at, from, seq),
                ClaimMessage::Verdict { seq, verdict } => self.on_verdict(from, seq, verdict),
                ClaimMessage::Renew { key } => self.announcer.renew(at.now, from, key),
            },
            done => done?,
        }
        self.handle_timeout(at);
        Ok(())
    }

    /// Handles expired timers. Call it also when the next nodes on the overlay's ring may have changed.
    pub fn handle_timeout(&mut self, at: &DirectoryContext<'_>) {
        if self.leaves.as_ref() != Some(at.overlay.leaves()) {
            self.on_leaves(at);
        }
        if at.now >= self.sweep_at {
            self.sweep_at = at.now + SWEEP;
            self.store.expire(at.now);
            self.reported.retain(|_, reported_at| at.now - *reported_at < REPORT_AGAIN);
        }
        self.calls.handle_timeout(at.now, at.overlay);
        self.settle(at);
        self.announcer.handle_timeout(at, &mut self.calls);
        self.tell_itself(at);
        self.lookups.handle_timeout(at, &mut self.calls);
        self.settle(at);
    }

    /// Returns the time at which the next call of [`OwnershipDirectory::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Instant {
        let own = self.announcer.next_timeout().min(self.lookups.next_timeout());
        self.calls.next_timeout().min(own).min(self.sweep_at)
    }

    /// Writes the next message into `out` and returns its destination.
    ///
    /// `out` must hold [`MAX_MESSAGE`] bytes. The destination is a neighbour, or a node that [`OwnershipDirectory::details`]
    /// describes. Call this after each `handle_*`, lookup, call and change of ownership until it returns
    /// `None`.
    pub fn poll_transmit(&mut self, overlay: &OverlayState, out: &mut [u8]) -> Option<OverlayTransmit> {
        loop {
            if let Some((to, bytes)) = self.calls.poll_transmit() {
                let Some(room) = out.get_mut(..bytes.len()) else { continue };
                room.copy_from_slice(&bytes);
                return Some(OverlayTransmit { to, via: overlay.via(to), len: bytes.len() });
            }
            let (to, emitted) = match self.replies.pop_front() {
                Some((to, Reaction::Verdict(seq, verdict))) => (to, ClaimMessage::Verdict { seq, verdict }.emit(out)),
                Some((to, Reaction::Renew(key))) => (to, ClaimMessage::Renew { key }.emit(out)),
                None => {
                    let (holder, telling) = self.announcer.poll()?;
                    let own = &overlay.contact().details;
                    let message = match &telling {
                        Telling::Claim(seq, certificate) => {
                            ClaimMessage::Claim(Claim { seq: *seq, details: own, certificate })
                        }
                        Telling::Withdraw(seq) => ClaimMessage::Withdraw { seq: *seq },
                    };
                    (holder, message.emit(out))
                }
            };
            if let Ok(len) = emitted {
                return Some(OverlayTransmit { to, via: overlay.via(to), len });
            }
        }
    }

    /// Returns the details (key and addresses) needed to reach a node that is not a neighbour.
    ///
    /// They are known only of a node that holds this node's claims, or of which this node holds claims.
    pub fn details(&self, id: NodeId) -> Option<&[u8]> {
        self.announcer.details(id).or_else(|| self.store.details(id))
    }

    /// Removes and returns the oldest event of the directory.
    pub fn poll_event(&mut self) -> Option<DirectoryEvent> {
        self.events.pop_front()
    }

    /// Returns the number of owners whose claims are stored here, and the number of their prefixes.
    pub fn kept(&self) -> (usize, usize) {
        self.store.len()
    }

    /// Iterates over the nodes that store this node's claims.
    pub fn holders(&self) -> impl Iterator<Item = NodeId> {
        self.announcer.holders()
    }

    fn on_claim(&mut self, at: &DirectoryContext<'_>, from: NodeId, claim: Claim<'_>) {
        let belongs = |region: Region| at.overlay.leaves().covers(region.key(at.authority));
        let mut conflicts = Vec::new();
        let verdict = self.store.claim(at.now, at.authority, from, claim, belongs, &mut conflicts);
        for conflict in conflicts {
            if self.reported.len() < MOST_REPORTED && self.reported.insert(conflict, at.now).is_none() {
                self.events.push_back(DirectoryEvent::Conflict(conflict));
            }
        }
        self.answer_owner(at, from, claim.seq, verdict);
    }

    fn on_withdrawal(&mut self, at: &DirectoryContext<'_>, from: NodeId, seq: u64) {
        let verdict = self.store.withdraw(at.now, from, seq);
        self.answer_owner(at, from, seq, verdict);
    }

    fn answer_owner(&mut self, at: &DirectoryContext<'_>, owner: NodeId, seq: u64, verdict: ClaimVerdict) {
        if owner == at.overlay.id() {
            self.on_verdict(owner, seq, verdict);
        } else {
            self.replies.push_back((owner, Reaction::Verdict(seq, verdict)));
        }
    }

    /// Processes the claim or withdrawal that this node owes to itself, because it may hold its own prefixes.
    fn tell_itself(&mut self, at: &DirectoryContext<'_>) {
        let own = at.overlay.contact();
        match self.announcer.take(own.id) {
            Some(Telling::Claim(seq, certificate)) => {
                let claim = Claim { seq, details: &own.details, certificate: &certificate };
                self.on_claim(at, own.id, claim);
            }
            Some(Telling::Withdraw(seq)) => self.on_withdrawal(at, own.id, seq),
            None => {}
        }
    }

    fn on_verdict(&mut self, from: NodeId, seq: u64, verdict: ClaimVerdict) {
        // A node that is no longer a holder was informed only so that it deletes its copy. Its refusal is not reported.
        if self.announcer.on_verdict(from, seq) && !matches!(verdict, ClaimVerdict::Taken | ClaimVerdict::Elsewhere) {
            self.events.push_back(DirectoryEvent::Refused(from, verdict));
        }
    }

    /// Informs owners that the holders of their claims changed, because the next nodes on the ring changed.
    fn on_leaves(&mut self, at: &DirectoryContext<'_>) {
        let leaves = at.overlay.leaves().clone();
        let own = at.overlay.id();
        if let Some(former) = self.leaves.replace(leaves.clone()) {
            for (region, owners) in self.store.regions() {
                let key = region.key(at.authority);
                let (before, after) = (holders(own, &former, key), holders(own, &leaves, key));
                if before != after && after.iter().take(RENEWING).any(|id| *id == own) {
                    self.replies.extend(owners.into_iter().map(|owner| (owner, Reaction::Renew(key))));
                }
            }
        }
    }

    /// Processes the events of this node's calls and the lookups that have finished.
    fn settle(&mut self, at: &DirectoryContext<'_>) {
        while let Some(event) = self.calls.poll_event() {
            match event {
                calls::CallEvent::Asked(asked) if asked.application == DIRECTORY => self.reply(at, &asked),
                calls::CallEvent::Answered { number, body, .. } if self.announcer.has_asked(number) => {
                    match Reply::parse(&body) {
                        Ok(Reply::Holders(contacts)) => self.announcer.on_holders(at.now, number, contacts),
                        _ => self.announcer.on_unanswered(at.now, number),
                    }
                }
                calls::CallEvent::Answered { number, by, body } if self.lookups.has_asked(number) => {
                    let reply = Reply::parse(&body).ok();
                    self.lookups.on_reply(at, &mut self.calls, &self.cache, number, by, reply);
                }
                calls::CallEvent::Unanswered { number } if self.announcer.has_asked(number) => {
                    self.announcer.on_unanswered(at.now, number);
                }
                calls::CallEvent::Unanswered { number } if self.lookups.has_asked(number) => {
                    self.lookups.on_unanswered(number);
                }
                other => self.events.push_back(DirectoryEvent::Call(other)),
            }
        }
        while let Some((address, found)) = self.lookups.poll() {
            self.cache.put(at.now, address, &found);
            self.events.push_back(DirectoryEvent::Found(address, found));
        }
    }

    /// Answers a call that asks for the holders of a key or for the owner of an address.
    fn reply(&mut self, at: &DirectoryContext<'_>, asked: &ReceivedCall) {
        let mut out = [0; call::MAX_BODY];
        let emitted = match OwnershipQuestion::parse(&asked.body) {
            Ok(OwnershipQuestion::Holders(key)) => self.name_holders(at, key, &mut out),
            Ok(OwnershipQuestion::Owner { key, address }) => match self.store.owner_of(at.now, address) {
                Some(claim) => Reply::Owner(claim).emit(&mut out),
                None if holders(at.overlay.id(), at.overlay.leaves(), key).contains(&at.overlay.id()) => {
                    Reply::Nobody.emit(&mut out)
                }
                None => self.name_holders(at, key, &mut out),
            },
            Err(error) => Err(error),
        };
        if let Ok(len) = emitted {
            // The body was written into a buffer of a body's size, so it is not too long.
            let _ = self.calls.answer(at.now, at.overlay, asked, out.get(..len).unwrap_or_default());
        }
    }

    fn name_holders(&self, at: &DirectoryContext<'_>, key: NodeId, out: &mut [u8]) -> Result<usize, WireError> {
        let own = at.overlay.contact();
        let details = |id| if id == own.id { Some(&*own.details) } else { at.overlay.details(id) };
        let ids = holders(own.id, at.overlay.leaves(), key);
        emit_holders(ids.into_iter().filter_map(|id| Some(WireContact { id, details: details(id)? })), out)
    }
}
