//! Faults planted on purpose, to measure whether the swarm test finds them.
//!
//! Without the feature `planted` there are none: [`is`] is a constant, and the compiler drops what hangs on it.

macro_rules! faults {
    ($($name:ident: $what:literal,)*) => {
        /// A fault that can be planted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Fault { $(#[doc = $what] $name,)* }

        #[cfg(feature = "planted")]
        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];

            /// What it does.
            pub const fn what(self) -> &'static str {
                match self { $(Fault::$name => $what,)* }
            }
        }
    };
}

faults! {
    ReplayWindowEdge: "replay window: the newest number is taken once more",
    OldKeysAfterRestart: "keys of a peer's earlier process go on opening",
    StampNotRestored: "the highest handshake stamp accepted is forgotten at a restart",
    KeyOutlivesItsTime: "keys do not end after 180 s",
    RekeyNotDue: "no handshake is started before the key ends",
    PacketNumberAgain: "one packet in 256 is sealed under the number of the one before",
    FreshPeerNotReset: "order of a peer's earlier process is kept when it starts anew",
    ReportTimerNotSet: "nobody wakes up to send a report",
    PacerTimerNotSet: "nobody wakes up when the pacer is ready",
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
    GsoAfterShort: "a GSO batch goes on after a shorter datagram",
    BufferReleasedEarly: "a tail slice's buffer is given back while it waits to be written",
    DuplicateKeepsBuffer: "a duplicate's buffer is not given back",
    SourceNotChecked: "a unit joined from parts may have any source",
    JoinedInDefaultVpn: "a unit joined from parts comes out in the default VPN",
    PartsOfAnyUnit: "a part joins whichever unit of its flow is half there",
}

/// Whether `fault` is planted.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_fault: Fault) -> bool {
    false
}

#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(u8::MAX);

/// Whether `fault` is planted.
#[cfg(feature = "planted")]
pub fn is(fault: Fault) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Plants one fault, for all threads, in place of the last.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.store(fault.map_or(u8::MAX, |fault| fault as u8), core::sync::atomic::Ordering::Relaxed);
}
