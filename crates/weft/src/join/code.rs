//! The code of an invitation: one line that a person copies, types or scans.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use weft_session::PublicKey;

/// Prefix of each code, with the version of its form.
const PREFIX: &str = "weft1-";
/// Length of a public key and of a secret, in bytes.
const KEY_LEN: usize = 32;
/// Maximum number of endpoints in a code. A code with more is refused.
pub const MAX_ENDPOINTS: usize = 8;

/// An invitation as the new node sees it.
///
/// Its binary form, with lengths in bytes, is: public key 32 | secret 32 | for each endpoint: the number 4 or 6 in 1
/// | address 4 or 16 | port 2. The text is base64url behind a prefix.
#[derive(Clone)]
pub struct Code {
    /// Public key of the inviting node.
    pub host: PublicKey,
    /// Secret of the invitation.
    pub secret: [u8; KEY_LEN],
    /// Addresses and ports at which the inviting node answers, TCP and UDP.
    pub endpoints: Vec<SocketAddr>,
}

/// Reason why a text is no code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeError {
    /// The text does not begin as a code.
    Prefix,
    /// A character is not of base64url, or characters are missing.
    Text,
    /// The bytes are too few or too many, or contain an unknown kind of address.
    Form,
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CodeError::Prefix => "an invitation code begins with weft1-: copy the line that `weft invite` prints",
            CodeError::Text => {
                "the invitation code has a character too many, too few or wrong: copy the whole line of `weft invite`"
            }
            CodeError::Form => {
                "the invitation code is damaged: copy the whole line of `weft invite`, or ask for a new invitation"
            }
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [&self.host.0[..], &self.secret].concat();
        for endpoint in &self.endpoints {
            match endpoint.ip() {
                IpAddr::V4(address) => bytes.extend([&[4][..], &address.octets()].concat()),
                IpAddr::V6(address) => bytes.extend([&[6][..], &address.octets()].concat()),
            }
            bytes.extend(endpoint.port().to_be_bytes());
        }
        write!(f, "{PREFIX}{}", Base64UrlUnpadded::encode_string(&bytes))
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Code, CodeError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let text = text.strip_prefix(PREFIX).ok_or(CodeError::Prefix)?;
        let bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| CodeError::Text)?;
        let (host, rest) = bytes.split_first_chunk::<KEY_LEN>().ok_or(CodeError::Form)?;
        let (secret, mut rest) = rest.split_first_chunk::<KEY_LEN>().ok_or(CodeError::Form)?;
        let mut endpoints = Vec::new();
        while !rest.is_empty() {
            let (endpoint, behind) = endpoint(rest).ok_or(CodeError::Form)?;
            endpoints.push(endpoint);
            rest = behind;
        }
        if endpoints.is_empty() || endpoints.len() > MAX_ENDPOINTS {
            return Err(CodeError::Form);
        }
        Ok(Code { host: PublicKey(*host), secret: *secret, endpoints })
    }
}

/// Reads one endpoint and returns it with the bytes behind it. `None` if the bytes do not begin with one.
fn endpoint(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (address, rest) = match kind {
        4 => rest.split_first_chunk::<4>().map(|(octets, rest)| (IpAddr::from(*octets), rest))?,
        6 => rest.split_first_chunk::<16>().map(|(octets, rest)| (IpAddr::from(*octets), rest))?,
        _ => return None,
    };
    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some((SocketAddr::new(address, u16::from_be_bytes(*port)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn endpoints() -> impl Strategy<Value = Vec<SocketAddr>> {
        prop::collection::vec((any::<IpAddr>(), any::<u16>()).prop_map(SocketAddr::from), 1..=MAX_ENDPOINTS)
    }

    proptest! {
        #[test]
        fn a_code_is_read_as_it_was_written(host: [u8; 32], secret: [u8; 32], endpoints in endpoints()) {
            let code = Code { host: PublicKey(host), secret, endpoints };
            let text = code.to_string();
            let wrapped = text.as_bytes().chunks(40).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>().join("\n");
            for text in [text.clone(), format!("  {text}\n"), wrapped] {
                let read: Code = text.parse().unwrap();
                prop_assert_eq!((read.host, read.secret, &read.endpoints), (code.host, secret, &code.endpoints));
            }
        }

        #[test]
        fn any_text_is_a_code_or_an_error(text in ".{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = text.parse::<Code>();
            let _ = format!("{PREFIX}{}", Base64UrlUnpadded::encode_string(&bytes)).parse::<Code>();
        }
    }

    #[test]
    fn a_code_without_an_endpoint_or_with_a_part_of_one_is_refused() {
        let text = |bytes: &[u8]| format!("{PREFIX}{}", Base64UrlUnpadded::encode_string(bytes));
        assert_eq!(text(&[1; 64]).parse::<Code>().err(), Some(CodeError::Form));
        assert_eq!(text(&[&[1; 64][..], &[4, 192, 0, 2, 1]].concat()).parse::<Code>().err(), Some(CodeError::Form));
        assert_eq!("weft2-AAAA".parse::<Code>().err(), Some(CodeError::Prefix));
        assert_eq!("weft1-A!".parse::<Code>().err(), Some(CodeError::Text));
    }
}
