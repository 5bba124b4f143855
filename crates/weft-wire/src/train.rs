//! Codec of trains, which measure a path, and of the receiver's reports about them.
//!
//! A train is a short run of datagrams (chirps). A delay is arrival time minus sending time, in microseconds modulo
//! 2³². The nodes' clocks may differ. A report contains the least delay, and one number for each packet: 0 if the
//! packet was lost, otherwise one plus its delay above the least delay.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use weft_units::PathId;

/// Maximum number of packets in a train.
pub const MAX_TRAIN: u8 = 64;

/// The frame in one datagram of a train. Padding follows it in the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chirp {
    /// Number of the train, wrapping.
    pub train: u16,
    /// Position of the packet in the train, from 0.
    pub index: u8,
    /// Number of packets in the train, 1..=[`MAX_TRAIN`]; greater than `index`.
    pub of: u8,
    /// Time at which the datagram was sent, in microseconds of the sender's clock, which wraps.
    pub sent_us: u32,
}

impl Chirp {
    pub(crate) fn read(r: &mut ByteReader<'_>) -> Result<Chirp, WireError> {
        Chirp { train: r.u16()?, index: r.u8()?, of: r.u8()?, sent_us: r.u32()? }.checked()
    }

    pub(crate) fn write(self, w: &mut Writer<'_>) -> Result<(), WireError> {
        let Chirp { train, index, of, sent_us } = self.checked()?;
        w.u16(train)?;
        w.put(&[index, of])?;
        w.u32(sent_us)
    }

    fn checked(self) -> Result<Chirp, WireError> {
        if self.index < self.of && self.of <= MAX_TRAIN { Ok(self) } else { Err(WireError::Malformed) }
    }
}

/// The receiver's report about a train.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chirped<'a> {
    /// The path id, as the sender of the train numbers it.
    pub path: PathId,
    /// Number of the train, as in its chirps.
    pub train: u16,
    /// Least delay of a packet of the train, in microseconds modulo 2³².
    least_us: u32,
    /// Number of packets in the train.
    of: u8,
    /// For each packet, 0 if it was lost, otherwise one plus its delay above `least_us`, as a varint.
    encoded: &'a [u8],
}

impl<'a> Chirped<'a> {
    /// Returns the delay of each packet of the train in microseconds modulo 2³², or `None` for a lost packet.
    pub fn delays_us(&self) -> impl Iterator<Item = Option<u32>> + use<'a> {
        let (mut r, least) = (ByteReader::new(self.encoded), self.least_us);
        (0..self.of)
            .map_while(move |_| read_above(&mut r).ok())
            .map(move |above| above.map(|above| least.wrapping_add(above)))
    }

    pub(crate) fn read(r: &mut ByteReader<'a>) -> Result<Chirped<'a>, WireError> {
        let (path, train, least_us, of) = (PathId(r.u8()?), r.u16()?, r.u32()?, r.u8()?);
        if !(1..=MAX_TRAIN).contains(&of) {
            return Err(WireError::Malformed);
        }
        let start = r.rest();
        for _ in 0..of {
            read_above(r)?;
        }
        let encoded = start.get(..start.len() - r.rest().len()).unwrap_or_default();
        Ok(Chirped { path, train, least_us, of, encoded })
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) -> Result<(), WireError> {
        write_head(w, self.path, self.train, self.least_us, self.of)?;
        w.put(self.encoded)
    }
}

fn read_above(r: &mut ByteReader<'_>) -> Result<Option<u32>, WireError> {
    let above = r.varint()?.checked_sub(1).map(u32::try_from);
    above.transpose().map_err(|_| WireError::Malformed)
}

/// Writes the content of a report about a received train.
///
/// `delays_us` has the delay of each packet in microseconds, and `None` for a lost packet.
pub(crate) fn write_delays(
    w: &mut Writer<'_>,
    path: PathId,
    train: u16,
    delays_us: &[Option<u32>],
) -> Result<(), WireError> {
    let of = u8::try_from(delays_us.len()).ok().filter(|of| (1..=MAX_TRAIN).contains(of));
    let least = least_us(delays_us);
    write_head(w, path, train, least, of.ok_or(WireError::Malformed)?)?;
    let above = |delay: &Option<u32>| delay.map_or(0, |delay| u64::from(delay.wrapping_sub(least)) + 1);
    delays_us.iter().try_for_each(|delay| w.varint(above(delay)))
}

fn write_head(w: &mut Writer<'_>, path: PathId, train: u16, least_us: u32, of: u8) -> Result<(), WireError> {
    w.u8(path.0)?;
    w.u16(train)?;
    w.u32(least_us)?;
    w.u8(of)
}

/// Returns the least delay, or zero if no packet arrived.
///
/// Delays are compared by their signed difference from the first delay, because they are known only modulo 2³².
fn least_us(delays_us: &[Option<u32>]) -> u32 {
    let mut known = delays_us.iter().flatten();
    let Some(first) = known.next() else { return 0 };
    let below = known.map(|delay| delay.wrapping_sub(*first) as i32).min().unwrap_or(0).min(0);
    first.wrapping_add(below as u32)
}
