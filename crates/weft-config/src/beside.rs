//! Finds the other programs of this project: in the directory of the running program, or else in PATH.

use std::path::PathBuf;

/// Returns the path of the program `name` of this project, or `None` if it is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(|own| own.parent()).map(|directory| directory.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join(name));
    beside.into_iter().chain(in_path).find(|file| file.is_file())
}
