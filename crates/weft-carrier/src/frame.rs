//! Datagrams in a byte stream. Each datagram stands behind its length, a 16-bit number in network byte order.

use std::fmt;

/// Longest datagram that a frame holds, in bytes. Derived: more than the largest path MTU that weft probes, 9,000.
pub const MAX_DATAGRAM: usize = 9_216;
/// Bytes before each datagram.
pub const HEADER: usize = 2;
/// Size of the receive buffer, in bytes: space for an incomplete frame and one TLS record.
const BUFFER: usize = HEADER + MAX_DATAGRAM + 16_384;

/// A frame that a correct sender never sends. The stream cannot be read any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadFrame {
    /// The frame announces no bytes.
    Empty,
    /// The frame announces more than [`MAX_DATAGRAM`] bytes.
    TooLong(u16),
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Empty => f.write_str("a frame without bytes"),
            BadFrame::TooLong(len) => write!(f, "a frame of {len} bytes: at most {MAX_DATAGRAM} are allowed"),
        }
    }
}

/// Appends the length of a datagram and the datagram to `out`.
///
/// It leaves out an empty datagram, and one that is longer than [`MAX_DATAGRAM`].
pub fn append(out: &mut Vec<u8>, datagram: &[u8]) {
    if let Ok(len) = u16::try_from(datagram.len())
        && (1..=MAX_DATAGRAM).contains(&datagram.len())
    {
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(datagram);
    }
}

/// Reads a byte stream that arrives in pieces of any length, and splits it into datagrams.
#[derive(Debug)]
pub struct FrameReader {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Default for FrameReader {
    fn default() -> FrameReader {
        FrameReader { buffer: vec![0; BUFFER].into(), start: 0, end: 0 }
    }
}

impl FrameReader {
    /// Returns the free part of the buffer, to which the next bytes of the stream are written.
    ///
    /// It is not empty once [`FrameReader::take`] has returned all complete frames.
    pub fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.buffer[self.end..]
    }

    /// Records that the caller has written `len` bytes of the stream to the free part of the buffer.
    pub fn fill(&mut self, len: usize) {
        self.end = (self.end + len).min(self.buffer.len());
    }

    /// Removes and returns the next datagram. Returns `None` until it is complete.
    ///
    /// # Errors
    /// Returns an error if the frame is invalid. The stream cannot go on after it.
    pub fn take(&mut self) -> Result<Option<&[u8]>, BadFrame> {
        let [high, low, rest @ ..] = &self.buffer[self.start..self.end] else { return Ok(None) };
        let announced = u16::from_be_bytes([*high, *low]);
        let len = usize::from(announced);
        match len {
            0 => Err(BadFrame::Empty),
            _ if len > MAX_DATAGRAM => Err(BadFrame::TooLong(announced)),
            _ => {
                let datagram = rest.get(..len);
                self.start += datagram.map_or(0, |_| HEADER + len);
                Ok(datagram)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Returns the datagrams of a stream that arrives in pieces of these lengths, and the error that ends it.
    fn read(stream: &[u8], pieces: &[usize]) -> (Vec<Vec<u8>>, Option<BadFrame>) {
        let (mut frames, mut found, mut at) = (FrameReader::default(), Vec::new(), 0);
        for piece in pieces.iter().copied().cycle() {
            if at >= stream.len() {
                break;
            }
            let room = frames.room();
            let len = piece.min(room.len()).min(stream.len() - at);
            room[..len].copy_from_slice(&stream[at..at + len]);
            at += len;
            frames.fill(len);
            loop {
                match frames.take() {
                    Ok(Some(datagram)) => found.push(datagram.to_vec()),
                    Ok(None) => break,
                    Err(why) => return (found, Some(why)),
                }
            }
        }
        (found, None)
    }

    proptest! {
        #[test]
        fn datagrams_keep_their_borders_in_any_pieces(
            datagrams in vec(vec(any::<u8>(), 1..=MAX_DATAGRAM), 0..12), pieces in vec(1usize..20_000, 1..8),
        ) {
            let mut stream = Vec::new();
            datagrams.iter().for_each(|datagram| append(&mut stream, datagram));
            prop_assert_eq!(read(&stream, &pieces), (datagrams, None));
        }

        #[test]
        fn any_bytes_end_in_datagrams_or_an_error(stream in vec(any::<u8>(), 0..40_000), pieces in vec(1usize..9_000, 1..8)) {
            let (found, bad) = read(&stream, &pieces);
            let taken: usize = found.iter().map(|datagram| HEADER + datagram.len()).sum();
            let next = stream.get(taken..taken + HEADER).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]])));
            let is_bad = next.is_some_and(|len| len == 0 || len > MAX_DATAGRAM);
            prop_assert_eq!(bad.is_some(), is_bad);
            prop_assert!(bad.is_some() || next.is_none_or(|len| stream.len() < taken + HEADER + len));
        }
    }

    #[test]
    fn a_datagram_without_bytes_or_with_too_many_is_left_out() {
        let mut out = Vec::new();
        append(&mut out, &[]);
        append(&mut out, &[0; MAX_DATAGRAM + 1]);
        assert!(out.is_empty());
        append(&mut out, &[7; MAX_DATAGRAM]);
        assert_eq!(read(&out, &[1]).0, [vec![7; MAX_DATAGRAM]]);
    }
}
