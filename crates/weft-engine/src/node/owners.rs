//! Finds and contacts the owners of addresses that lie behind no peer, and sends the waiting packets.
//!
//! The state machine is weft-core's ([`weft_core::route::ownership`]). It accepts only claims signed by the network's
//! root key. A holder of claims states the addresses of an owner. The node that answers at such an address must prove
//! that it has the owner's key.

use super::Engine;
use crate::api::{Contact, Event};
use crate::overlay::owners::{Owners, Root, Sought, WaitingPacket, completed};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_core::pool::BufId;
use weft_core::route::calls::{CallError, Patience, ReceivedCall};
use weft_core::route::overlay::{OverlayState, OverlayTransmit};
use weft_core::route::ownership::{self, AddressOwner, DirectoryContext, Found, OwnershipDirectory};
use weft_units::{Duration, Instant, NodeId, PeerId, VpnId};
use weft_wire::ownership::MAX_MESSAGE;
use weft_wire::super_packet::SuperPacket;

/// Maximum number of destinations whose owners are looked up while packets wait.
const MAX_SOUGHT: usize = 64;
/// Maximum number of packets that wait for the owner of one destination. Further packets are dropped.
const MAX_WAITING: usize = 16;
/// Longest time for which a packet waits for the owner of its destination.
///
/// It allows for lookups at two silent holders and a handshake.
const WAIT: Duration = Duration::from_secs(3);
/// Time after a failed lookup of an address before the address is looked up again.
const REST: Duration = Duration::from_secs(2);
/// Interval at which an application's call ([`Engine::call_key`]) is sent again.
const CALL_AGAIN: Duration = Duration::from_millis(500);
/// Maximum number of transmissions of an application's call ([`Engine::call_key`]).
const CALL_TRIES: u8 = 3;

impl Engine {
    pub(super) fn new_owners(&self, now: Instant) -> Owners {
        let started = self.trust.unix_s(now).saturating_sub(now.as_nanos() / 1_000_000_000);
        let rng = self.rng.split(now.as_nanos().rotate_left(40));
        // The run number is the start in seconds. If the node starts twice within a second, other nodes may take the
        // first calls of the second run for duplicates, so those calls are sent again.
        let run = self.trust.unix_s(now) as u32;
        let directory = OwnershipDirectory::new(started, run, rng);
        Owners { directory, sought: BTreeMap::new(), refused: BTreeSet::new() }
    }

    fn with_directory<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut OwnershipDirectory, &DirectoryContext<'_>) -> T,
    ) -> Option<T> {
        let (overlay, owners) = (self.overlay.state.as_ref()?, self.overlay.owners.as_mut()?);
        let authority = Root { now, trust: &self.trust };
        Some(act(&mut owners.directory, &DirectoryContext { now, overlay, authority: &authority }))
    }

    /// Claims the prefixes of this node's certificate at the nodes that store such claims.
    pub(super) fn claim_own(&mut self, now: Instant) {
        let certificate = self.trust.own_certificate().map(|own| own.encoded().to_vec());
        self.with_directory(now, |directory, at| match certificate {
            Some(certificate) => directory.own(at, &certificate),
            None => directory.withdraw(at),
        });
    }

    /// Withdraws this node's claims and leaves the overlay, because this node is leaving.
    pub(super) fn leave_overlay(&mut self, now: Instant) {
        self.with_directory(now, |directory, at| directory.withdraw(at));
        self.drive_overlay(now);
        self.set_overlay(now, None);
    }

    /// Deletes what is stored about an owner whose certificates were revoked.
    pub(super) fn forget_owner(&mut self, owner: NodeId) {
        if let Some(owners) = &mut self.overlay.owners {
            owners.directory.revoke(owner);
        }
    }

    /// Records that an owner of prefixes did not answer at the addresses that a lookup returned for it.
    pub(super) fn on_owner_unreachable(&mut self, now: Instant, owner: NodeId) {
        if let Some(owners) = &mut self.overlay.owners {
            owners.directory.handle_unreachable(now, owner);
        }
    }

    /// Handles a message of node `from` for the directory of owners.
    ///
    /// `seen` are the addresses at which this node reaches `from`.
    pub(super) fn on_directory_message(&mut self, now: Instant, from: NodeId, seen: &[SocketAddr], bytes: &[u8]) {
        let mut out = [0; MAX_MESSAGE];
        let completed = completed(bytes, seen, &mut out);
        // The result is ignored: a malformed message is an error, but changes nothing.
        self.with_directory(now, |directory, at| directory.handle_message(at, from, completed.unwrap_or(bytes)));
    }

    /// Queues a packet whose destination lies behind no peer while its owner is looked up.
    ///
    /// Returns the buffer to the caller if no lookup is possible or too many packets wait.
    pub(super) fn seek(
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
            sought.waiting.push(WaitingPacket { buf, shape });
            return None;
        }
        if owners.sought.len() >= MAX_SOUGHT {
            return Some(buf);
        }
        owners.sought.insert(to, Sought { until: now + WAIT, waiting: alloc::vec![WaitingPacket { buf, shape }] });
        self.with_directory(now, |directory, at| directory.look_up(at, to));
        self.drive_overlay(now);
        None
    }

    /// Sends the waiting packets whose destinations now lie behind a peer.
    pub(super) fn send_what_waited(&mut self, now: Instant) {
        let Engine { overlay, vpns, .. } = self;
        let (Some(owners), Some(vpn)) = (&mut overlay.owners, vpns.get(VpnId::DEFAULT)) else { return };
        let found: Vec<(IpAddr, PeerId)> =
            owners.sought.keys().filter_map(|address| Some((*address, vpn.route(*address)?))).collect();
        for (address, peer) in found {
            let sought = self.overlay.owners.as_mut().and_then(|owners| owners.sought.remove(&address));
            for WaitingPacket { buf, shape } in sought.into_iter().flat_map(|sought| sought.waiting) {
                self.enqueue(now, peer, VpnId::DEFAULT, buf, shape);
            }
        }
    }

    /// Drops the packets that wait for the owner of an address, because no owner was found.
    fn give_up_seeking(&mut self, now: Instant, address: IpAddr) {
        let Some(sought) = self.overlay.owners.as_mut().and_then(|owners| owners.sought.get_mut(&address)) else {
            return;
        };
        sought.until = now + REST;
        for WaitingPacket { buf, .. } in core::mem::take(&mut sought.waiting) {
            self.count_unroutable(VpnId::DEFAULT);
            self.pool.release(buf);
        }
    }

    /// Drops the packets that wait for the owners of all addresses.
    pub(super) fn give_up_all(&mut self, now: Instant) {
        let sought: Vec<IpAddr> = self.overlay.owners.iter().flat_map(|owners| owners.sought.keys().copied()).collect();
        sought.into_iter().for_each(|address| self.give_up_seeking(now, address));
    }

    /// Runs the timers and handles the events of the directory of owners.
    ///
    /// Call it after changes of the overlay as well.
    pub(super) fn drive_owners(&mut self, now: Instant) {
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

    /// Writes the next message of the directory to `out`, and returns its destination and length.
    pub(super) fn poll_directory(&mut self, out: &mut [u8]) -> Option<OverlayTransmit> {
        let overlay: &OverlayState = self.overlay.state.as_ref()?;
        self.overlay.owners.as_mut()?.directory.poll_transmit(overlay, out)
    }

    fn on_directory_event(&mut self, now: Instant, event: ownership::DirectoryEvent) {
        match event {
            ownership::DirectoryEvent::Found(address, Found::Owner(owner)) => self.on_owner(now, address, &owner),
            ownership::DirectoryEvent::Found(address, Found::Nobody | Found::NoAnswer) => {
                self.give_up_seeking(now, address)
            }
            ownership::DirectoryEvent::Refused(holder, why) => {
                let is_news = self.overlay.owners.as_mut().is_some_and(|owners| owners.refused.insert((holder, why)));
                if is_news {
                    self.events.queue.push_back(Event::ClaimRefused { holder, why });
                }
            }
            ownership::DirectoryEvent::Conflict(conflict) => self.events.queue.push_back(Event::Conflict(conflict)),
            ownership::DirectoryEvent::Call(call) => self.events.queue.push_back(Event::Call(call)),
        }
    }

    fn on_owner(&mut self, now: Instant, address: IpAddr, owner: &AddressOwner) {
        let contact = Contact::decode(&owner.details).filter(|contact| contact.id() == owner.id);
        let Some(contact) = contact else { return self.give_up_seeking(now, address) };
        if self.meet(now, &contact).is_err() {
            self.on_owner_unreachable(now, owner.id);
            self.give_up_seeking(now, address);
        }
        self.send_what_waited(now);
    }

    /// Sends a call, which is an application's request, to the node that is responsible for `key`.
    ///
    /// [`Event::Call`] reports the outcome.
    /// `application` is not 0, and `body` has at most 1,024 bytes. Only adjacent nodes are authenticated to each
    /// other, so a body must prove its own origin.
    ///
    /// # Errors
    /// Fails with [`CallError`], and then nothing was sent. Without an overlay the error is [`CallError::Busy`].
    pub fn call_key(&mut self, now: Instant, key: NodeId, application: u16, body: &[u8]) -> Result<u32, CallError> {
        let patience = Patience { first: CALL_AGAIN, tries: CALL_TRIES };
        let call = |directory: &mut OwnershipDirectory, at: &DirectoryContext<'_>| {
            directory.call(at, key, application, body, patience)
        };
        let number = self.with_directory(now, call).unwrap_or(Err(CallError::Busy))?;
        self.drive_overlay(now);
        Ok(number)
    }

    /// Answers a call that [`Event::Call`] reported, with at most 1,024 bytes.
    ///
    /// # Errors
    /// Fails with [`CallError::TooLong`].
    pub fn answer_call(&mut self, now: Instant, asked: &ReceivedCall, body: &[u8]) -> Result<(), CallError> {
        let answered = self.with_directory(now, |directory, at| directory.answer(at, asked, body));
        self.drive_overlay(now);
        answered.unwrap_or(Ok(()))
    }

    /// Returns the number of owners whose claims this node stores, and of their prefixes.
    pub(super) fn kept_claims(&self) -> (usize, usize) {
        self.overlay.owners.as_ref().map_or((0, 0), |owners| owners.directory.kept())
    }
}
