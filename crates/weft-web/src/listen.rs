//! The address at which the server listens: a loopback address or a Unix socket.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A place on this machine at which the web server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// A loopback address.
    Address(SocketAddr),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if text.contains('/') {
            return Ok(Listen::Socket(text.into()));
        }
        let form = "give an address and a port such as 127.0.0.1:8080, or the path of a socket";
        let address: SocketAddr =
            text.parse().map_err(|_| format!("the value of --listen is not an IP address with a port: {form}"))?;
        match address.ip().is_loopback() {
            true => Ok(Listen::Address(address)),
            false => Err(format!("weft-web must not listen at {address}, which other machines can reach: {form}")),
        }
    }
}

/// The listening socket of the web server.
#[derive(Debug)]
pub enum PageListener {
    /// At a loopback address.
    Tcp(TcpListener),
    /// At the path of a Unix socket, which is removed at the end. Other users are refused.
    Unix(UnixListener, PathBuf),
}

/// A connection of a browser.
pub enum PageStream {
    /// To a loopback address.
    Tcp(TcpStream),
    /// To a Unix socket.
    Unix(UnixStream),
}

impl PageListener {
    /// Opens the listening socket. A Unix socket at which no process listens any more is replaced.
    ///
    /// # Errors
    /// Returns the system's error, for instance if the port is in use.
    pub async fn bind(at: &Listen) -> io::Result<PageListener> {
        match at {
            Listen::Address(address) => Ok(PageListener::Tcp(TcpListener::bind(address).await?)),
            Listen::Socket(path) => {
                remove_abandoned(path)?;
                let listener = UnixListener::bind(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
                Ok(PageListener::Unix(listener, path.clone()))
            }
        }
    }

    /// Returns the address that the user opens in a browser. A Unix socket's path stands before it.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn address(&self) -> io::Result<String> {
        Ok(match self {
            PageListener::Tcp(listener) => format!("http://{}/", listener.local_addr()?),
            PageListener::Unix(_, path) => format!("{} http://localhost/", path.display()),
        })
    }

    /// Waits for the next connection. At a Unix socket, only connections of this user and of root are accepted.
    ///
    /// # Errors
    /// Returns the system's error.
    pub async fn accept(&self) -> io::Result<PageStream> {
        match self {
            PageListener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Events are small. Without this option TCP would hold one back until the last one is acknowledged.
                stream.set_nodelay(true)?;
                Ok(PageStream::Tcp(stream))
            }
            PageListener::Unix(listener, _) => {
                let own = fs::metadata("/proc/self")?.uid();
                loop {
                    let (stream, _) = listener.accept().await?;
                    let user = stream.peer_cred()?.uid();
                    if user == 0 || user == own {
                        return Ok(PageStream::Unix(stream));
                    }
                }
            }
        }
    }
}

impl Drop for PageListener {
    fn drop(&mut self) {
        if let PageListener::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket file at which no process listens. Fails if a process still listens at it.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        match std::os::unix::net::UnixStream::connect(path) {
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            _ => return Err(io::ErrorKind::AddrInUse.into()),
        }
    }
    Ok(())
}
