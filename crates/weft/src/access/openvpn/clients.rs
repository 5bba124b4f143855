//! Admitted OpenVPN clients, with one file per client.
//!
//! The server reads the file when the client connects (`client-config-dir` in openvpn(8)).

use super::{enter, read, write};
use crate::config::AddressPool;
use crate::entropy;
use crate::files::Directory;
use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

/// Name of the directory of the clients' files, within the server's directory.
pub const DIRECTORY: &str = "clients";
/// Number of random bytes in a common name.
///
/// A removed client's certificate thus does not admit a later client of the same name.
const SERIAL_BYTES: usize = 8;

/// An admitted client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenvpnClient {
    /// Name of the client, for readers of output.
    pub name: String,
    /// Common name in the client's certificate; also the name of its file.
    pub common_name: String,
    /// Address of the client in the pool. The client may send from no other address.
    pub address: Ipv4Addr,
}

impl OpenvpnClient {
    fn parse(common_name: &str, text: &str) -> Option<OpenvpnClient> {
        let (first, second) = text.split_once('\n')?;
        let mut words = second.strip_prefix("ifconfig-push ")?.split(' ');
        let (name, address) = (first.strip_prefix("# ")?.to_owned(), words.next()?.parse().ok()?);
        Some(OpenvpnClient { name, common_name: common_name.to_owned(), address })
    }
}

/// Returns the clients of the node with the state directory at `state`, in the order of their addresses.
///
/// Returns none if no client was ever added.
///
/// # Errors
/// Returns the reason why the clients cannot be read, as text for a reader.
pub fn of(state: &Path) -> Result<Vec<OpenvpnClient>, String> {
    match Directory::open(state) {
        Ok(directory) => in_state(&directory),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(format!(
            "cannot open the state directory {}: {why}: run as root, or correct `state` in [node]",
            state.display()
        )),
    }
}

/// Returns the clients in the state directory `state`, as [`of`] does.
///
/// # Errors
/// Fails as [`of`] does.
pub fn in_state(state: &Directory) -> Result<Vec<OpenvpnClient>, String> {
    enter(state, super::DIRECTORY)?.map_or_else(|| Ok(Vec::new()), |directory| list(&directory))
}

/// Returns the clients of the server in `directory`, as [`of`] does.
///
/// # Errors
/// Fails as [`of`] does.
pub fn list(directory: &Directory) -> Result<Vec<OpenvpnClient>, String> {
    let Some(directory) = enter(directory, DIRECTORY)? else { return Ok(Vec::new()) };
    let names = directory.names().map_err(|why| format!("{}: {why}", directory.path().display()))?;
    let mut clients = Vec::new();
    for name in names.iter().filter(|name| !name.contains('.')) {
        let no_client = || {
            let file = directory.path().join(name);
            format!(
                "file {} does not describe an OpenVPN client: remove it; if it was a client's, add that client again \
                 with weft access add",
                file.display()
            )
        };
        clients.push(OpenvpnClient::parse(name, &read(&directory, name)?).ok_or_else(no_client)?);
    }
    clients.sort_by_key(|client| client.address);
    Ok(clients)
}

/// Creates a client with the lowest free address. It is not yet admitted.
///
/// # Errors
/// Returns an error if the pool has no free address, or the kernel gives no random numbers.
pub fn new(clients: &[OpenvpnClient], name: &str, pool: &AddressPool) -> Result<OpenvpnClient, String> {
    let is_free = |address: &Ipv4Addr| clients.iter().all(|client| client.address != *address);
    let address = pool.hosts().find(is_free).ok_or_else(|| {
        format!(
            "all addresses of the client pool {pool} are in use: remove a client, or enlarge `pool` in [access.openvpn]"
        )
    })?;
    let seed = entropy::seed().map_err(|why| why.to_string())?;
    let common_name = seed.iter().take(SERIAL_BYTES).map(|byte| format!("{byte:02x}")).collect();
    Ok(OpenvpnClient { name: name.to_owned(), common_name, address })
}

/// Admits the client.
///
/// # Errors
/// Returns the reason why its file cannot be written, as text for a reader.
pub fn admit(directory: &Directory, client: &OpenvpnClient, pool: &AddressPool) -> Result<(), String> {
    let directory = directory.make_in(DIRECTORY).map_err(|why| directory.failed(DIRECTORY, &why))?;
    let text = format!("# {}\nifconfig-push {} {}\n", client.name, client.address, pool.mask());
    write(&directory, &client.common_name, &text)
}

/// Names of clients for the server's log, which contains only common names of certificates.
#[derive(Debug, Default)]
pub struct ClientNames {
    known: Vec<OpenvpnClient>,
}

impl ClientNames {
    /// Inserts the client's name before a common name in the line.
    ///
    /// Calls `list` to get the present clients, if the line has a common name that is not known yet.
    pub fn put(&mut self, line: &mut Vec<u8>, list: impl FnOnce() -> Vec<OpenvpnClient>) {
        let Some(at) = serial(line) else { return };
        let called =
            |client: &&OpenvpnClient| line.get(at..at + 2 * SERIAL_BYTES) == Some(client.common_name.as_bytes());
        if !self.known.iter().any(|client| called(&client)) {
            self.known = list();
        }
        if let Some(client) = self.known.iter().find(called) {
            let name = format!("{} ", client.name);
            line.splice(at..at, name.into_bytes());
        }
    }
}

/// Returns the position of the first word in the line that may be a common name, in bytes from 0.
///
/// Returns `None` if there is no such word.
fn serial(line: &[u8]) -> Option<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let is_whole = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| line.get(before));
        ![before, line.get(at + 2 * SERIAL_BYTES)].into_iter().flatten().any(is_digit)
    };
    let mut windows = line.windows(2 * SERIAL_BYTES).enumerate();
    windows.find(|(at, window)| window.iter().all(is_digit) && is_whole(*at)).map(|(at, _)| at)
}

/// Removes the client. An open session continues until the caller ends it.
///
/// # Errors
/// Returns the reason why its file cannot be removed, as text for a reader.
pub fn remove_client(state: &Directory, client: &OpenvpnClient) -> Result<(), String> {
    let failed = |why: io::Error| {
        format!("cannot remove the file of OpenVPN client {}: {why}: run the command as root", client.name)
    };
    let directory = state.enter(super::DIRECTORY).and_then(|directory| directory.enter(DIRECTORY)).map_err(failed)?;
    directory.remove(OsStr::new(&client.common_name)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_server_name_the_client() {
        let common_name = "0f".repeat(SERIAL_BYTES);
        let client =
            OpenvpnClient { name: "phone".into(), common_name: common_name.clone(), address: [10, 9, 0, 2].into() };
        let mut names = ClientNames::default();
        let mut put = |text: &str, list: Vec<OpenvpnClient>| {
            let mut line = text.as_bytes().to_vec();
            names.put(&mut line, || list);
            String::from_utf8(line).unwrap()
        };
        let line = format!("{common_name}/192.0.2.7:1194 MULTI: Learn\n");
        assert_eq!(put(&line, Vec::new()), line);
        assert_eq!(put(&line, vec![client]), format!("phone {line}"));
        assert_eq!(put(&line, Vec::new()), format!("phone {line}"), "it is known by now");
        let longer = format!("key {common_name}00\n");
        assert_eq!(put(&longer, Vec::new()), longer);
    }

    #[test]
    fn files_are_read_back_and_others_refused() {
        let client = OpenvpnClient { name: "phone".into(), common_name: "0a".into(), address: [10, 9, 129, 2].into() };
        assert_eq!(OpenvpnClient::parse("0a", "# phone\nifconfig-push 10.9.129.2 255.255.255.0\n"), Some(client));
        for bad in [
            "",
            "# phone",
            "phone\nifconfig-push 10.9.129.2 255.255.255.0",
            "# phone\nifconfig-push x y",
            "# phone\npush",
        ] {
            assert_eq!(OpenvpnClient::parse("0a", bad), None, "{bad}");
        }
    }

    #[test]
    fn common_names_differ_and_addresses_are_free_ones() {
        let pool = AddressPool::parse("10.9.129.0/30").unwrap();
        let first = new(&[], "phone", &pool).unwrap();
        assert_eq!((first.address, first.common_name.len()), (Ipv4Addr::new(10, 9, 129, 2), 16));
        assert_ne!(new(&[], "phone", &pool).unwrap().common_name, first.common_name);
        assert!(new(&[first], "other", &pool).unwrap_err().contains("in use"));
    }
}
