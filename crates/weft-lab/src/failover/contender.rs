//! What is compared: names, timers, how many cuts each gets.

use super::diamond::Diamond;
use super::ospf::Ospf;
use super::weft::Wefts;
use crate::LabError;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// What carries packets over the diamond.
pub(super) trait Network {
    /// Where the probes go, at the last node.
    fn far_end(&self) -> Ipv4Addr;

    /// Whether it takes all links to be well.
    fn is_whole(&self) -> Result<bool, LabError>;

    /// Ends what runs at the last node, and starts it again.
    ///
    /// # Errors
    /// When that is not built for it, or what runs there does not end or start.
    fn restart_far_end(&mut self, _: &Diamond) -> Result<(), LabError> {
        Err(LabError::Scenario("only weft can be restarted".to_owned()))
    }
}

/// How OSPF finds that a neighbour is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Timers {
    /// Time between two hellos.
    pub hello: Duration,
    /// A neighbour silent for so long is gone.
    pub dead: Duration,
    pub bfd: Option<Bfd>,
}

/// BFD beside OSPF (RFC 5880): a neighbour is gone after `multiplier` intervals without a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bfd {
    pub multiplier: u32,
    pub interval: Duration,
}

impl Timers {
    pub const fn seconds(hello: u64, dead: u64) -> Timers {
        Timers { hello: Duration::from_secs(hello), dead: Duration::from_secs(dead), bfd: None }
    }

    /// The lines of an interface's configuration; hellos of less than a second are a part of a dead interval of 1 s.
    pub fn of_ospf(self) -> String {
        match self.hello.as_secs() {
            0 => {
                let multiplier = self.dead.as_millis() / self.hello.as_millis().max(1);
                format!(" ip ospf dead-interval minimal hello-multiplier {multiplier}\n")
            }
            hello => format!(" ip ospf hello-interval {hello}\n ip ospf dead-interval {}\n", self.dead.as_secs()),
        }
    }
}

impl fmt::Display for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hello {:?}, dead {:?}", self.hello, self.dead)?;
        self.bfd.map_or(Ok(()), |bfd| write!(f, ", BFD {} × {:?}", bfd.multiplier, bfd.interval))
    }
}

/// One of those compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    pub name: &'static str,
    /// OSPF's; weft has none to set.
    pub timers: Option<Timers>,
    /// Every so many cuts wanted it gets one.
    pub one_cut_in: u32,
}

/// The name of what all others are compared with.
pub(super) const WEFT: &str = "weft";
const BFD: Bfd = Bfd { multiplier: 3, interval: Duration::from_millis(50) };
const MINIMAL: Timers = Timers { hello: Duration::from_millis(250), ..Timers::seconds(0, 1) };

/// All of them. The slow ones get fewer cuts.
pub(super) const CONTENDERS: [Contender; 5] = [
    Contender { name: WEFT, timers: None, one_cut_in: 1 },
    Contender { name: "ospf-bfd", timers: Some(Timers { bfd: Some(BFD), ..Timers::seconds(1, 4) }), one_cut_in: 1 },
    Contender { name: "ospf-minimal-hello", timers: Some(MINIMAL), one_cut_in: 1 },
    Contender { name: "ospf-hello-1", timers: Some(Timers::seconds(1, 4)), one_cut_in: 2 },
    Contender { name: "ospf-default", timers: Some(Timers::seconds(10, 40)), one_cut_in: 7 },
];

impl Contender {
    /// How many cuts it gets where `wanted` are wanted.
    pub fn cuts(&self, wanted: u32) -> u32 {
        wanted.div_ceil(self.one_cut_in)
    }

    /// Over how long a time the moments of the cuts are spread.
    pub fn period(&self) -> Duration {
        const WEFT: Duration = Duration::from_secs(1);
        self.timers.map_or(WEFT, |timers| timers.hello)
    }

    /// Its way of finding that a link is gone.
    pub fn detection(&self) -> String {
        self.timers.map_or("no timers to set".to_owned(), |timers| timers.to_string())
    }

    pub fn start(&self, diamond: &Diamond, weft_binary: &Path) -> Result<Box<dyn Network>, LabError> {
        Ok(match self.timers {
            None => Box::new(Wefts::start(diamond, weft_binary)?),
            Some(timers) => Box::new(Ospf::start(diamond, timers)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_its_timers_and_the_slow_get_fewer_cuts() {
        let said = CONTENDERS.map(|contender| (contender.detection(), contender.cuts(20)));
        let said: Vec<(&str, u32)> = said.iter().map(|(text, cuts)| (text.as_str(), *cuts)).collect();
        assert_eq!(
            said,
            [
                ("no timers to set", 20),
                ("hello 1s, dead 4s, BFD 3 × 50ms", 20),
                ("hello 250ms, dead 1s", 20),
                ("hello 1s, dead 4s", 10),
                ("hello 10s, dead 40s", 3)
            ]
        );
        assert_eq!(MINIMAL.of_ospf(), " ip ospf dead-interval minimal hello-multiplier 4\n");
    }
}
