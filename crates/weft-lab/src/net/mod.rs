//! Private network namespaces, and the programs that run in them.
//!
//! Nothing in this module has a name outside this process. A namespace lives as long as the file descriptors that
//! refer to it. Every program starts inside one PID namespace, whose init process ends when this process ends. Thus
//! no program or namespace remains, even after `kill -9`, and no cleanup is needed before a start.
//!
//! The lab needs root, or an ordinary user who may create user namespaces ([`acquire_privilege`]).

mod node;
mod privilege;
mod process;
mod supervisor;
pub(crate) mod sys;

pub use node::NetNamespace;
pub use privilege::acquire_privilege;
pub use process::Process;

use std::io;
use std::sync::Arc;
use supervisor::NamespaceSupervisor;

/// A set of network namespaces and the programs in them.
///
/// The programs and namespaces end when the lab and all its nodes and emulators are dropped. They also end with this
/// process, even if it is killed.
#[derive(Debug)]
pub struct Lab {
    supervisor: Arc<NamespaceSupervisor>,
}

impl Lab {
    /// Returns an empty lab.
    ///
    /// An ordinary user first moves into a user namespace (see [`acquire_privilege`]).
    ///
    /// # Errors
    /// Returns an error with advice if this process may not create namespaces.
    pub fn new() -> io::Result<Lab> {
        acquire_privilege()?;
        Ok(Lab { supervisor: Arc::new(NamespaceSupervisor::start()?) })
    }

    /// Creates a network namespace with loopback up, prepared for measurements.
    ///
    /// It has large TCP buffers, no cached TCP metrics, no reverse-path filter, MPTCP, and no IPv6 duplicate
    /// address detection. Only messages use `name`.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the namespace or one of its settings, or if the `ip` tool is
    /// missing.
    pub fn node(&self, name: &str) -> io::Result<NetNamespace> {
        NetNamespace::new(name, Arc::clone(&self.supervisor))
    }
}

/// Returns `error` with a description of the failed operation before it.
pub(crate) fn context(what: impl std::fmt::Display, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
