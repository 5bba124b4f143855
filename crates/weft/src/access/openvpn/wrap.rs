//! Keys that protect handshakes from strangers (`tls-crypt-v2` in openvpn(8)).
//!
//! The server has a key, and each client has a different key that only the server can read. OpenVPN before 2.5 does
//! not support such keys. Then all clients share one key.

use super::{read, write};
use crate::files::Directory;
use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Name of the OpenVPN program.
pub const PROGRAM: &str = "openvpn";
/// Name of the file with the server's key for `tls-crypt-v2`.
pub const SERVER_KEY: &str = "server-v2.key";
/// Name of the file with the key that clients without a key of their own share (`tls-crypt`).
pub const COMMON_KEY: &str = "common.key";

/// Writes the server's key, if there is none and OpenVPN can create one.
///
/// Returns true if there is a key now.
///
/// # Errors
/// Returns the reason why it cannot be written, as text for a reader.
pub fn prepare(directory: &Directory) -> Result<bool, String> {
    if has(directory, SERVER_KEY)? {
        return Ok(true);
    }
    match generate("tls-crypt-v2-server", "") {
        Ok(key) => write(directory, SERVER_KEY, &key).map(|()| true),
        // This OpenVPN does not support a key of each client, or it cannot be run. If it cannot be run, the
        // server's start reports that.
        Err(_) => Ok(false),
    }
}

/// Returns the option name and the key for a client's profile.
///
/// Each client gets a key of its own if the server has one.
///
/// # Errors
/// Returns the reason why there is no key, as text for a reader.
pub fn for_client(directory: &Directory) -> Result<(&'static str, String), String> {
    if !has(directory, SERVER_KEY)? {
        return Ok(("tls-crypt", read(directory, COMMON_KEY)?));
    }
    let server = read(directory, SERVER_KEY)?;
    let config = format!("<tls-crypt-v2>\n{}\n</tls-crypt-v2>\n", server.trim_end());
    let key = generate("tls-crypt-v2-client", &config).map_err(|why| {
        format!("the program {PROGRAM} created no key for the client: {why}: install OpenVPN 2.5 or later")
    })?;
    Ok(("tls-crypt-v2", key))
}

/// Returns the lines of the server's configuration that name the keys for handshakes.
///
/// # Errors
/// Returns the reason why its files cannot be inspected, as text for a reader.
pub fn of_server(directory: &Directory) -> Result<String, String> {
    let line = |option: &str, name: &str| {
        has(directory, name).map(|has| if has { format!("{option} {name}\n") } else { String::new() })
    };
    Ok(line("tls-crypt-v2", SERVER_KEY)? + &line("tls-crypt", COMMON_KEY)?)
}

fn has(directory: &Directory, name: &str) -> Result<bool, String> {
    match directory.open_to_read(name) {
        Ok(_) => Ok(true),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(directory.failed(name, &why)),
    }
}

/// Lets OpenVPN create a key. `config` is passed on standard input, where no other process can read it.
fn generate(kind: &str, config: &str) -> Result<String, String> {
    let mut command = Command::new(PROGRAM);
    command.args(["--config", "stdin", "--genkey", kind].map(OsStr::new));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| why.to_string())?;
    // The error is ignored: a program that does not read its input ends with an error status. Dropping the pipe
    // closes it.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(config.as_bytes()));
    let out = child.wait_with_output().map_err(|why| why.to_string())?;
    let text = String::from_utf8_lossy(&out.stdout);
    let begin = text.find("-----BEGIN OpenVPN tls-crypt-v2").filter(|_| out.status.success());
    begin
        .and_then(|begin| text.get(begin..))
        .map(str::to_owned)
        .ok_or_else(|| format!("{} {}", out.status, text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_key_of_its_own_that_the_server_can_read() {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            return eprintln!("skipped: Debian's package openvpn is missing here");
        }
        let path = std::env::temp_dir().join(format!("weft-wrap-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let directory = Directory::open(&path).unwrap();
        write(&directory, COMMON_KEY, "common\n").unwrap();
        assert_eq!(for_client(&directory), Ok(("tls-crypt", "common\n".to_owned())), "before there is a server's key");
        assert_eq!(prepare(&directory), Ok(true));
        let server = read(&directory, SERVER_KEY).unwrap();
        assert_eq!(prepare(&directory), Ok(true));
        assert_eq!(read(&directory, SERVER_KEY), Ok(server), "it stays");
        let [first, second] = [(); 2].map(|()| for_client(&directory).unwrap());
        assert_eq!((first.0, second.0), ("tls-crypt-v2", "tls-crypt-v2"));
        assert!(first.1.starts_with("-----BEGIN OpenVPN tls-crypt-v2 client key-----\n"), "{}", first.1);
        assert_ne!(first.1, second.1);
        assert_eq!(of_server(&directory), Ok(format!("tls-crypt-v2 {SERVER_KEY}\ntls-crypt {COMMON_KEY}\n")));
        directory.remove(OsStr::new(COMMON_KEY)).unwrap();
        assert_eq!(of_server(&directory), Ok(format!("tls-crypt-v2 {SERVER_KEY}\n")));
        std::fs::remove_dir_all(&path).unwrap();
    }
}
