//! Property: the program, run as the kernel runs it, accepts exactly the packets that the rules describe.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Runs a program on a packet that begins with its IP header. A load outside the packet drops it.
fn run(program: &[sock_filter], packet: &[u8], direction: u32, mark: u32) -> u32 {
    let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; 16], 0usize);
    let bytes = |from: u32, len: usize| {
        let from = from.wrapping_sub(NET) as usize;
        let bytes = packet.get(from..from.checked_add(len)?)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    };
    // A program has no backward jumps, so it ends.
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let code = u32::from(code);
        let loaded = match code {
            _ if code == BPF_LD | BPF_W | BPF_ABS && k == DIRECTION => Some(direction),
            _ if code == BPF_LD | BPF_W | BPF_ABS && k == MARK => Some(mark),
            _ if code == BPF_LD | BPF_W | BPF_ABS => bytes(k, 4),
            _ if code == BPF_LD | BPF_H | BPF_ABS => bytes(k, 2),
            _ if code == BPF_LD | BPF_B | BPF_ABS => bytes(k, 1),
            _ if code == BPF_LD | BPF_H | BPF_IND => bytes(k.wrapping_add(x), 2),
            _ if code == BPF_LD | BPF_MEM => Some(memory[k as usize]),
            _ if code == BPF_ALU | BPF_RSH | BPF_K => Some(a >> k),
            _ if code == BPF_ALU | BPF_LSH | BPF_K => Some(a << k),
            _ if code == BPF_ALU | BPF_AND | BPF_K => Some(a & k),
            _ if code == BPF_RET | BPF_K => return k,
            _ => {
                match code {
                    _ if code == BPF_JMP | BPF_JEQ | BPF_K => at += usize::from(if a == k { jt } else { jf }),
                    _ if code == BPF_JMP | BPF_JA => at += k as usize,
                    _ if code == BPF_LDX | BPF_W | BPF_IMM => x = k,
                    _ if code == BPF_MISC | BPF_TAX => x = a,
                    _ if code == BPF_ST => memory[k as usize] = a,
                    _ => panic!("instruction {code:#x} is not known here"),
                }
                Some(a)
            }
        };
        match loaded {
            Some(value) => a = value,
            None => return 0,
        }
    }
}

/// A packet, and its properties that the program can read.
#[derive(Clone, Debug)]
struct FilteredPacket {
    from: SocketAddr,
    to: SocketAddr,
    protocol: u8,
    options: usize,
    is_later_fragment: bool,
    is_outgoing: bool,
    mark: u32,
}

impl FilteredPacket {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let header_len = 20 + 4 * self.options;
                let mut header = vec![0; header_len];
                header[0] = 0x40 | (header_len / 4) as u8;
                header[7] = u8::from(self.is_later_fragment);
                header[9] = self.protocol;
                header[12..16].copy_from_slice(&from.octets());
                header[16..20].copy_from_slice(&to.octets());
                header
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut header = vec![0; 40];
                header[0] = 0x60;
                header[6] = self.protocol;
                header[8..24].copy_from_slice(&from.octets());
                header[24..40].copy_from_slice(&to.octets());
                header
            }
            _ => unreachable!("both ends have one version"),
        };
        bytes.extend(self.from.port().to_be_bytes());
        bytes.extend(self.to.port().to_be_bytes());
        bytes
    }

    fn is_accepted_by(&self, rule: &FilterRule) -> bool {
        let (local, remote) = if self.is_outgoing { (self.from, self.to) } else { (self.to, self.from) };
        if self.from.is_ipv4() && self.is_later_fragment {
            return false;
        }
        match *rule {
            FilterRule::Udp { port } => self.protocol == 17 && local.port() == port,
            FilterRule::TcpServer { port } => self.protocol == 6 && local.port() == port,
            FilterRule::TcpClient { remote: wanted, mark } => {
                self.protocol == 6 && remote == wanted && (!self.is_outgoing || self.mark == mark)
            }
        }
    }
}

/// Few addresses and ports, so that rules and packets often match.
fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (1..4u8).prop_map(|host| IpAddr::V4(Ipv4Addr::new(192, 0, 2, host))),
        (1..4u16).prop_map(|host| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, host, 0, 0, 0, 0, host))),
    ]
}

fn place() -> impl Strategy<Value = SocketAddr> {
    (address(), 1..4u16).prop_map(SocketAddr::from)
}

fn rule() -> impl Strategy<Value = FilterRule> {
    prop_oneof![
        (1..4u16).prop_map(|port| FilterRule::Udp { port }),
        (1..4u16).prop_map(|port| FilterRule::TcpServer { port }),
        (place(), 1..3u32).prop_map(|(remote, mark)| FilterRule::TcpClient { remote, mark }),
    ]
}

fn packet() -> impl Strategy<Value = FilteredPacket> {
    let protocol = prop_oneof![Just(6u8), Just(17u8), any::<u8>()];
    let ends = (place(), place()).prop_filter("one version", |(from, to)| from.is_ipv4() == to.is_ipv4());
    (ends, protocol, 0..10usize, any::<bool>(), any::<bool>(), 1..3u32).prop_map(
        |((from, to), protocol, options, is_later_fragment, is_outgoing, mark)| FilteredPacket {
            from,
            to,
            protocol,
            options,
            is_later_fragment,
            is_outgoing,
            mark,
        },
    )
}

proptest! {
    #[test]
    fn a_packet_passes_if_a_rule_describes_it(rules in vec(rule(), 0..6), packets in vec(packet(), 1..20)) {
        let program = PacketFilter::Rules(rules.clone()).program();
        for packet in packets {
            let direction = if packet.is_outgoing { OUTGOING } else { 0 };
            let passes = run(&program, &packet.bytes(), direction, packet.mark) != 0;
            prop_assert_eq!(passes, rules.iter().any(|rule| packet.is_accepted_by(rule)), "{:?}", packet);
        }
    }

    #[test]
    fn any_bytes_end_the_program(rules in vec(rule(), 0..6), bytes in vec(any::<u8>(), 0..80), direction in 0..6u32) {
        run(&PacketFilter::Rules(rules).program(), &bytes, direction, 1);
    }
}

#[test]
fn the_longest_program_is_one_that_the_kernel_takes() {
    let remote = "[2001:db8::1]:443".parse().unwrap();
    let rules = vec![FilterRule::TcpClient { remote, mark: 7 }; MAX_RULES + 1];
    let program = PacketFilter::Rules(rules).program();
    assert!(program.len() <= 4_096, "{}", program.len());
    let segment = FilteredPacket {
        from: "192.0.2.1:9".parse().unwrap(),
        to: "192.0.2.2:9".parse().unwrap(),
        protocol: 6,
        options: 0,
        is_later_fragment: false,
        is_outgoing: true,
        mark: 0,
    };
    assert_eq!(run(&program, &segment.bytes(), OUTGOING, 0), WHOLE, "too many rules let all TCP pass");
}
