//! The conditions under which the bench measures, such as the probability that a datagram is lost.

use serde::Serialize;
use std::fmt;

/// One condition under which the bench measures: a setting of the veth pair between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Condition {
    /// True if the kernel may pass a train of UDP datagrams through the pair as one packet (`tx-udp-segmentation`).
    pub segmentation: bool,
    /// Probability that an arriving UDP datagram is dropped, in thousandths.
    ///
    /// `None` installs no rule, so no datagram is dropped or counted.
    pub loss_permille: Option<u32>,
}

impl Condition {
    /// The conditions under which the bench measures, in the order of the measurements.
    pub const ALL: [Condition; 4] = [
        Condition { segmentation: true, loss_permille: None },
        Condition::lossy(0),
        Condition::lossy(1),
        Condition::lossy(10),
    ];

    const fn lossy(permille: u32) -> Condition {
        Condition { segmentation: false, loss_permille: Some(permille) }
    }

    /// Returns the nftables rules that count and drop arriving datagrams at the interface `interface` of a namespace.
    pub(super) fn rules(self, interface: &str) -> String {
        let Some(permille) = self.loss_permille else { return "flush ruleset".into() };
        let drop = match permille {
            0 => String::new(),
            n => format!("numgen random mod 1000 < {n} counter name dropped drop\n"),
        };
        format!(
            "flush ruleset
             table inet bench {{
               counter seen {{ }}
               counter dropped {{ }}
               counter uncut {{ }}
               chain arrivals {{
                 type filter hook prerouting priority -300;
                 iifname != \"{interface}\" accept
                 meta l4proto != udp accept
                 counter name seen
                 meta length > 1500 counter name uncut
                 {drop}
               }}
             }}"
        )
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.loss_permille {
            None => f.write_str("trains of datagrams cross whole"),
            Some(permille) => {
                write!(f, "datagrams cross one by one, and {:.1} % of them are dropped", f64::from(permille) / 10.0)
            }
        }
    }
}
