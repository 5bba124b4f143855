//! Writes captures in the pcapng format (draft-ietf-opsawg-pcapng), which Wireshark opens.
//!
//! The format needs four kinds of blocks here, so this crate replaces `pcap-file`, which would bring three more crates
//! and a macro that runs in the compiler.
#![forbid(unsafe_code)]

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const UNKNOWN_LENGTH: u64 = u64::MAX;
/// Link type of packets that begin with their IP header.
///
/// Standard: `LINKTYPE_RAW` of pcapng.
const LINKTYPE_RAW: u16 = 101;
/// Exponent of the time stamps' resolution in a capture: 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Codes of the options that this crate writes. The same code has another meaning in another kind of block.
mod code {
    pub const END: u16 = 0;
    pub const SECTION_APPLICATION: u16 = 4;
    pub const INTERFACE_NAME: u16 = 2;
    pub const INTERFACE_DESCRIPTION: u16 = 3;
    pub const TIME_RESOLUTION: u16 = 9;
    pub const PACKET_FLAGS: u16 = 2;
    pub const RECEIVED: u16 = 4;
    pub const DROPPED: u16 = 5;
}

/// One interface of a capture, by its number in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface(u32);

/// One packet that is written into a capture.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time of the packet, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// True if this machine sends the packet, false if it receives it. `None` records no direction.
    pub is_outgoing: Option<bool>,
    /// The bytes of the packet that are stored, from its IP header on. They may be fewer than the whole packet.
    pub stored: &'a [u8],
    /// Length of the whole packet in bytes, which may exceed that of `stored`.
    pub len: usize,
}

/// Packet counts of one interface, which a capture states at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets of the interface that the capture contains.
    pub packets: u64,
    /// Packets of the interface that were dropped before they could be stored.
    pub dropped: u64,
}

/// Writes a capture into `W`. All numbers in it are little-endian on every machine.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    interfaces: u32,
    /// Bytes of the block that is being written, so that each block is one write to the destination.
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a capture without interfaces.
    ///
    /// `application` names the program that writes it; if empty, no name is written.
    ///
    /// # Errors
    /// Fails if `out` cannot be written.
    pub fn new(out: W, application: &str) -> io::Result<PcapngWriter<W>> {
        let mut writer = PcapngWriter { out, interfaces: 0, block: Vec::new() };
        let mut body = Vec::new();
        body.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend_from_slice(&[1, 0, 0, 0]);
        body.extend_from_slice(&UNKNOWN_LENGTH.to_le_bytes());
        if !application.is_empty() {
            option(&mut body, code::SECTION_APPLICATION, application.as_bytes());
            option(&mut body, code::END, &[]);
        }
        writer.write(SECTION_HEADER, &body, &[], &[])?;
        Ok(writer)
    }

    /// Adds an interface. An empty description is left out. `limit` is the number of bytes that are stored of each packet,
    /// 0 for all.
    ///
    /// # Errors
    /// Fails if the capture cannot be written.
    pub fn add_interface(&mut self, name: &str, description: &str, limit: u32) -> io::Result<Interface> {
        let mut body = Vec::new();
        body.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        body.extend_from_slice(&[0; 2]);
        body.extend_from_slice(&limit.to_le_bytes());
        option(&mut body, code::INTERFACE_NAME, name.as_bytes());
        if !description.is_empty() {
            option(&mut body, code::INTERFACE_DESCRIPTION, description.as_bytes());
        }
        option(&mut body, code::TIME_RESOLUTION, &[NANOSECONDS]);
        option(&mut body, code::END, &[]);
        self.write(INTERFACE_DESCRIPTION, &body, &[], &[])?;
        self.interfaces += 1;
        Ok(Interface(self.interfaces - 1))
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// Fails if the capture cannot be written.
    pub fn packet(&mut self, interface: Interface, record: &Record<'_>) -> io::Result<()> {
        let Record { unix_ns, is_outgoing, stored, len } = *record;
        let mut head = [0; 20];
        let fields = [interface.0, (unix_ns >> 32) as u32, unix_ns as u32, stored.len() as u32, len as u32];
        for (place, field) in head.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let mut options = Vec::new();
        if let Some(is_outgoing) = is_outgoing {
            let direction: u32 = if is_outgoing { 2 } else { 1 };
            option(&mut options, code::PACKET_FLAGS, &direction.to_le_bytes());
            option(&mut options, code::END, &[]);
        }
        self.write(ENHANCED_PACKET, &head, stored, &options)
    }

    /// Writes the counters of an interface.
    ///
    /// # Errors
    /// Fails if the capture cannot be written.
    pub fn counters(&mut self, interface: Interface, unix_ns: u64, counters: Counters) -> io::Result<()> {
        let mut body = Vec::new();
        for field in [interface.0, (unix_ns >> 32) as u32, unix_ns as u32] {
            body.extend_from_slice(&field.to_le_bytes());
        }
        option(&mut body, code::RECEIVED, &(counters.packets + counters.dropped).to_le_bytes());
        option(&mut body, code::DROPPED, &counters.dropped.to_le_bytes());
        option(&mut body, code::END, &[]);
        self.write(INTERFACE_STATISTICS, &body, &[], &[])
    }

    /// Flushes the destination, so that no written block stays in a buffer.
    ///
    /// # Errors
    /// Fails if the destination cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the capture: flushes the destination and returns it.
    ///
    /// # Errors
    /// Fails if the destination cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    /// Writes a block: type, length, head, data, padding to 32 bits, options, length again.
    fn write(&mut self, kind: u32, head: &[u8], data: &[u8], options: &[u8]) -> io::Result<()> {
        let padding = data.len().next_multiple_of(4) - data.len();
        let length = (12 + head.len() + data.len() + padding + options.len()) as u32;
        self.block.clear();
        self.block.extend_from_slice(&kind.to_le_bytes());
        self.block.extend_from_slice(&length.to_le_bytes());
        self.block.extend_from_slice(head);
        self.block.extend_from_slice(data);
        self.block.extend_from_slice(&[0; 3][..padding]);
        self.block.extend_from_slice(options);
        self.block.extend_from_slice(&length.to_le_bytes());
        self.out.write_all(&self.block)
    }
}

/// Appends an option to a block's options: code, length, value, padding to 32 bits.
///
/// A value that is too long for the format is cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    let value = value.get(..length.into()).unwrap_or(value);
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests;
