//! State of the sessions with one peer: keys, packet numbers, replay windows, and the handshake in progress.

use crate::cookie::{COOKIE_LIFETIME, Cookie, MacKeys};
use crate::handshake::Initiator;
use crate::identity::{PresharedKey, PublicKey};
use crate::keys::{KeyRing, SessionKey};
use crate::numbers::{ReceiveWindows, SendNumbers};
use crate::shared::SharedKeys;
use crate::stamps::{AcceptedStamps, SentStamps};
use crate::timers::{Attempt, KEY_LIFETIME, REKEY_AFTER, REPEAT_FOR, RETRY_INTERVAL};
use weft_units::Instant;
use weft_units::planted::{self, Fault};
use weft_wire::handshake::MAC_LEN;

/// An initiation that this node sent to the peer, and that the peer has not answered yet.
pub(crate) struct PendingInitiation {
    pub(crate) index: u32,
    /// Time at which the initiation was created.
    pub(crate) created: Instant,
    /// State of the Noise handshake, which reads the response.
    pub(crate) initiator: Initiator,
    /// The initiation as a datagram. Its MAC2 field is zero and is filled when it is sent.
    pub(crate) datagram: Vec<u8>,
}

/// The peer's initiation that this node answered last, stored to recognise copies of it.
pub(crate) struct Answered {
    /// Time at which this node answered the initiation.
    pub(crate) at: Instant,
    /// This node's receiver index of the session key that the handshake made.
    pub(crate) index: u32,
    /// MAC1 of the initiation. It identifies copies of the initiation, because it covers nearly all of its bytes.
    pub(crate) mac1: [u8; MAC_LEN],
    /// The response, which this node sends again when a copy of the initiation arrives.
    pub(crate) response: Vec<u8>,
}

/// State of the sessions with one peer.
pub(crate) struct PeerSession {
    pub(crate) public: PublicKey,
    pub(crate) psk: PresharedKey,
    /// Keys of MAC1 and of cookies for messages to the peer.
    pub(crate) mac_keys: MacKeys,
    /// Detects whether two nodes use the peer's key, and stores whether two nodes use this node's key.
    pub(crate) shared: SharedKeys,
    /// Number by which this node identifies its present state for the peer (its association).
    ///
    /// A new number informs the peer that this node has lost all earlier state.
    pub(crate) association: u64,
    /// Association of the peer's present run: that of the latest session key under which a packet arrived.
    pub(crate) peer_association: Option<u64>,
    pub(crate) keys: KeyRing,
    /// Packet numbers of the datagrams that this node sends to the peer.
    pub(crate) send: SendNumbers,
    /// Replay windows for the datagrams that this node receives from the peer.
    pub(crate) receive: ReceiveWindows,
    /// This node's initiation to the peer that waits for a response.
    pub(crate) pending: Option<PendingInitiation>,
    /// The attempt to get a new session key; `None`: no attempt is in progress.
    pub(crate) attempt: Option<Attempt>,
    /// The initiation of the peer that this node answered last.
    pub(crate) answered: Option<Answered>,
    /// Stamps of the initiations that this node accepted from the peer.
    pub(crate) accepted_stamps: AcceptedStamps,
    /// Stamps of the initiations that this node sent to the peer.
    pub(crate) sent_stamps: SentStamps,
    /// True if this node neither answers the peer's handshakes nor initiates any with it.
    pub(crate) is_barred: bool,
    /// The certificate that the peer presented in its last handshake, as bytes that were not checked.
    pub(crate) certificate: Vec<u8>,
    /// The last cookie from the peer, and the time of its arrival.
    cookie: Option<(Instant, Cookie)>,
    /// Time since which this node can seal packets for the peer without interruption.
    pub(crate) established: Option<Instant>,
}

impl PeerSession {
    pub(crate) fn new(public: PublicKey, psk: PresharedKey, association: u64) -> PeerSession {
        PeerSession {
            public,
            psk,
            mac_keys: MacKeys::of(&public),
            shared: SharedKeys::default(),
            association,
            peer_association: None,
            keys: KeyRing::default(),
            send: SendNumbers::new(),
            receive: ReceiveWindows::new(0),
            pending: None,
            attempt: None,
            answered: None,
            accepted_stamps: AcceptedStamps::default(),
            sent_stamps: SentStamps::default(),
            is_barred: false,
            certificate: Vec::new(),
            cookie: None,
            established: None,
        }
    }

    /// Returns the initiation that waits for a response, if it is young enough to be sent again unchanged.
    pub(crate) fn repeatable(&self, now: Instant) -> Option<&PendingInitiation> {
        self.pending.as_ref().filter(|pending| now.since(pending.created) < REPEAT_FOR)
    }

    /// Returns the stored response to a copy of the initiation with this MAC1.
    ///
    /// Returns `None` if the initiation is older than [`REPEAT_FOR`], or if the session key that it made has ended.
    pub(crate) fn answer_to_copy(&self, now: Instant, mac1: &[u8; MAC_LEN]) -> Option<&[u8]> {
        let answered = self.answered.as_ref()?;
        let is_young = now.since(answered.at) < REPEAT_FOR || planted::is(Fault::CopyAnsweredLate);
        let is_copy = answered.mac1 == *mac1 && is_young;
        let is_alive = || self.keys.iter().any(|key| key.local_index == answered.index);
        (is_copy && is_alive()).then_some(&answered.response)
    }

    /// Returns the cookie with which this node computes MAC2 for the peer.
    ///
    /// Returns `None` if it has none or it has expired.
    pub(crate) fn cookie(&self, now: Instant) -> Option<Cookie> {
        self.cookie.filter(|(since, _)| now.since(*since) < COOKIE_LIFETIME).map(|(_, cookie)| cookie)
    }

    /// Stores a cookie of the peer for later initiations. Returns true if the caller should initiate again at once.
    ///
    /// It returns false if a cookie arrived within [`RETRY_INTERVAL`]. Without this limit, a responder that never
    /// accepts its own cookie would cause endless initiations.
    pub(crate) fn take_cookie(&mut self, now: Instant, cookie: Cookie) -> bool {
        let before = self.cookie.replace((now, cookie));
        before.is_none_or(|(since, _)| now.since(since) >= RETRY_INTERVAL)
    }

    /// Records that a session key with this association and base of the peer is in use.
    ///
    /// Returns true if the peer's process is new, because its association has changed.
    pub(crate) fn meet(
        &mut self,
        now: Instant,
        (association, base): (u64, u16),
        dropped: impl FnMut(&SessionKey),
    ) -> bool {
        let before = self.peer_association.replace(association);
        if before == Some(association) {
            return false;
        }
        self.shared.on_change(now, before, association);
        let all = planted::is(Fault::OldKeysAfterRestart);
        self.keys.retain(|key| all || key.association == association, dropped);
        self.receive = ReceiveWindows::new(base);
        self.send.raise_to_base();
        true
    }

    /// Returns the time at which this node should start the next handshake.
    ///
    /// Returns `None` unless this node initiated the handshake of the sealing key.
    pub(crate) fn rekey_due(&self) -> Option<Instant> {
        let key = self.keys.sending().filter(|key| key.initiator && self.attempt.is_none())?;
        if planted::is(Fault::RekeyNotDue) {
            return None;
        }
        let due = if key.rekey_for_packets() { Instant::ZERO } else { key.created + REKEY_AFTER };
        let peer_goes_first = self.keys.iter().filter(|key| !key.confirmed).map(|key| key.created + REPEAT_FOR).max();
        Some(peer_goes_first.map_or(due, |wait| due.max(wait)))
    }

    /// Returns the time at which this node must act next for the peer: retry or start a handshake, or end a key.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let retry = self.attempt.map(|attempt| attempt.due);
        [retry, self.rekey_due(), self.keys.next_expiry()].into_iter().flatten().min()
    }

    /// Removes the session keys that have reached their lifetime, and passes each to `dropped`.
    pub(crate) fn expire_keys(&mut self, now: Instant, dropped: impl FnMut(&SessionKey)) {
        let all = planted::is(Fault::KeyOutlivesItsTime);
        self.keys.retain(|key| all || now.since(key.created) < KEY_LIFETIME, dropped);
    }
}
