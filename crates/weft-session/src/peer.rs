//! All that one node remembers of one peer.

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

/// An initiation sent and not answered yet.
pub(crate) struct Pending {
    pub(crate) index: u32,
    pub(crate) created: Instant,
    pub(crate) initiator: Initiator,
    /// The datagram, with MAC2 zero.
    pub(crate) datagram: Vec<u8>,
}

/// An initiation answered, to know its copies by.
pub(crate) struct Answered {
    pub(crate) at: Instant,
    /// Our index of the key that came of it.
    pub(crate) index: u32,
    /// The initiation's MAC1: a hash over all of it.
    pub(crate) mac1: [u8; MAC_LEN],
    pub(crate) response: Vec<u8>,
}

/// A peer.
pub(crate) struct Peer {
    pub(crate) public: PublicKey,
    pub(crate) psk: PresharedKey,
    pub(crate) mac_keys: MacKeys,
    /// Whether two nodes use the peer's key, or this node's.
    pub(crate) shared: SharedKeys,
    /// Names this node's memory of the peer: a new number means that all before is forgotten.
    pub(crate) association: u64,
    /// The same of the peer, as of the last key that carried a packet.
    pub(crate) peer_association: Option<u64>,
    pub(crate) keys: KeyRing,
    pub(crate) send: SendNumbers,
    pub(crate) receive: ReceiveWindows,
    pub(crate) pending: Option<Pending>,
    pub(crate) attempt: Option<Attempt>,
    pub(crate) answered: Option<Answered>,
    /// The stamps of the peer's initiations, and those of this node's to it.
    pub(crate) accepted_stamps: AcceptedStamps,
    pub(crate) sent_stamps: SentStamps,
    /// It gets no answer and is not called.
    pub(crate) is_barred: bool,
    /// What it showed last, unread.
    pub(crate) certificate: Vec<u8>,
    cookie: Option<(Instant, Cookie)>,
    /// Since when there has been a key to seal with.
    pub(crate) established: Option<Instant>,
}

impl Peer {
    pub(crate) fn new(public: PublicKey, psk: PresharedKey, association: u64) -> Peer {
        Peer {
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

    /// The initiation under way, if it is young enough to be sent again as it is.
    pub(crate) fn repeatable(&self, now: Instant) -> Option<&Pending> {
        self.pending.as_ref().filter(|pending| now.since(pending.created) < REPEAT_FOR)
    }

    /// The response to give again to a copy of the initiation with this MAC1, while the key it led to is alive.
    pub(crate) fn answer_to_copy(&self, now: Instant, mac1: &[u8; MAC_LEN]) -> Option<&[u8]> {
        let answered = self.answered.as_ref()?;
        let is_young = now.since(answered.at) < REPEAT_FOR || planted::is(Fault::CopyAnsweredLate);
        let is_copy = answered.mac1 == *mac1 && is_young;
        let is_alive = || self.keys.iter().any(|key| key.local_index == answered.index);
        (is_copy && is_alive()).then_some(&answered.response)
    }

    /// The cookie to prove reachability with, while it is good.
    pub(crate) fn cookie(&self, now: Instant) -> Option<Cookie> {
        self.cookie.filter(|(since, _)| now.since(*since) < COOKIE_LIFETIME).map(|(_, cookie)| cookie)
    }

    /// Takes a cookie for later initiations. Whether it is worth an initiation at once: not if there was one just now, or
    /// a responder that never accepts its own cookie would be asked without end.
    pub(crate) fn take_cookie(&mut self, now: Instant, cookie: Cookie) -> bool {
        let before = self.cookie.replace((now, cookie));
        before.is_none_or(|(since, _)| now.since(since) >= RETRY_INTERVAL)
    }

    /// A key of this association and base is in use. Whether the peer is new: then what its old process left goes, and
    /// its packet numbers, as ours to it, start anew.
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

    /// When this node, as the initiator of the key it seals with, should start the next handshake.
    pub(crate) fn rekey_due(&self) -> Option<Instant> {
        let key = self.keys.sending().filter(|key| key.initiator && self.attempt.is_none())?;
        if planted::is(Fault::RekeyNotDue) {
            return None;
        }
        let due = if key.rekey_for_packets() { Instant::ZERO } else { key.created + REKEY_AFTER };
        let peer_goes_first = self.keys.iter().filter(|key| !key.confirmed).map(|key| key.created + REPEAT_FOR).max();
        Some(peer_goes_first.map_or(due, |wait| due.max(wait)))
    }

    /// When something is due.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let retry = self.attempt.map(|attempt| attempt.due);
        [retry, self.rekey_due(), self.keys.next_expiry()].into_iter().flatten().min()
    }

    /// Drops the keys that are too old.
    pub(crate) fn expire_keys(&mut self, now: Instant, dropped: impl FnMut(&SessionKey)) {
        let all = planted::is(Fault::KeyOutlivesItsTime);
        self.keys.retain(|key| all || now.since(key.created) < KEY_LIFETIME, dropped);
    }
}
