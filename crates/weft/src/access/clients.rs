//! Table of admitted WireGuard clients, in the state directory.
//!
//! It has one line per client, with name, address and public key.
//!
//! `weft access` changes the table under a lock. The daemon reads it at its start and when the control socket reports a
//! change.

use crate::config::AddressPool;
use crate::files::{Directory, Owner};
use crate::state_lines::parse_client;
use crate::{entropy, keys};
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use weft_session::{Identity, PublicKey};

/// Name of the file that lists the admitted clients.
const TABLE: &str = "access";
/// Name of the lock file for changes of the table of clients and of the edge's key.
const LOCK: &str = "access.lock";
/// Name of the file with the edge's private key for WireGuard.
const KEY: &str = "access.key";
/// Maximum length of the table of clients, in bytes. A longer table is an error.
const MAX_BYTES: u64 = 8 << 20;

/// An admitted client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Name of the client, for readers of output.
    pub name: String,
    /// Address of the client in the pool. The client may send from no other address.
    pub address: Ipv4Addr,
    /// WireGuard public key of the client.
    pub public_key: PublicKey,
}

impl Client {
    fn parse(line: &str) -> Option<Client> {
        let (name, address, public_key) = parse_client(line)?;
        Some(Client { name, address, public_key })
    }
}

/// Reads the clients in the state directory `state`. Returns none if there is no table yet.
///
/// # Errors
/// Returns the reason why the table cannot be read, as text for a reader.
pub fn read(state: &Path) -> Result<Vec<Client>, String> {
    match Directory::open(state) {
        Ok(directory) => read_in(&directory),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(no_state(state, &why)),
    }
}

fn read_in(directory: &Directory) -> Result<Vec<Client>, String> {
    let text = match directory.read_text(TABLE, MAX_BYTES) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        Err(why) => return Err(directory.failed(TABLE, &why)),
    };
    let path = directory.path().join(TABLE);
    let bad = |number: usize| {
        let line = number + 1;
        format!("{}:{line}: expected NAME ADDRESS KEY of a client: correct or remove the line", path.display())
    };
    text.lines().enumerate().map(|(number, line)| Client::parse(line).ok_or_else(|| bad(number))).collect()
}

/// Changes the table of clients under a lock, so that no other process changes it at the same time.
///
/// `change` receives the state directory and the clients. If `change` fails, the table stays as it was.
///
/// # Errors
/// Returns the error of `change`, or the reason why the table cannot be read or written.
pub fn change<T>(
    state: &Path,
    change: impl FnOnce(&Directory, &mut Vec<Client>) -> Result<T, String>,
) -> Result<T, String> {
    let directory = Directory::make(state, 0o700, Owner::Parent).map_err(|why| no_state(state, &why))?;
    let _lock = directory.lock(LOCK).map_err(|why| directory.failed(LOCK, &why))?;
    let mut clients = read_in(&directory)?;
    let result = change(&directory, &mut clients)?;
    let line = |Client { name, address, public_key }: &Client| format!("{name} {address} {public_key}\n");
    let text: String = clients.iter().map(line).collect();
    directory.write(TABLE, text.as_bytes()).map_err(|why| directory.failed(TABLE, &why))?;
    Ok(result)
}

fn no_state(state: &Path, why: &io::Error) -> String {
    format!("cannot open the state directory {}: {why}: run as root, or correct `state` in [node]", state.display())
}

/// Adds a client with the lowest free address of the pool.
///
/// # Errors
/// Returns an error if the name is taken or the pool has no free address.
pub fn add(clients: &mut Vec<Client>, name: &str, public_key: PublicKey, pool: &AddressPool) -> Result<Client, String> {
    if let Some(other) = clients.iter().find(|client| client.name == name) {
        let address = other.address;
        return Err(format!(
            "there is already a client {name} ({address}): remove it first: weft access remove {name}"
        ));
    }
    let is_free = |address: &Ipv4Addr| clients.iter().all(|client| client.address != *address);
    let address = pool.hosts().find(is_free).ok_or_else(|| {
        format!("all addresses of the client pool {pool} are in use: remove a client, or enlarge `pool` in [access]")
    })?;
    let client = Client { name: name.to_owned(), address, public_key };
    clients.push(client.clone());
    Ok(client)
}

/// Returns the key of this edge for WireGuard clients. Creates it on first use.
///
/// # Errors
/// Returns the reason why the key cannot be read or created, as text for a reader.
pub fn edge_key(state: &Path) -> Result<Identity, String> {
    let directory = Directory::make(state, 0o700, Owner::Parent).map_err(|why| no_state(state, &why))?;
    if let Some(key) = read_key(&directory)? {
        return Ok(key);
    }
    let failed = |why: io::Error| directory.failed(KEY, &why);
    let _lock = directory.lock(LOCK).map_err(|why| directory.failed(LOCK, &why))?;
    // Another process may have created the key before this one got the lock.
    if let Some(key) = read_key(&directory)? {
        return Ok(key);
    }
    let made = Identity::from_secret(entropy::seed().map_err(failed)?);
    directory.write(KEY, format!("{}\n", made.secret_to_base64()).as_bytes()).map_err(failed)?;
    Ok(made)
}

fn read_key(directory: &Directory) -> Result<Option<Identity>, String> {
    let path = directory.path().join(KEY);
    match directory.open_to_read(KEY) {
        Ok(file) => keys::load_from(file, &path).map(Some).map_err(|why| why.to_string()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(directory.failed(KEY, &why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> PublicKey {
        PublicKey([byte; 32])
    }

    #[test]
    fn addresses_are_given_once_and_again_when_free() {
        let pool = AddressPool::parse("10.9.128.0/29").unwrap();
        let mut clients = Vec::new();
        for (number, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            let client = add(&mut clients, name, key(number as u8), &pool).unwrap();
            assert_eq!(client.address, Ipv4Addr::new(10, 9, 128, number as u8 + 2));
        }
        assert!(add(&mut clients, "f", key(9), &pool).unwrap_err().contains("in use"));
        clients.retain(|client| client.name != "c");
        assert_eq!(add(&mut clients, "f", key(9), &pool).unwrap().address, Ipv4Addr::new(10, 9, 128, 4));
    }

    #[test]
    fn lines_are_read_back_and_others_refused() {
        let line = format!("phone 10.9.128.2 {}", key(7));
        let client = Client { name: "phone".to_owned(), address: Ipv4Addr::new(10, 9, 128, 2), public_key: key(7) };
        assert_eq!(Client::parse(&line), Some(client));
        for bad in ["", "phone", "phone 10.9.128.2", "phone x y", &format!("{line} more"), &format!(" {line}")] {
            assert_eq!(Client::parse(bad), None, "{bad}");
        }
    }
}
