//! Finds IP and hardware addresses at the start of a text, and names their kinds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum length of an IPv6 address as text, in bytes (*standard*: INET6_ADDRSTRLEN without its terminator).
const LONGEST: usize = 45;
/// Beginnings of the names of interfaces that contain a hardware address (*standard*: systemd.net-naming-scheme(7)).
const NAMED_BY_ADDRESS: [&str; 3] = ["enx", "wlx", "wwx"];

/// Returns the longest IP address at the start of `text`, with its length in bytes. `None` if there is none.
pub fn ip(text: &str) -> Option<(usize, IpAddr)> {
    if !text.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':') {
        return None;
    }
    let run = |is_part: fn(u8) -> bool| text.bytes().take(LONGEST).take_while(|byte| is_part(*byte)).count();
    let v6 = run(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.');
    let v4 = run(|byte| byte.is_ascii_digit() || byte == b'.');
    let found = (2..=v6).rev().find_map(|length| Some((length, text[..length].parse::<Ipv6Addr>().ok()?.into())));
    found.or_else(|| (7..=v4).rev().find_map(|length| Some((length, text[..length].parse::<Ipv4Addr>().ok()?.into()))))
}

/// Returns the hardware address at the start of `text`, or in the name of an interface there, with its length in bytes.
///
/// The returned address has lower-case digits and no separators. Returns `None` if there is no address.
pub fn hardware(text: &str) -> Option<(usize, String)> {
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ends = |length: usize| !text[length..].starts_with(|c: char| c.is_ascii_hexdigit() || c == ':');
    if let Some(digits) = NAMED_BY_ADDRESS.iter().find_map(|prefix| text.strip_prefix(prefix)?.get(..12)) {
        return (is_hex(digits) && ends(15)).then(|| (15, digits.to_ascii_lowercase()));
    }
    let candidate = text.get(..17)?;
    let separator = candidate.chars().nth(2).filter(|c| matches!(c, ':' | '-'))?;
    let parts: Vec<&str> = candidate.split(separator).collect();
    let is_address = parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && is_hex(part));
    (is_address && ends(17)).then(|| (17, parts.concat().to_ascii_lowercase()))
}

/// Returns the kind of an address: its scope and its family.
pub fn kind(ip: IpAddr) -> &'static str {
    match ip {
        IpAddr::V4(v4) => match v4.octets() {
            [127, ..] => "loopback4",
            [100, 64..=127, ..] => "shared4",
            [169, 254, ..] => "link-local4",
            [224..=239, ..] | [255, 255, 255, 255] => "multicast4",
            _ if v4.is_private() => "private4",
            _ => "public4",
        },
        IpAddr::V6(v6) if v6.is_loopback() => "loopback6",
        IpAddr::V6(v6) if v6.is_multicast() => "multicast6",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local6",
        IpAddr::V6(v6) if v6.is_unique_local() => "private6",
        IpAddr::V6(_) => "public6",
    }
}
