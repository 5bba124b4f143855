//! Reads a capture file. A file that breaks the format makes it panic.

use std::path::Path;

/// Direction of a received packet, in the packet's flags.
pub const INBOUND: u32 = 1;
/// Direction of a sent packet.
pub const OUTBOUND: u32 = 2;

/// A packet of a capture, from its IP header on.
#[derive(Debug)]
pub struct Packet {
    pub interface: u32,
    pub direction: u32,
    pub unix_ns: u64,
    pub bytes: Vec<u8>,
    /// Length on the wire, in bytes.
    pub len: usize,
}

impl Packet {
    pub fn is_ipv4(&self) -> bool {
        self.bytes[0] >> 4 == 4
    }

    pub fn protocol(&self) -> u8 {
        self.bytes[if self.is_ipv4() { 9 } else { 6 }]
    }

    pub fn source(&self) -> [u8; 4] {
        *self.bytes[12..].first_chunk().unwrap()
    }

    pub fn is_ipv4_between(&self, one: [u8; 4], other: [u8; 4]) -> bool {
        let ends = [self.source(), *self.bytes[16..].first_chunk().unwrap()];
        ends == [one, other] || ends == [other, one]
    }

    pub fn ports(&self) -> [u16; 2] {
        let at = if self.is_ipv4() { usize::from(self.bytes[0] & 0x0f) * 4 } else { 40 };
        [at, at + 2].map(|at| u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]))
    }
}

/// A whole capture.
#[derive(Debug)]
pub struct Capture {
    pub interfaces: Vec<String>,
    pub packets: Vec<Packet>,
    /// Packets of all interfaces, by the counters at the end.
    pub counted: u64,
}

/// Reads a capture. It must end with whole blocks.
pub fn read(path: &Path) -> Capture {
    let all = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut capture = Capture { interfaces: Vec::new(), packets: Vec::new(), counted: 0 };
    let mut rest = &all[..];
    while !rest.is_empty() {
        let (kind, length) = (word(rest, 0), word(rest, 4) as usize);
        assert!(
            length.is_multiple_of(4) && word(rest, length - 4) as usize == length,
            "block {kind:#x} of {length} bytes"
        );
        let body = &rest[8..length - 4];
        match kind {
            0x0a0d_0d0a => assert_eq!(word(body, 0), 0x1a2b_3c4d),
            1 => {
                assert_eq!(word(body, 0) & 0xffff, 101, "packets begin with their IP header");
                let name = option(&body[8..], 2).expect("a name");
                capture.interfaces.push(String::from_utf8(name).unwrap());
            }
            5 => capture.counted += u64::from_le_bytes(*option(&body[12..], 4).unwrap().first_chunk().unwrap()),
            6 => {
                let packet = packet(body);
                assert!((packet.interface as usize) < capture.interfaces.len());
                assert!(packet.unix_ns > 1_700_000_000_000_000_000, "a time");
                capture.packets.push(packet);
            }
            other => panic!("block of kind {other:#x}"),
        }
        rest = &rest[length..];
    }
    capture
}

fn packet(body: &[u8]) -> Packet {
    let stored = word(body, 12) as usize;
    let flags = option(&body[20 + stored.next_multiple_of(4)..], 2).expect("flags");
    Packet {
        interface: word(body, 0),
        direction: word(&flags, 0) & 3,
        unix_ns: u64::from(word(body, 4)) << 32 | u64::from(word(body, 8)),
        bytes: body[20..20 + stored].to_vec(),
        len: word(body, 16) as usize,
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

/// Returns the value of an option.
fn option(mut options: &[u8], wanted: u16) -> Option<Vec<u8>> {
    loop {
        let half = |at: usize| options.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let (code, len) = (half(0)?, usize::from(half(2)?));
        if code == wanted {
            return options.get(4..4 + len).map(<[u8]>::to_vec);
        }
        options = options.get(4 + len.next_multiple_of(4)..).filter(|_| code != 0)?;
    }
}
