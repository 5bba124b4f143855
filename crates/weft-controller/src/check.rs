//! Checks of configurations and policies before they are accepted. The code is that with which a node reads its file.

use crate::records::NodeRecord;
use std::fmt::Write as _;
use toml_edit::DocumentMut;
use weft_config::config::{Severity, check_text};

/// Maximum length of a configuration or policy, in bytes.
pub const MAX_TEXT: usize = 256 << 10;
/// Tables that a policy may have. The controller runs the tests of the policy, and nodes get only its rules.
const POLICY_TABLES: [&str; 2] = ["allow", TESTS];
const TESTS: &str = "allow-test";

/// Returns the rules of a policy, without its tests.
///
/// # Errors
/// Returns the mistakes, if the text is no valid policy.
pub fn rules(policy: &str) -> Result<String, String> {
    let mut document: DocumentMut = policy.parse().map_err(|why: toml_edit::TomlError| why.to_string())?;
    if let Some((table, _)) = document.iter().find(|(table, _)| !POLICY_TABLES.contains(table)) {
        let table = table.escape_debug();
        return Err(format!(
            "a policy may contain only [[allow]] and [[allow-test]]: move `{table}` to the nodes' configurations"
        ));
    }
    document.remove(TESTS);
    Ok(document.to_string())
}

/// Returns the configuration that a node runs: the node's own configuration, followed by the rules of the policy.
pub fn effective(configuration: &str, rules: &str) -> String {
    match rules.trim() {
        "" => configuration.to_owned(),
        rules => format!("{}\n\n# Policy of the network\n{rules}\n", configuration.trim_end()),
    }
}

/// Checks a configuration without the files and interfaces of its node.
///
/// # Errors
/// Returns the mistakes with their places.
pub fn configuration(text: &str) -> Result<(), String> {
    let report = check_text("configuration", text);
    if report.count(Severity::Error) == 0 { Ok(()) } else { Err(report.to_string()) }
}

/// Checks a policy, with the nodes of the network as peers, and runs its tests.
///
/// # Errors
/// Returns the mistakes with their places, and the tests that fail.
pub fn policy<'a>(text: &str, nodes: impl Iterator<Item = (&'a str, &'a NodeRecord)>) -> Result<(), String> {
    rules(text)?;
    // The policy is the first part of the text, so that the line numbers in messages are those of the policy.
    let mut whole =
        format!("{text}\n[node]\nkey = \"k\"\nlisten = 51900\n[tun]\naddress = [\"fd77:6566:7400::1/128\"]\n");
    for (name, node) in nodes {
        // A node that has not joined has no key yet. A placeholder lets the policy's tests name the node.
        let key = node.public_key.clone().unwrap_or_else(|| placeholder_key(name));
        let list = |items: &[String]| items.iter().map(|item| toml_string(item)).collect::<Vec<_>>().join(", ");
        let _ = write!(
            whole,
            "[[peer]]\nname = {}\npublic-key = {}\nprefixes = [{}]\ngroups = [{}]\n",
            toml_string(name),
            toml_string(&key),
            list(&node.addresses),
            list(&node.groups),
        );
    }
    let report = check_text("policy", &whole);
    if report.count(Severity::Error) == 0 { Ok(()) } else { Err(report.to_string()) }
}

/// Returns a key that stands for that of a node without a key, so that the policy can be checked.
fn placeholder_key(name: &str) -> String {
    use base64ct::{Base64, Encoding as _};
    Base64::encode_string(ring::digest::digest(&ring::digest::SHA256, name.as_bytes()).as_ref())
}

fn toml_string(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}
