//! Files for the eyes of the state directory's owner, whoever writes them: the node, or root at a terminal beside a node that runs as
//! somebody else.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::Path;

/// Opens a file to be written anew.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    give(path)?;
    Ok(file)
}

/// Makes a directory where there is none.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    give(path)
}

/// Writes a file in the place of an older one, if there is one: readers see either.
///
/// # Errors
/// Why that is not possible, for people.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let next = path.with_extension("next");
    let written = || {
        let mut file = open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)
    };
    written().map_err(|why: io::Error| format!("{}: {why}", path.display()))
}

/// Gives what was made to the owner of the directory it is in.
pub fn give(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (made, parent) = (fs::metadata(path)?, fs::metadata(parent)?);
    match made.uid() == parent.uid() {
        true => Ok(()),
        false => chown(path, Some(parent.uid()), Some(parent.gid())),
    }
}
