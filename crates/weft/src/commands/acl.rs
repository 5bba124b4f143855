//! `weft acl`: the packets that the rules of access have dropped, and whether a flow may enter.

use crate::cli::TestedFlow;
use crate::config::{self, AllowAnswer, AllowQuestion, Loaded, allow};
use crate::outcome::{Failure, Outcome};
use crate::status::{AllowStatus, Status};
use weft_engine::allow::Party;
use weft_wire::ip::protocol;

/// Returns the counters of the rules of access as text.
pub fn text(status: &Status) -> String {
    let Some(allow) = &status.allow else {
        return "no [[allow]] tables: every flow of every peer may enter\n".to_owned();
    };
    let AllowStatus { rules, flows, denied_packets, denied_fragments, hidden_ports, last_denied } = allow;
    let mut text = format!(
        "{rules} rule{}; {flows} flows may go on\n\
         dropped: {denied_packets} packets that no rule allows, {denied_fragments} fragments without their first, \
         {hidden_ports} fragments that hide their ports\n",
        if *rules == 1 { "" } else { "s" }
    );
    if let Some(last) = last_denied {
        text += &format!("last: {}\n", crate::escape::line(last));
    }
    text
}

/// Prints whether the rules of access let a flow enter this node.
pub fn test(tested: &TestedFlow) -> Result<Outcome, Failure> {
    let usage = |why: String| Failure::with(Outcome::Usage, why);
    let loaded = config::load(&tested.config).map_err(Failure::new)?;
    let number = config::protocol_number(&tested.protocol).map_err(usage)?;
    let has_ports = matches!(number, protocol::TCP | protocol::UDP);
    let port = match tested.port {
        None if has_ports => {
            return Err(usage(format!("the protocol {0} needs the destination port, such as {0} 22", tested.protocol)));
        }
        Some(_) if !has_ports => {
            return Err(usage(format!("the protocol {} has no ports: leave the port out", tested.protocol)));
        }
        port => port.unwrap_or(0),
    };
    let question = AllowQuestion {
        from: parties(&tested.from).map_err(usage)?,
        to: parties(&tested.to).map_err(usage)?,
        protocol: number,
        port,
        vpn: tested.vpn.clone(),
    };
    let answer = question.answer(&loaded.config, loaded.certificate.as_ref()).map_err(usage)?;
    match answer {
        AllowAnswer::NoRules => println!("allowed: there are no [[allow]] tables"),
        AllowAnswer::Enters(rule) => {
            let name = loaded.config.allow.rules.get(rule).map_or("", |rule| rule.name.value.as_str());
            println!("allowed by the [[allow]] rule {}", crate::escape::line(name));
        }
        AllowAnswer::Denied => {
            println!("denied: no [[allow]] table lets it in");
            for name in unknown_nodes(question.from.iter().chain(&question.to), &loaded) {
                let name = crate::escape::line(name);
                eprintln!(
                    "the groups of node {name} are unknown, because no [[peer]] has this name: if the node joins by \
                     certificate, add its groups: {name},group:NAME"
                );
            }
        }
    }
    Ok(if answer.enters() { Outcome::Well } else { Outcome::Failed })
}

/// Returns the named nodes whose groups are unknown, because they have no `[[peer]]` and are not this node.
fn unknown_nodes<'a>(parties: impl Iterator<Item = &'a Party>, loaded: &Loaded) -> Vec<&'a str> {
    let own = loaded.certificate.as_ref().map(|own| own.claims().name.as_str());
    let is_known =
        |name: &str| own == Some(name) || loaded.config.peers.iter().any(|peer| peer.name.value.as_str() == name);
    let names = parties.filter_map(|party| if let Party::Node(name) = party { Some(name.as_str()) } else { None });
    names.filter(|name| !is_known(name)).collect()
}

/// Parses one end of a flow. A word that is no address, prefix or group is taken for the name of a node.
fn parties(text: &str) -> Result<Vec<Party>, String> {
    let one = |word: &str| match allow::party(word) {
        Err(_) if !word.contains([':', '/']) => allow::party(&format!("node:{word}")),
        parsed => parsed,
    };
    text.split(',').map(|word| one(word).map_err(|why| format!("`{word}`: {why}"))).collect()
}
