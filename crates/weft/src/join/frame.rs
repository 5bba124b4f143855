//! Frames on the TCP connection between applicant and inviting node.

use std::io::{self, Read, Write};
use weft_session::enrolment::MAX_MESSAGE;

/// Writes a message with its length before it.
///
/// # Errors
/// Fails if the connection fails, or the message is too long.
pub fn send(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    stream.write_all(&[&length.to_be_bytes()[..], message].concat())?;
    stream.flush()
}

/// Reads a message.
///
/// # Errors
/// Fails if the connection fails or ends, or the length exceeds the longest message.
pub fn receive(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_survives_and_any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..MAX_MESSAGE)) {
            let mut stream = Vec::new();
            send(&mut stream, &bytes).unwrap();
            prop_assert_eq!(receive(&mut &stream[..]).unwrap(), bytes.clone());
            prop_assert!(receive(&mut &stream[..stream.len() - 1]).is_err());
            let _ = receive(&mut &bytes[..]);
        }
    }

    #[test]
    fn a_length_above_the_longest_message_is_refused() {
        assert!(receive(&mut &[&u16::MAX.to_be_bytes()[..], &[0; 70_000]].concat()[..]).is_err());
    }
}
