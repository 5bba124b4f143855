//! The node's configuration and the changed text beside it, in a directory that another user may write.
//!
//! Names are resolved from the directory's descriptor, and no symbolic link is followed. The user who runs `weft set`
//! may be root.
//!
//! Names are resolved from the directory's descriptor, and no link is followed. The user who runs `weft set` may be
//! root.

use crate::files::Directory;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use weft_control::CANDIDATE_SUFFIX;

/// Maximum length of a configuration, in bytes. A longer file is an error.
pub const MAX_BYTES: u64 = 16 << 20;

/// A configuration file.
pub struct ConfigFile {
    directory: Directory,
    name: String,
    path: PathBuf,
}

impl ConfigFile {
    /// Finds the file at `path`.
    ///
    /// # Errors
    /// Fails if its directory does not exist, or if its name is not UTF-8.
    pub fn at(path: &Path) -> io::Result<ConfigFile> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a file in UTF-8");
        let name = path.file_name().and_then(OsStr::to_str).ok_or_else(wrong)?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(ConfigFile { directory: Directory::open(parent)?, path: fs::canonicalize(parent)?.join(&name), name })
    }

    /// Returns the absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the absolute path of the changed text.
    pub fn candidate_path(&self) -> PathBuf {
        self.path.with_file_name(self.candidate())
    }

    fn candidate(&self) -> String {
        format!("{}{CANDIDATE_SUFFIX}", self.name)
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// Fails if it cannot be read, or if it is a symbolic link.
    pub fn text(&self) -> io::Result<String> {
        self.directory.read_text(&self.name, MAX_BYTES)
    }

    /// True if there is a changed text beside the configuration.
    pub fn has_candidate(&self) -> bool {
        self.directory.open_to_read(&self.candidate()).is_ok()
    }

    /// Writes a changed text beside the configuration, with the configuration's owner and mode.
    ///
    /// # Errors
    /// Fails if there is no configuration, if it is a symbolic link, or if the text cannot be written.
    pub fn write_candidate(&self, text: &str) -> io::Result<()> {
        let of = self.directory.open_to_read(&self.name)?.metadata()?;
        let mut file: File = self.directory.replace_with_empty(&self.candidate())?;
        file.write_all(text.as_bytes())?;
        fchown(&file, Some(of.uid()), Some(of.gid()))?;
        file.set_permissions(of.permissions())?;
        file.sync_all()
    }

    /// Removes the changed text beside the configuration, if there is one.
    pub fn remove_candidate(&self) {
        // It fails if there is no such file, which is no error here.
        let _ = self.directory.remove(OsStr::new(&self.candidate()));
    }

    /// Replaces the configuration by the changed text.
    ///
    /// # Errors
    /// Fails if there is no such text, or if the directory cannot be changed.
    pub fn save(&self) -> io::Result<()> {
        self.directory.rename(&self.candidate(), &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// For any kind of file as configuration and as changed text, nothing outside the directory changes.
    #[test]
    fn a_file_planted_at_a_name_is_refused_or_replaced_and_never_followed() {
        let base = std::env::temp_dir().join(format!("weft-change-{}", std::process::id()));
        let (inside, outside) = (base.join("etc"), base.join("outside"));
        let plants: [fn(&Path, &Path) -> io::Result<()>; 4] = [
            |at, to| symlink(to, at),
            |at, to| fs::hard_link(to, at),
            |at, _| fs::create_dir(at),
            |at, _| nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).map_err(io::Error::from),
        ];
        for (number, plant) in plants.into_iter().enumerate() {
            for name in ["weft.toml", "weft.toml.new"] {
                let _ = fs::remove_dir_all(&base);
                fs::create_dir_all(&inside).unwrap();
                fs::write(&outside, "secret").unwrap();
                fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
                fs::write(inside.join("weft.toml"), "a = 1").unwrap();
                fs::set_permissions(inside.join("weft.toml"), fs::Permissions::from_mode(0o640)).unwrap();
                let at = inside.join(name);
                let _ = fs::remove_file(&at);
                plant(&at, &outside).unwrap();
                let file = ConfigFile::at(&inside.join("weft.toml")).unwrap();
                let done = file.write_candidate("a = 2").and_then(|()| file.save());
                if name == "weft.toml" {
                    assert!(done.is_err() && file.text().is_err(), "plant {number} at {name}");
                } else if done.is_ok() {
                    assert_eq!(file.text().unwrap(), "a = 2", "plant {number} at {name}");
                    let mode = fs::symlink_metadata(file.path()).unwrap().permissions().mode() & 0o777;
                    assert_eq!(mode, 0o640, "plant {number} at {name}");
                }
                assert_eq!(fs::read_to_string(&outside).unwrap(), "secret", "plant {number} at {name}");
                let mode = fs::metadata(&outside).unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, 0o600, "plant {number} at {name}");
            }
        }
        fs::remove_dir_all(&base).unwrap();
    }
}
