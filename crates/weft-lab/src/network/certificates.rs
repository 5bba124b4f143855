//! Makes the certificates of a network's nodes, if the nodes find each other and their routes by themselves.

use crate::LabError;
use crate::apps::failed;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root key that signs the certificates of all nodes of the network, and the `weft` program that uses it.
pub(super) struct CertificateSigner<'a> {
    binary: &'a Path,
    directory: PathBuf,
    /// The public root key, as the nodes' configurations contain it.
    pub root: String,
}

impl<'a> CertificateSigner<'a> {
    /// Creates a root key in `directory`, with the program `binary`.
    pub fn new(binary: &'a Path, directory: PathBuf) -> Result<CertificateSigner<'a>, LabError> {
        let mut init = Command::new(binary);
        init.args(["ca", "init", "--out"]).arg(&directory);
        let root = printed(init, "weft ca init")?;
        Ok(CertificateSigner { binary, directory, root })
    }

    /// Signs a certificate for the node with the public key `key`, and writes it to `file`.
    ///
    /// The certificate allows the node to own `prefixes`, and to relay if `is_relay` is true.
    pub fn sign(
        &self,
        name: &str,
        key: &str,
        prefixes: &[String],
        is_relay: bool,
        file: &Path,
    ) -> Result<(), LabError> {
        let mut sign = Command::new(self.binary);
        sign.args(["ca", "sign", "--ca"]).arg(&self.directory);
        sign.args(["--name", name, "--public-key", key, "--out"]).arg(file);
        for prefix in prefixes {
            sign.args(["--prefix", prefix]);
        }
        if is_relay {
            sign.arg("--relay");
        }
        printed(sign, "weft ca sign").map(|_| ())
    }
}

/// Runs `command` to its end and returns its standard output. An error names the command as `what`.
fn printed(mut command: Command, what: &str) -> Result<String, LabError> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(failed(what, &output.stderr)),
    }
}
