//! `weft ca`: creates root keys; signs, lists and shows certificates and revocations.
//!
//! The directory of the root key holds the key and two append-only files: the certificates and the revocations that it
//! has signed. No other program changes them.

mod issued;

use crate::cli::{CaCommand, RevokedNode, SignOptions};
use crate::config::allow::group_name;
use crate::config::{peer_name, prefix};
use crate::date::rfc_3339;
use crate::files::{Directory, Owner};
use crate::keys::KeyKind;
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::{entropy, escape, files, keys};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_engine::Prefix;
use weft_session::{Certificate, Claims, PublicKey, Revocation, RootKey, RootPublicKey};

/// Seconds in a day.
pub(super) const DAY_S: u64 = 86_400;
/// Time by which a certificate's validity begins before its signing, in seconds, for nodes whose clocks are slow.
pub(super) const EARLIER_S: u64 = 600;
/// Name of the file with the root key.
const ROOT_KEY_FILE: &str = "root.key";
/// Name of the file with all signed certificates, one per line.
const ISSUED_FILE: &str = "issued";
/// Name of the file with all signed revocations, one per line.
const REVOKED_FILE: &str = "revoked";
/// Maximum length of the file of certificates and of the file of revocations, in bytes. A longer file is an error.
const MAX_BYTES: u64 = 64 << 20;

/// Executes `weft ca`.
pub fn ca(command: CaCommand) -> Result<Outcome, Failure> {
    match command {
        CaCommand::Init { out } => init(&out),
        CaCommand::Sign(options) => sign(&options),
        CaCommand::Revoke { ca, node, out } => revoke(&ca, &node, out.as_deref()),
        CaCommand::Renew { ca, name, days, out } => issued::renew(&ca, &name, days, out.as_deref()),
        CaCommand::List { ca, json } => issued::list(&ca, json),
        CaCommand::Show { file, root, json } => show(&file, root.as_deref(), json),
    }
}

fn init(directory: &Path) -> Result<Outcome, Failure> {
    println!("{}", create(directory)?);
    Ok(Outcome::Well)
}

/// Creates a root key in a directory and returns its public half.
pub(super) fn create(directory: &Path) -> Result<RootPublicKey, Failure> {
    Directory::make(directory, 0o700, Owner::Caller).map_err(|why| failed(directory, why))?;
    let seed = entropy::seed().map_err(|why| Failure::new(why.to_string()))?;
    let root = RootKey::from_seed(seed);
    keys::store_key(KeyKind::Root, &root.secret_to_base64(), &directory.join(ROOT_KEY_FILE))
        .map_err(|why| Failure::new(why.to_string()))?;
    Ok(root.public_key())
}

/// Signs a certificate and records it.
///
/// # Errors
/// Fails if another certificate has the name or one of the prefixes, or if there is no root key.
pub(super) fn issue(directory: &Path, claims: &Claims) -> Result<Certificate, Failure> {
    let certificate = root(directory)?.sign(claims).map_err(|why| Failure::with(Outcome::Usage, why.to_string()))?;
    others_keep_theirs(directory, claims, unix_s())?;
    append(directory, ISSUED_FILE, &certificate)?;
    Ok(certificate)
}

/// Returns all certificates that the root key in a directory has signed.
pub(super) fn all_issued(directory: &Path) -> Result<Vec<Certificate>, Failure> {
    lines(directory, ISSUED_FILE)
}

fn sign(options: &SignOptions) -> Result<Outcome, Failure> {
    let now = unix_s();
    let claims = Claims {
        public_key: public_key(&options.public_key)?,
        name: peer_name(&options.name).map_err(|why| wrong(&options.name, why))?,
        not_before_unix_s: now.saturating_sub(EARLIER_S),
        not_after_unix_s: now.saturating_add(options.days * DAY_S),
        may_relay: options.relay,
        prefixes: options.prefixes.iter().map(|text| network(text)).collect::<Result<_, _>>()?,
        groups: group_names(&options.groups)?,
    };
    let certificate = root(&options.ca)?.sign(&claims).map_err(|why| Failure::with(Outcome::Usage, why.to_string()))?;
    others_keep_theirs(&options.ca, &claims, now)?;
    write_out(&certificate, options.out.as_deref())?;
    append(&options.ca, ISSUED_FILE, &certificate)
}

/// Parses the names of groups, and sorts them as a certificate states them.
pub(super) fn group_names(texts: &[String]) -> Result<Vec<String>, Failure> {
    let parsed = texts.iter().map(|text| group_name(text).map_err(|why| wrong(text, why)));
    let groups: BTreeSet<String> = parsed.collect::<Result<_, _>>()?;
    Ok(groups.into_iter().collect())
}

/// Refuses a name or prefix that another valid certificate claims.
///
/// Nodes would refuse the later certificate.
pub(super) fn others_keep_theirs(directory: &Path, claims: &Claims, now: u64) -> Result<(), Failure> {
    let issued: Vec<Certificate> = lines(directory, ISSUED_FILE)?;
    let revoked: Vec<Revocation> = lines(directory, REVOKED_FILE)?;
    let is_revoked = |key: &PublicKey| revoked.iter().any(|revocation| revocation.public_key() == *key);
    let others = issued.iter().map(Certificate::claims).filter(|other| {
        other.public_key != claims.public_key && other.not_after_unix_s >= now && !is_revoked(&other.public_key)
    });
    for other in others {
        let refuse = |what: String| {
            let (key, until) = (&other.public_key, rfc_3339(other.not_after_unix_s));
            let fix = format!("weft ca revoke --ca {} --public-key {key}", directory.display());
            Err(Failure::new(format!(
                "{what}, whose certificate is valid until {until}: choose another one, or revoke that node's key: {fix}"
            )))
        };
        if other.name == claims.name {
            return refuse(format!("the name {} already belongs to a node", claims.name));
        }
        let taken = engine_prefixes(claims).find(|prefix| engine_prefixes(other).any(|its| its.overlaps(*prefix)));
        if let Some(prefix) = taken {
            return refuse(format!("the prefix {} overlaps with one of node {}", prefix::text(prefix), other.name));
        }
    }
    Ok(())
}

fn revoke(directory: &Path, node: &RevokedNode, out: Option<&Path>) -> Result<Outcome, Failure> {
    let root = root(directory)?;
    let key = match (&node.name, &node.public_key) {
        (Some(name), _) => issued::key_of(directory, name)?,
        (None, key) => public_key(key.as_deref().unwrap_or_default())?,
    };
    let revocation = root.revoke(&key, unix_s());
    write_out(&revocation, out)?;
    if let Some(file) = out {
        eprintln!("no node applies the revocation yet: give it to a running node with: weft revoke {}", file.display());
    }
    append(directory, REVOKED_FILE, &revocation)
}

fn show(file: &Path, root: Option<&str>, as_json: bool) -> Result<Outcome, Failure> {
    if file.is_dir() || file.file_name().is_some_and(|name| name == ROOT_KEY_FILE) {
        return show_root(file, as_json);
    }
    let root: Option<RootPublicKey> = root.map(|text| text.parse().map_err(|why| wrong(text, why))).transpose()?;
    let (is_signed, text) = match keys::load_certificate(file) {
        Ok(certificate) => {
            // The signature is checked at a time at which the certificate is valid. The printed dates show if it is
            // valid now.
            let at = certificate.claims().not_before_unix_s;
            let is_signed = root.map(|root| root.check(&certificate, at).is_ok());
            (is_signed, if as_json { json(&certificate_json(&certificate))? } else { certificate_text(&certificate) })
        }
        Err(why) => {
            let revocation = keys::load_revocation(file).map_err(|_| Failure::new(why.to_string()))?;
            let is_signed = root.map(|root| root.has_revoked(&revocation));
            (is_signed, if as_json { json(&revocation_json(&revocation))? } else { revocation_text(&revocation) })
        }
    };
    print!("{text}");
    if is_signed == Some(false) {
        return Err(Failure::new(format!(
            "the root key given with --root did not sign the file {}: check both",
            file.display()
        )));
    }
    Ok(Outcome::Well)
}

/// Prints the public half of the root key in a directory.
///
/// If `file` is a file, the directory that contains it is used.
fn show_root(file: &Path, as_json: bool) -> Result<Outcome, Failure> {
    let directory = if file.is_dir() { file } else { file.parent().unwrap_or(Path::new("")) };
    let public_key = root(directory)?.public_key().to_string();
    match as_json {
        true => print!("{}", json(&json!({ "kind": "root", "public_key": public_key }))?),
        false => println!("root key of a network\npublic key {public_key}"),
    }
    Ok(Outcome::Well)
}

fn certificate_text(certificate: &Certificate) -> String {
    let Claims { public_key, name, not_before_unix_s, not_after_unix_s, may_relay, .. } = certificate.claims();
    let prefixes = prefixes(certificate).join(" ");
    let groups = &certificate.claims().groups;
    format!(
        "certificate of {}\npublic key {public_key}\nfrom {} to {}\nprefixes {}\n{}{}",
        escape::line(name),
        rfc_3339(*not_before_unix_s),
        rfc_3339(*not_after_unix_s),
        if prefixes.is_empty() { "none" } else { &prefixes },
        if groups.is_empty() { String::new() } else { format!("groups {}\n", escape::line(&groups.join(" "))) },
        if *may_relay { "may relay\n" } else { "" },
    )
}

fn certificate_json(certificate: &Certificate) -> serde_json::Value {
    let Claims { public_key, name, not_before_unix_s, not_after_unix_s, may_relay, .. } = certificate.claims();
    json!({
        "kind": "certificate",
        "name": name,
        "public_key": public_key.to_string(),
        "not_before_unix_s": not_before_unix_s,
        "not_after_unix_s": not_after_unix_s,
        "may_relay": may_relay,
        "prefixes": prefixes(certificate),
        "groups": certificate.claims().groups,
    })
}

fn prefixes(certificate: &Certificate) -> Vec<String> {
    engine_prefixes(certificate.claims()).map(prefix::text).collect()
}

fn engine_prefixes(claims: &Claims) -> impl Iterator<Item = Prefix> {
    claims.prefixes.iter().map(|&(address, length)| Prefix { address, length })
}

fn revocation_text(revocation: &Revocation) -> String {
    let at = rfc_3339(revocation.revoked_at_unix_s());
    format!("revocation of the public key {}\nsigned {at}\n", revocation.public_key())
}

fn revocation_json(revocation: &Revocation) -> serde_json::Value {
    json!({
        "kind": "revocation",
        "public_key": revocation.public_key().to_string(),
        "revoked_at_unix_s": revocation.revoked_at_unix_s(),
    })
}

fn root(directory: &Path) -> Result<RootKey, Failure> {
    let file = directory.join(ROOT_KEY_FILE);
    if !file.exists() {
        let directory = directory.display();
        return Err(Failure::new(format!(
            "there is no root key in {directory}: make one with: weft ca init --out {directory}"
        )));
    }
    keys::load_root(&file).map_err(|why| Failure::new(why.to_string()))
}

/// Parses a prefix and refuses host bits, so that no typing error is signed.
pub(super) fn network(text: &str) -> Result<(IpAddr, u8), Failure> {
    let prefix = prefix::parse(text).map_err(|why| wrong(text, why))?;
    match prefix::trimmed(prefix) {
        trimmed if trimmed == prefix => Ok((prefix.address, prefix.length)),
        trimmed => {
            let short = prefix::text(trimmed);
            Err(wrong(text, format!("the prefix has host bits set: write {short} instead")))
        }
    }
}

fn public_key(text: &str) -> Result<PublicKey, Failure> {
    text.parse().map_err(|_| wrong(text, "a public key is 44 characters of base64, as `weft pubkey` prints it"))
}

pub(super) fn wrong(text: &str, why: impl Display) -> Failure {
    Failure::with(Outcome::Usage, format!("`{text}`: {why}"))
}

/// Writes the text to a new file, or to standard output.
fn write_out(text: &impl Display, out: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = out else {
        println!("{text}");
        return Ok(());
    };
    files::create(path, 0o666, format!("{text}\n").as_bytes()).map_err(|why| failed(path, why))
}

fn append(directory: &Path, name: &str, text: &impl Display) -> Result<Outcome, Failure> {
    let appended = Directory::open(directory).and_then(|kept| kept.append(name, format!("{text}\n").as_bytes()));
    appended.map_err(|why| failed(&directory.join(name), why))?;
    Ok(Outcome::Well)
}

/// Parses all lines of a file. Returns none if the file does not exist.
fn lines<T: FromStr<Err: Display>>(directory: &Path, name: &str) -> Result<Vec<T>, Failure> {
    let path = directory.join(name);
    let text = match Directory::open(directory).and_then(|kept| kept.read_text(name, MAX_BYTES)) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        Err(why) => return Err(failed(&path, why)),
    };
    text.lines().map(|line| line.parse().map_err(|why| failed(&path, why))).collect()
}

fn failed(path: &Path, why: impl Display) -> Failure {
    Failure::new(format!("{}: {why}", path.display()))
}

pub(super) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
