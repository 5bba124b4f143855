//! Handshake datagrams: writes initiations, answers them, and processes responses and cookies.

use super::Sessions;
use crate::admission;
use crate::certificate::Certificate;
use crate::cookie::{CookieMaker, mac2};
use crate::error::{HandshakeError, InitiateError};
use crate::handshake::{Initiator, Responder};
use crate::index::IndexTarget;
use crate::keys::{Agreement, SessionKey, SessionSecret};
use crate::payload::{self, InitiationFields, ResponseFields};
use crate::peer::{Answered, PeerSession, PendingInitiation};
use crate::stack;
use crate::stamps::{RefusedStamp, StampFault, StampRefusal};
use crate::timers::Attempt;
use weft_units::planted::{self, Fault};
use weft_units::{Instant, PeerId};
use weft_wire::handshake::{
    COOKIE_REPLY_LEN, CookieReply, HandshakeResponse, INITIATION_LEN, Initiation, MAC_LEN, MAX_INITIATION_LEN,
    MessageWriter, RESPONSE_LEN, ResponsePayload,
};
use weft_wire::hop::PacketType;

/// Result of processing a handshake datagram, with the next step for the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A peer's initiation was accepted.
    ///
    /// The caller must send the first `len` bytes of `out` to the source of the initiation. The new session key seals
    /// packets once the first packet under it has arrived ([`super::OpenedPacket::first_with_this_key`]).
    Reply {
        /// Length of the answer in `out`, in bytes.
        len: usize,
        /// The peer that initiated the handshake.
        peer: PeerId,
        /// True if the initiation is a copy of one that was answered. The same answer is then sent again.
        repeated: bool,
    },
    /// An initiator that is not a peer presented a certificate for its own key. The initiation has changed no state.
    ///
    /// A caller that trusts the certificate adds the peer ([`Sessions::add_peer`]) and calls [`Sessions::handle`] with
    /// the same datagram again.
    Introduced {
        /// The certificate. Its signature and validity period have not been checked.
        certificate: Box<Certificate>,
    },
    /// This node is under load, so it requests proof that the sender can receive at its address.
    ///
    /// The caller must send the first `len` bytes of `out` to the source of the datagram.
    Cookie {
        /// Length of the cookie reply in `out`, in bytes.
        len: usize,
    },
    /// A peer under load sent a cookie. The next [`Sessions::initiate`] with this peer uses it.
    ///
    /// The caller must initiate at once, and send the initiation on the path on which the cookie arrived. A cookie is
    /// valid for one source address only.
    CookieReceived {
        /// The peer that sent the cookie.
        peer: PeerId,
    },
    /// A peer's response arrived, and the new session key is in use.
    ///
    /// The caller must send this peer a packet at once, for example an empty control datagram. The peer seals with the
    /// new key only after it has received a packet under it.
    Established {
        /// The peer that sent the response.
        peer: PeerId,
        /// True if the peer's process is new: it restarted, or this is its first session with this node.
        ///
        /// Packet numbers and replay windows then start again.
        fresh: bool,
    },
    /// The peer refused the stamp of this node's initiation.
    ///
    /// The next initiation uses the stamp after the one that the peer accepted last.
    Refused {
        /// The peer that refused the initiation.
        peer: PeerId,
        /// The stamp that the peer refused, and the reason.
        refused: RefusedStamp,
        /// True if the caller should initiate again at once. If false, the caller waits for the next due attempt.
        call_again: bool,
    },
}

impl Sessions {
    /// Writes an initiation to `out` and returns its length. The caller may send it over several paths at once.
    ///
    /// The length is at most [`MAX_INITIATION_LEN`](weft_wire::handshake::MAX_INITIATION_LEN) bytes. `stamp` must rise
    /// with every call and across restarts of the program. A call within 5 s of the first one for an initiation writes
    /// the same initiation again, so that a response to any copy completes the handshake.
    ///
    /// # Errors
    /// [`InitiateError`].
    pub fn initiate(&mut self, now: Instant, peer: PeerId, stamp: u64, out: &mut [u8]) -> Result<usize, InitiateError> {
        self.now = now;
        if out.len() < self.initiation_len() {
            return Err(InitiateError::NoRoom);
        }
        let known = self.peer(peer).filter(|peer| !peer.is_barred).ok_or(InitiateError::UnknownPeer)?;
        if known.repeatable(now).is_none() {
            let started = self.start_handshake(now, peer, stamp);
            self.wants_entropy = true;
            stack::wipe::<{ stack::OF_A_HANDSHAKE }>();
            started?;
        }
        let (rng, id) = (&mut self.rng, peer);
        let peer =
            self.peers.get_mut(usize::from(peer.0)).and_then(Option::as_mut).ok_or(InitiateError::UnknownPeer)?;
        peer.attempt.get_or_insert(Attempt::start(now)).schedule_next(now, rng);
        let pending = peer.pending.as_ref().ok_or(InitiateError::UnknownPeer)?;
        let out = out.get_mut(..pending.datagram.len()).ok_or(InitiateError::NoRoom)?;
        out.copy_from_slice(&pending.datagram);
        let len = out.len();
        if let Some(cookie) = peer.cookie(now) {
            let (covered, field) = out.split_last_chunk_mut::<MAC_LEN>().ok_or(InitiateError::NoRoom)?;
            *field = mac2(&cookie, covered);
        }
        self.refresh_timeout(id);
        Ok(len)
    }

    /// Returns the length of an initiation, in bytes.
    ///
    /// With a certificate it is always the maximum, because a response must not be longer than its initiation and the
    /// responder's certificate may be longer.
    fn initiation_len(&self) -> usize {
        if self.certificate.is_empty() { INITIATION_LEN } else { MAX_INITIATION_LEN }
    }

    // Must not be inlined: the caller wipes the stack below its own frame, which must contain the secrets of this
    // function.
    #[inline(never)]
    fn start_handshake(&mut self, now: Instant, id: PeerId, stamp: u64) -> Result<(), InitiateError> {
        let len = self.initiation_len();
        let Sessions { identity, cipher, certificate, rng, peers, indices, .. } = self;
        let peer = peers.get_mut(usize::from(id.0)).and_then(Option::as_mut).ok_or(InitiateError::UnknownPeer)?;
        let stamp = peer.sent_stamps.next(stamp)?;
        let index = indices.allocate(rng, IndexTarget::Handshake(id));
        let offer = InitiationFields::new(stamp, peer.association, *cipher, peer.send.base(), certificate.len() as u16)
            .encode();
        let mut payload = [&offer, certificate.as_slice()].concat();
        payload.resize(offer.len() + len - INITIATION_LEN, 0);
        let mut datagram = vec![0; len];
        let started = MessageWriter::initiation(&mut datagram, index).ok().and_then(|mut writer| {
            let to = (&peer.public, &peer.psk);
            let initiator = Initiator::start(identity, to, index, &payload, rng, writer.noise_mut()).ok()?;
            writer.finish(|covered| peer.mac_keys.mac1(covered), None::<fn(&[u8]) -> [u8; MAC_LEN]>).ok()?;
            Some(initiator)
        });
        let Some(initiator) = started else {
            indices.free(index);
            return Err(InitiateError::BadPeerKey);
        };
        if let Some(old) = peer.pending.replace(PendingInitiation { index, created: now, initiator, datagram }) {
            indices.free(old.index);
        }
        Ok(())
    }

    /// Processes a handshake datagram from `source`, the bytes of its address and port.
    ///
    /// It writes an answer to `out`, which must have [`MAX_RESPONSE_LEN`](weft_wire::handshake::MAX_RESPONSE_LEN)
    /// bytes, or [`RESPONSE_LEN`] without a certificate. An answer is never longer than the datagram.
    ///
    /// With `under_load` set, initiators must prove their address before this node does any costly operation for them.
    ///
    /// # Errors
    /// [`HandshakeError`]: the caller must drop the datagram and send nothing, except the answer in
    /// [`Sessions::take_refusal`].
    pub fn handle(
        &mut self,
        now: Instant,
        datagram: &[u8],
        source: &[u8],
        under_load: bool,
        out: &mut [u8],
    ) -> Result<Outcome, HandshakeError> {
        self.handle_counted(now, datagram, source, || under_load, out)
    }

    /// Processes a handshake datagram as [`Sessions::handle`] does, and asks for the load only if necessary.
    ///
    /// It calls `is_under_load` only after a valid MAC1. If the caller counts handshakes in `is_under_load`, a sender
    /// without this node's public key is not counted. [`route_source`](crate::route_source) encodes a source behind
    /// relays.
    ///
    /// # Errors
    /// As [`Sessions::handle`].
    pub fn handle_counted(
        &mut self,
        now: Instant,
        datagram: &[u8],
        source: &[u8],
        is_under_load: impl FnOnce() -> bool,
        out: &mut [u8],
    ) -> Result<Outcome, HandshakeError> {
        self.now = now;
        (self.refusal, self.stranger) = (None, None);
        let outcome = match PacketType::of(datagram) {
            Ok(PacketType::HandshakeInitiation) => {
                let initiation = Initiation::parse(datagram).map_err(|_| HandshakeError::Malformed)?;
                self.take_initiation(now, &initiation, (source, is_under_load), out)
            }
            Ok(PacketType::HandshakeResponse) => {
                let response = HandshakeResponse::parse(datagram).map_err(|_| HandshakeError::Malformed)?;
                let taken = self.take_response(now, &response);
                if !matches!(taken, Err(HandshakeError::BadMac | HandshakeError::Unexpected)) {
                    stack::wipe::<{ stack::OF_A_HANDSHAKE }>();
                }
                taken
            }
            Ok(PacketType::CookieReply) => {
                let reply = CookieReply::parse(datagram).map_err(|_| HandshakeError::Malformed)?;
                self.take_cookie(now, &reply)
            }
            _ => Err(HandshakeError::Malformed),
        };
        if let Ok(Outcome::Reply { peer, .. } | Outcome::CookieReceived { peer } | Outcome::Established { peer, .. }) =
            outcome
        {
            self.refresh_timeout(peer);
        }
        outcome
    }

    /// Processes an initiation. Under load, its sender must first prove that it can receive at its source address.
    fn take_initiation(
        &mut self,
        now: Instant,
        initiation: &Initiation<'_>,
        (source, is_under_load): (&[u8], impl FnOnce() -> bool),
        out: &mut [u8],
    ) -> Result<Outcome, HandshakeError> {
        if !self.mac_keys.mac1_is_right(&initiation.macs) {
            return Err(HandshakeError::BadMac);
        }
        if is_under_load() {
            let cookie = self.cookies.cookie(now, source, &mut self.rng);
            if !CookieMaker::mac2_is_right(&cookie, &initiation.macs) {
                return self.ask_for_proof(initiation, cookie, out);
            }
            // The bucket is used only after the check of the cookie. A sender with a forged address can thus not empty
            // the bucket of the true owner of this address.
            let is_admitted = match admission::via(source) {
                Some(via) => self.admission.admits_via(now, via),
                None => {
                    let place = self.cookies.cookie(now, admission::prefix(source), &mut self.rng);
                    self.admission.admits(now, &place)
                }
            };
            if !is_admitted {
                return Err(HandshakeError::TooMany);
            }
        }
        let before = self.answered.get(initiation.macs.mac1).copied();
        let copy = before.and_then(|id| Some((id, self.peer(id)?.answer_to_copy(now, initiation.macs.mac1)?)));
        if let Some((peer, response)) = copy {
            out.get_mut(..response.len()).ok_or(HandshakeError::NoRoom)?.copy_from_slice(response);
            return Ok(Outcome::Reply { len: response.len(), peer, repeated: true });
        }
        let accepted = self.accept(now, initiation, out);
        self.wants_entropy = true;
        stack::wipe::<{ stack::OF_A_HANDSHAKE }>();
        accepted
    }

    fn ask_for_proof(
        &mut self,
        initiation: &Initiation<'_>,
        cookie: [u8; MAC_LEN],
        out: &mut [u8],
    ) -> Result<Outcome, HandshakeError> {
        let out: &mut [u8; COOKIE_REPLY_LEN] = out.first_chunk_mut().ok_or(HandshakeError::NoRoom)?;
        let nonce = self.rng.array();
        let sealed_cookie =
            self.mac_keys.seal_cookie(cookie, &nonce, initiation.macs.mac1).map_err(|_| HandshakeError::BadCrypto)?;
        CookieReply { receiver: initiation.sender, nonce: &nonce, sealed_cookie: &sealed_cookie }
            .emit(out)
            .map_err(|_| HandshakeError::NoRoom)?;
        Ok(Outcome::Cookie { len: COOKIE_REPLY_LEN })
    }

    /// Decrypts an initiation, checks its sender and stamp, and writes the response.
    ///
    /// Must not be inlined: the caller wipes the stack below its own frame, where this function leaves secrets.
    #[inline(never)]
    fn accept(&mut self, now: Instant, initiation: &Initiation<'_>, out: &mut [u8]) -> Result<Outcome, HandshakeError> {
        let Sessions { identity, cipher, certificate, rng, peers, indices, by_key, answered, stamp_clock, .. } = self;
        let (refusal, stranger) = (&mut self.refusal, &mut self.stranger);
        let mut responder = Responder::read(identity, initiation.sender, initiation.noise, rng)
            .map_err(|_| HandshakeError::BadCrypto)?;
        let offer = InitiationFields::decode(&responder.payload).map_err(|_| HandshakeError::BadCrypto)?;
        let room = responder.certificate.len();
        responder.certificate.truncate(offer.certificate_len.into());
        let Some(&id) = by_key.get(&responder.peer) else {
            return introduction(&responder).inspect_err(|_| *stranger = Some(responder.peer));
        };
        let peer = peers.get_mut(usize::from(id.0)).and_then(Option::as_mut).ok_or(HandshakeError::Stranger)?;
        if peer.is_barred {
            *stranger = Some(responder.peer);
            return Err(HandshakeError::Stranger);
        }
        if let Err(refused) = stamp_clock.judge(now, offer.wire.stamp, peer.accepted_stamps.highest) {
            *refusal = Some(refuse(peer, (now, id), responder, (initiation.sender, offer.wire.association), refused));
            return Err(match refused.fault {
                StampFault::NotRising => HandshakeError::Replayed,
                StampFault::TooFarAhead => HandshakeError::TooFarAhead,
            });
        }
        let version = offer.common_version().ok_or(HandshakeError::NoCommonVersion)?;
        let shows = offer.certificate_len > 0 && certificate.len() <= room;
        let certificate = if shows { certificate.as_slice() } else { &[] };
        let out = out.get_mut(..RESPONSE_LEN + certificate.len()).ok_or(HandshakeError::NoRoom)?;
        let local_index = indices.allocate(rng, IndexTarget::Handshake(id));
        // This node drops the keys that it shares with a peer when another run with the same key appears. If the
        // association of this initiation has been met before another one, the initiating run must learn of this now, so
        // that it no longer seals under these keys. The peer's state records it only when the first packet under the
        // new key arrives.
        let returns = peer.shared.returns(peer.peer_association, offer.wire.association);
        let answer = ResponseFields {
            wire: ResponsePayload { association: peer.association, version },
            cipher: offer.common_cipher(*cipher),
            base: peer.send.base(),
            index: local_index,
            is_shared: returns || peer.shared.is_peers(now),
        };
        let shown = core::mem::take(&mut responder.certificate);
        let payload = [&answer.encode(), certificate].concat();
        let made = respond(peer, responder, (local_index, initiation.sender), &payload, out).and_then(|secret| {
            SessionKey::new(
                now,
                Agreement {
                    secret,
                    cipher: answer.cipher,
                    initiator: false,
                    local_index,
                    remote_index: initiation.sender,
                    association: offer.wire.association,
                    peer_base: offer.base,
                    version,
                },
            )
            .map_err(|_| HandshakeError::BadCrypto)
        });
        let key = made.inspect_err(|_| indices.free(local_index))?;
        peer.accepted_stamps.highest = Some(offer.wire.stamp);
        peer.certificate = shown;
        let mac1 = *initiation.macs.mac1;
        if let Some(before) =
            peer.answered.replace(Answered { at: now, index: local_index, mac1, response: out.to_vec() })
        {
            answered.remove(&before.mac1);
        }
        answered.insert(mac1, id);
        let (slot, gone) = peer.keys.insert(key);
        indices.point(local_index, IndexTarget::Key(id, slot as u8));
        if let Some(gone) = gone {
            indices.free_key(&gone);
        }
        self.yield_if_lower(now, id);
        Ok(Outcome::Reply { len: out.len(), peer: id, repeated: false })
    }

    /// Decides between two simultaneous initiations: this node yields if its public key is lower than the peer's.
    ///
    /// Only one session key results. A node that yields delays its own attempt, and continues it if the peer's
    /// handshake fails.
    fn yield_if_lower(&mut self, now: Instant, id: PeerId) {
        let own = self.identity.public_key();
        let Some(peer) = self.peers.get_mut(usize::from(id.0)).and_then(Option::as_mut) else { return };
        if own > peer.public {
            return;
        }
        if let Some(pending) = peer.pending.take() {
            self.indices.free(pending.index);
        }
        if let Some(attempt) = &mut peer.attempt {
            attempt.yield_to_peer(now);
        }
    }

    /// Processes the response to an initiation of this node.
    ///
    /// Must not be inlined: the caller wipes the stack below its own frame, where this function leaves secrets.
    #[inline(never)]
    fn take_response(&mut self, now: Instant, response: &HandshakeResponse<'_>) -> Result<Outcome, HandshakeError> {
        if !self.mac_keys.mac1_is_right(&response.macs) {
            return Err(HandshakeError::BadMac);
        }
        let Some(IndexTarget::Handshake(id)) = self.indices.get(response.receiver) else {
            return Err(HandshakeError::Unexpected);
        };
        let Sessions { cipher, peers, indices, .. } = self;
        let peer = peers.get_mut(usize::from(id.0)).and_then(Option::as_mut).ok_or(HandshakeError::Unexpected)?;
        let pending = peer.pending.as_mut().ok_or(HandshakeError::Unexpected)?;
        let (payload, certificate, secret) =
            pending.initiator.finish(response.noise).map_err(|_| HandshakeError::BadCrypto)?;
        if let Some((accepted, fault)) = payload::parse_refusal(&payload) {
            peer.pending = None;
            indices.free(response.receiver);
            let refused = RefusedStamp { stamp: peer.sent_stamps.last(), accepted, fault };
            if accepted > refused.stamp {
                peer.keys.doubt_all();
            }
            let is_first = peer.sent_stamps.count_from(now, accepted);
            return Ok(Outcome::Refused { peer: id, refused, call_again: is_first });
        }
        let answer = ResponseFields::decode(&payload, *cipher).ok_or(HandshakeError::NoCommonVersion);
        let is_shared = answer.is_ok_and(|answer| answer.is_shared);
        let key = answer.and_then(|answer| {
            if answer.index != response.sender {
                return Err(HandshakeError::BadCrypto);
            }
            SessionKey::new(
                now,
                Agreement {
                    secret,
                    cipher: answer.cipher,
                    initiator: true,
                    local_index: response.receiver,
                    remote_index: response.sender,
                    association: answer.wire.association,
                    peer_base: answer.base,
                    version: answer.wire.version,
                },
            )
            .map_err(|_| HandshakeError::BadCrypto)
        });
        peer.pending = None;
        let key = key.inspect_err(|_| indices.free(response.receiver))?;
        peer.certificate = certificate;
        peer.shared.on_shared_report(now, is_shared);
        if is_shared {
            peer.keys.doubt_all();
        }
        let (association, base) = (key.association, key.peer_base);
        let (slot, gone) = peer.keys.insert(key);
        indices.point(response.receiver, IndexTarget::Key(id, slot as u8));
        if let Some(gone) = gone {
            indices.free_key(&gone);
        }
        peer.attempt = None;
        let fresh = peer.meet(now, (association, base), |key| indices.free_key(key));
        if fresh || peer.established.is_none() {
            peer.established = Some(now);
        }
        Ok(Outcome::Established { peer: id, fresh })
    }

    fn take_cookie(&mut self, now: Instant, reply: &CookieReply<'_>) -> Result<Outcome, HandshakeError> {
        let Some(IndexTarget::Handshake(id)) = self.indices.get(reply.receiver) else {
            return Err(HandshakeError::Unexpected);
        };
        let peer = self.peer_mut(id).ok_or(HandshakeError::Unexpected)?;
        let pending = peer.pending.as_ref().ok_or(HandshakeError::Unexpected)?;
        let initiation = Initiation::parse(&pending.datagram).map_err(|_| HandshakeError::Unexpected)?;
        let cookie = peer.mac_keys.open_cookie(reply, initiation.macs.mac1).map_err(|_| HandshakeError::BadCrypto)?;
        if peer.take_cookie(now, cookie) {
            Ok(Outcome::CookieReceived { peer: id })
        } else {
            Err(HandshakeError::Unexpected)
        }
    }
}

/// Returns the certificate of an initiator that is not a peer, if it is for the initiator's own key.
///
/// Otherwise an error.
fn introduction(stranger: &Responder) -> Result<Outcome, HandshakeError> {
    let certificate = Certificate::decode(&stranger.certificate).map_err(|_| HandshakeError::Stranger)?;
    if certificate.claims().public_key == stranger.peer || planted::is(Fault::CertificateOfAnother) {
        Ok(Outcome::Introduced { certificate: Box::new(certificate) })
    } else {
        Err(HandshakeError::Stranger)
    }
}

/// Refuses a peer's initiation because of its stamp. Returns the refusal and the answer to it.
///
/// The answer is empty if the peer got such an answer recently. `sender` and `association` are the receiver index and
/// the association that the initiation states.
fn refuse(
    peer: &mut PeerSession,
    (now, id): (Instant, PeerId),
    responder: Responder,
    (sender, association): (u32, u64),
    refused: RefusedStamp,
) -> StampRefusal {
    let mut answer = Vec::new();
    let is_of_known_run = peer.peer_association == Some(association) || peer.shared.has_ended(now, association);
    if peer.accepted_stamps.may_answer(now) {
        answer = vec![0; RESPONSE_LEN];
        // The answer states index 0 as this node's receiver index, because a refused handshake has no state here.
        if respond(peer, responder, (0, sender), &payload::refusal(&refused), &mut answer).is_err() {
            answer.clear();
        }
    }
    StampRefusal { peer: id, refused, is_of_known_run, answer }
}

/// Writes a response with this payload into `out`, which must have exactly its length. Returns the session secret.
///
/// The two indices are this node's receiver index and that of the initiator.
fn respond(
    peer: &PeerSession,
    responder: Responder,
    (sender, receiver): (u32, u32),
    payload: &[u8],
    out: &mut [u8],
) -> Result<SessionSecret, HandshakeError> {
    let mut writer = MessageWriter::response(out, sender, receiver).map_err(|_| HandshakeError::NoRoom)?;
    let secret = responder.answer(&peer.psk, payload, writer.noise_mut()).map_err(|_| HandshakeError::BadCrypto)?;
    writer
        .finish(|covered| peer.mac_keys.mac1(covered), None::<fn(&[u8]) -> [u8; MAC_LEN]>)
        .map_err(|_| HandshakeError::NoRoom)?;
    Ok(secret)
}
