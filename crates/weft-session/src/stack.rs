//! Wipes secrets that functions leave on the stack when they return.

use zeroize::Zeroizing;

/// Number of 16-byte words of stack that a handshake uses: 48 KiB. Tuned: the memory test passes with half of it.
pub(crate) const OF_A_HANDSHAKE: usize = 48 * 1024 / size_of::<u128>();
/// Number of 16-byte words of stack that one run of a cipher uses: 2 KiB.
///
/// Tuned: the memory test passes with half of it.
pub(crate) const OF_A_CIPHER: usize = 2 * 1024 / size_of::<u128>();

/// Overwrites `WORDS` words of the stack below the caller's frame.
///
/// A function calls this after it called a function that moved secrets. Each word is one write that the compiler must
/// keep, so the words are as long as possible.
#[inline(never)]
pub(crate) fn wipe<const WORDS: usize>() {
    drop(Zeroizing::new([0_u128; WORDS]));
}
