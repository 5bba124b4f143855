//! `weft access add`: creates a client and prints its configuration.
//!
//! The client enters the table of the state directory before its configuration is given out. The client's private key
//! is stored nowhere on the edge.

use super::{edge, notify_node, settings};
use crate::access::clients::{self, Client};
use crate::access::openvpn::certificate::Role;
use crate::access::openvpn::server::Prepared;
use crate::access::{openvpn, profile};
use crate::cli::AddOptions;
use crate::config::access::ClientOffer;
use crate::config::{Access, Config, Openvpn, access, peer_name};
use crate::files::Directory;
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::{entropy, keys};
use serde_json::json;
use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, ToSocketAddrs as _};
use weft_session::Identity;

/// The client to create, and the data for its configuration.
struct NewClient<'a> {
    options: &'a AddOptions,
    config: &'a Config,
    name: String,
    endpoint: String,
    offer: ClientOffer,
}

/// The created client.
struct Made {
    address: Ipv4Addr,
    /// Public key of a WireGuard client, or common name in the certificate of an OpenVPN client.
    key: String,
    text: String,
}

pub(super) fn add(options: &AddOptions) -> Result<Outcome, Failure> {
    let config = edge(&options.edge.config)?;
    let access = settings(&config, &options.edge.config)?;
    let openvpn = match (options.openvpn, &access.openvpn) {
        (false, _) => None,
        (true, Some(openvpn)) => Some(openvpn),
        (true, None) => {
            let why = "this edge accepts no OpenVPN clients: add a table [access.openvpn] to its configuration";
            return Err(Failure::new(why));
        }
    };
    let name = peer_name(&options.name).map_err(|why| wrong(&options.name, why))?;
    let endpoint = endpoint(options, access, openvpn)?;
    let wanted = NewClient { options, config: &config, name, endpoint, offer: ClientOffer::of(&config, access) };
    let made = match openvpn {
        None => wanted.with_wireguard(access),
        Some(openvpn) => wanted.with_openvpn(openvpn),
    };
    show(&wanted, &made.map_err(Failure::new)?)?;
    notify_node(&config)
}

impl NewClient<'_> {
    fn with_wireguard(&self, access: &Access) -> Result<Made, String> {
        let state = &self.config.node.state;
        let seed = entropy::seed().map_err(|why| why.to_string())?;
        let (key, edge_key) = (Identity::from_secret(seed), clients::edge_key(state)?.public_key());
        clients::change(state, |directory, table| {
            self.name_is_free(directory, table)?;
            let client = clients::add(table, &self.name, key.public_key(), &access.pool.value)?;
            let text = profile::text(&client, &key, &edge_key, &self.endpoint, &self.offer);
            self.keep(&text)?;
            Ok(Made { address: client.address, key: client.public_key.to_string(), text })
        })
    }

    fn with_openvpn(&self, settings: &Openvpn) -> Result<Made, String> {
        let state = &self.config.node.state;
        let pool = &settings.pool.value;
        clients::change(state, |directory, table| {
            self.name_is_free(directory, table)?;
            let Prepared { directory, authority, .. } = openvpn::server::prepare(directory, settings, &self.offer)?;
            let client = openvpn::clients::new(&openvpn::clients::list(&directory)?, &self.name, pool)?;
            let issued = authority.issue(&client.common_name, Role::Client);
            let issued = issued.map_err(|why| format!("cannot create a key for OpenVPN: {why}: try again"))?;
            let (wrap, key) = openvpn::wrap::for_client(&directory)?;
            let text = openvpn::profile::text(&authority, &issued, (wrap, &key), &self.endpoint, &self.offer.routes);
            self.keep(&text)?;
            openvpn::clients::admit(&directory, &client, pool)?;
            Ok(Made { address: client.address, key: client.common_name, text })
        })
    }

    fn name_is_free(&self, state: &Directory, table: &[Client]) -> Result<(), String> {
        let others = openvpn::clients::in_state(state)?;
        let taken = table.iter().map(|client| (&client.name, client.address));
        let mut taken = taken.chain(others.iter().map(|client| (&client.name, client.address)));
        let name = &self.name;
        match taken.find(|(taken, _)| *taken == name) {
            Some((_, address)) => {
                Err(format!("there is already a client {name} ({address}): remove it first: weft access remove {name}"))
            }
            None => Ok(()),
        }
    }

    fn keep(&self, text: &str) -> Result<(), String> {
        match &self.options.out {
            Some(path) => keys::store(text.trim_end(), path).map_err(|why| why.to_string()),
            None => Ok(()),
        }
    }
}

fn wrong(what: &str, why: &str) -> Failure {
    Failure::with(Outcome::Usage, format!("`{what}`: {why}"))
}

/// Returns the address at which the client reaches this edge.
///
/// It is the value of the option `--edge`, or else of the setting `endpoint` in the configuration.
fn endpoint(options: &AddOptions, access: &Access, openvpn: Option<&Openvpn>) -> Result<String, Failure> {
    let configured = openvpn.map_or(&access.endpoint, |openvpn| &openvpn.endpoint);
    let table = if openvpn.is_some() { "[access.openvpn]" } else { "[access]" };
    let endpoint = match (&options.endpoint, configured) {
        (Some(text), _) => access::endpoint(text).map_err(|why| wrong(text, why))?,
        (None, Some(at)) => at.value.clone(),
        (None, None) => {
            let why =
                format!("the address of this edge is missing: give --edge HOST:PORT, or set `endpoint` in {table}");
            return Err(Failure::with(Outcome::Usage, why));
        }
    };
    // A client whose endpoint has no address could never connect, so the name is resolved before anything changes.
    let unknown = |why: String| {
        Failure::new(format!(
            "cannot resolve the edge's address `{endpoint}`: {why}: correct it, or its DNS entry; no client was added"
        ))
    };
    let first = endpoint.to_socket_addrs().map_err(|why| unknown(why.to_string()))?.next();
    match first {
        Some(_) => Ok(endpoint),
        None => Err(unknown("its name has no address".to_owned())),
    }
}

fn show(wanted: &NewClient<'_>, made: &Made) -> Result<(), Failure> {
    let NewClient { options, name, .. } = wanted;
    let Made { address, key, text } = made;
    if options.json {
        let configuration = options.out.is_none().then_some(text);
        print!("{}", json(&json!({"name": name, "address": address, "key": key, "configuration": configuration}))?);
        return Ok(());
    }
    if options.out.is_none() {
        print!("{text}");
    }
    // Only WireGuard clients get a QR code: OpenVPN's programs read files, and their configuration is too long for one.
    if !options.openvpn {
        let code = profile::qr_code(text, io::stderr().is_terminal());
        let short = "list fewer networks in [access] `routes`";
        let failed = "cannot make a QR code of the client's configuration";
        eprint!("{}", code.unwrap_or_else(|why| format!("{failed}: {why}: {short}\n")));
    }
    Ok(())
}
