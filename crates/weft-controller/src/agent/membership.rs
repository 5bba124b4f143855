//! The membership of this machine at its controller, in a file that only the file's owner can read.

use crate::http::{Client, Endpoint};
use crate::secret::Secret;
use crate::tls;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use weft_config::files::Directory;

/// Name of the file with the membership.
const FILE: &str = "membership.json";
/// Maximum length of the membership's file, in bytes.
const MAX_FILE: u64 = 16 << 10;

/// The membership of this machine: the controller, the node as which the machine joined, and its secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// Address of the controller.
    controller: String,
    /// Name of the node; absent until the controller has accepted the machine.
    pub node: Option<String>,
    /// Secret with which the machine reads its node's configuration.
    secret: String,
    /// File with the certificate authority that must have signed the controller's certificate; `None`: the system's.
    authority: Option<PathBuf>,
}

impl Membership {
    /// Returns a new membership, with a new secret, that the controller has not accepted yet.
    ///
    /// # Errors
    /// Fails if the connection to the controller is not private, or if the kernel has no random numbers.
    pub fn new(controller: &Endpoint, authority: Option<&Path>) -> Result<Membership, String> {
        if !controller.is_private() {
            return Err(format!(
                "refused to use the controller's URL {controller}, because other machines could read http: use https"
            ));
        }
        let secret = Secret::random()?.text().to_owned();
        Ok(Membership {
            controller: controller.to_string(),
            node: None,
            secret,
            authority: authority.map(Path::to_owned),
        })
    }

    /// Reads the membership from its file in `directory`; `None` if there is no such file.
    ///
    /// # Errors
    /// Returns why the file cannot be read.
    pub fn read(directory: &Directory) -> Result<Option<Membership>, String> {
        match directory.read_text(FILE, MAX_FILE) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|why| {
                let path = directory.path().join(FILE);
                format!(
                    "the membership file {} is damaged: {why}: remove this file, get a new invitation code from the \
                     controller, and run: weft controller join URL CODE",
                    path.display()
                )
            }),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(directory.failed(FILE, &why)),
        }
    }

    /// Writes the membership to its file in `directory`.
    ///
    /// # Errors
    /// Returns why it cannot be written.
    pub fn write(&self, directory: &Directory) -> Result<(), String> {
        let text = serde_json::to_vec(self).map_err(|why| why.to_string())?;
        directory.write(FILE, &text).map_err(|why| directory.failed(FILE, &why))
    }

    /// True if this is a membership at `controller`.
    pub fn is_at(&self, controller: &Endpoint) -> bool {
        self.controller == controller.to_string()
    }

    /// Returns the controller's address.
    ///
    /// # Errors
    /// Fails if the address in the file is malformed.
    pub fn endpoint(&self) -> Result<Endpoint, String> {
        self.controller.parse()
    }

    /// Returns the machine's secret.
    ///
    /// # Errors
    /// Fails if the secret in the file is malformed.
    pub fn secret(&self) -> Result<Secret, String> {
        Secret::parse(&self.secret).map_err(|why| {
            format!(
                "the `secret` in the membership file {FILE} is damaged: {why}: remove this file, get a new invitation \
                 code from the controller, and run: weft controller join URL CODE"
            )
        })
    }

    /// Returns an HTTP client that accepts the controller's certificate.
    ///
    /// # Errors
    /// Returns why the authority's file cannot be used.
    pub fn client(&self) -> Result<Client, String> {
        Ok(Client::new(tls::client(self.authority.as_deref(), None)?))
    }
}
