//! The files of a member: key, certificate and configuration in one directory.

use crate::files::{Directory, Owner};
use crate::keys::{self, KeyKind};
use crate::outcome::Failure;
use crate::{config, entropy, files};
use nix::unistd::User;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use weft_session::Identity;

/// User of the service, as packaging/weft.sysusers makes it.
const SERVICE_USER: &str = "weft";
const KEY_FILE: &str = "weft.key";
const CERTIFICATE_FILE: &str = "weft.cert";
const CONFIG_FILE: &str = "weft.toml";

/// The directory of a node that is about to become a member.
pub struct MemberDirectory {
    directory: PathBuf,
    /// Key pair of the node.
    pub identity: Identity,
}

impl MemberDirectory {
    /// Prepares a directory. Its key is used if there is one. Otherwise a key is made and stored.
    ///
    /// A code is valid only for the first key that is sent with it. The key is therefore stored before it is sent. If
    /// the attempt fails later, it can be repeated with the same key.
    ///
    /// # Errors
    /// Fails if the directory has a configuration already or cannot be written, or if its key cannot be
    /// read.
    pub fn prepare(directory: &Path) -> Result<MemberDirectory, Failure> {
        let config = directory.join(CONFIG_FILE);
        if config.exists() {
            let (config, directory) = (config.display(), directory.display());
            let help = "move it away, or name another directory with --dir";
            return Err(Failure::new(format!(
                "{config} exists: this machine is set up in {directory} already: {help}"
            )));
        }
        let key = directory.join(KEY_FILE);
        let identity = if key.exists() {
            keys::load(&key).map_err(|why| Failure::new(why.to_string()))?
        } else {
            create_key(directory, &key)?
        };
        Ok(MemberDirectory { directory: directory.to_owned(), identity })
    }

    /// Stores certificate and configuration, and checks the configuration as the daemon does.
    ///
    /// `network` is the part of the configuration's text that follows the key.
    ///
    /// # Errors
    /// Fails if a file cannot be written, or if the daemon would refuse the configuration.
    pub fn store(&self, certificate: &str, network: &str) -> Result<PathBuf, Failure> {
        let [key, cert, config] = [KEY_FILE, CERTIFICATE_FILE, CONFIG_FILE].map(|name| self.directory.join(name));
        let failed = |path: &Path, why: std::io::Error| Failure::new(format!("{}: {why}", path.display()));
        files::create(&cert, 0o644, format!("{certificate}\n").as_bytes()).map_err(|why| failed(&cert, why))?;
        let text = format!("[node]\nkey = \"{KEY_FILE}\"\n{network}");
        files::create(&config, 0o644, text.as_bytes()).map_err(|why| failed(&config, why))?;
        if let Ok(Some(user)) = User::from_name(SERVICE_USER)
            && nix::unistd::geteuid().is_root()
        {
            let file = files::open(&key).map_err(|why| failed(&key, why))?;
            fchown(&file, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(|why| failed(&key, why))?;
        }
        config::load(&config).map_err(Failure::new)?;
        Ok(config)
    }
}

/// Makes a key and stores it at `path` in `directory`, which is created if it is missing.
fn create_key(directory: &Path, path: &Path) -> Result<Identity, Failure> {
    Directory::make(directory, 0o755, Owner::Caller)
        .map_err(|why| Failure::new(format!("{}: {why}", directory.display())))?;
    let seed = entropy::seed().map_err(|why| Failure::new(why.to_string()))?;
    let identity = Identity::from_secret(seed);
    keys::store_key(KeyKind::Node, &identity.secret_to_base64(), path).map_err(|why| Failure::new(why.to_string()))?;
    Ok(identity)
}

/// Returns the commands that start the node with this configuration, as text for a reader.
pub fn how_to_start(config: &Path) -> String {
    match config == Path::new(crate::cli::DEFAULT_CONFIG) {
        true => "start the node: systemctl enable --now weft\n            or: weft up\n".to_owned(),
        false => format!("start the node: weft up -c {}\n", config.display()),
    }
}
