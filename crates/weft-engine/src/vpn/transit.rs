//! Transit: decides which packets from a peer are forwarded to another peer.

use crate::api::{Prefix, TransitConfig, TransitTotals};
use crate::vpn::TransitLoads;
use core::net::IpAddr;
use weft_core::route::prefix_map::PrefixMap;
use weft_units::{Duration, Instant};

/// Maximum number of ICMP errors that this node sends per second.
///
/// *Standard*: Linux's default of `net.ipv4.icmp_msgs_per_sec`.
const ERRORS_PER_SECOND: u32 = 1_000;
/// Period over which ICMP errors are counted.
const PERIOD: Duration = Duration::from_secs(1);

/// State of transit: the prefixes behind this node, the ICMP errors sent lately, counters, and the loads of ports.
#[derive(Debug)]
pub struct Transit {
    config: TransitConfig,
    local: PrefixMap<()>,
    /// Start of the present [`PERIOD`], and the number of ICMP errors sent in it.
    errors: (Instant, u32),
    pub totals: TransitTotals,
    /// Loads of the ports that transit uses, and what the peers were told of them.
    pub loads: TransitLoads,
}

impl Transit {
    /// Returns the state of transit. Its counters continue from `totals`, and the loads of its ports from `loads`.
    pub fn new(now: Instant, config: TransitConfig, totals: TransitTotals, loads: TransitLoads) -> Transit {
        let mut local = PrefixMap::default();
        let own = config.addresses.iter().map(|&address| Prefix { address, length: u8::MAX });
        for prefix in config.local.iter().copied().chain(own) {
            // The result is ignored, because a prefix may be listed twice.
            let _ = local.insert(prefix.address, prefix.length, ());
        }
        Transit { config, local, errors: (now, 0), totals, loads }
    }

    /// Returns the length of the longest prefix behind this node that contains `address`, or `None` if none does.
    pub fn local_length(&self, address: IpAddr) -> Option<u8> {
        self.local.matches(address).last().map(|(length, ())| length)
    }

    /// Returns the source address of an ICMP error about a packet from `sender`.
    ///
    /// Returns `None` if too many errors were sent, or if this node has no address of the sender's IP version.
    pub fn error_source(&mut self, now: Instant, sender: IpAddr) -> Option<IpAddr> {
        let source = *self.config.addresses.iter().find(|own| own.is_ipv4() == sender.is_ipv4())?;
        if now - self.errors.0 >= PERIOD {
            self.errors = (now, 0);
        }
        self.errors.1 += 1;
        (self.errors.1 <= ERRORS_PER_SECOND).then_some(source)
    }
}
