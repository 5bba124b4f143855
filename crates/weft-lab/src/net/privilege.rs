//! Acquires the privilege to create network namespaces.

use super::{context, sys};
use std::fs;
use std::io;

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// Makes this process able to create network namespaces.
///
/// The function does nothing for root. It makes an ordinary user the root of a new user namespace with an empty
/// network namespace, as `unshare --user --map-root-user --net` does. The caller must call it before the process
/// starts a thread, because the kernel moves only single-threaded processes.
///
/// # Errors
/// Returns an error with advice if the kernel refuses the user namespace.
pub fn acquire_privilege() -> io::Result<()> {
    if is_privileged()? {
        return Ok(());
    }
    // SAFETY: Both calls only read the process's credentials.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).map_err(|e| {
        context(
            "the lab needs root, or a kernel that lets an ordinary user create user namespaces \
             (sysctl user.max_user_namespaces; kernel.unprivileged_userns_clone=1; \
             kernel.apparmor_restrict_unprivileged_userns=0) entered before the first thread starts",
            e,
        )
    })?;
    let write = |file: &str, text: String| {
        fs::write(file, text)
            .map_err(|e| context(format_args!("cannot write {file} to set up the lab's user namespace"), e))
    };
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", format!("0 {gid} 1"))
}

fn is_privileged() -> io::Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/status has no CapEff"))?;
    let needed = 1 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN;
    Ok(effective & needed == needed)
}
