//! Property: a node whose log, state or clock fails serves its peers again within seconds.
//!
//! If it cannot, it reports why not.

use crate::common::{Dir, TWO_NODES, has_tun, on_two_nodes, script, stderr, stdout, two_nodes};
use std::fs;

#[test]
fn an_unread_log_delays_no_packet() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    fs::write(
        dir.path("hub.toml"),
        fs::read_to_string(dir.path("hub.toml")).unwrap() + "[metrics]\nlisten = \"unix:metrics.sock\"\n",
    )
    .unwrap();
    let out = script(
        &dir,
        &format!(
            r#"{TWO_NODES}
            mkfifo pipe; (exec 3<pipe; echo reading >ready; exec sleep 50) & reader=$!
            ip netns exec hub $WEFT up -v -c hub.toml 2>pipe & hub=$!
            up home; logged home "session established"
            # Each refused reload is a line; the pipe holds 64 KiB and the queue a thousand lines more.
            cp hub.toml good.toml; echo "typo = 1" >>hub.toml
            began=$(date +%s)
            for _ in $(seq 40); do
                for _ in $(seq 60); do kill -HUP $hub; sleep 0.002; done
                run hub status --json >status.json || echo "no status"
                [ "$(grep -c '"dropped_log_lines": *0' status.json)" = 0 ] && break
            done
            grep -o '"dropped_log_lines": *[0-9]*' status.json
            echo "took $(($(date +%s) - began)) s"
            ip netns exec home ping -c 5 -i 0.2 -W 2 10.9.0.2 >/dev/null; echo "ping $?"
            cp good.toml hub.toml
            kill $home; wait $home; began=$(date +%s%N)
            up home; logged home "session established"
            ip netns exec home ping -c 1 -W 5 10.9.0.2 >/dev/null
            echo "again $? in $((($(date +%s%N) - began) / 1000000)) ms"
            run hub status | grep "log: .* lines were dropped"
            curl -s --unix-socket metrics.sock http://localhost/metrics | grep ^weft_log
            # The end does not wait for the reader either.
            began=$(date +%s%N); kill $hub; wait $hub
            echo "ended $? in $((($(date +%s%N) - began) / 1000000)) ms"; kill $reader"#
        ),
    );
    let (text, errors) = (stdout(&out), stderr(&out));
    let line = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("no `{start}` in\n{text}\n{errors}")).to_owned()
    };
    let number = |line: &str, at: usize| line.split(' ').nth(at).unwrap().parse::<u64>().unwrap();
    let dropped: u64 = line("\"dropped_log_lines\"").rsplit(':').next().unwrap().trim().parse().unwrap();
    assert!(dropped > 0, "{text}");
    assert_eq!(line("ping "), "ping 0", "{text}");
    let again = line("again 0 in ");
    assert!(number(&again, 3) < 5_000, "{again}");
    line("log: ");
    assert!(number(&line("weft_log_dropped_lines_total "), 1) > 0, "{text}");
    let ended = line("ended 0 in ");
    assert!(number(&ended, 3) < 5_000, "{ended}");
}

/// Shell functions for the scripts below.
///
/// They create old and new state, and measure the time until a session.
const STATE: &str = r#"
    now() { date +%s%N; }
    key() { $WEFT pubkey $1.key; }
    # The hub accepted a stamp of home's that is so many days ahead of the clock.
    accepted() { echo "$(key home) $(($(now) + $1 * 86400000000000))" >hub.state/accepted; }
    stop() { for node in "$@"; do eval "kill \$$node; wait \$$node"; done; }
    # Starts home, and says how long its session took and who said why.
    comes() {
        began=$(now); up home; logged home "session established"
        took=$((($(now) - began) / 1000000)); [ $took -lt 10000 ] && took=soon
        ip netns exec home ping -c 1 -W 2 10.9.0.2 >/dev/null; ping=$?
        echo "$1: $took, ping $ping, home $(grep -c "refused this node's handshake: $2" home.log), hub $(grep -c "handshake refused: $2" hub.log)"
    }
"#;

#[test]
fn a_node_with_damaged_state_has_a_session_within_ten_seconds() {
    let Some((dir, out)) = on_two_nodes(&[STATE, r#"
            mkdir -m 700 hub.state
            up hub; comes plain "its stamp"; cp -a home.state backup.state
            stop home; [ $(cat home.state/stamp) -le $(now) ] && echo "used only: yes"
            stop hub; accepted 365; rm -rf home.state; up hub; comes "clock a year back, state lost" "its stamp is 36[45] d below"
            stop home hub; accepted 1; rm -rf home.state; up hub; comes "clock a day back, state lost" "its stamp is 2[34] h below"
            stop home hub; accepted 1; rm -rf home.state; cp -a backup.state home.state; up hub
            comes "an old backup" "its stamp is"
            stop home hub; rm -rf hub.state; up hub; comes "the hub lost its state" "its stamp"
            stop home; echo $(($(now) + 365 * 86400000000000)) >home.state/stamp; comes "clock a year ahead" "its stamp is 36[45] d above"
            stop home; rm home.state/stamp
            for _ in $(seq 8); do up home; logged home "session established"; kill -9 $home; wait $home 2>/dev/null; done
            [ $(cat home.state/stamp) -le $(($(now) + 61000000000)) ] && echo "crashes: within a minute"
            rm -rf home.state; up home; logged home "session established"; echo "after crashes: $(grep -c refused home.log)"
            stop home hub; grep -h panicked home.log hub.log"#].concat()) else { return };
    let (text, errors) = (stdout(&out), stderr(&out));
    let show = || {
        let log = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
        format!("{text}\n{errors}\nhome:\n{}\nhub:\n{}", log("home.log"), log("hub.log"))
    };
    for line in [
        "plain: soon, ping 0, home 0, hub 0",
        "used only: yes",
        "clock a year back, state lost: soon, ping 0, home 1, hub 1",
        "clock a day back, state lost: soon, ping 0, home 1, hub 1",
        "an old backup: soon, ping 0, home 1, hub 1",
        "the hub lost its state: soon, ping 0, home 0, hub 0",
        "clock a year ahead: soon, ping 0, home 1, hub 1",
        "crashes: within a minute",
        "after crashes: 1",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{}", show());
    }
    assert!(!text.contains("panicked") && !text.contains("not logged"), "{}", show());
}

#[test]
fn two_nodes_with_one_key_are_named_at_both_ends() {
    let Some((dir, out)) = on_two_nodes(
        r#"
            sed -e 's/home\.state/twin.state/; s/home\.sock/twin.sock/; s/^address = .*/name = "twin0"\naddress = ["10.9.1.1\/24"]/' home.toml >twin.toml
            up hub; up home; logged home "session established"
            ip netns exec home $WEFT up -c twin.toml 2>twin.log & twin=$!
            began=$(date +%s)
            for _ in $(seq 300); do grep -q "two running nodes use its key" hub.log && break; sleep 0.1; done
            for _ in $(seq 300); do cat home.log twin.log | grep -q "another running node uses this node's key" && break; sleep 0.1; done
            echo "after $(($(date +%s) - began)) s: hub $(grep -c "peer home: two running nodes use its key" hub.log), twins $(cat home.log twin.log | grep -c "another running node uses this node's key" )"
            kill $home $twin $hub; wait"#,
    ) else {
        return;
    };
    let text = stdout(&out);
    let line = text.lines().find(|line| line.starts_with("after ")).unwrap_or_default();
    let counts: Vec<u32> = line.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let log = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
    let show = || format!("{text}\n{}\nhub:\n{}\ntwin:\n{}", stderr(&out), log("hub.log"), log("twin.log"));
    assert!(matches!(counts[..], [_, hub, twins] if hub > 0 && twins > 0), "{}", show());
}

#[test]
fn root_and_the_nodes_user_may_reset_a_peers_stamps() {
    let Some((_dir, out)) = on_two_nodes(&[STATE, r#"
            mkdir -m 700 hub.state; accepted 365
            up hub; logged hub "up, public key"; run hub peer reset home; echo "reset $?"
            for _ in $(seq 50); do [ -s hub.state/accepted ] || break; sleep 0.1; done
            echo "left: $(wc -l <hub.state/accepted)"
            comes "after a reset" "its stamp"
            run hub peer reset nobody; echo "unknown $?"
            chmod 755 .; setpriv --reuid=65534 --clear-groups $WEFT peer reset home --control $PWD/hub.sock; echo "somebody $?"
            $WEFT peer reset --help | grep -c "weft peer reset hub"
            kill -9 $hub; wait $hub 2>/dev/null; up hub; sleep 2; ip netns exec home ping -c 1 -W 5 10.9.0.2 >/dev/null; echo "later: $?"
            stop home hub"#].concat()) else { return };
    let (text, errors) = (stdout(&out), stderr(&out));
    for line in ["reset 0", "left: 0", "after a reset: soon, ping 0, home 0, hub 0", "unknown 1", "1", "later: 0"] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}\n{errors}");
    }
    // Without root there is no other user in the namespace.
    assert!(!text.contains("somebody 0"), "{text}\n{errors}");
    assert!(errors.contains("home"), "the known peers are named: {errors}");
}
