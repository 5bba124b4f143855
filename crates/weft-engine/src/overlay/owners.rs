//! Addresses that lie behind no peer: who owns them is looked up at other nodes, the owner is met, and what waited for it is sent.
//!
//! The state machine is weft-core's ([`weft_core::route::ownership`]). What it believes is signed by the network's root key; where an owner is
//! a holder says, and whoever answers there has to show the same key.

use super::Contact;
use crate::event::Event;
use crate::node::Engine;
use crate::trust::Trust;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_core::pool::BufId;
use weft_core::route::calls::{Asked, CallError, Patience};
use weft_core::route::overlay::{Overlay, Transmit};
use weft_core::route::ownership::{self, Authority, Context, Directory, Found, Grant, Owner};
use weft_session::{Certificate, place_of};
use weft_units::{Duration, Instant, NodeId, PeerId, VpnId};
use weft_wire::ownership::{Claim, MAX_MESSAGE, Message, Verdict};
use weft_wire::super_packet::SuperPacket;

/// Addresses that packets wait for at a time.
const MAX_SOUGHT: usize = 64;
/// Packets that wait for one address; of more the newest are dropped.
const MAX_WAITING: usize = 16;
/// They wait so long: lookups of two silent holders, and a handshake.
const WAIT: Duration = Duration::from_secs(3);
/// An address that has no owner is not asked for again at once.
const REST: Duration = Duration::from_secs(2);
/// An application's call is made again after this, and so often.
const CALL_AGAIN: Duration = Duration::from_millis(500);
const CALL_TRIES: u8 = 4;

/// A packet that waits for its destination to be found.
#[derive(Debug)]
struct Waiting {
    buf: BufId,
    shape: SuperPacket,
}

/// An address that is looked for.
#[derive(Debug)]
struct Sought {
    until: Instant,
    waiting: Vec<Waiting>,
}

/// What a node knows of who owns what, and what it looks for.
pub(super) struct Owners {
    pub(super) directory: Directory,
    sought: BTreeMap<IpAddr, Sought>,
    refused: BTreeSet<(NodeId, Verdict)>,
}

impl Owners {
    pub(super) fn next_timeout(&self) -> Instant {
        let until = self.sought.values().map(|sought| sought.until).min();
        self.directory.next_timeout().min(until.unwrap_or(Instant::FAR_FUTURE))
    }
}

/// The network's root key, as the core asks it.
struct Root<'a> {
    now: Instant,
    trust: &'a Trust,
}

impl Authority for Root<'_> {
    fn place_of(&self, name: &[u8]) -> NodeId {
        place_of(name)
    }

    fn check(&self, certificate: &[u8]) -> Option<Grant> {
        let certificate = Certificate::decode(certificate).ok()?;
        let left_s = self.trust.holds_for_s(self.now, &certificate)?;
        let claims = certificate.claims();
        Some(Grant {
            owner: claims.public_key.node_id(),
            since_unix_s: claims.not_before_unix_s,
            holds_for: Duration::from_secs(left_s),
            prefixes: claims.prefixes.clone(),
        })
    }
}

impl Engine {
    pub(super) fn new_owners(&self, now: Instant) -> Owners {
        let started = self.trust.unix_s(now).saturating_sub(now.as_nanos() / 1_000_000_000);
        let rng = self.rng.split(now.as_nanos().rotate_left(40));
        // Of two starts within a second the second may find its first calls taken for repeated ones: they are made again.
        let run = self.trust.unix_s(now) as u32;
        let directory = Directory::new(started, run, rng);
        Owners { directory, sought: BTreeMap::new(), refused: BTreeSet::new() }
    }

    fn with_directory<T>(&mut self, now: Instant, act: impl FnOnce(&mut Directory, &Context<'_>) -> T) -> Option<T> {
        let (overlay, owners) = (self.overlay.state.as_ref()?, self.overlay.owners.as_mut()?);
        let authority = Root { now, trust: &self.trust };
        Some(act(&mut owners.directory, &Context { now, overlay, authority: &authority }))
    }

    /// Claims what this node's certificate gives it.
    pub(crate) fn claim_own(&mut self, now: Instant) {
        let certificate = self.trust.own_certificate().map(|own| own.encoded().to_vec());
        self.with_directory(now, |directory, at| match certificate {
            Some(certificate) => directory.own(at, &certificate),
            None => directory.withdraw(at),
        });
    }

    /// Claims nothing any more and takes no part any more: this node goes away.
    pub(crate) fn leave_overlay(&mut self, now: Instant) {
        self.with_directory(now, |directory, at| directory.withdraw(at));
        self.settle_overlay(now);
        self.set_overlay(now, None);
    }

    /// A node's certificates hold no more.
    pub(crate) fn forget_owner(&mut self, owner: NodeId) {
        if let Some(owners) = &mut self.overlay.owners {
            owners.directory.revoke(owner);
        }
    }

    /// An owner was not reached where it was said to be.
    pub(super) fn on_owner_unreachable(&mut self, now: Instant, owner: NodeId) {
        if let Some(owners) = &mut self.overlay.owners {
            owners.directory.handle_unreachable(now, owner);
        }
    }

    /// A message for the directory, of a node that is reached at these addresses.
    pub(super) fn on_directory_message(&mut self, now: Instant, from: NodeId, seen: &[SocketAddr], bytes: &[u8]) {
        let mut out = [0; MAX_MESSAGE];
        let completed = completed(bytes, seen, &mut out);
        // What is malformed changes nothing.
        self.with_directory(now, |directory, at| directory.handle_message(at, from, completed.unwrap_or(bytes)));
    }

    /// A packet whose destination lies behind no peer waits if its owner can be looked up; else it is given back.
    pub(crate) fn seek(
        &mut self,
        now: Instant,
        vpn: VpnId,
        to: IpAddr,
        buf: BufId,
        shape: SuperPacket,
    ) -> Option<BufId> {
        let is_found_here = vpn == VpnId::DEFAULT && !to.is_multicast();
        let Some(owners) = self.overlay.owners.as_mut().filter(|_| is_found_here) else { return Some(buf) };
        if let Some(sought) = owners.sought.get_mut(&to) {
            if sought.waiting.is_empty() || sought.waiting.len() >= MAX_WAITING {
                return Some(buf);
            }
            sought.waiting.push(Waiting { buf, shape });
            return None;
        }
        if owners.sought.len() >= MAX_SOUGHT {
            return Some(buf);
        }
        owners.sought.insert(to, Sought { until: now + WAIT, waiting: alloc::vec![Waiting { buf, shape }] });
        self.with_directory(now, |directory, at| directory.look_up(at, to));
        self.settle_overlay(now);
        None
    }

    /// Prefixes are known that were not: what waited for them is sent.
    pub(crate) fn send_what_waited(&mut self, now: Instant) {
        let Engine { overlay, vpns, .. } = self;
        let (Some(owners), Some(vpn)) = (&mut overlay.owners, vpns.get(VpnId::DEFAULT)) else { return };
        let found: Vec<(IpAddr, PeerId)> =
            owners.sought.keys().filter_map(|address| Some((*address, vpn.route(*address)?))).collect();
        for (address, peer) in found {
            let sought = self.overlay.owners.as_mut().and_then(|owners| owners.sought.remove(&address));
            for Waiting { buf, shape } in sought.into_iter().flat_map(|sought| sought.waiting) {
                self.enqueue(now, peer, VpnId::DEFAULT, buf, shape);
            }
        }
    }

    /// Nobody has this address, as far as could be found: nothing waits for it.
    fn give_up_seeking(&mut self, now: Instant, address: IpAddr) {
        let Some(sought) = self.overlay.owners.as_mut().and_then(|owners| owners.sought.get_mut(&address)) else {
            return;
        };
        sought.until = now + REST;
        for Waiting { buf, .. } in core::mem::take(&mut sought.waiting) {
            self.count_unroutable(VpnId::DEFAULT);
            self.pool.release(buf);
        }
    }

    /// Nothing is looked for any more.
    pub(super) fn give_up_all(&mut self, now: Instant) {
        let sought: Vec<IpAddr> = self.overlay.owners.iter().flat_map(|owners| owners.sought.keys().copied()).collect();
        sought.into_iter().for_each(|address| self.give_up_seeking(now, address));
    }

    /// Does what is due; to be called, too, when the overlay may have changed.
    pub(super) fn settle_owners(&mut self, now: Instant) {
        self.with_directory(now, |directory, at| directory.handle_timeout(at));
        while let Some(event) = self.overlay.owners.as_mut().and_then(|owners| owners.directory.poll_event()) {
            self.on_directory_event(now, event);
        }
        let sought = self.overlay.owners.iter().flat_map(|owners| &owners.sought);
        let over: Vec<IpAddr> = sought.filter(|(_, sought)| sought.until <= now).map(|(address, _)| *address).collect();
        for address in over {
            self.give_up_seeking(now, address);
            if let Some(owners) = &mut self.overlay.owners {
                owners.sought.remove(&address);
            }
        }
    }

    /// The next message of the directory, in `out`.
    pub(super) fn poll_directory(&mut self, out: &mut [u8]) -> Option<Transmit> {
        let overlay: &Overlay = self.overlay.state.as_ref()?;
        self.overlay.owners.as_mut()?.directory.poll_transmit(overlay, out)
    }

    fn on_directory_event(&mut self, now: Instant, event: ownership::Event) {
        match event {
            ownership::Event::Found(address, Found::Owner(owner)) => self.on_owner(now, address, &owner),
            ownership::Event::Found(address, Found::Nobody | Found::NoAnswer) => self.give_up_seeking(now, address),
            ownership::Event::Refused(holder, why) => {
                let is_news = self.overlay.owners.as_mut().is_some_and(|owners| owners.refused.insert((holder, why)));
                if is_news {
                    self.events.push_back(Event::ClaimRefused { holder, why });
                }
            }
            ownership::Event::Conflict(conflict) => self.events.push_back(Event::Conflict(conflict)),
            ownership::Event::Call(call) => self.events.push_back(Event::Call(call)),
        }
    }

    fn on_owner(&mut self, now: Instant, address: IpAddr, owner: &Owner) {
        let contact = Contact::decode(&owner.details).filter(|contact| contact.id() == owner.id);
        let Some(contact) = contact else { return self.give_up_seeking(now, address) };
        if self.meet(now, &contact).is_err() {
            self.on_owner_unreachable(now, owner.id);
            self.give_up_seeking(now, address);
        }
        self.send_what_waited(now);
    }

    /// Calls the root of a key for an application, other than 0, with at most 1,024 bytes; [`Event::Call`] tells the end. Only neighbours are
    /// authenticated to each other: what a body says has to prove itself.
    ///
    /// # Errors
    /// [`CallError`]; nothing was sent then. [`CallError::Busy`] where there is no overlay, too.
    pub fn call_key(&mut self, now: Instant, key: NodeId, application: u16, body: &[u8]) -> Result<u32, CallError> {
        let patience = Patience { first: CALL_AGAIN, tries: CALL_TRIES };
        let call = |directory: &mut Directory, at: &Context<'_>| directory.call(at, key, application, body, patience);
        let number = self.with_directory(now, call).unwrap_or(Err(CallError::Busy))?;
        self.settle_overlay(now);
        Ok(number)
    }

    /// Answers a call that has come ([`Event::Call`]), with at most 1,024 bytes.
    ///
    /// # Errors
    /// [`CallError::TooLong`].
    pub fn answer_call(&mut self, now: Instant, asked: &Asked, body: &[u8]) -> Result<(), CallError> {
        let answered = self.with_directory(now, |directory, at| directory.answer(at, asked, body));
        self.settle_overlay(now);
        answered.unwrap_or(Ok(()))
    }

    /// Owners whose claims this node keeps, and their prefixes.
    pub(super) fn kept_claims(&self) -> (usize, usize) {
        self.overlay.owners.as_ref().map_or((0, 0), |owners| owners.directory.kept())
    }
}

/// A claim whose details name the addresses, too, at which the owner is seen: it may not know them itself.
fn completed<'a>(bytes: &[u8], seen: &[SocketAddr], out: &'a mut [u8]) -> Option<&'a [u8]> {
    let Ok(Message::Claim(claim)) = Message::parse(bytes) else { return None };
    let Contact { public_key, endpoints } = Contact::decode(claim.details)?;
    let endpoints = super::without_repeats(endpoints.into_iter().chain(seen.iter().copied()));
    let details = Contact { public_key, endpoints }.encode();
    let len = Message::Claim(Claim { details: &details, ..claim }).emit(out).ok()?;
    out.get(..len)
}
