//! The program `weft`, for tests of programs that stand beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `weft` in the directory of the program `own`: cargo builds only the programs of the package under test.
///
/// Where `WEFT_IS_BUILT` is set, the test run of the workspace has built `weft`. A build of `weft` alone would compile
/// its crates again, with other features.
pub fn built_beside(own: &Path) -> Option<PathBuf> {
    if std::env::var_os("WEFT_IS_BUILT").is_some() {
        return Some(own.with_file_name("weft"));
    }
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--locked", "-p", "weft"]);
    if own.components().any(|part| part.as_os_str() == "release") {
        build.arg("--release");
    }
    build.status().is_ok_and(|status| status.success()).then(|| own.with_file_name("weft"))
}
