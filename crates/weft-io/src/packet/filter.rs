//! Programs of classic BPF that choose packets in the kernel.
//!
//! The kernel runs the program for each packet of the interface. All offsets are relative to the IP header, so one
//! program serves every kind of interface. A rule accepts a packet, or the next rule follows. A packet that is too
//! short for a load is dropped.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX,
    BPF_LSH, BPF_MEM, BPF_MISC, BPF_RET, BPF_RSH, BPF_ST, BPF_TAX, BPF_W, sock_filter,
};
use std::net::{IpAddr, SocketAddr};

/// Maximum number of rules.
///
/// Derived: a rule has at most 17 instructions, and the kernel accepts 4,096.
pub const MAX_RULES: usize = 200;
/// Return value of a program that accepts the whole packet.
const WHOLE: u32 = u32::MAX;
/// Load offset at which classic BPF finds the IP header.
const NET: u32 = libc::SKF_NET_OFF.cast_unsigned();
/// Load offset at which classic BPF finds the direction of a packet, such as [`OUTGOING`].
const DIRECTION: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();
/// Direction of an outgoing packet. Standard: `PACKET_OUTGOING` of packet(7).
pub(super) const OUTGOING: u32 = 4;
/// Load offset at which classic BPF finds a packet's mark.
const MARK: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_MARK).cast_unsigned();
/// Protocol number of TCP (IANA).
const TCP: u32 = 6;
/// Protocol number of UDP (IANA).
const UDP: u32 = 17;

/// Indices of the words of a BPF program's memory.
mod word {
    pub const PROTOCOL: u32 = 0;
    pub const LOCAL_PORT: u32 = 1;
    pub const REMOTE_PORT: u32 = 2;
    /// Index of the first word of the remote address, which has one word in IPv4 and four in IPv6.
    pub const REMOTE: u32 = 3;
    pub const DIRECTION: u32 = 7;
}

/// Packets that a rule accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterRule {
    /// UDP datagrams to and from a local port.
    Udp {
        /// The local port.
        port: u16,
    },
    /// TCP segments to and from a local port.
    TcpServer {
        /// The local port.
        port: u16,
    },
    /// TCP segments to and from a remote address.
    TcpClient {
        /// Remote address and port.
        remote: SocketAddr,
        /// Mark that outgoing segments must have.
        mark: u32,
    },
}

/// The packets that a socket copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PacketFilter {
    /// All packets, of which the kernel copies the first bytes.
    First {
        /// Number of bytes, counted from the link-layer header.
        bytes: u32,
    },
    /// Packets that a rule accepts. With more than [`MAX_RULES`] rules, all TCP segments pass.
    Rules(Vec<FilterRule>),
}

impl PacketFilter {
    /// Returns the BPF program that accepts these packets.
    pub(super) fn program(&self) -> Vec<sock_filter> {
        match self {
            PacketFilter::First { bytes } => vec![ret(*bytes)],
            PacketFilter::Rules(rules) => of_rules(rules),
        }
    }
}

fn of_rules(rules: &[FilterRule]) -> Vec<sock_filter> {
    let (v4, v6) = (section(false, rules), section(true, rules));
    let mut program = vec![
        load(DIRECTION),
        store(word::DIRECTION),
        load_byte(NET),
        alu(BPF_RSH, 4),
        equal(6, 0, 1),
        instruction(BPF_JMP | BPF_JA, 0, 0, v4.len() as u32 + 2),
        equal(4, 1, 0),
        ret(0),
    ];
    program.extend(v4);
    program.extend(v6);
    program
}

/// Returns the part of the program for one version of IP. Each of its branches ends in a return.
fn section(is_ipv6: bool, rules: &[FilterRule]) -> Vec<sock_filter> {
    let mut part = if is_ipv6 { header_v6() } else { header_v4() };
    part.extend([load_word(word::DIRECTION), equal(OUTGOING, 0, 5)]);
    part.extend([load_port(0), store(word::LOCAL_PORT), load_port(2), store(word::REMOTE_PORT), jump(4)]);
    part.extend([load_port(2), store(word::LOCAL_PORT), load_port(0), store(word::REMOTE_PORT)]);
    if rules.len() > MAX_RULES {
        part.extend(accept_if(&[(word::PROTOCOL, TCP)], None));
    }
    for rule in rules.iter().take(MAX_RULES) {
        part.extend(match rule {
            FilterRule::Udp { port } => accept_if(&[(word::PROTOCOL, UDP), (word::LOCAL_PORT, (*port).into())], None),
            FilterRule::TcpServer { port } => {
                accept_if(&[(word::PROTOCOL, TCP), (word::LOCAL_PORT, (*port).into())], None)
            }
            FilterRule::TcpClient { remote, .. } if remote.is_ipv6() != is_ipv6 => Vec::new(),
            FilterRule::TcpClient { remote, mark } => {
                let mut conditions = vec![(word::PROTOCOL, TCP), (word::REMOTE_PORT, remote.port().into())];
                conditions.extend((word::REMOTE..).zip(words(remote.ip())));
                accept_if(&conditions, Some(*mark))
            }
        });
    }
    part.push(ret(0));
    part
}

/// Returns instructions that store an IPv4 packet's protocol and remote address, and load its header length into X.
fn header_v4() -> Vec<sock_filter> {
    let mut part = vec![
        load_byte(NET + 9),
        store(word::PROTOCOL),
        // Later fragments have no ports.
        load_half(NET + 6),
        alu(BPF_AND, 0x1fff),
        equal(0, 1, 0),
        ret(0),
        load_byte(NET),
        alu(BPF_AND, 0x0f),
        alu(BPF_LSH, 2),
        instruction(BPF_MISC | BPF_TAX, 0, 0, 0),
    ];
    part.extend(store_remote(NET + 12, NET + 16, word::REMOTE));
    part
}

/// Returns instructions that store an IPv6 packet's protocol and remote address, and load its header length into X.
///
/// No rule accepts a packet with extension headers. weft sends none.
fn header_v6() -> Vec<sock_filter> {
    let mut part = vec![load_byte(NET + 6), store(word::PROTOCOL), instruction(BPF_LDX | BPF_W | BPF_IMM, 0, 0, 40)];
    for at in 0..4 {
        part.extend(store_remote(NET + 8 + 4 * at, NET + 24 + 4 * at, word::REMOTE + at));
    }
    part
}

/// Returns instructions that store one word of the remote address in the word `to` of the program's memory.
///
/// They load the word from the offset `source` of an incoming packet, or `destination` of an outgoing one.
fn store_remote(source: u32, destination: u32, to: u32) -> [sock_filter; 6] {
    [load_word(word::DIRECTION), equal(OUTGOING, 0, 2), load(destination), jump(1), load(source), store(to)]
}

/// Returns instructions that accept a packet if each condition holds, and if an outgoing packet has the mark.
///
/// A condition is the index of a word of the program's memory, and the value that the word must have.
fn accept_if(conditions: &[(u32, u32)], mark: Option<u32>) -> Vec<sock_filter> {
    let marked = if mark.is_some() { 4 } else { 0 };
    let mut part = Vec::new();
    for (at, (word, value)) in conditions.iter().enumerate() {
        let behind = 2 * (conditions.len() - at - 1) + marked + 1;
        part.extend([load_word(*word), equal(*value, 0, behind as u8)]);
    }
    if let Some(mark) = mark {
        part.extend([load_word(word::DIRECTION), equal(OUTGOING, 0, 2), load(MARK), equal(mark, 0, 1)]);
    }
    part.push(ret(WHOLE));
    part
}

/// Returns the 32-bit words of an address: one for IPv4, four for IPv6.
fn words(address: IpAddr) -> Vec<u32> {
    match address {
        IpAddr::V4(address) => vec![address.to_bits()],
        IpAddr::V6(address) => [96, 64, 32, 0].map(|shift| (address.to_bits() >> shift) as u32).to_vec(),
    }
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

fn load(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset)
}

fn load_half(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_H | BPF_ABS, 0, 0, offset)
}

fn load_byte(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_B | BPF_ABS, 0, 0, offset)
}

/// Returns the instruction that loads a port at `offset` in the transport header. X holds the IP header's length.
fn load_port(offset: u32) -> sock_filter {
    instruction(BPF_LD | BPF_H | BPF_IND, 0, 0, NET + offset)
}

fn load_word(word: u32) -> sock_filter {
    instruction(BPF_LD | BPF_MEM, 0, 0, word)
}

fn store(word: u32) -> sock_filter {
    instruction(BPF_ST, 0, 0, word)
}

fn alu(operation: u32, value: u32) -> sock_filter {
    instruction(BPF_ALU | operation | BPF_K, 0, 0, value)
}

fn equal(value: u32, jt: u8, jf: u8) -> sock_filter {
    instruction(BPF_JMP | BPF_JEQ | BPF_K, jt, jf, value)
}

fn jump(over: u32) -> sock_filter {
    instruction(BPF_JMP | BPF_JA, 0, 0, over)
}

fn ret(bytes: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, 0, 0, bytes)
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
