//! `weft join`: reads a code, receives a certificate from the inviting node, and stores the configuration.

use crate::cli::JoinOptions;
use crate::join::{Code, Member, Welcome, how_to_start, receive, send};
use crate::outcome::{Failure, Outcome};
use crate::{entropy, escape};
use std::io::{self, IsTerminal as _, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_session::enrolment::Applicant;
use weft_session::{Certificate, PresharedKey, RootPublicKey};

/// Maximum time to connect to one endpoint, and for each message.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of a code on standard input, in bytes.
const MAX_CODE: u64 = 1_024;

/// Joins the network of a code.
pub fn join(options: &JoinOptions) -> Result<Outcome, Failure> {
    let text = code_text(options)?;
    let code: Code = text.parse().map_err(|why| Failure::with(Outcome::Usage, format!("{why}")))?;
    let member = Member::prepare(&options.dir)?;
    let (mut stream, welcome, receipt) = enrol(&code, &member)?;
    let text = checked(&welcome, &member)?;
    let config = member.store(&welcome.certificate, &text)?;
    // Without the receipt the inviting node only waits longer.
    let _ = send(&mut stream, &receipt);
    println!("joined as {}, {}", escape::line(&welcome.name), escape::line(&welcome.address));
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
    read.map_err(|why| Failure::new(format!("standard input: {why}")))?;
    Ok(text)
}

/// Tries each endpoint of the code. Returns the first answer, and the receipt to send once it is stored.
fn enrol(code: &Code, member: &Member) -> Result<(TcpStream, Welcome, Vec<u8>), Failure> {
    let mut reasons = Vec::new();
    for endpoint in &code.endpoints {
        match ask(code, member, *endpoint) {
            Ok(answer) => return Ok(answer),
            Err(why) => reasons.push(format!("{endpoint}: {why}")),
        }
    }
    let help = "is `weft invite` still waiting there, and is the TCP port open?";
    Err(Failure::new(format!("no answer to the invitation: {}: {help}", reasons.join("; "))))
}

fn ask(code: &Code, member: &Member, endpoint: SocketAddr) -> Result<(TcpStream, Welcome, Vec<u8>), String> {
    let words = |why: io::Error| match why.kind() {
        io::ErrorKind::UnexpectedEof => "the code is void, or it is another node's".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "nothing came back within 5 s".to_owned(),
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
    let welcome = serde_json::from_slice(&reply).map_err(|why| format!("the answer is not understood: {why}"))?;
    Ok((stream, welcome, receipt))
}

/// Checks an answer, and returns the configuration that it stands for.
///
/// The inviting node is authentic, but no text of it goes into the file unparsed.
fn checked(welcome: &Welcome, member: &Member) -> Result<String, Failure> {
    let wrong = |what: &str| Failure::new(format!("the inviting node's answer is wrong: {what}"));
    if welcome.version != 1 {
        return Err(wrong("it is of a newer weft; update this one"));
    }
    let root: RootPublicKey = welcome.root.parse().map_err(|_| wrong("its root key"))?;
    let certificate: Certificate = welcome.certificate.parse().map_err(|_| wrong("its certificate"))?;
    if certificate.claims().public_key != member.identity.public_key() {
        return Err(wrong("the certificate is for another key"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    root.check(&certificate, now).map_err(|why| {
        Failure::new(format!("the certificate does not hold here: {why}: is this machine's clock right?"))
    })?;
    let address = crate::config::prefix::parse(&welcome.address).map_err(|_| wrong("its address"))?;
    let mut contacts = Vec::new();
    for contact in &welcome.contacts {
        let (key, endpoint) = contact.split_once('@').ok_or_else(|| wrong("its contacts"))?;
        let key: weft_session::PublicKey = key.parse().map_err(|_| wrong("its contacts"))?;
        let endpoint: SocketAddr = endpoint.parse().map_err(|_| wrong("its contacts"))?;
        contacts.push(format!("\"{key}@{endpoint}\""));
    }
    Ok(format!(
        "\n[tun]\naddress = [\"{}/{}\"]\n\n[network]\nroot = \"{root}\"\ncertificate = \"weft.cert\"\ncontacts = [{}]\n",
        address.address,
        address.length,
        contacts.join(", ")
    ))
}
