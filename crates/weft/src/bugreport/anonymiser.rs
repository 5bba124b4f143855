//! Replaces names, addresses and secrets in text by stable labels.
//!
//! The scanner reads a text once, from left to right, and writes labels directly to the output. It never reads a label
//! again. Equal inputs get equal labels within one report, and different inputs get different labels.

use super::address;
use crate::cli::Disclosure;
use base64ct::{Base64, Base64Unpadded, Base64UrlUnpadded, Encoding as _};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Text that stands for a hidden value.
pub const HIDDEN: &str = "(hidden)";
/// Minimum length of a known secret, in bytes. Shorter ones would match ordinary words (*tuned* on the examples).
const LEAST_SECRET: usize = 4;
/// Minimum length of a token that may be a secret, in characters (*derived*: 16 characters of hex are 64 bits).
const LEAST_TOKEN: usize = 16;
/// Minimum number of characters outside ordinary words in a token that may be a secret.
///
/// *Tuned*: with this value, names of interfaces in file paths are not taken for secrets.
const LEAST_OPAQUE: usize = 12;
/// Maximum length of an ordinary word, in characters (*tuned*).
const LONGEST_WORD: usize = 15;
/// Suffixes of file names. A name with one of them is not taken for a host name.
const FILE_SUFFIXES: [&str; 14] =
    ["toml", "key", "psk", "sock", "service", "conf", "pem", "crt", "log", "txt", "json", "new", "socket", "so"];

/// Kind of a name, which its label begins with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NameKind {
    /// A node.
    Peer,
    /// A host.
    Host,
    /// A person or an account.
    User,
    /// A VPN.
    Vpn,
    /// A rule, class or proxy.
    Rule,
    /// A public key.
    Key,
    /// A hardware address.
    Mac,
    /// An IP address.
    Address,
}

impl NameKind {
    fn word(self) -> &'static str {
        match self {
            NameKind::Peer => "peer",
            NameKind::Host => "host",
            NameKind::User => "user",
            NameKind::Vpn => "vpn",
            NameKind::Rule => "rule",
            NameKind::Key => "key",
            NameKind::Mac => "mac",
            NameKind::Address => "addr",
        }
    }
}

/// Known names and secrets, and the labels given so far.
#[derive(Default)]
pub struct Anonymiser {
    disclosure: Disclosure,
    /// Known secrets.
    secrets: Vec<String>,
    /// Known names in lower case, the longest first.
    names: Vec<(String, NameKind)>,
    /// Number of the label of each name, hardware address and IP address.
    labels: BTreeMap<(NameKind, String), usize>,
    /// Number of labels of each kind that were given so far.
    counts: BTreeMap<NameKind, usize>,
}

impl Anonymiser {
    /// Creates an anonymiser without known names.
    pub fn new(disclosure: Disclosure) -> Anonymiser {
        Anonymiser { disclosure, ..Anonymiser::default() }
    }

    /// Hides a secret text at every disclosure level, and also its base64 and its hex form.
    ///
    /// If the text is a URL, its credentials are hidden wherever they occur without the URL, too.
    pub fn add_secret(&mut self, text: &str) {
        let credentials = text.split_once("://").and_then(|(_, rest)| rest.split_once('@')).map(|(user, _)| user);
        let parts = credentials.into_iter().flat_map(|user| [user].into_iter().chain(user.split(':')));
        for part in [text].into_iter().chain(parts).filter(|part| part.len() >= LEAST_SECRET) {
            let bytes = part.as_bytes();
            let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            let forms = [Base64::encode_string(bytes), Base64Unpadded::encode_string(bytes)];
            self.secrets.extend([part.to_owned(), Base64UrlUnpadded::encode_string(bytes), hex.to_uppercase(), hex]);
            self.secrets.extend(forms);
        }
        self.secrets.sort_unstable();
        self.secrets.dedup();
    }

    /// Makes a name known. If a name is added with several kinds, the first one applies.
    pub fn add_name(&mut self, kind: NameKind, name: &str) {
        for form in [name, &crate::escape::line(name)] {
            // The scanner compares single characters, so the lower case of each must not depend on its neighbours.
            let form: String = form.chars().flat_map(char::to_lowercase).collect();
            if !form.is_empty() && !self.names.iter().any(|(known, _)| *known == form) {
                let at = self.names.partition_point(|(known, _)| known.len() >= form.len());
                self.names.insert(at, (form, kind));
            }
        }
    }

    /// Returns the text with labels in place of everything that the disclosure level hides.
    pub fn text(&mut self, text: &str) -> String {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        // Secrets are replaced first: otherwise one that begins inside an address or a name might be missed.
        while let Some((at, length)) = self.next_secret(rest) {
            self.scan(&rest[..at], &mut out);
            out += HIDDEN;
            rest = &rest[at + length..];
        }
        self.scan(rest, &mut out);
        out
    }

    /// Returns position and length in bytes of the first known secret; of the longest one if several begin together.
    fn next_secret(&self, text: &str) -> Option<(usize, usize)> {
        let found = self.secrets.iter().filter_map(|secret| Some((text.find(secret.as_str())?, secret.len())));
        found.min_by_key(|(at, length)| (*at, std::cmp::Reverse(*length)))
    }

    /// Appends `text` to `out`, with labels in place of names and addresses. The text must contain no known secret.
    fn scan(&mut self, text: &str, out: &mut String) {
        let (mut rest, mut before) = (text, None);
        while let Some(first) = rest.chars().next() {
            let length = match self.replacement(before, rest) {
                Some((length, label)) => {
                    *out += &label;
                    before = None;
                    length
                }
                None => {
                    out.push(first);
                    before = Some(first);
                    first.len_utf8()
                }
            };
            rest = &rest[length..];
        }
    }

    /// Replaces every string in a value. Keys of objects are fields of weft's own types and stay.
    pub fn value(&mut self, value: &mut serde_json::Value) {
        use serde_json::Value;
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.value(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the number of bytes at the start of `rest` to replace, and their label.
    ///
    /// `before` is the character before `rest` in the text. Returns `None` if nothing at the start is to be replaced.
    fn replacement(&mut self, before: Option<char>, rest: &str) -> Option<(usize, String)> {
        let starts_word = !before.is_some_and(char::is_alphanumeric);
        if starts_word && let Some((scheme, length)) = credentials(rest) {
            return Some((length, format!("{scheme}://{HIDDEN}@")));
        }
        let is_public = self.disclosure == Disclosure::Public;
        if is_public && let Some((length, mac)) = address::hardware(rest) {
            return Some((length, self.label(NameKind::Mac, &mac)));
        }
        if !before.is_some_and(is_token)
            && let Some(token) = opaque_token(rest)
        {
            let is_key = self.names.iter().any(|(name, kind)| *kind == NameKind::Key && *name == token.to_lowercase());
            let label = if is_key { self.label(NameKind::Key, token) } else { HIDDEN.to_owned() };
            return Some((token.len(), label));
        }
        if !is_public {
            return None;
        }
        if let Some((length, ip)) = address::ip(rest) {
            return Some((length, self.address_label(ip)));
        }
        self.known_name(before, rest).or_else(|| starts_word.then(|| self.unknown_name(rest)).flatten())
    }

    fn address_label(&mut self, ip: std::net::IpAddr) -> String {
        // The unspecified address means `any`, and identifies no machine.
        if ip.is_unspecified() {
            return ip.to_string();
        }
        let ip = ip.to_canonical();
        format!("{}-{}", self.label(NameKind::Address, &ip.to_string()), address::kind(ip))
    }

    fn known_name(&mut self, before: Option<char>, rest: &str) -> Option<(usize, String)> {
        let bounds = |a: Option<char>, b: Option<char>| {
            !(a.is_some_and(char::is_alphanumeric) && b.is_some_and(char::is_alphanumeric))
        };
        let found = self.names.iter().find_map(|(name, kind)| {
            let length = folded_prefix(rest, name)?;
            let (inside, behind) = rest.split_at(length);
            let is_whole =
                bounds(before, inside.chars().next()) && bounds(name.chars().next_back(), behind.chars().next());
            is_whole.then(|| (length, *kind, name.clone()))
        });
        let (length, kind, name) = found?;
        Some((length, self.label(kind, &name)))
    }

    /// Finds an unknown name at the start of `rest` by its form: account before an `@`, home directory, host name.
    ///
    /// Returns the same values as [`Self::replacement`].
    fn unknown_name(&mut self, rest: &str) -> Option<(usize, String)> {
        if let Some(user) = rest.strip_prefix("/home/") {
            let length = user.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(user.len());
            let label = self.label(NameKind::User, &user[..length]);
            return Some(("/home/".len() + length, format!("/home/{label}")));
        }
        let run =
            |allowed: &str| rest.find(|c: char| !c.is_alphanumeric() && !allowed.contains(c)).unwrap_or(rest.len());
        let length = run("._+-");
        let behind = rest[length..].strip_prefix('@').and_then(|behind| behind.chars().next());
        if length > 0 && behind.is_some_and(|c| c.is_alphanumeric() || c == '[') {
            return Some((length, self.label(NameKind::User, &rest[..length].to_lowercase())));
        }
        let host = rest[..run(".-_")].trim_end_matches(['.', '-', '_']);
        is_host(host).then(|| (host.len(), self.label(NameKind::Host, &host.to_lowercase())))
    }

    fn label(&mut self, kind: NameKind, name: &str) -> String {
        let count = self.counts.entry(kind).or_default();
        let number = self.labels.entry((kind, name.to_owned())).or_insert_with(|| {
            *count += 1;
            *count
        });
        format!("{}-{number}", kind.word())
    }
}

/// Returns the length of the start of `text` that equals `lower` in lower case, in bytes. `None` if none does.
fn folded_prefix(text: &str, lower: &str) -> Option<usize> {
    let mut wanted = lower.chars();
    for (at, c) in text.char_indices() {
        if wanted.as_str().is_empty() {
            return Some(at);
        }
        if !c.to_lowercase().all(|c| wanted.next() == Some(c)) {
            return None;
        }
    }
    wanted.as_str().is_empty().then_some(text.len())
}

/// Returns the scheme of a URL with credentials at the start of `rest`, and the number of bytes up to the URL's `@`.
///
/// Returns `None` if there is no such URL.
fn credentials(rest: &str) -> Option<(&str, usize)> {
    let (scheme, behind) = rest.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    let authority = &behind[..behind.find(|c: char| c.is_whitespace() || "\"'<>".contains(c)).unwrap_or(behind.len())];
    let end = authority.rfind('@')?;
    is_scheme.then_some((scheme, scheme.len() + "://".len() + end + 1))
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/_-".contains(c)
}

/// Returns the token at the start of `rest`, with its padding, if it may be a key, a code or a hash.
fn opaque_token(rest: &str) -> Option<&str> {
    let length = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
    let token = &rest[..length];
    let opaque = token.split(['+', '/', '_', '-']).filter(|piece| !is_word(piece)).map(str::len).sum::<usize>();
    let padding = rest[length..].len() - rest[length..].trim_start_matches('=').len();
    (length >= LEAST_TOKEN && opaque >= LEAST_OPAQUE).then(|| &rest[..length + padding])
}

/// Returns true if a piece of a token is an ordinary word: letters of one case, perhaps with a capital, then digits.
fn is_word(piece: &str) -> bool {
    let letters = piece.trim_end_matches(|c: char| c.is_ascii_digit());
    let tail = letters.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or(letters);
    let is_plain = tail.chars().all(|c| c.is_ascii_lowercase()) || tail.chars().all(|c| c.is_ascii_uppercase());
    piece.len() <= LONGEST_WORD && is_plain
}

/// Returns true if a text has the form of a host name with a domain, and not that of a file.
fn is_host(text: &str) -> bool {
    let Some((front, last)) = text.rsplit_once('.') else { return false };
    let is_domain = last.starts_with("xn--") || last.chars().count() >= 2 && last.chars().all(char::is_alphabetic);
    is_domain && !FILE_SUFFIXES.contains(&last) && front.split('.').all(|label| !label.is_empty())
}

#[cfg(test)]
#[path = "anonymiser_tests.rs"]
mod tests;
