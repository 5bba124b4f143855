//! Test support: records secrets in masked form, and searches the process's memory for them.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test looks at its own memory")]

use aws_lc_rs::aead::Algorithm;
use aws_lc_rs::hkdf::Prk;
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_io::memory::WipingAllocator;

/// The tests use the same memory allocator as the daemon, which wipes freed memory.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

/// Byte that is XORed with each byte of a recorded secret, so that a search does not find the record itself.
const MASK: u8 = 0xa5;

type Masked = [u8; 32];

thread_local! {
    static NOTES: RefCell<Option<Vec<Masked>>> = const { RefCell::new(None) };
}

/// Waits until no other test searches the memory, and keeps others from it until the result is dropped.
///
/// The buffer of a search may hold a copy of another test's secrets.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a secret of 32 bytes, if recording has been started in this thread.
pub(crate) fn note(secret: &[u8]) {
    NOTES.with_borrow_mut(|notes| {
        if let (Some(notes), Ok(secret)) = (notes, Masked::try_from(secret)) {
            notes.push(secret.map(|byte| byte ^ MASK));
        }
    });
}

/// Records the key that is derived from `secret` with this `info`, if recording has been started in this thread.
pub(crate) fn note_key(secret: &Prk, info: &[&[u8]], algorithm: &'static Algorithm) {
    let mut key = [0; 32];
    secret.expand(info, algorithm).and_then(|okm| okm.fill(&mut key)).unwrap();
    note(&key);
}

/// Returns the secrets recorded since the previous call of this function, and starts recording.
pub(crate) fn take() -> Vec<Masked> {
    NOTES.with_borrow_mut(|notes| notes.replace(Vec::new()).unwrap_or_default())
}

/// Returns the number of these secrets found anywhere in this process's writable memory.
pub(crate) fn found(secrets: &[Masked]) -> usize {
    let memory = fs::File::open("/proc/self/mem").unwrap();
    let mut is_found = vec![false; secrets.len()];
    let mut chunk = vec![0; 1 << 20];
    for (from, to) in regions() {
        let mut at = from;
        while at < to {
            let wanted = chunk.len().min((to - at) as usize);
            // The region may have been unmapped since the list of regions was read. It is then left out.
            let Ok(len) = memory.read_at(&mut chunk[..wanted], at) else { break };
            search(&chunk[..len], secrets, &mut is_found);
            // Successive pieces overlap by 31 bytes, so that no secret is missed. A region ends at a page boundary, so
            // its last piece is longer than a secret.
            at += if len < wanted || at + len as u64 == to { (to - at).max(1) } else { len as u64 - 31 };
        }
    }
    chunk.fill(0);
    is_found.into_iter().filter(|found| *found).count()
}

fn search(bytes: &[u8], secrets: &[Masked], is_found: &mut [bool]) {
    let mut starts = [false; 256];
    secrets.iter().for_each(|secret| starts[usize::from(secret[0] ^ MASK)] = true);
    for window in bytes.windows(32).filter(|window| starts[usize::from(window[0])]) {
        let is_it = |secret: &Masked| secret.iter().zip(window).all(|(masked, byte)| masked ^ MASK == *byte);
        secrets
            .iter()
            .zip(is_found.iter_mut())
            .filter(|(secret, _)| is_it(secret))
            .for_each(|(_, found)| *found = true);
    }
}

fn regions() -> Vec<(u64, u64)> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let region = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let ends = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        rest.starts_with("rw").then_some(ends)
    };
    maps.lines().filter_map(region).collect()
}
