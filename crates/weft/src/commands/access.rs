//! `weft access`: clients that are no nodes.

use super::show::json;
use crate::access::{clients, profile};
use crate::cli::{AccessCommand, AddOptions};
use crate::config::{self, Access, Config, access, peer_name};
use crate::control::{AccessClient, Request, Response, ask};
use crate::outcome::{Failure, Outcome};
use crate::table::{Table, bytes, dash};
use crate::{entropy, keys};
use clients::Client;
use serde_json::json;
use std::net::ToSocketAddrs as _;
use std::path::Path;
use weft_session::Identity;

/// Does what `weft access` was asked to.
pub fn access(command: AccessCommand) -> Result<Outcome, Failure> {
    match command {
        AccessCommand::Add(options) => add(&options),
        AccessCommand::List { edge, json } => list(&edge.config, json),
        AccessCommand::Remove { name, edge } => remove(&name, &edge.config),
    }
}

fn add(options: &AddOptions) -> Result<Outcome, Failure> {
    let config = edge(&options.edge.config)?;
    let access = settings(&config, &options.edge.config)?;
    let wrong = |what: &str, why: &str| Failure::with(Outcome::Usage, format!("`{what}`: {why}"));
    let name = peer_name(&options.name).map_err(|why| wrong(&options.name, why))?;
    let endpoint = match (&options.endpoint, &access.endpoint) {
        (Some(text), _) => access::endpoint(text).map_err(|why| wrong(text, why))?,
        (None, Some(at)) => at.value.clone(),
        (None, None) => {
            return Err(Failure::with(
                Outcome::Usage,
                "where do clients reach this edge? Say --edge HOST:PORT, or `endpoint` in [access]",
            ));
        }
    };
    is_known(&endpoint)?;
    let seed = entropy::seed().map_err(|why| Failure::new(format!("the kernel gave no random numbers: {why}")))?;
    let key = Identity::from_secret(seed);
    let edge_key = clients::edge_key(&config.node.state).map_err(Failure::new)?.public_key();
    let routes = access::client_routes(&config, access);
    let (client, text) = clients::change(&config.node.state, |table| {
        let client = clients::add(table, &name, key.public_key(), &access.pool.value)?;
        let text = profile::text(&client, &key, &edge_key, &endpoint, &routes);
        if let Some(path) = &options.out {
            keys::store(text.trim_end(), path).map_err(|why| why.to_string())?;
        }
        Ok((client, text))
    })
    .map_err(Failure::new)?;
    show(options, &client, &text)?;
    tell(&config)
}

/// A name that nobody knows would leave the client without a way in.
fn is_known(endpoint: &str) -> Result<(), Failure> {
    let unknown = |why: String| Failure::new(format!("the edge `{endpoint}` is not known: {why}; nothing was changed"));
    match endpoint.to_socket_addrs() {
        Ok(mut addresses) => addresses.next().map(drop).ok_or_else(|| unknown("its name has no address".to_owned())),
        Err(why) => Err(unknown(why.to_string())),
    }
}

fn show(options: &AddOptions, client: &Client, text: &str) -> Result<(), Failure> {
    if options.json {
        let Client { name, address, public_key } = client;
        let public_key = public_key.to_string();
        let configuration = options.out.is_none().then_some(text);
        let shown = json!({"name": name, "address": address, "public_key": public_key, "configuration": configuration});
        print!("{}", json(&shown)?);
        return Ok(());
    }
    if options.out.is_none() {
        print!("{text}");
    }
    let code = profile::qr_code(text);
    eprintln!("{}", code.unwrap_or_else(|why| format!("no QR code: {why}: name fewer networks in [access] `routes`")));
    Ok(())
}

fn remove(name: &str, file: &Path) -> Result<Outcome, Failure> {
    let config = edge(file)?;
    settings(&config, file)?;
    clients::change(&config.node.state, |table| {
        let Some(index) = table.iter().position(|client| client.name == name) else {
            let help = config::did_you_mean(name, table.iter().map(|client| client.name.as_str()));
            return Err(format!(
                "there is no client {name}{}",
                help.map_or_else(String::new, |help| format!("; {help}"))
            ));
        };
        table.remove(index);
        Ok(())
    })
    .map_err(Failure::new)?;
    tell(&config)
}

/// The table holds already; a running node learns of it now, another one when it starts.
fn tell(config: &Config) -> Result<Outcome, Failure> {
    match ask(&config.node.control, &Request::AccessChanged) {
        Err(failure) if failure.outcome() == Outcome::NoDaemon => {
            eprintln!("weft: the node is not running; it holds from its start on");
            Ok(Outcome::Well)
        }
        Err(failure) => Err(Failure::new(format!("the table is changed, but {}", failure.text()))),
        Ok(_) => Ok(Outcome::Well),
    }
}

fn list(file: &Path, as_json: bool) -> Result<Outcome, Failure> {
    let config = edge(file)?;
    settings(&config, file)?;
    let (clients, strays) = match ask(&config.node.control, &Request::AccessClients) {
        Ok(Response::Clients { clients, strays }) => (clients, Some(strays)),
        Ok(other) => return Err(Failure::new(format!("the node gave an unexpected answer: {other:?}"))),
        Err(failure) if failure.outcome() == Outcome::NoDaemon => (absent(&config)?, None),
        Err(failure) => return Err(failure),
    };
    match as_json {
        true => print!("{}", json(&json!({"clients": clients, "strays": strays}))?),
        false => print!("{}", table(&clients)),
    }
    Ok(Outcome::Well)
}

/// The table alone: nobody is there.
fn absent(config: &Config) -> Result<Vec<AccessClient>, Failure> {
    let clients = clients::read(&config.node.state).map_err(Failure::new)?.into_iter();
    let absent = |client: Client| AccessClient {
        name: client.name,
        address: client.address,
        public_key: client.public_key.to_string(),
        handshake_s_ago: None,
        remote: None,
        received_bytes: 0,
        sent_bytes: 0,
    };
    Ok(clients.map(absent).collect())
}

fn table(clients: &[AccessClient]) -> String {
    let mut table = Table::new(&["CLIENT", "ADDRESS", "FROM", ">HANDSHAKE", ">RECEIVED", ">SENT", "PUBLIC KEY"]);
    for client in clients {
        let AccessClient { name, address, public_key, handshake_s_ago, remote, received_bytes, sent_bytes } = client;
        let handshake = handshake_s_ago.map_or_else(dash, |ago| format!("{ago} s ago"));
        let from = remote.map_or_else(dash, |remote| remote.to_string());
        let (received, sent) = (bytes(*received_bytes), bytes(*sent_bytes));
        table.row([name.clone(), address.to_string(), from, handshake, received, sent, public_key.clone()]);
    }
    table.to_string()
}

fn edge(file: &Path) -> Result<Config, Failure> {
    Ok(config::load(file).map_err(Failure::new)?.config)
}

fn settings<'a>(config: &'a Config, file: &Path) -> Result<&'a Access, Failure> {
    config.access.as_ref().ok_or_else(|| {
        let file = file.display();
        let example = "[access] with listen = 51820 and pool = \"10.9.128.0/24\"";
        Failure::new(format!("{file}: this node is no edge for clients; it would be with {example}, for example"))
    })
}
