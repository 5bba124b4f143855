//! Checks of the installed service: the user that weft.service runs as has fewer rights than root.

use super::checks::{Check, Verdict};
use crate::config::Config;
use nix::unistd::{Gid, Uid, User, setfsgid, setfsuid};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

/// Directories in which systemd looks for units. The first match is used (systemd.unit(5)).
pub const UNIT_DIRECTORIES: [&str; 4] =
    ["etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system"];
/// Name of weft's unit.
const UNIT: &str = "weft.service";

/// The installed unit, reduced to the parts that the checks need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    user: String,
    uid: Uid,
    gid: Gid,
    capabilities: Vec<String>,
    has_tun: bool,
}

impl Service {
    /// Finds the unit under `root`.
    ///
    /// Returns `None` if no unit is installed, if the unit runs as root, or if this process is not root and thus
    /// cannot test as another user.
    ///
    /// # Errors
    /// Returns a finding if the unit names a user that does not exist.
    pub fn find(root: &Path) -> Result<Option<Service>, Check> {
        let texts = UNIT_DIRECTORIES.iter().map(|directory| fs::read_to_string(root.join(directory).join(UNIT)));
        let Some(text) = texts.flatten().next() else { return Ok(None) };
        let name = values(&text, "User").last().unwrap_or("root").to_owned();
        if name == "root" || !Uid::effective().is_root() {
            return Ok(None);
        }
        let Ok(Some(user)) = User::from_name(&name) else {
            let help = "install packaging/weft.sysusers and run systemd-sysusers";
            return Err(Check::new(
                "service",
                Verdict::Bad,
                format!("{UNIT} runs as the user {name}, but there is no such user"),
                help,
            ));
        };
        let capabilities = values(&text, "AmbientCapabilities").flat_map(str::split_whitespace);
        let is_closed = values(&text, "DevicePolicy").last().is_some_and(|policy| policy != "auto");
        Ok(Some(Service {
            user: name,
            uid: user.uid,
            gid: user.gid,
            capabilities: capabilities.map(str::to_owned).collect(),
            has_tun: !is_closed || values(&text, "DeviceAllow").any(|allowed| allowed.starts_with("/dev/net/tun")),
        }))
    }

    /// Checks if the service can open the TUN device.
    pub fn tun(&self, tun: &Path) -> Check {
        let (name, user) = ("TUN device", &self.user);
        if !self.has_tun {
            let help = "add DeviceAllow=/dev/net/tun rw to weft.service";
            return Check::new(name, Verdict::Bad, format!("{UNIT} does not allow access to /dev/net/tun"), help);
        }
        match self.open(tun, true) {
            Ok(()) => {
                let found = format!("the user {user} of {UNIT} can open the TUN device");
                Check::new(name, Verdict::Good, found, "")
            }
            Err(why) => {
                let help = match why.kind() {
                    io::ErrorKind::PermissionDenied => {
                        format!("let {user} open the device: chmod 666 {}", tun.display())
                    }
                    _ => {
                        "load the TUN driver with modprobe tun; start a container with --device /dev/net/tun".to_owned()
                    }
                };
                let found =
                    format!("the user {user}, which runs the service {UNIT}, cannot open the TUN device: {why}");
                Check::new(name, Verdict::Bad, found, help)
            }
        }
    }

    /// Checks if the service has CAP_NET_ADMIN.
    pub fn net_admin(&self) -> Check {
        let is_granted = self.capabilities.iter().any(|capability| capability == "CAP_NET_ADMIN");
        let (verdict, found) =
            if is_granted { (Verdict::Good, "granted by") } else { (Verdict::Bad, "not granted by") };
        let help = "add AmbientCapabilities=CAP_NET_ADMIN to weft.service";
        Check::new("CAP_NET_ADMIN", verdict, format!("{found} {UNIT}"), help)
    }

    /// Checks if the service can read the configuration and the key files that it names.
    pub fn files(&self, file: Option<&Path>, config: &Config) -> Vec<Check> {
        let secrets = config.peers.iter().filter_map(|peer| peer.preshared_key_file.as_ref()).map(|at| &at.value);
        let files = file.map(Path::to_owned).into_iter().chain([config.node.key.value.clone()]);
        let user = &self.user;
        let check = |file: PathBuf| {
            let why = self.open(&file, false).err()?;
            let help = format!(
                "run chown {user}: {}, and give {user} the permission x on all directories above the file",
                file.display()
            );
            let found = format!("the user {user} of {UNIT} cannot read the file {}: {why}", file.display());
            Some(Check::new(file.display().to_string(), Verdict::Bad, found, help))
        };
        files.chain(secrets.cloned()).filter_map(check).collect()
    }

    /// Opens a file as the service's user.
    fn open(&self, file: &Path, write: bool) -> io::Result<()> {
        let (file, uid, gid) = (file.to_owned(), self.uid, self.gid);
        // setfsuid(2) affects only this thread. It then accesses files as the user, without root's right to open any
        // file.
        let open = move || {
            setfsgid(gid);
            setfsuid(uid);
            OpenOptions::new().read(true).write(write).open(file).map(drop)
        };
        thread::spawn(open).join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

/// Returns the values of `key` in a unit, in order. An empty value discards those before it.
fn values<'a>(unit: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let set = unit.lines().filter_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix('='));
    let values: Vec<&str> = set.map(str::trim).collect();
    let from = values.iter().rposition(|value| value.is_empty()).map_or(0, |at| at + 1);
    values.into_iter().skip(from)
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
