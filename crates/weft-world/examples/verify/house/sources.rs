//! The Rust files of the workspace, as text.

use std::fs;
use std::path::{Path, PathBuf};

/// A Rust file.
pub struct Source {
    /// Path below the root of the repository.
    pub path: PathBuf,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// True if the file is a part of a library or program, and not of its tests, examples or benches.
    pub fn is_shipped(&self) -> bool {
        let is_test = |name: &str| name == "tests.rs" || name == "tests" || name.ends_with("_tests.rs");
        let has_src = self.path.iter().any(|part| part == "src");
        has_src && !self.path.iter().any(|part| part.to_str().is_some_and(is_test))
    }

    /// Returns the lines before the file's own unit tests.
    pub fn code(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    here.skip(1).find(|above| above.join("Cargo.lock").is_file()).unwrap_or(Path::new(".")).to_owned()
}

/// Returns all Rust files below `crates`, sorted by path.
pub fn sources() -> Vec<Source> {
    let (root, mut found) = (root(), Vec::new());
    for directory in directories() {
        for path in entries(&directory) {
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                found.push(Source { path: path.strip_prefix(&root).unwrap_or(&path).to_owned(), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Returns all directories of the sources, without build output.
pub fn directories() -> Vec<PathBuf> {
    let (mut all, mut ahead) = (Vec::new(), vec![root().join("crates")]);
    while let Some(directory) = ahead.pop() {
        let is_source = |path: &PathBuf| path.is_dir() && path.file_name().is_some_and(|name| name != "target");
        ahead.extend(entries(&directory).into_iter().filter(is_source));
        all.push(directory);
    }
    all
}

/// Returns the entries of a directory.
pub fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
