//! Version of the kernel, to decide whether it has functions of newer kernels.

use crate::sys::check;
use std::ffi::CStr;
use std::ptr;

/// Returns the first two numbers of the running kernel's release, or `None` if the release does not begin with two.
pub fn version() -> Option<(u32, u32)> {
    // SAFETY: all-zero bytes are a valid utsname.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel only writes to `name`.
    check(unsafe { libc::uname(&raw mut name) }).ok()?;
    // SAFETY: the kernel ends the release with a zero byte.
    let release = unsafe { CStr::from_ptr(ptr::from_ref(&name.release).cast()) };
    version_of(release.to_str().ok()?)
}

/// Parses the first two numbers of a kernel's release such as `6.1.0-28-amd64`. `None` if there are not two.
pub fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_a_kernel_is_read() {
        assert_eq!(version_of("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(version_of("6.18.5"), Some((6, 18)));
        assert_eq!(version_of("7.0-rc1"), Some((7, 0)));
        assert_eq!([version_of("six"), version_of("6")], [None, None]);
        assert!(version().is_some_and(|version| version > (2, 6)));
    }
}
