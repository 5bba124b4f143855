//! Helpers that run the real program in a directory of its own.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod flow;
pub mod inside;
pub mod line;
pub mod segment;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;
use weft_units::Rng;

/// Path of the program under test.
pub const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// Returns a generator with a new seed, or with that of `WEFT_SEED`, and prints the seed.
pub fn drawn_rng() -> Rng {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("WEFT_SEED").map_or_else(|_| now(), |text| text.parse().unwrap());
    println!("WEFT_SEED={seed}");
    Rng::new(seed)
}

/// A directory that is removed at the end of the test.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Process ids are not unique, because each PID namespace has its own.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let name = format!("weft-test-{now}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Dir(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Creates a key file and returns the public key.
    pub fn key(&self, name: &str) -> String {
        let out = weft(&["keygen", "--out", self.path(name).to_str().unwrap()]);
        assert!(out.status.success(), "{}", stderr(&out));
        stdout(&out).trim().to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn weft(args: &[&str]) -> Output {
    Command::new(WEFT).args(args).output().unwrap()
}

pub fn stdout(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).unwrap()
}

pub fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

/// Returns the part of a script's output between the line `== name` and the next line with `==`.
pub fn part<'a>(text: &'a str, name: &str) -> &'a str {
    text.split("== ").find_map(|part| part.strip_prefix(name)).unwrap_or_default().trim()
}

pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns true if this machine allows TUN devices and namespaces; prints the missing requirement.
pub fn has_tun() -> bool {
    let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let probe = namespace().args(["bash", "-c", PRELUDE]).output();
    match (tun, probe) {
        (Ok(_), Ok(probe)) if probe.status.success() => true,
        (tun, probe) => {
            eprintln!("skipped: no network namespace with a TUN device here ({tun:?}, {probe:?})");
            false
        }
    }
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns a command in namespaces of its own.
///
/// It ends after a minute, together with all its children.
pub fn namespace() -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "-nm"]);
    if !is_root() {
        command.arg("-Ur");
    }
    command
}

/// First lines of every script.
///
/// They give the script a copy of /etc, because a node with DNS servers writes /etc/resolv.conf.
pub const PRELUDE: &str = "set -u; export PATH=$PATH:/usr/sbin:/sbin
    mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/netns /run/etc && ip link set lo up
    cp -a /etc/. /run/etc/ 2>/dev/null; mount --bind /run/etc /etc";

/// Runs a script in namespaces of its own, in the directory `dir`.
pub fn script(dir: &Dir, text: &str) -> Output {
    let text = format!("{PRELUDE}\ncd {}\nWEFT={WEFT}\n{text}", dir.0.display());
    namespace().args(["bash", "-c", &text]).output().unwrap()
}

/// Two namespaces, `home` and `hub`, with two links between them.
///
/// `run NODE ARGUMENT…` runs weft there with that node's socket.
pub const TWO_NODES: &str = r#"
    ip netns add home; ip netns add hub
    for i in 1 2; do
        ip link add link$i netns home type veth peer name link$i netns hub
        ip -n home addr add 192.0.2.$((i * 16 + 1))/28 dev link$i; ip -n home link set link$i up
        ip -n hub addr add 192.0.2.$((i * 16 + 2))/28 dev link$i; ip -n hub link set link$i up
    done
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    # The shell in the background would empty the log of the run before only some time later.
    up() { : >$1.log; ip netns exec $1 $WEFT up -c $1.toml 2>>$1.log & eval "$1=$!"; }
    settled() { for _ in $(seq 100); do run home status >/dev/null && return; sleep 0.1; done; echo "not settled"; }
    logged() { for _ in $(seq 100); do grep -q "$2" $1.log && return; sleep 0.1; done; echo "not logged: $2"; cat $1.log; }
"#;

/// Runs commands with the configured [`TWO_NODES`]. Returns `None` if there are no TUN devices.
pub fn on_two_nodes(commands: &str) -> Option<(Dir, Output)> {
    if !has_tun() {
        return None;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    let out = script(&dir, &[TWO_NODES, commands].concat());
    Some((dir, out))
}

/// Writes the configurations of `home` and `hub`.
///
/// `known_as` is the key of `home` in the hub's configuration.
pub fn two_nodes(dir: &Dir, known_as: Option<&str>) {
    let (home, hub) = (dir.key("home.key"), dir.key("hub.key"));
    let node = |name: &str, host: u8, rest: &str| {
        format!(
            "[node]\nkey = \"{name}.key\"\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n{rest}\n\
             [tun]\naddress = [\"10.9.0.{host}/24\"]\n"
        )
    };
    let peer = |name: &str, key: &str, host: u8, rest: &str| {
        format!("[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nprefixes = [\"10.9.0.{host}/32\"]\n{rest}\n")
    };
    let endpoints = "endpoints = [\"192.0.2.18:51900\", \"192.0.2.34:51900\"]";
    dir.write("home.toml", &(node("home", 1, "") + &peer("hub", &hub, 2, endpoints)));
    dir.write("hub.toml", &(node("hub", 2, "listen = 51900") + &peer("home", known_as.unwrap_or(&home), 1, "")));
}
