//! Wipes secrets that functions left on the stack when they returned.

use zeroize::Zeroizing;

/// Bytes of stack that a handshake's functions use. Tuned: the memory test passes with half of it.
pub(crate) const OF_A_HANDSHAKE: usize = 48 * 1024;
/// Bytes of stack that one run of a cipher uses. Tuned in the same way.
pub(crate) const OF_A_CIPHER: usize = 2 * 1024;

/// Overwrites `BYTES` bytes of the stack below the caller's frame. The caller of a function that moved secrets calls it afterwards.
#[inline(never)]
pub(crate) fn wipe<const BYTES: usize>() {
    drop(Zeroizing::new([0_u8; BYTES]));
}
