//! Messages between FRR's `bfdd` and a data plane, which detects failures for `bfdd` (distributed BFD).
//!
//! The format is that of FRR's `bfdd/bfddp_packet.h`, version 1: a header of eight bytes and a payload, in network byte
//! order and with the padding of the C structures. `bfdd` sends sessions, and requests for echoes and counters. The
//! data plane sends states and counters. The decoder accepts only messages that `bfdd` may send.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Version of the protocol.
const VERSION: u8 = 1;
/// Length of a message's header, in bytes.
pub const HEADER_LEN: usize = 8;
/// Length of a message that adds or deletes a session, in bytes.
const SESSION_LEN: usize = HEADER_LEN + 132;
/// Length of an echo's message, in bytes.
const ECHO_LEN: usize = HEADER_LEN + 16;
/// Length of a request for counters, in bytes.
const COUNTERS_REQUEST_LEN: usize = HEADER_LEN + 4;
/// Length of a message with a session's state, in bytes. The C structure ends with one byte of padding.
const STATE_LEN: usize = HEADER_LEN + 28;
/// Length of a message with counters, in bytes.
const COUNTERS_LEN: usize = HEADER_LEN + 72;
/// Longest message that either side sends, in bytes.
pub const MAX_MESSAGE: usize = SESSION_LEN;

const ECHO_REQUEST: u16 = 0;
const ECHO_REPLY: u16 = 1;
const ADD_SESSION: u16 = 2;
const DELETE_SESSION: u16 = 3;
const STATE_CHANGE: u16 = 4;
const REQUEST_COUNTERS: u16 = 5;
const COUNTERS: u16 = 6;

/// Flag of a session whose ends may be several hops apart.
const MULTIHOP: u32 = 1;
/// Flag of a session between IPv6 addresses.
const IPV6: u32 = 1 << 4;
/// Flag of a session that an administrator has shut down.
const SHUTDOWN: u32 = 1 << 6;

/// Value of the state Down: the far end is not reachable (RFC 5880 §4.1).
const STATE_DOWN: u8 = 1;
/// Value of the state Up: the far end is reachable (RFC 5880 §4.1).
const STATE_UP: u8 = 3;
/// Diagnosis of a session whose detection time expired (RFC 5880 §4.1).
const DIAGNOSIS_EXPIRED: u8 = 1;
/// Detection multiplier that the data plane reports as that of the far end.
///
/// *Standard*: the default of RFC 5880's implementations.
const MULTIPLIER: u8 = 3;

/// A BFD session for which `bfdd` requests failure detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataplaneSession {
    /// Local discriminator, by which `bfdd` and the data plane identify the session.
    pub id: u32,
    /// Address of this end.
    pub source: IpAddr,
    /// Address of the far end.
    pub destination: IpAddr,
    /// True if the far end may be several hops away.
    pub is_multihop: bool,
    /// True if an administrator has shut the session down.
    pub is_shut_down: bool,
    /// The kernel's index of the interface to which the session is bound. 0: `bfdd` names no interface.
    pub interface: u32,
}

/// A message from `bfdd`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataplaneRequest {
    /// Add or change a session.
    Add(DataplaneSession),
    /// Delete a session.
    Delete(DataplaneSession),
    /// Answer an echo request. The answer contains the times of the request.
    Echo {
        /// Number of the request, which the answer repeats.
        request: u16,
        /// The times of the request, which the answer repeats.
        times: [u64; 2],
    },
    /// Answer with a session's counters.
    Counters {
        /// Number of the request, which the answer repeats.
        request: u16,
        /// Id of the session.
        id: u32,
    },
    /// The answer to an echo request. The data plane ignores it.
    EchoReply,
}

/// State of a session (RFC 5880 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataplaneState {
    /// The far end is not reachable.
    Down,
    /// The far end is reachable.
    Up,
}

/// Returns the length of the message that `bytes` begins with, or `None` if the header is incomplete.
///
/// # Errors
/// Fails if `bfdd` sends no message that begins with `bytes`. The caller then cannot find the next message either.
pub fn message_len(bytes: &[u8]) -> Result<Option<usize>, WireError> {
    let Some(header) = bytes.get(..HEADER_LEN) else { return Ok(None) };
    let mut reader = ByteReader::new(header);
    if reader.u8()? != VERSION {
        return Err(WireError::Version);
    }
    reader.u8()?;
    let expected = match reader.u16()? {
        ECHO_REQUEST | ECHO_REPLY => ECHO_LEN,
        ADD_SESSION | DELETE_SESSION => SESSION_LEN,
        REQUEST_COUNTERS => COUNTERS_REQUEST_LEN,
        _ => return Err(WireError::UnknownType),
    };
    reader.u16()?;
    if usize::from(reader.u16()?) == expected { Ok(Some(expected)) } else { Err(WireError::Malformed) }
}

impl DataplaneRequest {
    /// Decodes one whole message, whose length [`message_len`] returned.
    ///
    /// # Errors
    /// Fails if the bytes are no message that `bfdd` sends.
    pub fn decode(bytes: &[u8]) -> Result<DataplaneRequest, WireError> {
        match message_len(bytes)? {
            Some(len) if len == bytes.len() => {}
            Some(len) if len < bytes.len() => return Err(WireError::TooLong),
            _ => return Err(WireError::Truncated),
        }
        let mut reader = ByteReader::new(bytes);
        reader.u16()?;
        let (kind, request) = (reader.u16()?, reader.u16()?);
        reader.u16()?;
        Ok(match kind {
            ECHO_REQUEST => DataplaneRequest::Echo { request, times: [reader.u64()?, reader.u64()?] },
            ADD_SESSION => DataplaneRequest::Add(session(&mut reader)?),
            DELETE_SESSION => DataplaneRequest::Delete(session(&mut reader)?),
            REQUEST_COUNTERS => DataplaneRequest::Counters { request, id: reader.u32()? },
            _ => DataplaneRequest::EchoReply,
        })
    }
}

fn session(reader: &mut ByteReader<'_>) -> Result<DataplaneSession, WireError> {
    let flags = reader.u32()?;
    let mut address = || -> Result<IpAddr, WireError> {
        let bytes = reader.array::<16>()?;
        let [a, b, c, d, ..] = *bytes;
        let is_ipv6 = flags & IPV6 != 0;
        Ok(if is_ipv6 { Ipv6Addr::from(*bytes).into() } else { IpAddr::V4(Ipv4Addr::new(a, b, c, d)) })
    };
    let (source, destination) = (address()?, address()?);
    let id = reader.u32()?;
    // Skip intervals, hold time, TTL and multiplier: the data plane detects failures with its own parameters.
    reader.slice(24)?;
    let interface = reader.u32()?;
    let (is_multihop, is_shut_down) = (flags & MULTIHOP != 0, flags & SHUTDOWN != 0);
    Ok(DataplaneSession { id, source, destination, is_multihop, is_shut_down, interface })
}

/// A message from the data plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataplaneReply {
    /// A session's new state.
    State {
        /// Id of the session.
        id: u32,
        /// State of the session.
        state: DataplaneState,
        /// Interval of the data plane's probes, in microseconds.
        interval_us: u32,
    },
    /// The answer to an echo.
    Echo {
        /// Number of the request.
        request: u16,
        /// Times of the request.
        times: [u64; 2],
    },
    /// The answer to a request for counters.
    ///
    /// All counters are zero, because the data plane sends no BFD packets.
    Counters {
        /// Number of the request.
        request: u16,
        /// Id of the session.
        id: u32,
    },
}

impl DataplaneReply {
    /// Writes the message to `out` and returns its length.
    ///
    /// # Errors
    /// Fails if `out` is shorter than the message, at most [`MAX_MESSAGE`] bytes.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut writer = Writer::new(out);
        let (kind, request, len) = match self {
            DataplaneReply::State { .. } => (STATE_CHANGE, 0, STATE_LEN),
            DataplaneReply::Echo { request, .. } => (ECHO_REPLY, *request, ECHO_LEN),
            DataplaneReply::Counters { request, .. } => (COUNTERS, *request, COUNTERS_LEN),
        };
        writer.put(&[VERSION, 0])?;
        for field in [kind, request, len as u16] {
            writer.u16(field)?;
        }
        match self {
            DataplaneReply::State { id, state, interval_us } => {
                // The data plane negotiates no discriminators, so the local one also stands for that of the far end.
                // The last interval is that of echoes, which the data plane does not send.
                for field in [*id, *id, 0, *interval_us, *interval_us, 0] {
                    writer.u32(field)?;
                }
                let (state, diagnosis) = match state {
                    DataplaneState::Down => (STATE_DOWN, DIAGNOSIS_EXPIRED),
                    DataplaneState::Up => (STATE_UP, 0),
                };
                writer.put(&[state, diagnosis, MULTIPLIER, 0])?;
            }
            DataplaneReply::Echo { times, .. } => {
                for time in times {
                    writer.put(&time.to_be_bytes())?;
                }
            }
            DataplaneReply::Counters { id, .. } => {
                writer.u32(*id)?;
                writer.put(&[0; COUNTERS_LEN - HEADER_LEN - 4])?;
            }
        }
        Ok(writer.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the message of type `kind` about a session, as `bfdd` sends it.
    ///
    /// All bytes that the decoder ignores are `rest`.
    fn of_bfdd(kind: u16, session: &DataplaneSession, rest: u8) -> [u8; SESSION_LEN] {
        let mut bytes = [rest; SESSION_LEN];
        bytes[..HEADER_LEN].copy_from_slice(&[1, 0, 0, kind as u8, 0, 7, 0, SESSION_LEN as u8]);
        let is_ipv6 = session.source.is_ipv6();
        let flags = u32::from(session.is_multihop) | u32::from(is_ipv6) << 4 | u32::from(session.is_shut_down) << 6;
        bytes[8..12].copy_from_slice(&flags.to_be_bytes());
        for (at, address) in [(12, session.source), (28, session.destination)] {
            match address {
                IpAddr::V4(address) => bytes[at..at + 4].copy_from_slice(&address.octets()),
                IpAddr::V6(address) => bytes[at..at + 16].copy_from_slice(&address.octets()),
            }
        }
        bytes[44..48].copy_from_slice(&session.id.to_be_bytes());
        bytes[72..76].copy_from_slice(&session.interface.to_be_bytes());
        bytes
    }

    fn any_session() -> impl Strategy<Value = DataplaneSession> {
        (any::<[u32; 2]>(), any::<[u128; 2]>(), any::<[bool; 3]>()).prop_map(|([id, interface], ends, flags)| {
            let address =
                |bits: u128| if flags[2] { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) };
            let (source, destination) = (address(ends[0]), address(ends[1]));
            let [is_multihop, is_shut_down, _] = flags;
            DataplaneSession { id, source, destination, is_multihop, is_shut_down, interface }
        })
    }

    proptest! {
        #[test]
        fn every_session_is_read_as_written_and_every_cut_or_change_of_its_header_is_an_error(
            session in any_session(), rest in any::<u8>(), cut in 0..SESSION_LEN, bit in 0..64usize,
        ) {
            let bytes = of_bfdd(ADD_SESSION, &session, rest);
            prop_assert_eq!(message_len(&bytes), Ok(Some(SESSION_LEN)));
            prop_assert_eq!(DataplaneRequest::decode(&bytes), Ok(DataplaneRequest::Add(session)));
            let deleted = of_bfdd(DELETE_SESSION, &session, rest);
            prop_assert_eq!(DataplaneRequest::decode(&deleted), Ok(DataplaneRequest::Delete(session)));
            prop_assert!(DataplaneRequest::decode(&bytes[..cut]).is_err());
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            // Only these changes yield a valid message: of byte 1, which is reserved, of bytes 4 and 5, the number of
            // the request, and of the type to 3, which deletes the session.
            let is_free = [1, 4, 5].contains(&(bit / 8)) || changed[2..4] == [0, 3];
            prop_assert_eq!(DataplaneRequest::decode(&changed).is_ok(), is_free);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
            let mut bytes = bytes;
            if let Some(start) = bytes.get_mut(..3).filter(|_| head) {
                start.copy_from_slice(&[1, 0, 0]);
            }
            if let Ok(Some(len)) = message_len(&bytes) {
                prop_assert!((HEADER_LEN..=MAX_MESSAGE).contains(&len));
            }
            let _ = DataplaneRequest::decode(&bytes);
        }

        #[test]
        fn answers_have_the_layout_of_the_c_structures(id in any::<u32>(), request in any::<u16>(), times in any::<[u64; 2]>()) {
            let mut out = [0xff; MAX_MESSAGE];
            let state = DataplaneReply::State { id, state: DataplaneState::Up, interval_us: 5_000 };
            prop_assert_eq!(state.encode(&mut out), Ok(36));
            prop_assert_eq!(&out[..8], &[1, 0, 0, 4, 0, 0, 0, 36]);
            prop_assert_eq!(&out[8..12], &id.to_be_bytes());
            prop_assert_eq!(&out[32..36], &[3, 0, MULTIPLIER, 0]);
            let echo = DataplaneReply::Echo { request, times };
            prop_assert_eq!(echo.encode(&mut out), Ok(24));
            prop_assert_eq!(&out[16..24], &times[1].to_be_bytes());
            prop_assert_eq!(DataplaneRequest::decode(&out[..24]), Ok(DataplaneRequest::EchoReply));
            let counters = DataplaneReply::Counters { request, id };
            prop_assert_eq!(counters.encode(&mut out), Ok(80));
            prop_assert_eq!((&out[4..6], &out[8..12], out[79]), (&request.to_be_bytes()[..], &id.to_be_bytes()[..], 0));
            prop_assert_eq!(counters.encode(&mut out[..79]), Err(WireError::NoRoom));
        }
    }
}
