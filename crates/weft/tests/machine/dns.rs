//! Property: a node with `[out]` gives its machine the configured servers, and resolves its hub's name without them.

use crate::common::inside::{self, Daemon, wait_for, within};
use crate::common::{Dir, has_tun, is_root, part, script, stderr, stdout};
use crate::kill_switch::{NETWORK, addresses, configure, shell};
use crate::traffic::{count, send};
use crate::{HOME_AND_HUB, home_and_hub};
use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Serves DNS at the routers of `home`: `hub.example.org` is 203.0.113.2. Collects the names that are asked for.
fn serve(stop: &Arc<AtomicBool>) -> (Arc<Mutex<BTreeSet<String>>>, JoinHandle<()>) {
    let (names, stop) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::clone(stop));
    let asked = Arc::clone(&names);
    let thread = within("net", move || {
        let socket = UdpSocket::bind("192.0.2.18:53").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut bytes = [0; 512];
        while !stop.load(Relaxed) {
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
            let query = &bytes[..length];
            let name = String::from_utf8_lossy(&query[12..length.saturating_sub(5).max(12)]);
            let name = name.replace(|c: char| c.is_control(), ".").trim_matches('.').to_owned();
            asked.lock().unwrap().insert(name.clone());
            let has_address = name == "hub.example.org" && query[length - 3] == 1;
            let mut answer = query.to_vec();
            (answer[2], answer[3], answer[7]) = (0x81, 0x80, has_address.into());
            if has_address {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 2]);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    (names, thread)
}

#[test]
fn the_hub_is_looked_up_past_the_switch_and_no_other_name_leaves() {
    inside::or_again("dns::the_hub_is_looked_up_past_the_switch_and_no_other_name_leaves", || {
        if is_root() { names() } else { eprintln!("skipped: this takes root") }
    });
}

fn names() {
    let dir = Dir::new();
    shell(&dir, NETWORK);
    [1, 2].iter().for_each(|link| drop(shell(&dir, &addresses(*link, 1))));
    configure(&dir);
    let text = fs::read_to_string(dir.path("safe.toml")).unwrap();
    dir.write("home.toml", &text.replace("203.0.113.2:51900", "hub.example.org:51900"));
    let stop = Arc::new(AtomicBool::new(false));
    let (asked, server) = serve(&stop);
    let (data, counter) = count("world", 9, &stop);
    let _hub = Daemon::start(&dir, "hub");
    for _ in 0..2 {
        // After the kill, resolv.conf names servers that only the tunnel reaches.
        let home = Daemon::start(&dir, "home");
        wait_for("switch", &dir, || {
            inside::run(std::process::Command::new("ip").args([
                "netns",
                "exec",
                "home",
                "nft",
                "list",
                "table",
                "inet",
                "weft_kill_weft0",
            ]))
        });
        let to = ["198.51.100.9:9", "[2001:db8:9::9]:9", "192.0.2.18:53"].map(|to| to.parse().unwrap());
        let silent = Arc::new(AtomicBool::new(false));
        let sender = send("home", &to, &["link1"], &silent);
        let before = data[0].load(Relaxed);
        wait_for("way out by a hub with a name", &dir, || data[0].load(Relaxed) > before + 20);
        silent.store(true, Relaxed);
        sender.join().unwrap();
        drop(home);
    }
    stop.store(true, Relaxed);
    server.join().unwrap();
    counter.join().unwrap();
    let asked: Vec<_> = asked.lock().unwrap().iter().cloned().collect();
    assert_eq!(asked, ["hub.example.org"]);
}

#[test]
fn systemd_resolved_gets_the_servers_of_the_device_and_its_link_stays() {
    if !has_tun() || !is_root() {
        return eprintln!("skipped: needs root and a TUN device");
    }
    let dir = Dir::new();
    let out = "[out]\ndns = [\"10.9.0.2\", \"fd00:9::2\"]\nsearch = [\"corp.example\"]\n";
    home_and_hub(&dir, r#""10.9.0.2/32", "fd00:9::2/128""#, out);
    let text = format!(
        r#"{HOME_AND_HUB}
        mkdir bin; ls /etc >had; rm -f /etc/resolv.conf
        ln -s ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
        printf '#!/bin/sh\necho "$@" >>{}/told\n' >bin/resolvectl; chmod +x bin/resolvectl; export PATH=$PWD/bin:$PATH
        up hub hub; up home home; logged home "this machine asks"
        echo "== told"; cat told; echo "== link"; readlink /etc/resolv.conf
        : >told; sed '/^dns/d;/^search/d;/^\[out\]/d' plain.toml >home.toml; run home reload
        for _ in $(seq 50); do [ -s told ] && break; sleep 0.1; done; echo "== ended"; cat told
        run home down; wait $home; echo "== left"; ls /etc | comm -13 had - | grep -c weft; kill $hub; wait $hub"#,
        dir.0.display()
    );
    let out = script(&dir, &text);
    let (text, log) = (stdout(&out), fs::read_to_string(dir.path("home.log")).unwrap_or_default());
    let all = format!("{text}\n{}\n{log}", stderr(&out));
    let told = "dns weft0 10.9.0.2 fd00:9::2\ndomain weft0 ~. corp.example\ndefault-route weft0 yes";
    let expected =
        [("told", told), ("link", "../run/systemd/resolve/stub-resolv.conf"), ("ended", "revert weft0"), ("left", "0")];
    for (name, expected) in expected {
        assert_eq!(part(&text, &format!("{name}\n")), expected, "{name}: {all}");
    }
}

#[test]
fn the_services_user_sets_the_switch_and_logs_why_resolv_conf_stays() {
    if !has_tun() || !is_root() || std::process::Command::new("setpriv").arg("--version").output().is_err() {
        return eprintln!("skipped: needs root, a TUN device and setpriv");
    }
    let dir = Dir::new();
    let out = "[out]\nkill-switch = true\ndns = [\"10.9.0.2\"]\n";
    home_and_hub(&dir, r#""10.9.0.2/32", "0.0.0.0/0", "::/0""#, out);
    let text = format!(
        r#"{HOME_AND_HUB}
        mkdir /run/net && mknod -m 666 /run/net/tun c 10 200 && mount --bind /run/net /dev/net
        ls /etc >had; rm -f /etc/resolv.conf; echo 'nameserver 192.0.2.2' >/etc/resolv.conf
        find . -maxdepth 1 -exec chown 65534:65534 {{}} +
        up hub hub
        ip netns exec home setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all,+net_admin --ambient-caps=-all,+net_admin \
            --bounding-set=-all,+net_admin $WEFT up -c home.toml 2>home.log & home=$!
        logged home "session established"; logged home "cannot use the servers of .out."
        echo "== during"; in_home nft list tables; cat /etc/resolv.conf; in_home $WEFT doctor -c home.toml | grep "kill switch"
        kill -9 $home; wait $home; ends
        echo "== killed"; in_home nft list tables
        echo "== down"; run home down; in_home nft list tables; ls /etc | comm -13 had - | grep -c weft
        kill $hub; wait $hub"#
    );
    let out = script(&dir, &text);
    let (text, log) = (stdout(&out), fs::read_to_string(dir.path("home.log")).unwrap_or_default());
    let all = format!("{text}\n{}\n{log}", stderr(&out));
    assert!(part(&text, "during").starts_with("table inet weft_kill_weft0\nnameserver 192.0.2.2"), "{all}");
    assert!(log.contains("/etc/resolv.conf") && log.contains(": use systemd-resolved, or run weft as root"), "{all}");
    assert_eq!(part(&text, "killed"), "table inet weft_kill_weft0", "{all}");
    assert_eq!(part(&text, "down"), "no node is running; its kill switch is lifted\n0", "{all}");
}
