//! Short descriptions of the tried pairs of a link and an address.

use super::Cause;
use std::fmt::Display;
use std::net::IpAddr;
use weft_engine::{Tried, Unreachable};

/// Maximum number of names in a list. Of further ones only the number is stated.
const MOST_NAMED: usize = 4;

/// Pairs of a link and an address with the same reaction to handshakes.
pub struct Group {
    /// Cause that the reaction indicates.
    pub cause: Cause,
    /// Description of the pairs and the reaction.
    pub text: String,
}

/// Groups pairs of a link and an address by their reaction to handshakes.
pub fn groups(tried: &[Tried]) -> Vec<Group> {
    let mut kinds: Vec<(Option<Unreachable>, Option<IpAddr>, Vec<&Tried>)> = Vec::new();
    for one in tried {
        let (why, by) = (one.came_back.map(|(why, _)| why), one.came_back.and_then(|(_, by)| by));
        // The address of the answering host is printed only if it differs from the remote address.
        let by = by.filter(|by| *by != one.remote.ip());
        match kinds.iter_mut().find(|kind| (kind.0, kind.1) == (why, by)) {
            Some(kind) => kind.2.push(one),
            None => kinds.push((why, by, vec![one])),
        }
    }
    kinds.into_iter().map(|(why, by, pairs)| group(why, by, &pairs)).collect()
}

fn group(why: Option<Unreachable>, by: Option<IpAddr>, pairs: &[&Tried]) -> Group {
    let names = pairs.iter().map(|pair| format!("address {} over link {}", pair.remote, pair.link));
    let by = by.map_or_else(|| "the peer's address".to_owned(), |by| by.to_string());
    let sent: u32 = pairs.iter().map(|pair| pair.sent).sum();
    let calls = if sent > 0 { format!("{sent} handshakes to ") } else { String::new() };
    let came_back = match why {
        None => "no answer".to_owned(),
        Some(Unreachable::Port) => format!("ICMP port unreachable received from {by}"),
        Some(Unreachable::Prohibited) => format!("ICMP administratively prohibited received from {by}"),
        Some(Unreachable::Host) => format!("ICMP host unreachable received from {by}"),
        Some(Unreachable::Network) => format!("ICMP network unreachable received from {by}"),
        Some(Unreachable::TooBig) => format!("ICMP too big received from {by}"),
        Some(Unreachable::Other) => {
            format!("another type of ICMP error received from {by}, or the kernel failed to send")
        }
        Some(Unreachable::Filtered) => "the kernel did not send: not permitted".to_owned(),
        Some(Unreachable::NoRoute) => "the kernel did not send: no route over the link".to_owned(),
        Some(Unreachable::LinkDown) => "the kernel did not send: the link is down".to_owned(),
    };
    Group { cause: Cause::of(why), text: format!("{calls}{}: {came_back}", list(names, "and")) }
}

/// Returns `a, b and c` with `last` as the last conjunction, and the number of items beyond [`MOST_NAMED`].
pub fn list(items: impl Iterator<Item = impl Display>, last: &str) -> String {
    let mut names: Vec<String> = items.map(|item| item.to_string()).collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((end, [])) => end.clone(),
        Some((end, before)) => format!("{} {last} {end}", before.join(", ")),
        None => String::new(),
    }
}
