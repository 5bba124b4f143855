//! The committed BPF object equals the one that clang makes of its sources.

use std::path::Path;
use std::process::Command;
use weft_tcp_er::congestion::OBJECT;

/// Version of clang that made the committed object. Other versions make a different object.
const CLANG: &str = "clang version 14.";

#[test]
fn the_committed_object_is_that_of_the_sources() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/build");
    let version = Command::new(&script).arg("--version").output().unwrap();
    let version = String::from_utf8_lossy(&version.stdout);
    if !version.contains(CLANG) {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI has to compare: install clang 14 and llvm 14 (found: {version:?})"
        );
        return eprintln!("skipped: {CLANG}x is not here, so that nothing can be compared (found: {version:?})");
    }
    let built = std::env::temp_dir().join(format!("weft-object-{}.o", std::process::id()));
    assert!(Command::new(script).arg(&built).status().unwrap().success(), "bpf/build");
    let same = std::fs::read(&built).unwrap() == OBJECT;
    std::fs::remove_file(&built).unwrap();
    assert!(same, "bpf/weft_er.bpf.o is stale: run bpf/build and commit it");
}
