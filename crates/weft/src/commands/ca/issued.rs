//! `weft ca list` and `weft ca renew`: the certificates that a root key has signed.

use super::{DAY_S, EARLIER_S, ISSUED_FILE, REVOKED_FILE, append, lines, prefixes, root, unix_s, write_out};
use crate::config::did_you_mean;
use crate::date::rfc_3339;
use crate::outcome::json as json_line;
use crate::outcome::{Failure, Outcome};
use crate::table::{Table, span};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use weft_session::{Certificate, Claims, PublicKey, Revocation};

/// Remaining validity below which a certificate is due for renewal, in seconds.
///
/// A check once a month finds each certificate before it expires.
const SOON_S: u64 = 30 * DAY_S;

/// A certificate and whether its key is revoked.
struct Issued {
    certificate: Certificate,
    is_revoked: bool,
}

impl Issued {
    fn state(&self, now: u64) -> &'static str {
        let until = self.certificate.claims().not_after_unix_s;
        match () {
            () if self.is_revoked => "revoked",
            () if until < now => "expired",
            () if until < now + SOON_S => "expires soon",
            () => "valid",
        }
    }
}

/// Returns the last certificate of each key, in the order of their expiry.
fn issued(directory: &Path) -> Result<Vec<Issued>, Failure> {
    let certificates: Vec<Certificate> = lines(directory, ISSUED_FILE)?;
    let revoked: Vec<Revocation> = lines(directory, REVOKED_FILE)?;
    let mut last = BTreeMap::new();
    for certificate in certificates {
        let is_revoked = revoked.iter().any(|of| of.public_key() == certificate.claims().public_key);
        last.insert(certificate.claims().public_key.to_string(), Issued { certificate, is_revoked });
    }
    let mut all: Vec<Issued> = last.into_values().collect();
    all.sort_by(|a, b| {
        let key = |of: &Issued| (of.certificate.claims().not_after_unix_s, of.certificate.claims().name.clone());
        key(a).cmp(&key(b))
    });
    Ok(all)
}

/// Lists the signed certificates.
pub(super) fn list(directory: &Path, as_json: bool) -> Result<Outcome, Failure> {
    root(directory)?;
    let (all, now) = (issued(directory)?, unix_s());
    match as_json {
        true => {
            let certificates: Vec<_> = all.iter().map(|of| listed(of, now)).collect();
            print!("{}", json_line(&json!({ "schema": 1, "certificates": certificates }))?);
        }
        false => print!("{}", table(&all, now)),
    }
    Ok(Outcome::Well)
}

fn listed(of: &Issued, now: u64) -> serde_json::Value {
    let mut value = super::certificate_json(&of.certificate);
    value["state"] = of.state(now).into();
    value
}

fn table(all: &[Issued], now: u64) -> String {
    let headings = ["NAME", "STATE", "UNTIL", ">LEFT", "PREFIXES", "PUBLIC KEY"];
    let mut table =
        Table::new(&headings).give_way(&["PUBLIC KEY", "UNTIL", "PREFIXES"], &["PUBLIC KEY", "PREFIXES", "NAME"]);
    for of in all {
        let Claims { name, not_after_unix_s, public_key, .. } = of.certificate.claims();
        let left = not_after_unix_s.checked_sub(now).map_or_else(crate::table::dash, |s| span(Duration::from_secs(s)));
        table.row([
            name.clone(),
            of.state(now).to_owned(),
            rfc_3339(*not_after_unix_s),
            left,
            prefixes(&of.certificate).join(" "),
            public_key.to_string(),
        ]);
    }
    if table.is_empty() { "no certificate was signed yet\n".to_owned() } else { table.to_string() }
}

/// Returns the last certificate of this name whose key is not revoked.
///
/// # Errors
/// Fails if there is no such certificate. The message suggests the most similar name.
fn valid_of(directory: &Path, name: &str) -> Result<Certificate, Failure> {
    let all = issued(directory)?;
    let mut of_name = all.iter().filter(|of| of.certificate.claims().name == name).peekable();
    if of_name.peek().is_none() {
        let names = all.iter().map(|of| of.certificate.claims().name.as_str());
        let help = did_you_mean(name, names)
            .unwrap_or_else(|| format!("list the certificates with: weft ca list --ca {}", directory.display()));
        return Err(Failure::new(format!("no certificate was signed for node {name}; {help}")));
    }
    let valid = of_name.find(|of| !of.is_revoked);
    valid.map(|of| of.certificate.clone()).ok_or_else(|| {
        Failure::new(format!(
            "the key of node {name} is revoked: create a new key there, and sign a certificate for it: weft ca sign"
        ))
    })
}

/// Returns the key of the node with this name, so that it can be revoked.
///
/// # Errors
/// Fails if no certificate of this name has a key that is not revoked.
pub(super) fn key_of(directory: &Path, name: &str) -> Result<PublicKey, Failure> {
    Ok(valid_of(directory, name)?.claims().public_key)
}

/// Signs the last certificate of this name again, with a later expiry.
pub(super) fn renew(directory: &Path, name: &str, days: u64, out: Option<&Path>) -> Result<Outcome, Failure> {
    let root = root(directory)?;
    let found = valid_of(directory, name)?;
    let now = unix_s();
    let claims = Claims {
        not_before_unix_s: now.saturating_sub(EARLIER_S),
        not_after_unix_s: now.saturating_add(days * DAY_S),
        ..found.claims().clone()
    };
    let certificate = root.sign(&claims).map_err(|why| Failure::with(Outcome::Usage, why.to_string()))?;
    super::others_keep_theirs(directory, &claims, now)?;
    write_out(&certificate, out)?;
    append(directory, ISSUED_FILE, &certificate)
}
