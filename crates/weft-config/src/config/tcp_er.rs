//! Parsing of `[tcp-er]`: rates for sockets that use the congestion control `weft_er`.

use super::prefix;
use super::read::{At, Section};
use weft_engine::Prefix;
use weft_units::{Rate, parse_rate};

/// Rate of each connection toward a destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DestinationRate {
    /// Prefix of the destination.
    pub to: At<Prefix>,
    /// Rate of each connection, counted in bytes of IP packets.
    pub rate: Rate,
}

/// `[tcp-er]`: explicit rates for this machine's own sockets.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TcpEr {
    /// Rates by destination. The longest matching prefix applies.
    pub grants: Vec<DestinationRate>,
}

impl TcpEr {
    /// Parses command-line arguments of the form `PREFIX=RATE`.
    ///
    /// # Errors
    /// Returns the first argument that is wrong, and the reason.
    pub fn from_arguments(grants: &[String]) -> Result<TcpEr, String> {
        let read = |text: &String| {
            let form =
                || format!("the grant `{text}` must have the form PREFIX=RATE, for example 192.0.2.0/24='20 Mbit/s'");
            let (to, of) = text.split_once('=').ok_or_else(form)?;
            let to = prefix::parse(to).map_err(|why| format!("{to}: {why}"))?;
            let rate = rate(of).map_err(|why| format!("{of}: {why}"))?;
            Ok(DestinationRate { to: At { value: to, span: 0..0 }, rate })
        };
        Ok(TcpEr { grants: grants.iter().map(read).collect::<Result<_, String>>()? })
    }
}

/// Parses `[tcp-er]`.
pub fn read(mut section: Section<'_, '_>) -> TcpEr {
    let mut grants: Vec<DestinationRate> = Vec::new();
    for grant in section.sections("grant", "[[tcp-er.grant]]") {
        let span = grant.span();
        let Some(read) = read_grant(grant) else { continue };
        if grants.iter().any(|known| known.to.value == read.to.value) {
            section.complain(span, "this prefix already has a grant", "write one grant for each `to`");
        }
        grants.push(read);
    }
    section.finish();
    TcpEr { grants }
}

fn read_grant(mut section: Section<'_, '_>) -> Option<DestinationRate> {
    let to = section.parsed("to", "\"10.9.0.0/24\"", prefix::parse);
    let rate = section.parsed("rate", "\"20 Mbit/s\"", rate);
    for (key, help) in [("to", "the destination, such as \"10.9.0.0/24\""), ("rate", "such as \"20 Mbit/s\"")] {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
    section.finish();
    Some(DestinationRate { to: to?, rate: rate?.value })
}

fn rate(text: &str) -> Result<Rate, String> {
    match parse_rate(text) {
        Ok(rate) if rate == Rate::ZERO => {
            Err("a granted rate of 0 would stop all traffic to these destinations: remove this grant instead"
                .to_owned())
        }
        Ok(rate) => Ok(rate),
        Err(why) => Err(why.to_string()),
    }
}
