//! The nftables rules that select the packets for the signalling agent (this process), as text in one line.
//!
//! Packets that begin or end a connection, and arriving packets with options, wait for a verdict. For established
//! connections the kernel copies sent packets to the agent. One copy follows each arriving packet with options, which
//! may need an answer or a confirmation. Other copies are taken at intervals, for updates.

use crate::config::SignalledFlows;
use crate::config::prefix;
use std::fmt::Write as _;
use weft_engine::Prefix;

/// Mark of the packets that iptables passes to the queue, if nftables cannot queue them itself.
pub const HAND_OVER: u32 = 0x8000_0000;
/// Mark of the packets that the signalling agent sends.
pub const OWN: u32 = 0x7765_5347;
/// Number of bytes of a packet that the kernel copies for the signalling agent. The longest headers fit.
pub const COPIED: u32 = 192;
/// Name of the chain for which the signalling agent looks, to check that its nft table exists.
pub const CHAIN: &str = "leaving";

/// Method by which packets get to the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handover {
    /// nftables queues the packets itself.
    Queue,
    /// nftables marks the packets, and a rule of iptables queues marked packets.
    Mark,
}

/// Returns the name of the nft table for an interface.
pub fn name(interface: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("weft_signal_{}", interface.chars().map(plain).collect::<String>())
}

/// Returns the nft table as text. `number` is the number of both the netfilter queue and the log group.
pub fn table(interface: &str, number: u16, handover: Handover, rules: &[SignalledFlows]) -> String {
    let hand_over = match handover {
        Handover::Queue => format!("queue flags bypass to {number}"),
        Handover::Mark => format!("meta mark set meta mark or {HAND_OVER:#x} accept"),
    };
    let mut text = format!("table inet {} {{ flags owner; ", name(interface));
    for family in [V4, V6] {
        let AddressFamily { digit, kind, .. } = family;
        for (set, seconds) in [("due", 5), ("heard", 30), ("often", 30), ("seldom", 30)] {
            let _ = write!(
                text,
                "set {set}{digit} {{ type inet_proto . {kind} . inet_service . {kind} . inet_service; \
                 flags dynamic,timeout; timeout {seconds}s; size 8192; }}; "
            );
        }
    }
    let _ = write!(
        text,
        "chain now {{ tcp flags & (syn|fin|rst) == 0x0 log group {number} snaplen {COPIED} accept; {hand_over}; }}; "
    );
    for family in [V4, V6] {
        let (digit, own, back) = (family.digit, family.own(), family.back());
        let _ = write!(
            text,
            "chain arrived{digit} {{ update @due{digit} {{ {back} }}; update @heard{digit} {{ {back} }}; {hand_over}; }}; \
             chain asked{digit} {{ \
             {own} @heard{digit} update @often{digit} {{ {own} limit rate 20/second burst 2 packets }} goto now; \
             {own} @heard{digit} accept; \
             update @seldom{digit} {{ {own} limit rate 2/second burst 3 packets }} goto now; }}; "
        );
    }
    let _ = write!(
        text,
        "chain asked {{ tcp flags & (syn|ack) == syn {hand_over}; tcp flags & (fin|rst) != 0x0 {hand_over}; \
         meta nfproto ipv4 goto asked4; goto asked6; }}; \
         chain arriving {{ type filter hook prerouting priority mangle - 10; policy accept; iifname != \"{interface}\" accept; \
         ip hdrlength > 5 meta l4proto {{ tcp, udp }} goto arrived4; \
         exthdr hbh exists meta l4proto {{ tcp, udp }} goto arrived6; }}; \
         chain {CHAIN} {{ type filter hook postrouting priority mangle - 10; policy accept; oifname != \"{interface}\" accept; \
         meta mark {OWN:#x} accept; ip hdrlength > 5 meta l4proto {{ tcp, udp }} {hand_over}; \
         exthdr hbh exists meta l4proto {{ tcp, udp }} {hand_over}; "
    );
    for family in [V4, V6] {
        let (digit, own) = (family.digit, family.own());
        let _ = write!(text, "{own} @due{digit} delete @due{digit} {{ {own} }} goto now; ");
    }
    for flows in rules.iter().flat_map(matches) {
        let _ = write!(text, "{flows} goto asked; ");
    }
    text + "}; }"
}

/// Words of nftables that differ between IPv4 and IPv6.
#[derive(Clone, Copy, PartialEq, Eq)]
struct AddressFamily {
    digit: char,
    word: &'static str,
    kind: &'static str,
}

const V4: AddressFamily = AddressFamily { digit: '4', word: "ip", kind: "ipv4_addr" };
const V6: AddressFamily = AddressFamily { digit: '6', word: "ip6", kind: "ipv6_addr" };

impl AddressFamily {
    fn of(prefix: &Prefix) -> AddressFamily {
        if prefix.address.is_ipv4() { V4 } else { V6 }
    }

    /// Returns nftables' expression for the flow of a packet: protocol, source and destination.
    fn own(self) -> String {
        let word = self.word;
        format!("meta l4proto . {word} saddr . th sport . {word} daddr . th dport")
    }

    /// Returns nftables' expression for the reverse flow of a packet: source and destination exchanged.
    fn back(self) -> String {
        let word = self.word;
        format!("meta l4proto . {word} daddr . th dport . {word} saddr . th sport")
    }
}

/// Returns the expressions that match a rule's packets.
///
/// There is one per address family if the rule depends on the family.
fn matches(flows: &SignalledFlows) -> Vec<String> {
    let SignalledFlows { from, to, protocol, ports, dscp, .. } = flows;
    let prefixes = [("saddr", from), ("daddr", to)].map(|(end, at)| at.as_ref().map(|at| (end, at.value)));
    let is_of =
        |family: &AddressFamily| prefixes.iter().flatten().all(|(_, prefix)| AddressFamily::of(prefix) == *family);
    let families = match (prefixes.iter().any(Option::is_some), dscp) {
        (false, None) => vec![None],
        _ => [V4, V6].into_iter().filter(is_of).map(Some).collect(),
    };
    let one = |family: Option<AddressFamily>| {
        let mut text = format!("meta l4proto {protocol}");
        if let Some(family) = family {
            let word = family.word;
            for (end, prefix) in prefixes.iter().flatten() {
                let _ = write!(text, " {word} {end} {}", prefix::text(*prefix));
            }
            if let Some(dscp) = dscp {
                let _ = write!(text, " {word} dscp {dscp}");
            }
        }
        if (*ports.start(), *ports.end()) != (0, u16::MAX) {
            let _ = write!(text, " th dport {}-{}", ports.start(), ports.end());
        }
        text
    };
    families.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Report;
    use crate::config::host;
    use std::path::Path;

    fn rules(rule: &str) -> String {
        let text =
            format!("[signal]\ninterface = \"e-0.1\"\nrate = \"1 Mbit/s\"\n[[signal.rule]]\nname = \"a\"\n{rule}");
        let report = Report::new("signal.toml", text);
        let host = host::parse(&report, Path::new(".")).unwrap();
        table(&host.interface, 7, Handover::Queue, &host.signal.rules)
    }

    #[test]
    fn a_rule_names_its_family_only_where_it_has_one() {
        assert!(rules("").contains("; meta l4proto 6 goto asked; }; }"));
        assert!(rules("ports = \"80-90\"").contains("; meta l4proto 6 th dport 80-90 goto asked; }; }"));
        let text = rules("protocol = \"udp\"\nto = \"fd00::/64\"\ndscp = \"ef\"");
        assert!(text.contains("; meta l4proto 17 ip6 daddr fd00::/64 ip6 dscp 46 goto asked; }; }"), "{text}");
        let text = rules("dscp = \"af21\"");
        assert!(text.contains("meta l4proto 6 ip dscp 18 goto asked; meta l4proto 6 ip6 dscp 18 goto asked; }; }"));
        let text = rules("from = \"10.0.0.0/8\"\nto = \"fd00::/64\"");
        assert!(text.contains("goto now; }; }"), "no packet is of both families: {text}");
    }

    #[test]
    fn the_table_is_the_interfaces_and_its_queue_may_have_no_program() {
        let text = rules("");
        assert!(text.starts_with("table inet weft_signal_e_0_1 { flags owner; ") && !text.contains('\n'));
        assert!(text.contains("iifname != \"e-0.1\" accept") && text.contains("queue flags bypass to 7"));
    }
}
