//! Property: despite faults of the disk with the state files, a node serves its peers within 5 s.
//!
//! This holds while the node runs, and at its start.
//!
//! The faults are real: a file system that fills up or becomes read-only, and system calls that `strace --inject` makes
//! fail, makes do nothing, or uses to kill the process.

use crate::common::{on_two_nodes, stderr, stdout};
use std::process::Command;

/// Shell functions that start a node, measure the time until its session, and stop it.
const SERVED: &str = r#"
    now() { date +%s%N; }
    # Starts home under `$1`, a fault or nothing, and says whether the hub is reached in time.
    served() {
        what=$1; shift; began=$(now); : >home.log
        ip netns exec home "$@" $WEFT up -c home.toml 2>>home.log & home=$!
        logged home "session established"
        ip netns exec home ping -c 1 -W 2 10.9.0.2 >/dev/null; ping=$?
        took=$((($(now) - began) / 1000000)); [ $took -lt 5000 ] && took=soon
        echo "$what: $took, ping $ping"; ! grep -h panicked home.log hub.log
    }
    # The node itself, where a tracer runs it.
    node() { pgrep -P $home -x weft || echo $home; }
    stop() { kill $(node); wait $home 2>/dev/null; }
    crash() { kill -9 $(node) 2>/dev/null; wait $home 2>/dev/null; }
    traced() { echo strace -f -qq -o $1.trace -e trace=fsync,fdatasync,renameat,renameat2 -e inject=$2; }
"#;

fn has_tracer() -> bool {
    let probe = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).status();
    let has = probe.as_ref().is_ok_and(std::process::ExitStatus::success);
    if !has {
        eprintln!("skipped: strace does not run here ({probe:?})");
    }
    has
}

fn assert_served(text: &str, errors: &str, expected: &[&str]) {
    for line in expected {
        let line = format!("{line}: soon, ping 0");
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}\n{errors}");
    }
    assert!(!text.contains("panicked") && !text.contains("not logged"), "{text}\n{errors}");
}

#[test]
fn a_disk_that_fails_while_a_node_runs_costs_no_session() {
    if !has_tracer() {
        return;
    }
    let Some((_dir, out)) = on_two_nodes(
        &[
            SERVED,
            r#"
        up hub
        faulty() {
            served "$1" $(traced faulty $2); grep -c INJECTED faulty.trace | sed "s/^0$/$1 was not tried/"
            crash; served "after $1"; stop
        }
        faulty "no fsync" fsync,fdatasync:error=EIO
        faulty "no rename" renameat,renameat2:error=ENOSPC
        faulty "lost renames" renameat,renameat2:retval=0
        # The process ends between the write and the rename, and between the rename and the directory's own record.
        for at in 1 2; do
            faulty_call() { ip netns exec home $(traced call $1) $WEFT up -c home.toml 2>>home.log; }
            for call in renameat:signal=KILL:when=$at fsync:signal=KILL:when=$((at + 1)); do
                timeout 10 bash -c "$(declare -f faulty_call traced); WEFT=$WEFT; faulty_call $call"
                grep -q "killed by SIGKILL" call.trace || echo "$call did not end it"
                served "crash in $call"; stop
            done
        done
        kill $hub; wait $hub"#,
        ]
        .concat(),
    ) else {
        return;
    };
    let (text, errors) = (stdout(&out), stderr(&out));
    let faults = ["no fsync", "no rename", "lost renames"];
    let crashes = [
        "renameat:signal=KILL:when=1",
        "fsync:signal=KILL:when=2",
        "renameat:signal=KILL:when=2",
        "fsync:signal=KILL:when=3",
    ];
    let after = faults.iter().map(|fault| format!("after {fault}"));
    let expected: Vec<String> = after.chain(crashes.iter().map(|call| format!("crash in {call}"))).collect();
    assert_served(&text, &errors, &faults);
    assert_served(&text, &errors, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(!text.contains("not tried") && !text.contains("did not end it"), "{text}\n{errors}");
}

#[test]
fn a_disk_that_fills_up_or_becomes_read_only_costs_no_session() {
    let Some((_dir, out)) = on_two_nodes(
        &[
            SERVED,
            r#"
        up hub; mkdir -m 700 home.state
        for fault in full readonly; do
            mount -t tmpfs -o size=16k,mode=700 none home.state
            served "before $fault"
            case $fault in
                full) head -c 99999 /dev/zero >home.state/fill 2>/dev/null ;;
                readonly) mount -o remount,ro home.state ;;
            esac
            # The hub's restart brings a new stamp to be written.
            kill $hub; wait $hub; : >home.log; up hub; began=$(now); logged home "session established"
            ip netns exec home ping -c 1 -W 2 10.9.0.2 >/dev/null; ping=$?
            took=$((($(now) - began) / 1000000)); [ $took -lt 5000 ] && took=soon
            echo "while $fault: $took, ping $ping"
            crash; served "after $fault"; stop; umount home.state
        done
        kill $hub; wait $hub"#,
        ]
        .concat(),
    ) else {
        return;
    };
    let cases = ["before", "while", "after"];
    let expected: Vec<String> =
        ["full", "readonly"].iter().flat_map(|fault| cases.map(|case| format!("{case} {fault}"))).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_served(&stdout(&out), &stderr(&out), &expected);
}

#[test]
fn files_cut_anywhere_or_with_garbage_anywhere_cost_no_session() {
    // Each round damages both nodes' files, which the round before has left intact.
    let Some((_dir, out)) = on_two_nodes(&[SERVED, r#"
        RANDOM=28
        garbage() { for _ in 1 2 3; do head -c 1 /dev/urandom | dd of=$1 bs=1 seek=$((RANDOM % $(stat -c %s $1))) conv=notrunc status=none; done; }
        cut_off() { truncate -s $((RANDOM % $(stat -c %s $1))) $1; }
        empty() { : >$1; }
        doubled() { cat $1 $1 >twice; cat twice >$1; }
        beside() { cp $1 ${1%/*}/.${1##*/}.0123456789abcdef; }
        up hub; served whole; stop; kill $hub; wait $hub
        for damage in garbage cut_off empty doubled beside; do
            for file in home.state/* hub.state/*; do [ -s $file ] && $damage $file; done
            up hub; served $damage; stop; kill $hub; wait $hub
        done"#].concat()) else { return };
    let expected = ["whole", "garbage", "cut_off", "empty", "doubled", "beside"];
    assert_served(&stdout(&out), &stderr(&out), &expected);
}
