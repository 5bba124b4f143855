//! Where the program `weft` is: beside this one, or in PATH.

use std::path::PathBuf;

/// Returns the file of the program `weft`, which the lab runs as a node.
pub fn weft() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let beside = own.parent().map(|directory| directory.join("weft"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join("weft"));
    beside.into_iter().chain(in_path).find(|file| file.is_file())
}
