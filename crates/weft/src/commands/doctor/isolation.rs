//! Commands for routers that put the tunnel's packets into a separate queue, by their DSCP (code point).
//!
//! Without such a queue at the bottleneck the tunnel's packets wait behind packets of other senders. weft's rate
//! control then yields to any sender that fills the queue.

use crate::config::dscp;
use serde::Serialize;

/// Advice that is printed if the configuration sets no DSCP.
pub const WHY_SET_ONE: &str = "\
A bottleneck can keep the tunnel's packets in a queue of their own if they carry a DSCP code point: set one, for
example dscp = \"af21\" in [policy], and weft doctor shows the commands for routers.
";

/// Router commands in each vendor's syntax. The reader replaces the words in capitals.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct QueueCommands {
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// Commands for Linux: tc(8).
    pub linux: String,
    /// Commands for Cisco IOS and similar systems.
    pub ios: String,
    /// Commands for Juniper Junos.
    pub junos: String,
}

impl QueueCommands {
    /// Creates the commands for packets with this code point.
    pub fn of(code_point: u8) -> QueueCommands {
        let (name, tos) = (dscp::name(code_point), code_point << 2);
        // IOS and Junos accept numbers as well as names; Junos takes them in binary.
        let bits = format!("{code_point:06b}");
        let linux = format!(
            "\
tc qdisc replace dev DEV root handle 1: htb default 20
tc class add dev DEV parent 1: classid 1:1 htb rate LINE
tc class add dev DEV parent 1:1 classid 1:10 htb rate TUNNEL ceil LINE
tc class add dev DEV parent 1:1 classid 1:20 htb rate REST ceil LINE
tc qdisc add dev DEV parent 1:10 pfifo limit 200
tc qdisc add dev DEV parent 1:20 fq_codel
tc filter add dev DEV parent 1: protocol ip prio 1 u32 match ip dsfield {tos:#04x} 0xfc flowid 1:10
tc filter add dev DEV parent 1: protocol ipv6 prio 2 u32 match ip6 priority {tos:#04x} 0xfc flowid 1:10
"
        );
        let ios = format!(
            "\
class-map match-any WEFT
 match dscp {name}
policy-map WEFT-OUT
 class WEFT
  bandwidth percent 50
 class class-default
  fair-queue
interface INTERFACE
 service-policy output WEFT-OUT
"
        );
        let junos = format!(
            "\
set class-of-service forwarding-classes queue 1 weft
set class-of-service classifiers dscp weft-in import default forwarding-class weft loss-priority low code-points {bits}
set class-of-service schedulers weft transmit-rate percent 50 buffer-size percent 50
set class-of-service schedulers rest transmit-rate remainder buffer-size remainder
set class-of-service scheduler-maps weft-out forwarding-class weft scheduler weft
set class-of-service scheduler-maps weft-out forwarding-class best-effort scheduler rest
set class-of-service interfaces IN-INTERFACE unit 0 classifiers dscp weft-in
set class-of-service interfaces OUT-INTERFACE scheduler-map weft-out
"
        );
        QueueCommands { dscp: code_point, linux, ios, junos }
    }

    /// Returns the commands as text for a reader.
    pub fn text(&self) -> String {
        format!(
            "\
A queue of its own for the tunnel (dscp {}). Set it at the bottleneck, where packets wait. Fill in DEV, the line's rate
LINE and its two shares, TUNNEL and REST. The tunnel's control packets (cs6, 1 % of the traffic) may stay in another
queue.

Linux
{}
Cisco IOS
{}
Juniper Junos
{}",
            dscp::name(self.dscp),
            self.linux,
            self.ios,
            self.junos
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_router_gets_the_code_point_in_its_own_syntax() {
        let af21 = QueueCommands::of(18);
        assert_eq!(af21.linux.matches("0x48 0xfc flowid 1:10").count(), 2, "{}", af21.linux);
        assert!(af21.ios.contains("match dscp af21\n") && af21.junos.contains("code-points 010010\n"));
        let odd = QueueCommands::of(5);
        assert!(odd.linux.contains("0x14 0xfc") && odd.ios.contains("match dscp 5\n"));
    }
}
