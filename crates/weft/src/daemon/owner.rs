//! Which process has a UDP port, for the message that it is in use.

use std::fs;
use std::path::Path;

/// Name and pid of the process that has UDP port `port` here, as far as we may know.
pub fn of_udp_port(port: u16) -> Option<String> {
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inodes = tables.iter().flat_map(|table| table.lines()).filter_map(|line| inode(line, port));
    let inodes: Vec<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let has_it = |fd: fs::DirEntry| {
            let target = fs::read_link(fd.path()).ok();
            target.and_then(|t| t.to_str().map(|t| inodes.iter().any(|inode| inode == t))).unwrap_or(false)
        };
        fs::read_dir(entry.path().join("fd")).ok()?.flatten().any(has_it).then(|| name(&entry.path(), pid))
    })
}

fn name(process: &Path, pid: u32) -> String {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    format!("{} (pid {pid})", name.trim())
}

/// The inode in a line of /proc/net/udp (proc(5)) whose local port is `port`.
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
        let owner = of_udp_port(socket.local_addr().unwrap().port()).unwrap();
        assert!(owner.ends_with(&format!("(pid {})", std::process::id())), "{owner}");
    }
}
