//! Wipes secrets that functions leave on the stack when they return.

use zeroize::Zeroizing;

/// Number of 16-byte words of stack to wipe after a handshake: 48 KiB. Tuned: the memory test passes with half of it.
pub(crate) const OF_A_HANDSHAKE: usize = 48 * 1024 / size_of::<u128>();
/// Number of 16-byte words of stack to wipe after one run of a cipher: 2 KiB.
///
/// Tuned: the memory test passes with half of it.
pub(crate) const OF_A_CIPHER: usize = 2 * 1024 / size_of::<u128>();

/// Overwrites `WORDS` words of the stack below the caller's frame.
///
/// The caller must have called a function that may have left secrets on the stack. Each word is one write that the
/// compiler must keep, so the words are as long as possible.
#[inline(never)]
pub(crate) fn wipe<const WORDS: usize>() {
    drop(Zeroizing::new([0_u128; WORDS]));
}
