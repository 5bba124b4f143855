//! Who may come in with OpenVPN: a file for each client, which the server reads when the client comes (`client-config-dir` in openvpn(8)).

use super::{files, read};
use crate::config::Pool;
use crate::entropy;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

/// The directory of the files, in that of the server.
pub const DIRECTORY: &str = "clients";
/// Random bytes in a common name: a removed client's certificate is of no use to whoever has the name next.
const SERIAL_BYTES: usize = 8;

/// One client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Name for people.
    pub name: String,
    /// What its certificate calls it, and its file's name.
    pub common_name: String,
    /// Its address in the pool, from which alone it may send.
    pub address: Ipv4Addr,
}

impl Client {
    fn parse(common_name: &str, text: &str) -> Option<Client> {
        let (first, second) = text.split_once('\n')?;
        let mut words = second.strip_prefix("ifconfig-push ")?.split(' ');
        let (name, address) = (first.strip_prefix("# ")?.to_owned(), words.next()?.parse().ok()?);
        Some(Client { name, common_name: common_name.to_owned(), address })
    }
}

/// The clients of the server in `directory`, by address; none where there is none yet.
///
/// # Errors
/// Why they cannot be read, for people.
pub fn list(directory: &Path) -> Result<Vec<Client>, String> {
    let directory = directory.join(DIRECTORY);
    let failed = |why: io::Error| format!("{}: {why}", directory.display());
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(failed(why)),
    };
    let mut clients = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.contains('.')) else {
            continue;
        };
        let client = Client::parse(name, &read(&path)?);
        clients
            .push(client.ok_or_else(|| format!("{}: it does not hold what weft access add writes", path.display()))?);
    }
    clients.sort_by_key(|client| client.address);
    Ok(clients)
}

/// A client at the lowest address that is free, not yet let in.
///
/// # Errors
/// When the pool is used up, or there are no random numbers.
pub fn new(clients: &[Client], name: &str, pool: &Pool) -> Result<Client, String> {
    let is_free = |address: &Ipv4Addr| clients.iter().all(|client| client.address != *address);
    let address = pool.hosts().find(is_free).ok_or_else(|| format!("all addresses of the pool {pool} are in use"))?;
    let seed = entropy::seed().map_err(|why| format!("the kernel gave no random numbers: {why}"))?;
    let common_name = seed.iter().take(SERIAL_BYTES).map(|byte| format!("{byte:02x}")).collect();
    Ok(Client { name: name.to_owned(), common_name, address })
}

/// Lets it in.
///
/// # Errors
/// Why its file cannot be written, for people.
pub fn let_in(directory: &Path, client: &Client, pool: &Pool) -> Result<(), String> {
    let directory = directory.join(DIRECTORY);
    let text = format!("# {}\nifconfig-push {} {}\n", client.name, client.address, pool.mask());
    files::write(&directory.join(&client.common_name), &text)
}

/// Puts it out; a session it has goes on until it is ended.
///
/// # Errors
/// Why its file cannot be removed, for people.
pub fn put_out(directory: &Path, client: &Client) -> Result<(), String> {
    let path = directory.join(DIRECTORY).join(&client.common_name);
    fs::remove_file(&path).map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_back_and_others_refused() {
        let client = Client { name: "phone".into(), common_name: "0a".into(), address: [10, 9, 129, 2].into() };
        assert_eq!(Client::parse("0a", "# phone\nifconfig-push 10.9.129.2 255.255.255.0\n"), Some(client));
        for bad in [
            "",
            "# phone",
            "phone\nifconfig-push 10.9.129.2 255.255.255.0",
            "# phone\nifconfig-push x y",
            "# phone\npush",
        ] {
            assert_eq!(Client::parse("0a", bad), None, "{bad}");
        }
    }

    #[test]
    fn common_names_differ_and_addresses_are_free_ones() {
        let pool = Pool::parse("10.9.129.0/30").unwrap();
        let first = new(&[], "phone", &pool).unwrap();
        assert_eq!((first.address, first.common_name.len()), (Ipv4Addr::new(10, 9, 129, 2), 16));
        assert_ne!(new(&[], "phone", &pool).unwrap().common_name, first.common_name);
        assert!(new(&[first], "other", &pool).unwrap_err().contains("in use"));
    }
}
