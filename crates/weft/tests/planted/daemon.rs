//! The daemon, from start to stop, in directories where another user plants files.

use super::commands::{STATE_NAMES, configure, edge};
use super::common::{Dir, has_tun, script, stderr, stdout};
use super::{Outside, Plant, below, copy, give_to_nobody, say_if_not_root};
use std::fs;

/// Starts a node for each configuration, waits at most two seconds until it is up, and stops it.
const EACH: &str = r#"
    for config in place-*.toml; do
        node=${config%.toml}
        $WEFT up -c $config 2>$node.log & pid=$!
        for _ in $(seq 40); do grep -q 'up, public key' $node.log && break; kill -0 $pid 2>/dev/null || break; sleep 0.05; done
        echo "$node $(grep -c 'up, public key' $node.log)"
        kill $pid 2>/dev/null; wait $pid
    done"#;

/// Names in the runtime directory.
const RUN_NAMES: [&str; 3] = ["control.sock", "metrics.sock", ""];

#[test]
fn a_node_changes_nothing_outside_and_starts_whatever_is_in_its_state() {
    if !has_tun() {
        return;
    }
    say_if_not_root();
    for plant in Plant::ALL {
        let dir = Dir::new();
        edge(&dir);
        let outside = Outside::new(&dir);
        fs::remove_file(dir.path("ripe.toml")).unwrap();
        let in_state = STATE_NAMES.iter().map(|name| ("state", *name));
        let places: Vec<_> = in_state.chain(RUN_NAMES.map(|name| ("run", name))).collect();
        for (number, (directory, name)) in places.iter().enumerate() {
            let place = format!("place-{number:02}/node");
            fs::create_dir(dir.path(&format!("place-{number:02}"))).unwrap();
            configure(&dir, &place);
            fs::rename(dir.path(&format!("{place}.toml")), dir.path(&format!("place-{number:02}.toml"))).unwrap();
            copy(&dir.path("ripe.state"), &dir.path(&format!("{place}.state")));
            fs::create_dir(dir.path(&format!("{place}.run"))).unwrap();
            plant.put(&below(&dir.path(&format!("{place}.{directory}")), name), &outside);
            give_to_nobody(&dir.path(&format!("place-{number:02}")));
        }
        let before = outside.snapshot();
        let out = script(&dir, EACH);
        assert_eq!(outside.snapshot(), before, "{plant:?}: {}", stderr(&out));
        let started = stdout(&out);
        for (number, (directory, name)) in places.iter().enumerate() {
            let node = format!("place-{number:02}");
            let log = fs::read_to_string(dir.path(&format!("{node}.log"))).unwrap();
            let is_up = started.lines().any(|line| line == format!("{node} 1"));
            let may_refuse = *directory == "run";
            assert!(is_up || may_refuse && log.contains("move it away"), "{plant:?} at {directory}/{name}: {log}");
            assert!(!log.contains("panicked"), "{plant:?} at {directory}/{name}: {log}");
        }
    }
}
