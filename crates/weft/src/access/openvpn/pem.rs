//! Text form of keys and certificates (RFC 7468).

use base64ct::{Base64, Encoding as _};

/// Label of a certificate (RFC 7468 §5).
pub const CERTIFICATE: &str = "CERTIFICATE";
/// Label of a private key in PKCS #8 (RFC 7468 §10).
pub const PRIVATE_KEY: &str = "PRIVATE KEY";
/// Length of a line of base64, in characters (RFC 7468 §2).
const LINE: usize = 64;

/// Writes DER as text with the given label.
pub fn encode(label: &str, der: &[u8]) -> String {
    let mut base64 = Base64::encode_string(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    while !base64.is_empty() {
        let rest = base64.split_off(LINE.min(base64.len()));
        text += &(base64 + "\n");
        base64 = rest;
    }
    text + &format!("-----END {label}-----\n")
}

/// Reads the DER of the first block in a text, whatever its label. Returns `None` if there is none.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("-----BEGIN "));
    let label = lines.next()?.strip_prefix("-----BEGIN ")?;
    let mut base64 = String::new();
    for line in lines {
        if line.strip_prefix("-----END ") == Some(label) {
            return Base64::decode_vec(&base64).ok();
        }
        base64 += line;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_come_back(der in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = encode(PRIVATE_KEY, &der);
            prop_assert!(text.lines().all(|line| line.len() <= LINE));
            prop_assert_eq!(decode(&text), Some(der.clone()));
            prop_assert_eq!(decode(&format!("a comment\r\n{}", text.replace('\n', "\r\n"))), Some(der));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(-----BEGIN A-----\n)?[A-Za-z0-9+/=\n ]{0,80}(-----END [AB]-----)?") {
            let _ = decode(&text);
        }
    }

    #[test]
    fn a_block_that_does_not_end_is_refused() {
        for text in ["", "AAAA", "-----BEGIN A-----\nAAAA\n", "-----BEGIN A-----\nAAAA\n-----END B-----\n"] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode("-----BEGIN A-----\nAAAA\n-----END A-----\n"), Some(vec![0; 3]));
    }
}
