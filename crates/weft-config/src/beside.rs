//! Finds the project's other program: in the directory of the running one, or in PATH, as git finds its parts.

use std::path::PathBuf;

/// Returns the file of a program of this project.
pub fn program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(|own| own.parent()).map(|directory| directory.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join(name));
    beside.into_iter().chain(in_path).find(|file| file.is_file())
}
