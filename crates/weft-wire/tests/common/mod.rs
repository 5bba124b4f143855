//! A simple reference implementation that builds and cuts packets without the crate under test.
#![allow(dead_code, reason = "each test binary uses its own part")]

use proptest::prelude::*;

/// Returns bytes as hexadecimal text, for comparison with golden vectors.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The reverse of [`hex`], which ignores white space.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Returns the folded ones'-complement sum of 16-bit words.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4 {
    Tcp,
    Udp,
}

/// Properties that all packets of one flow share.
#[derive(Clone, Debug)]
pub struct Flow {
    pub v6: bool,
    pub l4: L4,
    /// True for 8 bytes of IPv4 options or of an IPv6 destination options header.
    pub ip_options: bool,
    /// TCP options, a multiple of 4 bytes.
    pub tcp_options: Vec<u8>,
    pub tos: u8,
    pub ttl: u8,
    pub window: u16,
}

/// Fields that differ between the packets of a flow.
#[derive(Clone, Debug)]
pub struct Segment {
    pub id: u16,
    pub seq: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
}

impl Flow {
    pub fn l4_at(&self) -> usize {
        let fixed = if self.v6 { 40 } else { 20 };
        fixed + if self.ip_options { 8 } else { 0 }
    }

    pub fn header_len(&self) -> usize {
        self.l4_at() + if self.l4 == L4::Tcp { 20 + self.tcp_options.len() } else { 8 }
    }

    pub fn csum_offset(&self) -> usize {
        if self.l4 == L4::Tcp { 16 } else { 6 }
    }

    fn protocol(&self) -> u8 {
        if self.l4 == L4::Tcp { 6 } else { 17 }
    }

    fn addresses(&self) -> Vec<u8> {
        if self.v6 {
            let mut addresses = unhex("fd000000000000000000000000000001");
            addresses.extend(unhex("fd000000000000000000000000000002"));
            addresses
        } else {
            vec![10, 0, 0, 1, 10, 0, 0, 2]
        }
    }

    fn transport(&self, s: &Segment) -> Vec<u8> {
        let mut l4 = vec![0x1f, 0x90, 0xc3, 0x50];
        if self.l4 == L4::Tcp {
            l4.extend(s.seq.to_be_bytes());
            l4.extend(0x0102_0304u32.to_be_bytes());
            l4.push(((20 + self.tcp_options.len()) / 4 * 16) as u8);
            l4.push(s.flags);
            l4.extend(self.window.to_be_bytes());
            l4.extend([0, 0, 0, 0]);
            l4.extend(&self.tcp_options);
        } else {
            l4.extend(((8 + s.payload.len()) as u16).to_be_bytes());
            l4.extend([0, 0]);
        }
        l4.extend(&s.payload);
        l4
    }

    fn ip_header(&self, s: &Segment, l4_len: usize) -> Vec<u8> {
        let mut ip = Vec::new();
        if self.v6 {
            ip.extend((6u32 << 28 | u32::from(self.tos) << 20 | 0xbeef).to_be_bytes());
            ip.extend(((self.l4_at() - 40 + l4_len) as u16).to_be_bytes());
            ip.extend([if self.ip_options { 60 } else { self.protocol() }, self.ttl]);
            ip.extend(self.addresses());
            if self.ip_options {
                ip.extend([self.protocol(), 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            ip.extend([0x40 | (self.l4_at() / 4) as u8, self.tos]);
            ip.extend(((self.l4_at() + l4_len) as u16).to_be_bytes());
            ip.extend(s.id.to_be_bytes());
            ip.extend([0x40, 0, self.ttl, self.protocol(), 0, 0]);
            ip.extend(self.addresses());
            if self.ip_options {
                ip.extend([1; 8]);
            }
            let checksum = !sum(&ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        ip
    }

    pub fn pseudo_sum(&self, l4_len: usize) -> u16 {
        let mut pseudo = self.addresses();
        pseudo.extend((l4_len as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, self.protocol()]);
        sum(&pseudo)
    }

    /// Returns a packet with complete checksums.
    pub fn packet(&self, s: &Segment) -> Vec<u8> {
        self.build(s, true)
    }

    /// Returns a packet with a partial transport checksum.
    pub fn partial(&self, s: &Segment) -> Vec<u8> {
        self.build(s, false)
    }

    fn build(&self, s: &Segment, complete: bool) -> Vec<u8> {
        let mut l4 = self.transport(s);
        let at = self.csum_offset();
        let pseudo_sum = self.pseudo_sum(l4.len());
        l4[at..at + 2].copy_from_slice(&pseudo_sum.to_be_bytes());
        if complete {
            let checksum = match !sum(&l4) {
                0 => 0xffff,
                other => other,
            };
            l4[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        let mut packet = self.ip_header(s, l4.len());
        packet.extend(l4);
        packet
    }

    /// Returns the packets that segmentation of `whole` must yield.
    pub fn segments(&self, whole: &Segment, gso_size: usize) -> Vec<Vec<u8>> {
        let count = whole.payload.len().div_ceil(gso_size);
        let segment = |(k, payload): (usize, &[u8])| {
            let mut flags = whole.flags;
            if k + 1 < count {
                flags &= !0x09;
            }
            if k > 0 {
                flags &= !0x80;
            }
            self.packet(&Segment {
                id: whole.id.wrapping_add(k as u16),
                seq: whole.seq.wrapping_add((k * gso_size) as u32),
                flags,
                payload: payload.to_vec(),
            })
        };
        whole.payload.chunks(gso_size).enumerate().map(segment).collect()
    }

    /// Returns the packets that a kernel receives by one TUN write, with complete checksums.
    pub fn receive(&self, write: &[u8]) -> Vec<Vec<u8>> {
        let native = |at: usize| usize::from(u16::from_ne_bytes([write[at], write[at + 1]]));
        let (flags, gso_type) = (write[0], write[1]);
        let packet = &write[10..];
        if flags & 1 == 0 {
            assert_eq!(gso_type, 0);
            return vec![packet.to_vec()];
        }
        assert_eq!((native(6), native(8)), (self.l4_at(), self.csum_offset()), "csum_start, csum_offset");
        let whole = self.take_apart(packet);
        assert_eq!(hex(&self.partial(&whole)), hex(packet), "lengths, IPv4 checksum and partial checksum");
        if gso_type == 0 {
            return vec![self.packet(&whole)];
        }
        let expected = match (self.l4, self.v6) {
            (L4::Tcp, false) => 1,
            (L4::Tcp, true) => 4,
            (L4::Udp, _) => 5,
        };
        let has_cwr = self.l4 == L4::Tcp && whole.flags & 0x80 != 0;
        assert_eq!(gso_type, expected | if has_cwr { 0x80 } else { 0 });
        assert_eq!(native(2), self.header_len(), "hdr_len");
        self.segments(&whole, native(4))
    }

    /// Extracts the fields that differ between the packets of a flow.
    fn take_apart(&self, packet: &[u8]) -> Segment {
        let l4 = &packet[self.l4_at()..];
        let is_tcp = self.l4 == L4::Tcp;
        Segment {
            id: if self.v6 { 0 } else { u16::from_be_bytes([packet[4], packet[5]]) },
            seq: if is_tcp { u32::from_be_bytes([l4[4], l4[5], l4[6], l4[7]]) } else { 0 },
            flags: if is_tcp { l4[13] } else { 0 },
            payload: packet[self.header_len()..].to_vec(),
        }
    }

    /// Returns the virtio_net_hdr that a kernel puts before a super-packet.
    pub fn vnet(&self, gso_size: usize) -> Vec<u8> {
        let gso_type = match (self.l4, self.v6) {
            _ if gso_size == 0 => 0,
            (L4::Tcp, false) => 1,
            (L4::Tcp, true) => 4,
            (L4::Udp, _) => 5,
        };
        let mut vnet = vec![1, gso_type];
        for field in [self.header_len(), gso_size, self.l4_at(), self.csum_offset()] {
            vnet.extend((field as u16).to_ne_bytes());
        }
        vnet
    }
}

/// Draws flows of both IP versions and both transports, with and without options and extension headers.
pub fn flows() -> impl Strategy<Value = Flow> {
    let l4 = prop_oneof![3 => Just(L4::Tcp), 1 => Just(L4::Udp)];
    let options = prop_oneof![Just(vec![]), prop::collection::vec(any::<u8>(), 12), Just(vec![1; 40])];
    (any::<bool>(), l4, any::<bool>(), options, any::<u8>(), 1..=255u8, any::<u16>()).prop_map(
        |(v6, l4, ip_options, tcp_options, tos, ttl, window)| Flow {
            v6,
            l4,
            ip_options,
            tcp_options,
            tos,
            ttl,
            window,
        },
    )
}
