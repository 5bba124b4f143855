//! `weft join`: reads a code, receives a certificate from the inviting node, and stores the configuration.

use super::ca;
use crate::cli::JoinOptions;
use crate::config::{peer_name, prefix};
use crate::join::{Code, MemberDirectory, Welcome, how_to_start, receive, send};
use crate::outcome::{Failure, Outcome};
use crate::{entropy, escape};
use std::io::{self, IsTerminal as _, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use weft_engine::Prefix;
use weft_session::enrolment::Applicant;
use weft_session::{Certificate, PresharedKey, PublicKey, RootPublicKey};

/// Maximum time to connect to one endpoint, to send a message, and to wait for one.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of bytes of a code that are read from standard input.
const MAX_CODE: u64 = 1_024;

/// Joins the network to which an invitation's code belongs.
pub fn join(options: &JoinOptions) -> Result<Outcome, Failure> {
    let text = code_text(options)?;
    let code: Code = text.parse().map_err(|why| Failure::with(Outcome::Usage, format!("{why}")))?;
    let member = MemberDirectory::prepare(&options.dir)?;
    let (mut stream, welcome, receipt) = enrol(&code, &member)?;
    let text = checked(&welcome, &member, options.exit)?;
    let config = member.store(&welcome.certificate, &text)?;
    // If the receipt cannot be sent, the inviting node only waits longer.
    let _ = send(&mut stream, &receipt);
    println!("joined as {}, {}", escape::line(&welcome.name), escape::line(&welcome.addresses.join(" and ")));
    if options.exit {
        println!("everything goes through {}", escape::line(&welcome.host.name));
    }
    print!("{}", how_to_start(&config));
    Ok(Outcome::Well)
}

fn code_text(options: &JoinOptions) -> Result<String, Failure> {
    if let Some(code) = options.code.as_ref().filter(|code| *code != "-") {
        return Ok(code.clone());
    }
    let mut text = String::new();
    let input = io::stdin();
    let read = if input.is_terminal() {
        eprint!("code: ");
        input.read_line(&mut text)
    } else {
        input.take(MAX_CODE).read_to_string(&mut text)
    };
    read.map_err(|why| {
        Failure::new(format!("cannot read the invitation code from standard input: {why}: give it as an argument"))
    })?;
    Ok(text)
}

/// Tries each endpoint of the code. Returns the first answer, and the receipt to send once the answer is stored.
fn enrol(code: &Code, member: &MemberDirectory) -> Result<(TcpStream, Welcome, Vec<u8>), Failure> {
    let mut reasons = Vec::new();
    for endpoint in &code.endpoints {
        match ask(code, member, *endpoint) {
            Ok(answer) => return Ok(answer),
            Err(why) => reasons.push(format!("{endpoint}: {why}")),
        }
    }
    let help = "is `weft invite` still waiting there, and is the TCP port open?";
    Err(Failure::new(format!("no address of the inviting node gave a valid answer: {}: {help}", reasons.join("; "))))
}

fn ask(code: &Code, member: &MemberDirectory, endpoint: SocketAddr) -> Result<(TcpStream, Welcome, Vec<u8>), String> {
    let words = |why: io::Error| match why.kind() {
        io::ErrorKind::UnexpectedEof => {
            "the code has expired, was used or was copied wrongly, or another node issued it".to_owned()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer from the inviting node within 5 s".to_owned(),
        _ => why.to_string(),
    };
    let mut stream = TcpStream::connect_timeout(&endpoint, PATIENCE).map_err(words)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(words)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(words)?;
    let seed = entropy::seed().map_err(words)?;
    let secret = PresharedKey::new(code.secret);
    let (applicant, hello) =
        Applicant::start(&member.identity, &code.host, &secret, seed).map_err(|why| why.to_string())?;
    send(&mut stream, &hello).map_err(words)?;
    let message = receive(&mut stream).map_err(words)?;
    let (reply, receipt) = applicant.finish(&message).map_err(|why| why.to_string())?;
    let welcome = serde_json::from_slice(&reply)
        .map_err(|why| format!("cannot read the inviting node's answer: {why}: install the same weft on both nodes"))?;
    Ok((stream, welcome, receipt))
}

/// Checks the inviting node's answer, and returns the text of the configuration that results from the answer.
///
/// The inviting node is authentic, but no text of it goes into the file unparsed.
fn checked(welcome: &Welcome, member: &MemberDirectory, wants_exit: bool) -> Result<String, Failure> {
    let wrong = |what: &str| {
        let help = "install the same version of weft on both nodes, and invite again";
        Failure::new(format!("the inviting node's answer is not valid: {what}: {help}"))
    };
    if welcome.version != 1 {
        return Err(wrong("a newer version of weft sent it"));
    }
    let root: RootPublicKey = welcome.root.parse().map_err(|_| wrong("cannot parse its root key"))?;
    let certificate: Certificate = welcome.certificate.parse().map_err(|_| wrong("cannot parse its certificate"))?;
    if certificate.claims().public_key != member.identity.public_key() {
        return Err(wrong("the certificate is for another key"));
    }
    root.check(&certificate, ca::unix_s()).map_err(|why| {
        Failure::new(format!(
            "the certificate from the inviting node is not valid here: {why}: check the clocks of both machines"
        ))
    })?;
    let mut addresses = Vec::new();
    for text in &welcome.addresses {
        let Prefix { address, length } = prefix::parse(text).map_err(|_| wrong("cannot parse its addresses"))?;
        addresses.push(format!("\"{address}/{length}\""));
    }
    let host = &welcome.host;
    let key: PublicKey = host.public_key.parse().map_err(|_| wrong("cannot parse its public key"))?;
    let endpoints = host.endpoints.iter().map(|text| text.parse()).collect::<Result<Vec<SocketAddr>, _>>();
    let endpoints = endpoints.map_err(|_| wrong("cannot parse its endpoints"))?;
    let reach = match (wants_exit, host.is_exit) {
        (false, _) => contacts(&key, &endpoints),
        (true, true) => exit(&peer_name(&host.name).map_err(|_| wrong("its name is not allowed"))?, &key, &endpoints),
        (true, false) => {
            let help = "add a line `[exit]` to /etc/weft/weft.toml there, and invite again; or join without --exit";
            return Err(Failure::new(format!(
                "the inviting node {} does not forward packets to the Internet: {help}",
                escape::line(&host.name)
            )));
        }
    };
    Ok(format!(
        "\n[tun]\naddress = [{}]\n\n[network]\nroot = \"{root}\"\ncertificate = \"weft.cert\"\n{reach}",
        addresses.join(", ")
    ))
}

/// Returns the setting with which the node finds the other nodes through the inviting node.
fn contacts(key: &PublicKey, endpoints: &[SocketAddr]) -> String {
    let contacts: Vec<String> = endpoints.iter().map(|endpoint| format!("\"{key}@{endpoint}\"")).collect();
    format!("contacts = [{}]\n", contacts.join(", "))
}

/// Returns the `[[peer]]` table of the inviting node as an exit, with the default routes.
///
/// Longer prefixes of other nodes take precedence.
fn exit(name: &str, key: &PublicKey, endpoints: &[SocketAddr]) -> String {
    let endpoints: Vec<String> = endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
    format!(
        "\n[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nendpoints = [{}]\nprefixes = [\"0.0.0.0/0\", \"::/0\"]\n",
        endpoints.join(", ")
    )
}
