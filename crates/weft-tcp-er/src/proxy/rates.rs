//! Rates toward the peers, and the resulting rate of each connection.

use super::policy::PolicyPrefix;
use super::share::level;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use weft_core::route::prefix_map::PrefixMap;

/// Rate of all paths to one peer together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Total {
    /// Payload rate in bytes per second. `None` if it is unknown: the connections then have no limit.
    pub bytes_per_s: Option<u64>,
    /// Prefixes of the hosts behind the peer.
    pub prefixes: Vec<PolicyPrefix>,
}

/// The rates toward all peers, as the daemon sends them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerTotals(pub Vec<Total>);

impl fmt::Display for PeerTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, total) in self.0.iter().enumerate() {
            let rate = total.bytes_per_s.map_or_else(|| "*".to_owned(), |rate| rate.to_string());
            let prefixes: Vec<_> = total.prefixes.iter().map(PolicyPrefix::to_string).collect();
            write!(f, "{}{rate} {}", if i > 0 { ";" } else { "" }, prefixes.join(","))?;
        }
        Ok(())
    }
}

impl FromStr for PeerTotals {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PeerTotals, &'static str> {
        let total = |text: &str| {
            let (rate, prefixes) = text.split_once(' ').ok_or("expected a rate and prefixes")?;
            let bytes_per_s = match rate {
                "*" => None,
                rate => Some(rate.parse().map_err(|_| "the rate is not a number")?),
            };
            let prefixes = prefixes.split(',').filter(|text| !text.is_empty()).map(str::parse);
            Ok(Total { bytes_per_s, prefixes: prefixes.collect::<Result<_, _>>()? })
        };
        text.split(';').filter(|text| !text.is_empty()).map(total).collect::<Result<_, _>>().map(PeerTotals)
    }
}

/// The demand of a connection, as measured in one interval.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Address of the connection's client or server, whichever is behind the peer.
    pub address: IpAddr,
    /// Rate at which the flow sent, in bytes per second, or `u64::MAX` if it would have sent more.
    pub demand: u64,
}

/// A connection's rate is changed only if the new rate differs by more than 1/50 of the old one.
const WORTH: u64 = 50;

/// True if the rate `to` differs enough from the rate `from` to replace it.
pub fn is_worth_it(from: Option<u64>, to: Option<u64>) -> bool {
    match (from, to) {
        (Some(old), Some(new)) => old.abs_diff(new) > old / WORTH,
        (old, new) => old != new,
    }
}

/// The rates toward the peers, and the resulting rates of the connections of all workers.
pub struct PeerRates {
    /// Rate of all paths to each peer, in bytes per second. `None` if it is unknown.
    totals: Vec<Option<u64>>,
    /// For each prefix, the index in `totals` of the peer behind which it lies.
    by_prefix: PrefixMap<usize>,
    /// Measured demands of the connections of each worker.
    uses: Vec<Vec<Use>>,
    /// Maximum rate of each single connection toward a peer, in bytes per second: one entry for each peer.
    levels: Vec<Option<u64>>,
}

impl PeerRates {
    /// Returns a table for `workers` workers, without rates and connections.
    pub fn new(workers: usize) -> PeerRates {
        let uses = vec![Vec::new(); workers];
        PeerRates { totals: Vec::new(), by_prefix: PrefixMap::default(), uses, levels: Vec::new() }
    }

    /// Replaces the rates toward the peers and computes the shares again.
    pub fn set(&mut self, totals: &PeerTotals) {
        self.by_prefix = PrefixMap::default();
        for (index, total) in totals.0.iter().enumerate() {
            for prefix in &total.prefixes {
                // A prefix behind two peers belongs to the first of them.
                let _ = self.by_prefix.insert(prefix.address, prefix.length, index);
            }
        }
        self.totals = totals.0.iter().map(|total| total.bytes_per_s).collect();
        self.level();
    }

    /// Replaces the measured demands of `worker`'s connections and computes the rates of all connections again.
    ///
    /// Returns true if the rate toward a peer changed by more than 1/50.
    pub fn share(&mut self, worker: usize, uses: Vec<Use>) -> bool {
        if let Some(old) = self.uses.get_mut(worker) {
            *old = uses;
        }
        let before = std::mem::take(&mut self.levels);
        self.level();
        before.iter().zip(&self.levels).any(|(old, new)| is_worth_it(*old, *new))
    }

    fn level(&mut self) {
        let mut demands = vec![Vec::new(); self.totals.len()];
        for flow in self.uses.iter().flatten() {
            let peer = self.by_prefix.longest_match(flow.address).and_then(|index| demands.get_mut(index));
            if let Some(peer) = peer {
                peer.push(flow.demand);
            }
        }
        let levels = self.totals.iter().zip(&mut demands);
        self.levels = levels.map(|(total, demands)| Some(level((*total)?, demands))).collect();
    }

    /// Returns the maximum rate of a connection to this address behind a peer, in bytes per second.
    ///
    /// `None` if no rate is known.
    pub fn granted(&self, address: IpAddr) -> Option<u64> {
        self.levels.get(self.by_prefix.longest_match(address)?).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive_their_line() {
        for line in ["", "1250000 10.9.0.0/24,fd00::/64;* 10.8.0.0/16"] {
            assert_eq!(line.parse::<PeerTotals>().unwrap().to_string(), line);
        }
        assert!("x 10.0.0.0/8".parse::<PeerTotals>().is_err());
    }

    #[test]
    fn flows_share_the_total_of_their_peer() {
        let mut rates = PeerRates::new(2);
        let address = |last: u8| IpAddr::from([10, 9, last, 1]);
        rates.set(&"900 10.9.0.0/24,10.9.3.0/24;500 10.9.1.0/24;* 10.9.2.0/24".parse().unwrap());
        assert_eq!(rates.granted(address(0)), Some(900));
        let flow = |last, demand| Use { address: address(last), demand };
        assert!(rates.share(1, vec![flow(3, u64::MAX), flow(0, 100), flow(9, 7)]));
        assert!(rates.share(0, vec![flow(0, u64::MAX), flow(1, u64::MAX), flow(2, u64::MAX)]));
        assert!(!rates.share(1, vec![flow(3, u64::MAX), flow(0, 101)]), "too little to tell");
        rates.share(1, vec![flow(3, u64::MAX), flow(0, 100)]);
        assert_eq!(
            [0, 1, 2, 3, 9].map(|last| rates.granted(address(last))),
            [Some(400), Some(500), None, Some(400), None]
        );
    }

    #[test]
    fn other_totals_are_shared_as_the_old_ones_were() {
        let mut rates = PeerRates::new(2);
        let flow = Use { address: IpAddr::from([10, 9, 0, 1]), demand: u64::MAX };
        rates.set(&"900 10.9.0.0/24".parse().unwrap());
        rates.share(0, vec![flow]);
        rates.share(1, vec![flow, flow]);
        assert_eq!(rates.granted(flow.address), Some(300));
        rates.set(&"7 10.8.0.0/24;1200 10.9.0.0/24".parse().unwrap());
        assert_eq!(rates.granted(flow.address), Some(400));
        assert!(rates.share(1, Vec::new()));
        assert_eq!(rates.granted(flow.address), Some(1200));
    }
}
