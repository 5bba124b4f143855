//! Frames of a TCP connection: cut into any pieces they yield the same datagrams, which are framed again to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_carrier::frame::{BadFrame, FrameReader, append};
use weft_carrier::greeting::{self, GreetingVerdict};

/// Returns the stream's datagrams, framed again, and the error that ends it.
fn read(stream: &[u8], piece: usize) -> (Vec<u8>, Option<BadFrame>) {
    let (mut frames, mut again, mut rest) = (FrameReader::default(), Vec::new(), stream);
    while !rest.is_empty() {
        let room = frames.room();
        let len = piece.min(room.len()).min(rest.len());
        assert!(len > 0, "a decoder without room cannot go on");
        room[..len].copy_from_slice(&rest[..len]);
        frames.fill(len);
        rest = &rest[len..];
        loop {
            match frames.take() {
                Ok(Some(datagram)) => append(&mut again, datagram),
                Ok(None) => break,
                Err(why) => return (again, Some(why)),
            }
        }
    }
    (again, None)
}

fuzz_target!(|input: (u16, [u8; 16], Vec<u8>)| {
    let (piece, proof, stream) = input;
    let (again, bad) = read(&stream, usize::from(piece).max(1));
    assert!(stream.starts_with(&again), "nothing is made up");
    assert_eq!((again, bad), read(&stream, usize::MAX), "the pieces do not matter");
    if let GreetingVerdict::Valid(greeting) = greeting::judge(&proof, &stream) {
        assert!(stream.starts_with(&greeting::encode(&proof, &greeting)));
    }
});
