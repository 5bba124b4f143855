//! The secret that each request for data must contain.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use std::fmt;
use std::hint::black_box;

/// Length of the token before its encoding, in bytes. Standard: the length of a key of AES-256.
const BYTES: usize = 32;

/// The secret of one run of the web server, as text.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Returns a random token from the kernel's random numbers.
    ///
    /// # Errors
    /// Fails if the kernel has no random numbers.
    pub fn random() -> Result<Token, String> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|why| {
            format!("cannot get random numbers from the kernel: {why}: allow the system call getrandom")
        })?;
        Ok(Token(Base64UrlUnpadded::encode_string(&bytes)))
    }

    /// Returns the text of the token, for the address that the user opens.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns true if `given` is the token. The time depends on the length of `given` only.
    pub fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let mut difference = u8::from(own.len() != given.len());
        for (at, byte) in given.iter().enumerate() {
            difference |= black_box(byte ^ own[at % own.len()]);
        }
        black_box(difference) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_the_whole_token_is_the_token(at in 0usize..43, bit in 0u8..8, keep in 0usize..43, more in ".{1,60}") {
            let token = Token::random().unwrap();
            let own = token.text().as_bytes().to_vec();
            prop_assert_eq!(own.len(), 43);
            prop_assert!(token.is(&own));
            let mut changed = own.clone();
            changed[at] ^= 1 << bit;
            prop_assert!(!token.is(&changed));
            prop_assert!(!token.is(&own[..keep]));
            prop_assert!(!token.is(&[&own[..], more.as_bytes()].concat()));
            prop_assert!(!token.is(&[&own[..], &own[..]].concat()));
            prop_assert!(!token.is(Token::random().unwrap().text().as_bytes()));
        }
    }
}
