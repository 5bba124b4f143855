//! Prefixes: an address, and the number of its leading bits that all addresses of the prefix share.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use core::net::IpAddr;

/// Family byte of an IPv4 prefix.
const IPV4: u8 = 4;
/// Family byte of an IPv6 prefix.
const IPV6: u8 = 6;

/// An IP prefix: an address and the prefix length.
pub type WirePrefix = (IpAddr, u8);

pub(crate) fn parse_prefix(r: &mut ByteReader<'_>) -> Result<WirePrefix, WireError> {
    let (family, length) = (r.u8()?, r.u8()?);
    let address = match family {
        IPV4 => IpAddr::from(*r.array::<4>()?),
        IPV6 => IpAddr::from(*r.array::<16>()?),
        _ => return Err(WireError::UnknownType),
    };
    if is_canonical(&(address, length)) { Ok((address, length)) } else { Err(WireError::Malformed) }
}

pub(crate) fn write_prefix(w: &mut Writer<'_>, (address, length): WirePrefix) -> Result<(), WireError> {
    match address {
        IpAddr::V4(address) => w.put(&[IPV4, length]).and_then(|()| w.put(&address.octets())),
        IpAddr::V6(address) => w.put(&[IPV6, length]).and_then(|()| w.put(&address.octets())),
    }
}

/// True if the prefix length fits the address and no bit behind it is set.
pub(crate) fn is_canonical(&(address, length): &WirePrefix) -> bool {
    network_of(address, length) == Some(address)
}

/// Returns `address` with all bits behind the first `length` set to zero. `None` if the address has fewer bits.
pub fn network_of(address: IpAddr, length: u8) -> Option<IpAddr> {
    let behind = |bits: u8| bits.checked_sub(length).map(u32::from);
    Some(match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(behind(32)?).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(behind(128)?).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    })
}
