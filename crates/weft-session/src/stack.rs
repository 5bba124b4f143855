//! Wipes secrets that functions left on the stack when they returned.

use zeroize::Zeroizing;

/// Words of 16 bytes of stack that a handshake's functions use: 48 KiB. Tuned: the memory test passes with half of it.
pub(crate) const OF_A_HANDSHAKE: usize = 48 * 1024 / size_of::<u128>();
/// Words of stack that one run of a cipher uses: 2 KiB. Tuned in the same way.
pub(crate) const OF_A_CIPHER: usize = 2 * 1024 / size_of::<u128>();

/// Overwrites `WORDS` words of the stack below the caller's frame. The caller of a function that moved secrets calls it afterwards.
///
/// Each word is one write that the compiler must keep, so words are as long as they can be.
#[inline(never)]
pub(crate) fn wipe<const WORDS: usize>() {
    drop(Zeroizing::new([0_u128; WORDS]));
}
