//! Text form of address prefixes such as `10.9.0.0/24`.

use std::net::IpAddr;
use weft_engine::Prefix;
use weft_wire::prefix::network_of;

/// Parses a prefix and keeps its host bits.
///
/// # Errors
/// Returns the expected form.
pub fn parse(text: &str) -> Result<Prefix, &'static str> {
    let (address, length) = text.split_once('/').ok_or("expected a prefix length after the address")?;
    let address: IpAddr = address.parse().map_err(|_| "not an IP address")?;
    match length.parse() {
        Ok(length) if length <= host_bits(address) => Ok(Prefix { address, length }),
        _ => Err("the prefix length must be 0 to 32 for IPv4, 0 to 128 for IPv6"),
    }
}

/// Returns the prefix as text, for example `10.9.0.0/24`.
pub fn text(prefix: Prefix) -> String {
    format!("{}/{}", prefix.address, prefix.length)
}

/// Returns the same prefix with all host bits zero.
///
/// If the prefix length is greater than 32 or 128 bits, the address stays as it is.
pub fn trimmed(prefix: Prefix) -> Prefix {
    let length = prefix.length.min(host_bits(prefix.address));
    Prefix { address: network_of(prefix.address, length).unwrap_or(prefix.address), length }
}

/// Returns the length of a prefix that contains only `address`: 32 for IPv4, 128 for IPv6.
pub fn host_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the address of the host with this number, from 1, in a network without host bits.
///
/// The network's own address and its broadcast address are not hosts.
pub fn nth_host(network: Prefix, number: u128) -> Option<IpAddr> {
    let bits = u32::from(host_bits(network.address).checked_sub(network.length)?);
    let last = 1_u128.checked_shl(bits).map_or(u128::MAX, |count| count - 1);
    let reserved = u128::from(network.address.is_ipv4());
    if number == 0 || number > last.saturating_sub(reserved) {
        return None;
    }
    Some(match network.address {
        IpAddr::V4(network) => IpAddr::V4((u32::from(network) | u32::try_from(number).ok()?).into()),
        IpAddr::V6(network) => IpAddr::V6((u128::from(network) | number).into()),
    })
}

/// Returns the first host of a network for which `is_taken` is false, or `None` if the first 65,536 hosts are taken.
pub fn free_host(network: Prefix, is_taken: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let hosts = (1..).map_while(|number| nth_host(network, number));
    hosts.take(1 << 16).find(|address| !is_taken(*address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_length_trims_to_a_prefix_that_holds_its_address(bits in any::<u128>(), is_v6 in any::<bool>(), length in any::<u8>()) {
            let address: IpAddr = if is_v6 { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) };
            let trimmed = trimmed(Prefix { address, length });
            prop_assert!(trimmed.length <= host_bits(address) && trimmed.contains(address), "{:?}", trimmed);
            prop_assert_eq!(parse(&text(trimmed)), Ok(trimmed));
        }
    }

    #[test]
    fn hosts_are_numbered_without_the_networks_own_addresses() {
        let host = |text: &str, number| nth_host(parse(text).unwrap(), number).map(|address| address.to_string());
        assert_eq!(host("10.77.0.0/24", 1).as_deref(), Some("10.77.0.1"));
        assert_eq!(host("10.77.0.0/24", 254).as_deref(), Some("10.77.0.254"));
        assert_eq!([host("10.77.0.0/24", 0), host("10.77.0.0/24", 255)], [None, None]);
        assert_eq!((host("10.77.0.0/32", 1), host("10.77.0.0/31", 1)), (None, None));
        assert_eq!(host("fd00::/64", 300).as_deref(), Some("fd00::12c"));
        assert_eq!(host("0.0.0.0/0", 5).as_deref(), Some("0.0.0.5"));
    }

    #[test]
    fn the_first_free_host_is_given() {
        let free = |text: &str, taken: u8| {
            let is_taken = |address: IpAddr| matches!(address, IpAddr::V4(a) if a.octets()[3] <= taken);
            free_host(parse(text).unwrap(), is_taken).map(|address| address.to_string())
        };
        assert_eq!(free("10.77.0.0/24", 0).as_deref(), Some("10.77.0.1"));
        assert_eq!(free("10.77.0.0/24", 253).as_deref(), Some("10.77.0.254"));
        assert_eq!(free("10.77.0.0/24", 254), None);
    }

    #[test]
    fn reads_and_trims() {
        let trimmed = |s| text(trimmed(parse(s).unwrap()));
        assert_eq!(trimmed("10.9.3.7/22"), "10.9.0.0/22");
        assert_eq!(trimmed("::1/0"), "::/0");
        assert_eq!(trimmed("10.9.3.7/32"), "10.9.3.7/32");
        for bad in ["10.9.0.1", "10.9.0.1/33", "ten/8", "::/129", "10.0.0.0/-1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
