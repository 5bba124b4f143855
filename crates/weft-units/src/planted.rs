//! Deliberate faults that measure whether the swarm test finds them.
//!
//! Without the feature `planted`, [`is`] is constantly false, and the compiler removes the faulty branches.

macro_rules! faults {
    ($($name:ident: $what:literal,)*) => {
        /// A deliberate fault that a test can switch on.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Fault { $(#[doc = $what] $name,)* }

        #[cfg(feature = "planted")]
        impl Fault {
            /// All deliberate faults that a test can switch on.
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];

            /// Returns a description of the fault.
            pub const fn what(self) -> &'static str {
                match self { $(Fault::$name => $what,)* }
            }
        }
    };
}

faults! {
    ReplayWindowEdge: "replay window: the newest number is taken once more",
    OldKeysAfterRestart: "keys of a peer's earlier process still open packets",
    StampNotRestored: "the highest handshake stamp accepted is forgotten at a restart",
    KeyOutlivesItsTime: "keys do not end after 180 s",
    RekeyNotDue: "no handshake is started before the key ends",
    PacketNumberAgain: "one packet in 256 is sealed under the number of the one before",
    FreshPeerNotReset: "order of a peer's earlier process is kept when it starts anew",
    ReportTimerNotSet: "no timer is set for a report",
    PacerTimerNotSet: "no timer is set for the pacer",
    DownPathNotProbed: "the probe timer of a path that is down is not set again",
    SkipForgotten: "the resequencer ignores SKIP",
    HoldIgnored: "HOLD does not reach the resequencer",
    LateUnitTwice: "a unit that comes late is not marked as delivered",
    ReportRangeEdge: "a report's ranges begin one number early",
    OlderDatagramMovesPath: "a path follows any datagram, not its newest",
    BlackHoleIgnored: "the MTU stays after a black hole",
    LinkDownNotRescued: "what a link had queued is kept when it goes down",
    SliceOnAnyHead: "a slice joins whichever head its flow has",
    ChecksumNotFinished: "a partial checksum is delivered as if complete",
    GsoAfterShort: "a GSO batch continues after a shorter datagram",
    BufferReleasedEarly: "a tail slice's buffer is given back while it waits to be written",
    DuplicateKeepsBuffer: "a duplicate's buffer is not given back",
    SourceNotChecked: "a unit joined from parts may have any source",
    JoinedInDefaultVpn: "a unit joined from parts comes out in the default VPN",
    PartsOfAnyUnit: "a part joins whichever unit of its flow is half there",
    StampEqualTaken: "the stamp accepted last is accepted once more",
    RefusalNotHeeded: "a node whose stamp is refused does not count on from the one accepted",
    RefusalNotAnswered: "a refused stamp is not answered",
    SilentPeerIsThere: "a refused run gets no answer while the session with the next one is silent",
    PresharedKeyIgnored: "the secret shared with a peer is not used",
    CopyAnsweredLate: "the copy of an initiation is answered however old it is",
    CallNotRepeated: "an initiation without an answer is not repeated",
    YieldsForGood: "a node that yields to the peer's initiation never initiates again",
    KeysKeptAfterSleep: "keys from before a machine's suspend still seal packets",
    RelayedNotMarked: "the numbers of relayed datagrams are not remembered",
    CertificateOfAnother: "a stranger may show another's certificate",
    RootNotChecked: "a certificate may be signed by any root key",
    ExpiredMayJoin: "a certificate that has expired still admits its owner",
    EarlyMayJoin: "a certificate that is not valid yet admits its owner",
    ExpiryNotSeen: "a peer stays when its certificate expires",
    RevokedMayJoin: "a revoked key may join again",
    RevokedStays: "the session with a revoked key continues",
    RevocationNotTold: "a revocation is not forwarded",
    OwnPrefixGiven: "a certificate may claim the node's own addresses",
    ProofNotAsked: "an address that a path moved to needs no proof",
    ProofByAnyAnswer: "an answer to a datagram sent elsewhere proves an address",
    CreditNotTaken: "bytes sent to an unproven address are not taken from its credit",
    MoveNotFollowed: "a path stays where it was when the peer's address changes",
    HoldHalved: "the hold time is half of the one that the peer asks for",
    HoldUnbounded: "a peer may ask for any hold time",
    PartMissing: "a unit counts as joined when one part is missing",
    HalfNotGivenUp: "half-joined units are kept for ever",
    AbandonedKeepsBuffer: "a unit that is given up keeps its buffer",
    DroppedKeepsBuffer: "a packet that a queue drops keeps its buffer",
    LeaverKeepsQueue: "packets that wait for a peer that leaves keep their buffers",
    StrayKeepsBuffer: "a refused unit of several parts keeps its buffer",
    RejectedKeepsBuffer: "a datagram that does not open keeps its buffer",
    ClosedPathKeepsUnits: "a path that is closed keeps the units in flight",
    EndedSessionKeepsUnits: "a session that ends keeps the units in flight",
    LinkStaysDown: "a link that comes up again is not used",
    DownForGood: "a path that was down once does not come back",
    BarredLinkUsed: "data leaves by a link that must carry none",
    StaleKept: "old packets are sent after an outage",
    VpnForgotten: "a unit of any VPN counts as the default one's",
    AnySource: "a whole unit may have any source",
    VpnNotChecked: "a packet of a VPN leaves in the default one",
    VpnNotAskedAgain: "a new session does not ask for the indices of VPNs",
    PingNotReported: "a ping asks for no report",
    SliceTooFar: "a slice that comes late is put one place further on",
    LostProbeRaisesMtu: "a lost probe raises the MTU",
    LoopNotToldOfLoss: "a loop gets no report of lost units",
    ReloadEndsSessions: "a reload of the configuration ends the sessions",
    DedupForgets: "without resequencing, a unit that came late is not remembered",
    PathIdTwice: "two paths get one number",
    ReferenceSurvives: "header differences refer to headers that the peer lost in its restart",
    NobodyCallsAgain: "a peer that fell silent is not called",
}

/// True if `fault` is switched on; never without the feature `planted`.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_fault: Fault) -> bool {
    false
}

/// Number of the fault that is switched on, or `u8::MAX` for none.
#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(u8::MAX);

/// True if `fault` is switched on.
#[cfg(feature = "planted")]
pub fn is(fault: Fault) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Switches one fault on for all threads, in place of the previous one. `None` switches it off.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.store(fault.map_or(u8::MAX, |fault| fault as u8), core::sync::atomic::Ordering::Relaxed);
}
