//! Distinguished Encoding Rules (X.690), as far as a certificate needs them.
//!
//! Each function returns one complete element: its tag, its length and its content. The module only encodes.

/// Tag of a boolean.
const BOOLEAN: u8 = 0x01;
/// Tag of an integer.
const INTEGER: u8 = 0x02;
/// Tag of a bit string.
const BIT_STRING: u8 = 0x03;
/// Tag of an octet string.
const OCTET_STRING: u8 = 0x04;
/// Tag of an object identifier.
const OBJECT_IDENTIFIER: u8 = 0x06;
/// Tag of a text in UTF-8.
pub const UTF8_STRING: u8 = 0x0c;
/// Tag of a time whose year has two digits.
pub const UTC_TIME: u8 = 0x17;
/// Tag of a time whose year has four digits.
pub const GENERALIZED_TIME: u8 = 0x18;
/// Tag of a sequence.
const SEQUENCE: u8 = 0x30;
/// Tag of a set.
const SET: u8 = 0x31;
/// Minimum length of content whose length field takes more than one byte, in bytes.
///
/// *Standard*: X.690 §8.1.3.
const LONG: usize = 0x80;

/// Writes an element with the given tag.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut element = vec![tag];
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    if content.len() >= LONG {
        element.push(LONG as u8 | digits.len() as u8);
        element.extend_from_slice(digits);
    } else {
        element.push(content.len() as u8);
    }
    element.extend_from_slice(content);
    element
}

/// Writes a sequence of elements.
pub fn sequence(elements: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &elements.concat())
}

/// Writes a set of one element.
pub fn set(member: &[u8]) -> Vec<u8> {
    element(SET, member)
}

/// Writes `inner` with the explicit context-specific tag `number` around it.
pub fn explicit(number: u8, inner: &[u8]) -> Vec<u8> {
    element(0xa0 | number, inner)
}

/// Writes bytes with the implicit context-specific tag `number`.
pub fn implicit(number: u8, bytes: &[u8]) -> Vec<u8> {
    element(0x80 | number, bytes)
}

/// Writes the boolean `true`.
pub fn yes() -> Vec<u8> {
    element(BOOLEAN, &[0xff])
}

/// Writes a number that is not negative, given with its most significant byte first.
pub fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let mut content = bytes[zeros..].to_vec();
    // The first bit is the sign. A zero byte before it keeps the number positive.
    if content.first().is_none_or(|first| first & 0x80 != 0) {
        content.insert(0, 0);
    }
    element(INTEGER, &content)
}

/// Writes whole bytes as a bit string.
pub fn bits(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// Writes a bit string in which only bit `number` is set. Bit 0 is the most significant one.
pub fn one_bit(number: u8) -> Vec<u8> {
    element(BIT_STRING, &[7 - (number & 7), 0x80 >> (number & 7)])
}

/// Writes an octet string.
pub fn octets(bytes: &[u8]) -> Vec<u8> {
    element(OCTET_STRING, bytes)
}

/// Writes an object identifier, given in its encoded form.
pub fn identifier(encoded: &[u8]) -> Vec<u8> {
    element(OBJECT_IDENTIFIER, encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads an element. Returns its content.
    fn content(der: &[u8]) -> &[u8] {
        let (length, at) = match usize::from(der[1]) {
            short @ ..LONG => (short, 2),
            long => {
                let count = long - LONG;
                assert!(der[2] != 0, "a length begins with a zero");
                (der[2..2 + count].iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), 2 + count)
            }
        };
        assert_eq!(der.len(), at + length);
        &der[at..]
    }

    proptest! {
        #[test]
        fn each_length_is_read_again(bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(any::<u8>(), 65_000..66_000),
        ]) {
            let der = octets(&bytes);
            prop_assert_eq!(content(&der), &bytes[..]);
        }

        #[test]
        fn a_number_is_the_shortest_that_is_not_negative(number in any::<u64>(), shift in 0_u32..64) {
            let number = number >> shift;
            let der = unsigned(&number.to_be_bytes());
            let digits = content(&der);
            prop_assert!(digits[0] < 0x80 && (digits.len() == 1 || digits[0] != 0 || digits[1] >= 0x80));
            prop_assert_eq!(digits.iter().fold(0_u128, |all, byte| all << 8 | u128::from(*byte)), u128::from(number));
        }
    }
}
