//! The stack remembers what functions that have returned left on it.

use zeroize::Zeroizing;

/// Bytes that a handshake's functions reach below their caller, with room: tuned, the deepest reaches less than half as far.
pub(crate) const OF_A_HANDSHAKE: usize = 48 * 1024;
/// The same for one run of a cipher.
pub(crate) const OF_A_CIPHER: usize = 2 * 1024;

/// Overwrites so many bytes of the stack below the caller. To be called by what called a function that moved secrets.
#[inline(never)]
pub(crate) fn wipe<const BYTES: usize>() {
    drop(Zeroizing::new([0_u8; BYTES]));
}
