//! DNS messages (RFC 1035 §4): queries for addresses, and their answers.
//!
//! A decoder returns `None` for every message that is not the answer, and never panics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of the class Internet of a DNS record.
const CLASS: u16 = 1;
/// Flags of a query: recursion desired.
const QUERY: u16 = 0x0100;
/// Masks and values of the flags of an accepted answer. Its code is 0 (no error) or 3 (the name does not exist).
const ANSWERS: [(u16, u16); 2] = [(0xf80f, 0x8000), (0xf80f, 0x8003)];
/// Length of a header, in bytes.
const HEADER: usize = 12;
/// Maximum length of one label of a name, in bytes (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// Type of an address record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordType {
    /// IPv4 (RFC 1035 §3.4.1).
    A = 1,
    /// IPv6 (RFC 3596 §2.1).
    Aaaa = 28,
}

/// Encodes a query. Returns `None` for a name that cannot be encoded.
pub fn query(id: u16, name: &str, of: RecordType) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEADER + name.len() + 6);
    for field in [id, QUERY, 1, 0, 0, 0] {
        bytes.extend(field.to_be_bytes());
    }
    bytes.extend(question(name, of)?);
    Some(bytes)
}

fn question(name: &str, of: RecordType) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=MAX_LABEL as u8).contains(length))?;
        bytes.push(length);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes.extend((of as u16).to_be_bytes());
    bytes.extend(CLASS.to_be_bytes());
    Some(bytes)
}

/// Returns the addresses in the answer to a query: an empty list if the name does not exist.
///
/// Address records of other names are included: a CNAME record in the answer leads to these names.
pub fn answer(bytes: &[u8], id: u16, name: &str, of: RecordType) -> Option<Vec<IpAddr>> {
    let mut reader = MessageReader { bytes };
    let (its_id, flags) = (reader.number()?, reader.number()?);
    let is_answer = ANSWERS.iter().any(|(mask, value)| flags & mask == *value);
    let (questions, records) = (reader.number()?, reader.number()?);
    reader.take(4)?;
    let asked = question(name, of)?;
    if its_id != id || !is_answer || questions != 1 || !reader.take(asked.len())?.eq_ignore_ascii_case(&asked) {
        return None;
    }
    let mut addresses = Vec::new();
    for _ in 0..records {
        reader.skip_name()?;
        let (kind, class) = (reader.number()?, reader.number()?);
        reader.take(4)?;
        let length = reader.number()?;
        let data = reader.take(length.into())?;
        if kind == of as u16 && class == CLASS {
            addresses.push(address(data, of)?);
        }
    }
    Some(addresses)
}

fn address(data: &[u8], of: RecordType) -> Option<IpAddr> {
    Some(match of {
        RecordType::A => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into(),
        RecordType::Aaaa => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into(),
    })
}

struct MessageReader<'a> {
    bytes: &'a [u8],
}

impl<'a> MessageReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Skips a name, which ends with an empty label or a pointer (RFC 1035 §4.1.4). `None` if the bytes are no name.
    fn skip_name(&mut self) -> Option<()> {
        loop {
            match *self.take(1)?.first()? {
                0 => return Some(()),
                length @ 1..=63 => self.take(length.into())?,
                0xc0.. => return self.take(1).map(drop),
                _ => return None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    /// Encodes an answer with a CNAME record and these addresses.
    fn reply(id: u16, name: &str, of: RecordType, addresses: &[IpAddr]) -> Vec<u8> {
        let mut bytes = query(id, name, of).unwrap();
        bytes[2..4].copy_from_slice(&0x8180_u16.to_be_bytes());
        bytes[6..8].copy_from_slice(&(addresses.len() as u16 + 1).to_be_bytes());
        bytes.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, b'x', 0xc0, 12]);
        for address in addresses {
            let octets = match address {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            };
            bytes.extend([1, b'x', 0xc0, 12, 0, of as u8, 0, 1, 0, 0, 0, 60, 0, octets.len() as u8]);
            bytes.extend(octets);
        }
        bytes
    }

    fn draw(rng: &mut Rng) -> (u16, String, RecordType, Vec<IpAddr>) {
        let of = if rng.chance(0.5) { RecordType::A } else { RecordType::Aaaa };
        let labels: Vec<String> = (0..=rng.below(4)).map(|_| "a1-b".repeat(1 + rng.below(15) as usize)).collect();
        let count = rng.below(8);
        let addresses = (0..count).map(|_| match of {
            RecordType::A => Ipv4Addr::from_bits(rng.next_u64() as u32).into(),
            RecordType::Aaaa => Ipv6Addr::from_bits(u128::from(rng.next_u64()) << 64 | 7).into(),
        });
        let addresses = addresses.collect();
        (rng.next_u64() as u16, labels.join("."), of, addresses)
    }

    #[test]
    fn only_answers_to_the_query_are_read() {
        let mut rng = Rng::new(53);
        for _ in 0..500 {
            let (id, name, of, addresses) = draw(&mut rng);
            let bytes = reply(id, &name, of, &addresses);
            assert_eq!(answer(&bytes, id, &name.to_uppercase(), of), Some(addresses));
            let other = if of == RecordType::A { RecordType::Aaaa } else { RecordType::A };
            assert_eq!(answer(&bytes, id, &name, other), None);
            assert_eq!(answer(&bytes, id ^ 1, &name, of), None);
            assert_eq!(answer(&bytes, id, &format!("x{name}"), of), None);
            assert_eq!(answer(&query(id, &name, of).unwrap(), id, &name, of), None, "the query itself");
            for cut in 0..bytes.len() {
                assert_eq!(answer(&bytes[..cut], id, &name, of), None, "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_name_that_does_not_exist_has_no_address_and_a_failed_server_no_answer() {
        let mut bytes = query(7, "hub.example.org", RecordType::A).unwrap();
        bytes[2..4].copy_from_slice(&0x8183_u16.to_be_bytes());
        assert_eq!(answer(&bytes, 7, "hub.example.org", RecordType::A), Some(Vec::new()));
        bytes[3] = 0x82;
        assert_eq!(answer(&bytes, 7, "hub.example.org", RecordType::A), None);
        assert_eq!(query(7, "a..b", RecordType::A), None);
        assert_eq!(query(7, &"x".repeat(64), RecordType::A), None);
    }

    #[test]
    fn any_bytes_are_an_answer_or_none() {
        let mut rng = Rng::new(1035);
        for _ in 0..20_000 {
            let (id, name, of, addresses) = draw(&mut rng);
            let mut bytes = reply(id, &name, of, &addresses);
            for _ in 0..=rng.below(6) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            let _ = answer(&bytes, id, &name, of);
        }
    }
}
