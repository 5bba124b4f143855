//! Arguments of `weft plan`.

use super::Control;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;
use weft_units::{Rate, parse_rate};

/// Arguments of `weft plan`.
#[derive(Args)]
pub struct PlanArguments {
    /// Peer whose links are planned, named as in `weft status`; needed if there are several peers
    #[arg(long, value_name = "NODE")]
    pub peer: Option<String>,
    /// Ask what changes without this link. Several links with commas are one question. Can be given several times
    #[arg(long, value_name = "LINK[,LINK]")]
    pub without: Vec<String>,
    /// Ask what changes if this link, which must exist, has another rate: 'eth0=100 Mbit/s'. One RATE applies in both
    /// directions; two are to the peer and from it. Can be given several times
    #[arg(long, value_name = "LINK=RATE[,RATE]")]
    pub with: Vec<GivenRate>,
    /// Ask what changes with this number of further sites, 1 to 99: nodes that send the same flows as this one. All
    /// sites share the rate of each link, as if its bottleneck were at the peer. Can be given several times
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..100))]
    pub sites: Vec<u16>,
    /// Use this rate of a link instead of the measured one, in all answers. One RATE applies in both directions; two
    /// are to the peer and from it. Can be given several times
    #[arg(long, value_name = "LINK=RATE[,RATE]")]
    pub rate: Vec<GivenRate>,
    /// File with the output of `weft status --json` on the peer: it has the rates from the peer to this node. Without
    /// it, such a rate is the one to the peer, or the rate that arrived in the last second if that is higher
    #[arg(long, value_name = "FILE")]
    pub peer_status: Option<PathBuf>,
    /// New file for the scenario; the scenario of each question (--without, --with, --sites) is stored beside it
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// The rates of a link that the user states: `LINK=RATE`, or `LINK=RATE,RATE` to the peer and from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenRate {
    /// Name of the link.
    pub link: String,
    /// Rates to the peer and from it.
    pub rates: [Rate; 2],
}

impl FromStr for GivenRate {
    type Err = String;

    fn from_str(text: &str) -> Result<GivenRate, String> {
        let form = "write LINK=RATE, or LINK=RATE,RATE to and from the peer, for example 'lte=20 Mbit/s'";
        let (link, rates) = text.rsplit_once('=').filter(|(link, _)| !link.is_empty()).ok_or(form)?;
        let (to, from) = rates.split_once(',').unwrap_or((rates, rates));
        let read = |text: &str| match parse_rate(text) {
            Ok(Rate::ZERO) => {
                Err("the rate of a link must be greater than zero: to plan without a link, use --without".to_owned())
            }
            rate => rate.map_err(|why| format!("cannot read the rate `{}`: {why}: {form}", text.trim())),
        };
        Ok(GivenRate { link: link.to_owned(), rates: [read(to)?, read(from)?] })
    }
}
