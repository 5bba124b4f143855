//! `weft controller join`.

use super::membership::Membership;
use crate::cli::JoinArguments;
use crate::http::{Endpoint, Request};
use crate::network::{JoinRequest, Joined};
use hyper::{Method, header};
use serde_json::Value;
use std::io::{self, BufRead as _, Read as _};
use weft_config::files::{Directory, Owner};
use weft_config::keys;

/// Maximum length of a code on standard input, in bytes.
const MAX_CODE: u64 = 256;

/// Joins this machine to the network, as the node for which the invitation was made.
///
/// # Errors
/// Returns why the controller does not accept the machine.
pub fn join(arguments: &JoinArguments) -> Result<(), String> {
    let key = keys::load(&arguments.key).map_err(|why| why.to_string())?.public_key();
    let told = |why: io::Error| format!("{}: {why}", arguments.dir.display());
    let directory = Directory::make(&arguments.dir, 0o700, Owner::Parent).map_err(told)?;
    let mut membership = match Membership::read(&directory)? {
        Some(Membership { node: Some(node), .. }) => {
            let place = arguments.dir.display();
            return Err(format!(
                "this machine has already joined as node {node}: to join again, remove the directory {place} first"
            ));
        }
        // The controller may have accepted an earlier request whose answer was lost. It accepts the same secret again.
        Some(begun) if begun.is_at(&arguments.controller) => begun,
        _ => Membership::new(&arguments.controller, arguments.ca.as_deref())?,
    };
    let request = JoinRequest {
        code: code(arguments.code.as_deref())?,
        public_key: key.to_string(),
        secret_sha256: membership.secret()?.hash().text().to_owned(),
    };
    membership.write(&directory)?;
    let node = ask(&membership, &arguments.controller, &request)?.node;
    membership.node = Some(node.clone());
    membership.write(&directory)?;
    println!("this machine is node {} now: run: weft controller follow", weft_config::escape::line(&node));
    Ok(())
}

/// Returns the code from the command line, or else the first line of standard input.
fn code(given: Option<&str>) -> Result<String, String> {
    if let Some(code) = given {
        return Ok(code.to_owned());
    }
    let mut line = String::new();
    let read = io::stdin().lock().take(MAX_CODE).read_line(&mut line);
    read.map_err(|why| {
        format!("cannot read the invitation code from standard input: {why}: give it after the controller's URL")
    })?;
    match line.trim() {
        "" => {
            Err("the invitation code is missing: give it after the controller's URL, or on standard input".to_owned())
        }
        code => Ok(code.to_owned()),
    }
}

fn ask(membership: &Membership, controller: &Endpoint, request: &JoinRequest) -> Result<Joined, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| {
        format!("cannot start the event loop of weft-controller: {why}: check the limits of open files and memory")
    })?;
    let message = Request {
        method: Method::POST,
        path: "/v1/join",
        headers: vec![(header::CONTENT_TYPE, "application/json".to_owned())],
        body: serde_json::to_string(request).map_err(|why| why.to_string())?,
    };
    let answer = runtime.block_on(membership.client()?.request(controller, message));
    let answer = answer.map_err(|why| format!("{controller}: {why}"))?;
    if answer.status != 200 {
        return Err(format!("{controller}: {}", refusal(answer.status, &answer.body)));
    }
    serde_json::from_slice(&answer.body)
        .map_err(|why| format!("the answer of {controller} is not from a weft controller: {why}: check the URL"))
}

/// Returns the reason of a controller's refusal as text that is safe to print.
pub fn refusal(status: u16, body: &[u8]) -> String {
    let detail =
        serde_json::from_slice::<Value>(body).ok().and_then(|body| Some(body.get("detail")?.as_str()?.to_owned()));
    let detail =
        detail.unwrap_or_else(|| "the answer is not from a weft controller: check the controller's URL".to_owned());
    format!("{status}: {}", weft_config::escape::lines(&detail))
}
