//! Random numbers from the kernel.

use std::fs::File;
use std::io::{self, Read as _};

/// Returns 32 random bytes, for keys and seeds.
///
/// # Errors
/// Fails if `/dev/urandom` cannot be read. The error has a whole message for the user.
pub fn seed() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|why| {
        let text = format!("cannot read random numbers from /dev/urandom: {why}: check that this device exists");
        io::Error::new(why.kind(), text)
    })
}
