//! A node: a network namespace, the programs in it, and its addresses and kernel settings.

use super::supervisor::NamespaceSupervisor;
use super::{Process, context, sys};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const TOOL_TIMEOUT: Duration = Duration::from_secs(10);

/// Kernel settings of every node. The third field is true if a kernel may lack the setting.
const SYSCTLS: [(&str, &str, bool); 9] = [
    ("net.ipv4.tcp_rmem", "4096 131072 33554432", false),
    ("net.ipv4.tcp_wmem", "4096 131072 33554432", false),
    ("net.ipv4.tcp_no_metrics_save", "1", false),
    ("net.ipv4.conf.all.rp_filter", "0", false),
    ("net.ipv4.conf.default.rp_filter", "0", false),
    ("net.ipv4.ping_group_range", "0 0", true),
    ("net.mptcp.enabled", "1", true),
    ("net.ipv6.conf.all.accept_dad", "0", true),
    ("net.ipv6.conf.default.accept_dad", "0", true),
];

/// A network namespace. Clones refer to the same namespace.
#[derive(Clone, Debug)]
pub struct NetNamespace {
    name: Arc<str>,
    netns: Arc<OwnedFd>,
    supervisor: Arc<NamespaceSupervisor>,
}

impl NetNamespace {
    pub(super) fn new(name: &str, supervisor: Arc<NamespaceSupervisor>) -> io::Result<NetNamespace> {
        let netns = thread::spawn(|| -> io::Result<OwnedFd> {
            sys::unshare(libc::CLONE_NEWNET)?;
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        });
        let netns = netns.join().unwrap_or_else(|panic| resume_unwind(panic));
        let netns = Arc::new(netns.map_err(|e| context("cannot create a network namespace", e))?);
        let node = NetNamespace { name: name.into(), netns, supervisor };
        node.ip("link set lo up")?;
        node.run(|| SYSCTLS.iter().try_for_each(|&(key, value, optional)| set(key, value, optional)))??;
        Ok(node)
    }

    /// Creates another namespace of the same lab.
    pub(crate) fn sibling(&self, name: &str) -> io::Result<NetNamespace> {
        NetNamespace::new(name, Arc::clone(&self.supervisor))
    }

    /// Returns a path that names the namespace, for programs such as `nsenter --net=…`.
    ///
    /// The path is valid while this process holds the namespace.
    pub fn netns_path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.netns.as_raw_fd())
    }

    /// Returns the name given at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a new thread inside the namespace, and waits for it.
    ///
    /// Sockets and devices that `work` opens stay in the namespace after it returns.
    ///
    /// # Errors
    /// Returns an error if the thread cannot enter the namespace.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> io::Result<R> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                sys::enter_netns(self.netns.as_fd())?;
                Ok(work())
            });
            worker.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Returns a command that will run inside the namespace. Start it with [`NetNamespace::spawn`].
    ///
    /// If the caller starts it directly, the kernel kills the program when the *thread* that started it ends.
    /// The kernel then does not kill the program's own children.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let netns = Arc::clone(&self.netns);
        let mut command = Command::new(program);
        // SAFETY: Between fork and exec the closure makes two async-signal-safe system calls and allocates
        // nothing.
        unsafe {
            command.pre_exec(move || {
                sys::enter_netns(netns.as_fd())?;
                sys::die_with_parent()
            })
        };
        command
    }

    /// Starts a command made by [`NetNamespace::command`].
    ///
    /// The program and its children end at the latest with this process.
    ///
    /// # Errors
    /// Returns an error that names the program if it cannot be started.
    pub fn spawn(&self, command: Command) -> io::Result<Process> {
        let program = command.get_program().to_owned();
        let child = self.supervisor.spawn(command);
        child
            .map(Process::new)
            .map_err(|e| context(format_args!("cannot start the program {} on node {self}", program.display()), e))
    }

    /// Runs a command made by [`NetNamespace::command`] to its end, without input. Returns its output.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started. If it has not ended within `timeout`, it is killed and an
    /// error is returned. A nonzero exit status is not an error.
    pub fn output(&self, mut command: Command, timeout: Duration) -> io::Result<Output> {
        let program = command.get_program().to_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.spawn(command)?.output_within(timeout);
        output.map_err(|e| context(format_args!("the program {} on node {self} failed", program.display()), e))
    }

    /// Runs `ip` with `arguments`, split at spaces. Returns its standard output.
    ///
    /// # Errors
    /// Returns an error if `ip` is missing. If `ip` fails, the error contains its output.
    pub fn ip(&self, arguments: &str) -> io::Result<String> {
        let mut command = self.command("ip");
        command.args(arguments.split_whitespace());
        let output = self.output(command, TOOL_TIMEOUT)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("`ip {arguments}` on node {self} failed: {}", said.trim())))
    }

    /// Adds an address such as `10.0.0.1/24`, or `10.0.0.1 peer 10.0.0.2`.
    ///
    /// It runs `ip address add … dev …`.
    ///
    /// # Errors
    /// Returns an error if [`NetNamespace::ip`] does.
    pub fn add_address(&self, interface: &str, address: &str) -> io::Result<()> {
        self.ip(&format!("address add {address} dev {interface}")).map(drop)
    }

    /// Adds an IPv6 address to an interface that is up, and waits until the kernel accepts packets to the address.
    ///
    /// The kernel installs the address's local route later, from a work queue.
    ///
    /// # Errors
    /// Returns an error if [`NetNamespace::ip`] does, or if there is no route after [`TOOL_TIMEOUT`].
    pub fn add_ipv6_address(&self, interface: &str, address: Ipv6Addr, peer: Option<Ipv6Addr>) -> io::Result<()> {
        let peer = peer.map(|peer| format!(" peer {peer}")).unwrap_or_default();
        self.add_address(interface, &format!("{address}{peer} nodad"))?;
        let until = Instant::now() + TOOL_TIMEOUT;
        while self.ip(&format!("-6 route show table local type local {address} dev {interface}"))?.is_empty() {
            if Instant::now() >= until {
                let text = format!(
                    "{TOOL_TIMEOUT:?} after the lab gave node {self} the address {address}, the kernel has no route \
                     to it there: try again when the machine is less busy"
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Brings an interface up or down.
    ///
    /// # Errors
    /// Returns an error if [`NetNamespace::ip`] does.
    pub fn set_interface(&self, interface: &str, up: bool) -> io::Result<()> {
        self.ip(&format!("link set dev {interface} {}", if up { "up" } else { "down" })).map(drop)
    }

    /// Sets a kernel setting of the namespace, such as `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the setting in a namespace, or if it refuses the value.
    pub fn sysctl(&self, key: &str, value: &str) -> io::Result<()> {
        self.run(|| set(key, value, false))?
    }
}

impl std::fmt::Display for NetNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Writes a kernel setting of the calling thread's namespace.
fn set(key: &str, value: &str, optional: bool) -> io::Result<()> {
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    let write = || fs::OpenOptions::new().write(true).open(&path)?.write_all(value.as_bytes());
    match write() {
        Err(error) if optional && error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|e| context(format_args!("cannot set the sysctl {key}={value}"), e)),
    }
}
