//! `weft access`: adds, lists and removes clients that are not nodes.
//!
//! The table of clients is in the state directory of the edge. These commands change it themselves and then notify a
//! running node that it has changed.

mod add;

use crate::access::{clients, openvpn};
use crate::cli::AccessCommand;
use crate::config::{self, Access, Config};
use crate::control::{ask, unexpected};
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::table::{Table, bytes, dash};
use clients::Client;
use serde_json::json;
use std::path::Path;
use weft_control::{AccessClient, ClientProgram, ClientRefusals, Request, Response};

/// Executes `weft access`.
pub fn access(command: AccessCommand) -> Result<Outcome, Failure> {
    match command {
        AccessCommand::Add(options) => add::add(&options),
        AccessCommand::List { edge, json } => list(&edge.config, json),
        AccessCommand::Remove { name, edge } => remove(&name, &edge.config),
    }
}

fn remove(name: &str, file: &Path) -> Result<Outcome, Failure> {
    let config = edge(file)?;
    settings(&config, file)?;
    clients::change(&config.node.state, |directory, table| {
        let others = openvpn::clients::in_state(directory)?;
        if let Some(client) = others.iter().find(|client| client.name == name) {
            return openvpn::clients::remove_client(directory, client);
        }
        let Some(index) = table.iter().position(|client| client.name == name) else {
            let names = table.iter().map(|client| &client.name).chain(others.iter().map(|client| &client.name));
            let help = config::did_you_mean(name, names.map(String::as_str));
            let help = help.unwrap_or_else(|| "see: weft access list".to_owned());
            return Err(format!("there is no client {name}; {help}"));
        };
        table.remove(index);
        Ok(())
    })
    .map_err(Failure::new)?;
    notify_node(&config)
}

/// Notifies a running node that the list of clients has changed. A node that starts later reads the list itself.
fn notify_node(config: &Config) -> Result<Outcome, Failure> {
    match ask(&config.node.control, &Request::AccessChanged) {
        Err(failure) if failure.outcome() == Outcome::NoDaemon => {
            eprintln!("weft: the node is not running; the change takes effect when it starts");
            Ok(Outcome::Well)
        }
        Err(failure) => {
            let why = failure.text();
            Err(Failure::new(format!(
                "the list of clients is saved, but the node did not load it: {why}: the list takes effect when the \
                 node restarts"
            )))
        }
        Ok(_) => Ok(Outcome::Well),
    }
}

fn list(file: &Path, as_json: bool) -> Result<Outcome, Failure> {
    let config = edge(file)?;
    let access = settings(&config, file)?;
    let (mut clients, refused) = match ask(&config.node.control, &Request::AccessClients) {
        Ok(Response::Clients { clients, refused }) => (clients, Some(refused)),
        Ok(other) => return Err(unexpected(&other)),
        Err(failure) if failure.outcome() == Outcome::NoDaemon => (absent(&config)?, None),
        Err(failure) => return Err(failure),
    };
    if access.openvpn.is_some() {
        clients.extend(with_openvpn(&config, refused.is_some())?);
    }
    match as_json {
        true => print!("{}", json(&json!({"clients": clients, "refused": refused}))?),
        false => print!("{}{}", table(&clients), refused.map_or_else(String::new, turned_away)),
    }
    Ok(Outcome::Well)
}

/// Returns the admitted WireGuard clients, each with the state of a client that is not connected.
fn absent(config: &Config) -> Result<Vec<AccessClient>, Failure> {
    let clients = clients::read(&config.node.state).map_err(Failure::new)?.into_iter();
    let absent = |Client { name, address, public_key }| {
        AccessClient::absent(name, address, ClientProgram::Wireguard, public_key.to_string())
    };
    Ok(clients.map(absent).collect())
}

/// Returns the admitted OpenVPN clients.
///
/// If a node runs, each client that it reports as connected has the reported state.
fn with_openvpn(config: &Config, is_running: bool) -> Result<Vec<AccessClient>, Failure> {
    let all = openvpn::clients::of(&config.node.state).map_err(Failure::new)?;
    let there = match is_running.then(|| ask(&config.node.control, &Request::OpenvpnClients)).transpose()? {
        Some(Response::Clients { clients, .. }) => clients,
        Some(other) => return Err(unexpected(&other)),
        None => Vec::new(),
    };
    let or_absent = |client: openvpn::clients::OpenvpnClient| {
        let there = there.iter().find(|there| there.key == client.common_name).cloned();
        let openvpn::clients::OpenvpnClient { name, common_name, address } = client;
        there.unwrap_or_else(|| AccessClient::absent(name, address, ClientProgram::Openvpn, common_name))
    };
    Ok(all.into_iter().map(or_absent).collect())
}

fn table(clients: &[AccessClient]) -> String {
    let mut table = Table::new(&["CLIENT", "ADDRESS", "WITH", "FROM", ">HANDSHAKE", ">RECEIVED", ">SENT", "KEY"]);
    for client in clients {
        let AccessClient { name, address, with, key, handshake_s_ago, remote, received_bytes, sent_bytes } = client;
        let with = match with {
            ClientProgram::Wireguard => "WireGuard",
            ClientProgram::Openvpn => "OpenVPN",
        };
        let handshake = handshake_s_ago.map_or_else(dash, |ago| format!("{ago} s ago"));
        let from = remote.map_or_else(dash, |remote| remote.to_string());
        let (received, sent) = (bytes(*received_bytes), bytes(*sent_bytes));
        table.row([name.clone(), address.to_string(), with.to_owned(), from, handshake, received, sent, key.clone()]);
    }
    table.to_string()
}

/// Returns a line for each reason why the edge rejected clients, with advice.
fn turned_away(refused: ClientRefusals) -> String {
    let ClientRefusals { strays, for_another_edge, from_no_client, last_from } = refused;
    let lines = [
        (
            for_another_edge,
            "handshakes rejected: their configuration is for another edge, or for an earlier key of this edge",
        ),
        (from_no_client, "handshakes rejected: the sender is not a client of this edge, or no longer one"),
        (strays, "packets dropped: the source was not the client's address"),
    ];
    let said = lines.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}\n"));
    let last = last_from.map(|from| format!("the last rejected handshake came from {from}\n"));
    said.chain(last).collect()
}

fn edge(file: &Path) -> Result<Config, Failure> {
    Ok(config::load(file).map_err(Failure::new)?.config)
}

fn settings<'a>(config: &'a Config, file: &Path) -> Result<&'a Access, Failure> {
    config.access.as_ref().ok_or_else(|| {
        let file = file.display();
        let example = "[access] with listen = 51820 and pool = \"10.9.128.0/24\"";
        Failure::new(format!("{file}: this node accepts no clients: add a table for them, for example {example}"))
    })
}
