//! `weft prefixes`: prints which addresses lie behind which peer.

use super::watch::watch;
use crate::cli::PrefixArguments;
use crate::control::{ask, unexpected};
use crate::date::rfc_3339;
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::status::{Prefixes, RefusedPrefix};
use crate::table::Table;
use std::net::IpAddr;
use std::path::Path;
use weft_control::{Request, Response};

/// Prints the prefixes of all peers, of one peer, or of a VPN.
pub fn prefixes(arguments: &PrefixArguments) -> Result<Outcome, Failure> {
    let PrefixArguments { peer, vpn, reading } = arguments;
    watch(reading.watch, !reading.json, || {
        let found = read(&reading.control.control, peer.as_deref(), vpn.as_deref())?;
        Ok((if reading.json { json(&found)? } else { text(&found) }, Outcome::Well))
    })
}

fn read(socket: &Path, peer: Option<&str>, vpn: Option<&str>) -> Result<Prefixes, Failure> {
    let request = Request::Prefixes { peer: peer.map(str::to_owned), vpn: vpn.map(str::to_owned) };
    match ask(socket, &request)? {
        Response::Prefixes(prefixes) => Ok(prefixes),
        other => Err(unexpected(&other)),
    }
}

/// Returns an address behind a node: that of its longest prefix.
pub fn address_behind(socket: &Path, node: &str, vpn: Option<&str>) -> Result<IpAddr, Failure> {
    let found = read(socket, Some(node), vpn)?.prefixes;
    let parsed = found.iter().filter_map(|of| {
        let (address, length) = of.prefix.split_once('/')?;
        Some((address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?))
    });
    let longest = parsed.max_by_key(|(_, length)| *length).map(|(address, _)| address);
    longest.ok_or_else(|| {
        Failure::new(format!(
            "found no node `{node}` that has a prefix: list the nodes that have prefixes with: weft prefixes"
        ))
    })
}

fn text(found: &Prefixes) -> String {
    let headings = ["PREFIX", "BEHIND", "VPN", "LEARNT FROM", "UNTIL"];
    let mut table = Table::new(&headings).give_way(&["UNTIL", "VPN"], &["BEHIND", "LEARNT FROM"]);
    for of in &found.prefixes {
        table.row([
            of.prefix.clone(),
            of.peer.clone().unwrap_or_else(|| "this node".to_owned()),
            of.vpn.clone(),
            of.learnt.clone(),
            of.certified_until_unix_s.map_or_else(String::new, rfc_3339),
        ]);
    }
    let more = match found.left_out {
        0 => String::new(),
        count => format!("{count} more prefixes are not shown; show only some with: --peer NODE or --vpn NAME\n"),
    };
    let held = match found.held {
        0 => String::new(),
        count => {
            format!(
                "{count} learnt prefixes have lost their route in the routing daemon, and end after the time `hold` of \
                 [routing]\n"
            )
        }
    };
    let refused: String = found.refused.iter().map(refused).collect();
    let unshown = match found.refused_count.saturating_sub(found.refused.len()) {
        0 => String::new(),
        count => format!("the node does not use {count} more routes of the routing daemon: they are not listed\n"),
    };
    match table.is_empty() {
        true => format!("no prefixes: no peer has a prefix\n{refused}{unshown}"),
        false => format!("{table}{more}{held}{refused}{unshown}"),
    }
}

fn refused(of: &RefusedPrefix) -> String {
    format!(
        "the node does not use the routing daemon's route to {} (protocol and next hop: {}): {}\n",
        of.prefix, of.name, of.why
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape;
    use crate::hostile;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_acts_on_no_terminal_and_adds_no_line(name in hostile::name()) {
            let told = |name: &str| serde_json::json!({ "schema": 1, "left_out": 2, "prefixes": [
                { "vpn": name, "prefix": name, "peer": name, "learnt": name, "certified_until_unix_s": 7 }],
                "refused": [{ "name": name, "prefix": name, "why": name }], "refused_count": 1 });
            let mut value = told(&name);
            escape::strings(&mut value);
            let text = text(&serde_json::from_value(value).unwrap());
            prop_assert!(hostile::acting(&text).is_none() && text.lines().count() == 4, "{:?}", text);
        }
    }
}
