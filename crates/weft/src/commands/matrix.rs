//! `weft sense --matrix`: prints the links between all members of the overlay, and the routes found on them.

use super::watch::watch;
use crate::cli::Reading;
use crate::control::{ask, unexpected};
use crate::outcome::{Failure, Outcome, json};
use crate::status::LinkMap;
use crate::table::{Table, dash, millis, percent, rate};
use weft_control::{Request, Response};

/// Prints the link map, or only the links of one member.
pub fn matrix(reading: &Reading, from: Option<&str>) -> Result<Outcome, Failure> {
    watch(reading.watch, !reading.json, || {
        let request = Request::LinkMap { from: from.map(str::to_owned) };
        let map = match ask(&reading.control.control, &request)? {
            Response::LinkMap(map) => map,
            other => return Err(unexpected(&other)),
        };
        Ok((if reading.json { json(&map)? } else { text(&map) }, Outcome::Well))
    })
}

fn text(map: &LinkMap) -> String {
    let headings = ["FROM", "TO", ">RTT", ">JITTER", ">LOSS", ">RATE"];
    let mut links = Table::new(&headings).give_way(&["JITTER", "LOSS", "RATE"], &["FROM", "TO"]);
    for link in &map.links {
        let rate = link.rate_bps.map_or_else(dash, |bps| rate(Some(bps)));
        links.row([
            link.from.clone(),
            link.to.clone(),
            millis(link.rtt_us),
            millis(link.jitter_us),
            percent(link.loss),
            rate,
        ]);
    }
    let headings = ["TO", "OVER", ">RTT", ">LOSS", ">RATE", "STATE"];
    let mut routes = Table::new(&headings).give_way(&["LOSS", "RATE"], &["TO", "OVER"]);
    for route in &map.routes {
        let rate = route.rate_bps.map_or_else(dash, |bps| rate(Some(bps)));
        let over = route.relays.join(" > ");
        routes.row([route.to.clone(), over, millis(route.rtt_us), percent(route.loss), rate, route.state.clone()]);
    }
    let more = match map.left_out {
        0 => String::new(),
        count => format!("{count} more links are not shown; show the links of one node with: --from NODE\n"),
    };
    let relays = map.members.iter().filter(|member| member.relay).count();
    let members = map.members.len();
    format!(
        "{links}{more}\nroutes from this node:\n{routes}\nthe network has {members} members, {relays} of them relays\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{MapLink, MapMember, MapRoute};

    #[test]
    fn links_and_routes_have_a_line_each() {
        let link = MapLink {
            from: "hub".to_owned(),
            to: "home".to_owned(),
            rtt_us: 20_000,
            jitter_us: 100,
            loss: 0.01,
            rate_bps: None,
        };
        let route = MapRoute {
            to: "ship".to_owned(),
            relays: vec!["hub".to_owned(), "port".to_owned()],
            rtt_us: 50_000,
            loss: 0.0,
            rate_bps: Some(5_000_000),
            state: "in use".to_owned(),
        };
        let map = LinkMap {
            schema: 1,
            members: vec![MapMember { name: "hub".to_owned(), relay: true }],
            links: vec![link],
            left_out: 2,
            routes: vec![route],
            forged_claims: 0,
            sent_bytes: 0,
        };
        let text = text(&map);
        for part in ["hub", "home", "20.0 ms", "hub > port", "in use", "2 more", "1 members, 1 of them relays"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
