//! Reports of the load of a node's port, for the nodes that send to it.
//!
//! A [`LoadReport`] states the load of one port. A [`TransitLoad`] adds the prefix toward which the port forwards. It
//! is the content of a [`Frame::Load`](crate::frame::Frame::Load).

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use crate::er_sig::Rate16;
use crate::prefix::{is_canonical, network_of, parse_prefix, write_prefix};
use core::net::IpAddr;
use weft_units::Duration;

/// Maximum number of classes for which a report states the rate that could still be granted (headroom).
pub const LOAD_CLASSES: usize = 8;
/// Length of the longest report in bytes.
pub const LOAD_REPORT_MAX: usize = HEADER + 2 * LOAD_CLASSES;
/// Length of the longest [`Frame::Load`](crate::frame::Frame::Load) in bytes: its type, an IPv6 prefix and a report.
pub const LOAD_FRAME_MAX: usize = 1 + 2 + 16 + LOAD_REPORT_MAX;

/// Bytes of a report before the headrooms.
const HEADER: usize = 11;
/// Version of the format, in the upper four bits of the first byte.
const VERSION: u8 = 1;
/// Largest number of flows that a report can state. Derived: the field has 24 bits.
const FLOWS_MAX: u32 = (1 << 24) - 1;
/// Unit of the queue delay in a report.
const DELAY_UNIT: Duration = Duration::from_micros(10);

/// Load of a port. Rates count IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadReport {
    /// Number that rises with each report to one receiver toward one prefix, modulo 256.
    pub sequence: u8,
    /// Number of the port within its node.
    pub port: u16,
    /// Moving average of the rate at which packets arrive at the port.
    pub rate: Rate16,
    /// Number of flows with packets in the last interval, up to 2^24 − 1.
    pub flows: u32,
    /// Delay in the port's queue, up to 655 ms.
    pub queue_delay: Duration,
    /// Number of classes that the report has a headroom for, up to [`LOAD_CLASSES`].
    pub classes: u8,
    /// Rate that each class could still be granted. Entries beyond the classes are zero.
    pub headroom: [Rate16; LOAD_CLASSES],
}

impl LoadReport {
    /// Writes the report to the front of `out` and returns its length.
    ///
    /// The delay is rounded up to 10 us. A value beyond the range of its field becomes the largest value of the field.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if `out` is shorter than the report.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut writer = Writer::new(out);
        self.emit(&mut writer)?;
        Ok(writer.len())
    }

    /// Reads a report that fills `bytes`.
    ///
    /// # Errors
    /// Fails if the bytes end early, bytes follow the last field, the version is unknown, there are more than eight
    /// classes, or a rate is "unlimited".
    pub fn parse(bytes: &[u8]) -> Result<LoadReport, WireError> {
        let mut reader = ByteReader::new(bytes);
        let report = LoadReport::read(&mut reader)?;
        reader.end()?;
        Ok(report)
    }

    fn emit(&self, w: &mut Writer<'_>) -> Result<(), WireError> {
        let classes = usize::from(self.classes).min(LOAD_CLASSES);
        let delay = self.queue_delay.as_nanos().div_ceil(DELAY_UNIT.as_nanos()).min(u16::MAX.into()) as u16;
        w.put(&[VERSION << 4 | classes as u8, self.sequence])?;
        w.u16(self.port)?;
        w.u16(self.rate.0)?;
        w.u24(self.flows.min(FLOWS_MAX))?;
        w.u16(delay)?;
        self.headroom.iter().take(classes).try_for_each(|headroom| w.u16(headroom.0))
    }

    fn read(r: &mut ByteReader<'_>) -> Result<LoadReport, WireError> {
        let [kind, sequence] = *r.array()?;
        if kind >> 4 != VERSION {
            return Err(WireError::Version);
        }
        let classes = kind & 0xf;
        if usize::from(classes) > LOAD_CLASSES {
            return Err(WireError::Malformed);
        }
        let (port, rate, flows) = (r.u16()?, finite(r.u16()?)?, r.u24()?);
        let queue_delay = DELAY_UNIT * u32::from(r.u16()?);
        let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
        for rate in headroom.iter_mut().take(classes.into()) {
            *rate = finite(r.u16()?)?;
        }
        Ok(LoadReport { sequence, port, rate, flows, queue_delay, classes, headroom })
    }
}

fn finite(field: u16) -> Result<Rate16, WireError> {
    match Rate16(field) {
        Rate16::UNLIMITED => Err(WireError::Malformed),
        rate => Ok(rate),
    }
}

/// The load of the port by which the sender of this frame forwards the receiver's packets toward a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransitLoad {
    /// Network address of the prefix. All bits behind the length are zero.
    pub network: IpAddr,
    /// Length of the prefix in bits.
    pub length: u8,
    /// Load of the port.
    pub report: LoadReport,
}

impl TransitLoad {
    /// True if `address` lies in the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        network_of(address, self.length) == Some(self.network)
    }

    pub(crate) fn emit(&self, w: &mut Writer<'_>) -> Result<(), WireError> {
        let prefix = (self.network, self.length);
        if !is_canonical(&prefix) {
            return Err(WireError::Malformed);
        }
        write_prefix(w, prefix)?;
        self.report.emit(w)
    }

    pub(crate) fn read(r: &mut ByteReader<'_>) -> Result<TransitLoad, WireError> {
        let (network, length) = parse_prefix(r)?;
        Ok(TransitLoad { network, length, report: LoadReport::read(r)? })
    }
}
