//! The contenders of the comparison, which are weft and OSPF variants: their names, timers and numbers of cuts.

use super::diamond::LabDiamond;
use super::ospf::Ospf;
use super::weft::Wefts;
use crate::LabError;
use crate::frr::{FAST_BFD, OspfTimers};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// A running network of weft or OSPF that carries packets over the four links of the diamond.
pub(super) trait RunningNetwork {
    /// Returns the destination of the probes, an address of the last node.
    fn far_end(&self) -> Ipv4Addr;

    /// True if the network considers all links good.
    fn is_whole(&self) -> Result<bool, LabError>;

    /// Stops the program at the last node and starts it again.
    ///
    /// # Errors
    /// Returns an error if the network does not support it, or if the program does not stop or start.
    fn restart_far_end(&mut self, _: &LabDiamond) -> Result<(), LabError> {
        Err(LabError::Scenario("--restart works with weft alone: add --only weft".to_owned()))
    }
}

/// One contender of the comparison: weft, or OSPF with certain timers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    pub name: &'static str,
    /// OSPF's timers. `None` for weft, which has none to set.
    pub timers: Option<OspfTimers>,
    /// Divisor of the number of cuts: the contender gets the requested number divided by this.
    pub one_cut_in: u32,
}

/// The name of the contender that all others are compared with.
pub(super) const WEFT: &str = "weft";
/// OSPF timers of the contender `ospf-minimal-hello`: four hellos in a dead interval of 1 s.
const MINIMAL: OspfTimers = OspfTimers { hello: Duration::from_millis(250), ..OspfTimers::seconds(0, 1) };

/// All contenders. Slow ones get fewer cuts.
pub(super) const CONTENDERS: [Contender; 5] = [
    Contender { name: WEFT, timers: None, one_cut_in: 1 },
    Contender { name: "ospf-bfd", timers: Some(FAST_BFD), one_cut_in: 1 },
    Contender { name: "ospf-minimal-hello", timers: Some(MINIMAL), one_cut_in: 1 },
    Contender { name: "ospf-hello-1", timers: Some(OspfTimers::seconds(1, 4)), one_cut_in: 2 },
    Contender { name: "ospf-default", timers: Some(OspfTimers::seconds(10, 40)), one_cut_in: 7 },
];

impl Contender {
    /// Returns the contender's number of cuts if the user wants `wanted` cuts.
    pub fn cuts(&self, wanted: u32) -> u32 {
        wanted.div_ceil(self.one_cut_in)
    }

    /// Returns the period of the contender's timer: the cuts are spread evenly over the phases of this period.
    pub fn period(&self) -> Duration {
        const WEFT: Duration = Duration::from_secs(1);
        self.timers.map_or(WEFT, |timers| timers.hello)
    }

    /// Returns a description of how the contender detects a failed link.
    pub fn detection(&self) -> String {
        self.timers.map_or("no timers to set".to_owned(), |timers| timers.to_string())
    }

    pub fn start(&self, diamond: &LabDiamond, weft_binary: &Path) -> Result<Box<dyn RunningNetwork>, LabError> {
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
    fn each_contender_lists_its_timers_and_slow_ones_get_fewer_cuts() {
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
    }
}
