//! `[network]`: the root key whose certificates count, and this node's own.

use super::Config;
use super::diagnose::Report;
use super::read::{At, Section};
use crate::keys;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use weft_session::{Certificate, CertificateError, PublicKey, RootPublicKey};

/// A certificate that ends so soon is worth a warning, in seconds.
const SOON_S: u64 = 14 * DAY_S;
const DAY_S: u64 = 86_400;

/// Whom this node trusts beside the peers it was told of, and what it shows of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// The network's root key.
    pub root: At<RootPublicKey>,
    /// File of this node's own certificate; absent: it shows none.
    pub certificate: Option<At<PathBuf>>,
}

/// Reads the table; a relative path is relative to `directory`.
pub fn read(mut section: Section<'_, '_>, directory: &Path) -> Option<Network> {
    let root = section.parsed("root", "what `weft ca init` prints", root_key);
    let certificate = section.parsed("certificate", "\"node.cert\"", |text| Ok::<_, Infallible>(directory.join(text)));
    if !section.has("root") {
        section.missing("root", "what `weft ca init` printed");
    }
    section.finish();
    Some(Network { root: root?, certificate })
}

fn root_key(text: &str) -> Result<RootPublicKey, &'static str> {
    text.parse().map_err(|_| "a root key is 44 characters of base64")
}

/// Reports what is wrong with this node's certificate at `unix_s`, in seconds since 1970, and gives it.
pub fn check(config: &Config, own: &PublicKey, unix_s: u64, report: &Report) -> Option<Certificate> {
    let network = config.network.as_ref()?;
    if network.certificate.is_none() && config.node.listen.is_none() {
        let help = "name this node's `certificate`, or set [node] `listen` so that others can show it theirs";
        let message = "[network] has no effect: this node shows no certificate, and nobody finds it";
        report.warning(network.root.span.clone(), message, Some(help.to_owned()));
    }
    let at = network.certificate.as_ref()?;
    let error = |message: String, help: String| report.error(at.span.clone(), message, Some(help));
    let file = at.value.display();
    let sign_anew = format!("have it signed anew: weft ca sign --public-key {own}");
    let certificate = keys::load_certificate(&at.value)
        .map_err(|why| error(why.to_string(), format!("have one signed: weft ca sign --public-key {own}")))
        .ok()?;
    let claims = certificate.claims();
    if claims.public_key != *own {
        error(format!("the certificate {file} is for {}, not for this node's key {own}", claims.public_key), sign_anew);
        return None;
    }
    match network.root.value.check(&certificate, unix_s) {
        Err(CertificateError::Expired) => {
            let ago = days(unix_s - claims.not_after_unix_s);
            error(format!("the certificate {file} has expired, {ago} ago"), sign_anew);
        }
        Err(CertificateError::NotYetValid) => {
            let message =
                format!("the certificate {file} is not valid for another {}", days(claims.not_before_unix_s - unix_s));
            report.warning(at.span.clone(), message, Some("perhaps this machine's clock is wrong".to_owned()));
        }
        Err(CertificateError::OtherRoot) => {
            let message = format!("the certificate {file} is not signed by the root key {}", network.root.value);
            error(message, format!("{sign_anew}, or put in `root` what `weft ca init` printed there"));
        }
        Err(why) => error(format!("the certificate {file} is {why}"), sign_anew),
        Ok(()) if claims.not_after_unix_s - unix_s < SOON_S => {
            let message = format!("the certificate {file} expires in {}", days(claims.not_after_unix_s - unix_s));
            report.warning(at.span.clone(), message, Some(sign_anew));
        }
        Ok(()) => {}
    }
    if config.node.relay && !claims.may_relay {
        let message =
            format!("by its certificate {file} this node may not relay: who trusts that takes nothing it passes on");
        let help = "have it signed with --relay, or take `relay` out of [node]";
        report.warning(at.span.clone(), message, Some(help.to_owned()));
    }
    Some(certificate)
}

fn days(seconds: u64) -> String {
    match seconds / DAY_S {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}
