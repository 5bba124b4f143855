//! Lookup of the process that has a UDP port, for the message that the port is in use.

use std::fs;
use std::path::Path;

/// Returns name and pid of another process with UDP port `port`. `None` if this process can see none.
pub fn of_udp_port(port: u16) -> Option<String> {
    owners(port).find(|(pid, _)| *pid != std::process::id()).map(|(_, name)| name)
}

/// Returns the processes that have the port, each with its pid.
fn owners(port: u16) -> impl Iterator<Item = (u32, String)> {
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inodes = tables.iter().flat_map(|table| table.lines()).filter_map(|line| inode(line, port));
    let inodes: Vec<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    let owner = move |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let has_it = |fd: fs::DirEntry| {
            let target = fs::read_link(fd.path()).ok();
            target.and_then(|t| t.to_str().map(|t| inodes.iter().any(|inode| inode == t))).unwrap_or(false)
        };
        let mut descriptors = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        descriptors.any(has_it).then(|| (pid, name(&entry.path(), pid)))
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(owner)
}

fn name(process: &Path, pid: u32) -> String {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    format!("process {} (pid {pid})", name.trim())
}

/// Returns the inode in a line of /proc/net/udp (proc(5)) whose local port is `port`.
fn inode(line: &str, port: u16) -> Option<&str> {
    let mut columns = line.split_whitespace();
    let (_, local_port) = columns.nth(1)?.rsplit_once(':')?;
    (u16::from_str_radix(local_port, 16).ok()? == port).then(|| columns.nth(7))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_this_process() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let (pid, owner) = owners(port).next().unwrap();
        assert!(pid == std::process::id() && owner.ends_with(&format!("(pid {pid})")), "{owner}");
        assert_eq!(of_udp_port(port), None, "what this process has itself is no answer");
    }
}
