//! Address prefixes such as `10.9.0.0/24`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An IP address and how many of its leading bits count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// The address, host bits kept.
    pub address: IpAddr,
    /// The prefix length in bits.
    pub length: u8,
}

impl Prefix {
    /// The address with all host bits zero.
    pub fn network(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V4((a.to_bits() & mask).into())
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V6((a.to_bits() & mask).into())
            }
        }
    }

    /// The same prefix with all host bits zero.
    pub fn trimmed(&self) -> Prefix {
        Prefix { address: self.network(), length: self.length }
    }
}

impl FromStr for Prefix {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Prefix, Self::Err> {
        let (address, length) = text.split_once('/').ok_or("a prefix length is expected after the address")?;
        let address: IpAddr = address.parse().map_err(|_| "this is no IP address")?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        match length.parse() {
            Ok(length) if length <= most => Ok(Prefix { address, length }),
            _ => Err("the prefix length is 0 to 32 for IPv4, 0 to 128 for IPv6"),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_trims() {
        let prefix: Prefix = "10.9.3.7/22".parse().unwrap();
        assert_eq!(prefix.trimmed().to_string(), "10.9.0.0/22");
        assert_eq!("::1/0".parse::<Prefix>().unwrap().trimmed().to_string(), "::/0");
        for bad in ["10.9.0.1", "10.9.0.1/33", "ten/8", "::/129", "10.0.0.0/-1"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }
}
