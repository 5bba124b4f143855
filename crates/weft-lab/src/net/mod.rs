//! Private network namespaces and the programs that run in them.
//!
//! Nothing here has a name outside this process. A namespace lives as long as the file descriptors that hold it; every program is
//! started inside one PID namespace whose init process ends when ours does. So nothing is left behind, even after `kill -9`,
//! and there is nothing to clean up at the start.
//!
//! Needs root, or an ordinary user who may create user namespaces ([`acquire_privilege`]).

mod node;
mod privilege;
mod process;
mod supervisor;
pub(crate) mod sys;

pub use node::Node;
pub use privilege::acquire_privilege;
pub use process::Process;

use std::io;
use std::sync::Arc;
use supervisor::Supervisor;

/// A set of network namespaces and the programs in them. All of it ends when the last of the lab, its nodes and its emulators
/// is dropped, or with this process, however it ends.
#[derive(Debug)]
pub struct Lab {
    supervisor: Arc<Supervisor>,
}

impl Lab {
    /// An empty lab. An ordinary user is first moved into a user namespace, see [`acquire_privilege`].
    ///
    /// # Errors
    /// When this process may not create namespaces; the text says what would help.
    pub fn new() -> io::Result<Lab> {
        acquire_privilege()?;
        Ok(Lab { supervisor: Arc::new(Supervisor::start()?) })
    }

    /// A new network namespace with loopback up, made ready for measurements: large TCP buffers, no cached TCP metrics, no
    /// reverse-path filter, MPTCP on, no IPv6 duplicate address detection. `name` is for messages only.
    ///
    /// # Errors
    /// When the kernel refuses the namespace or one of its settings, or the `ip` tool is missing.
    pub fn node(&self, name: &str) -> io::Result<Node> {
        Node::new(name, Arc::clone(&self.supervisor))
    }
}

/// `error` with `what` was being done before it.
pub(crate) fn context(what: impl std::fmt::Display, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
