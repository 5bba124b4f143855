//! Codec of varints: integers in one, two, four or eight bytes (RFC 9000 §16).

use crate::WireError;

/// The largest value a varint holds, 2^62 − 1.
pub const MAX: u64 = (1 << 62) - 1;

/// Returns the length of the shortest encoding of `value`, in bytes.
///
/// Values above [`MAX`] have no encoding; for them it returns eight.
pub const fn len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Parses a varint of any length at the start of `bytes`, and returns the bytes after it.
///
/// # Errors
/// [`WireError::Truncated`].
pub fn parse(bytes: &[u8]) -> Result<(u64, &[u8]), WireError> {
    let first = *bytes.first().ok_or(WireError::Truncated)?;
    let (field, rest) = bytes.split_at_checked(1 << (first >> 6)).ok_or(WireError::Truncated)?;
    let value = field.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    Ok((value & (u64::MAX >> (66 - 8 * field.len())), rest))
}

/// Writes `value` at the start of `out` in its shortest encoding and returns the length.
///
/// # Errors
/// [`WireError::NoRoom`], or [`WireError::Malformed`] for a value above [`MAX`].
pub fn emit(value: u64, out: &mut [u8]) -> Result<usize, WireError> {
    if value > MAX {
        return Err(WireError::Malformed);
    }
    let len = len(value);
    let length_bits = (len.trailing_zeros() as u64) << (8 * len - 2);
    let encoded = (value | length_bits).to_be_bytes();
    let shortest = encoded.get(8 - len..).ok_or(WireError::Malformed)?;
    out.get_mut(..len).ok_or(WireError::NoRoom)?.copy_from_slice(shortest);
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the examples of RFC 9000 appendix A.1.
    #[test]
    fn agrees_with_the_examples_of_the_rfc() {
        let cases: [(u64, &[u8]); 4] = [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ];
        for (value, encoded) in cases {
            assert_eq!(parse(encoded), Ok((value, &[][..])));
            let mut out = [0; 8];
            assert_eq!(emit(value, &mut out), Ok(encoded.len()));
            assert_eq!(&out[..encoded.len()], encoded);
        }
        assert_eq!(parse(&[0x40, 0x25]), Ok((37, &[][..])));
        assert_eq!(emit(MAX + 1, &mut [0; 8]), Err(WireError::Malformed));
        assert_eq!(emit(MAX, &mut [0; 7]), Err(WireError::NoRoom));
    }
}
