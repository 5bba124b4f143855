//! The page before two real nodes, which run in namespaces with two links between them.

use super::browser::Browser;
use super::common::{Dir, Server};
use super::{draws, pictures, take_pictures, wait_for_draws, weft_program};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Two nodes and a ping between them, until the end of the test.
const NODES: &str = r#"
    set -u; export PATH=$PATH:/usr/sbin:/sbin
    mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/netns && ip link set lo up
    cd "$1"; weft=$2
    ip netns add home; ip netns add hub
    for i in 1 2; do
        ip link add link$i netns home type veth peer name link$i netns hub
        ip -n home addr add 192.0.2.$((i * 16 + 1))/28 dev link$i; ip -n home link set link$i up
        ip -n hub addr add 192.0.2.$((i * 16 + 2))/28 dev link$i; ip -n hub link set link$i up
    done
    for node in home hub; do ip netns exec $node $weft up -c $node.toml 2>$node.log & done
    while ! ip netns exec home ping -c 1 -W 1 10.9.0.2 >/dev/null; do sleep 0.1; done
    ip netns exec home ping -i 0.01 -s 1000 10.9.0.2 >/dev/null
"#;

/// The nodes; dropping it ends them.
struct Nodes(Child);

impl Drop for Nodes {
    fn drop(&mut self) {
        // `--kill-child` ends the namespaces with all in them.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts two nodes, or prints what is missing.
fn start(dir: &Dir) -> Option<Nodes> {
    let weft = weft_program::built_beside(Path::new(env!("CARGO_BIN_EXE_weft-web")))?;
    let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let flags = if is_root { "-nm" } else { "-nmUr" };
    let namespace = Command::new("unshare").args([flags, "true"]).status();
    if tun.is_err() || !namespace.as_ref().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no network namespace with a TUN device here ({tun:?}, {namespace:?})");
        return None;
    }
    // Both programs name the same socket and the same configuration, if nothing else is said.
    let help =
        |verb: &str| String::from_utf8(Command::new(&weft).args([verb, "--help"]).output().unwrap().stdout).unwrap();
    assert!(
        help("status").contains(weft_web::cli::DEFAULT_SOCKET) && help("check").contains(weft_web::cli::DEFAULT_CONFIG)
    );
    let key = |name: &str| {
        let out = Command::new(&weft).args(["keygen", "--out"]).arg(dir.path(&format!("{name}.key"))).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    let keys = [key("home"), key("hub")];
    for (name, host, peer, key, other, rest) in [
        ("home", 1, "hub", &keys[1], 2, "endpoints = [\"192.0.2.18:51900\", \"192.0.2.34:51900\"]"),
        ("hub", 2, "home", &keys[0], 1, ""),
    ] {
        let text = format!(
            "# kept\n[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\n\
             [tun]\naddress = [\"10.9.0.{host}/24\"]\n\n[[peer]]\nname = \"{peer}\"\npublic-key = \"{key}\"\n\
             prefixes = [\"10.9.0.{other}/32\"]\n{rest}\n"
        );
        fs::write(dir.path(&format!("{name}.toml")), text).unwrap();
    }
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", flags, "timeout", "--kill-after=5", "180"]);
    command.args(["bash", "-c", NODES, "bash"]).arg(&dir.0).arg(&weft);
    Some(Nodes(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()))
}

#[test]
fn a_real_node_is_shown_live_and_its_settings_change_on_trial() {
    let dir = Dir::new();
    let Some(mut browser) = Browser::start(&dir.0) else { return };
    let Some(_nodes) = start(&dir) else { return };
    let config = dir.path("home.toml");
    let server = Server::start(&dir.path("home.sock"), &["--allow-changes", "--config", config.to_str().unwrap()]);
    browser.look((1280, 900), "light");
    browser.open(&server.url());
    browser.wait_for(
        "two good paths",
        "[...document.querySelectorAll('#paths tbody tr')].filter((of) => of.innerText.includes('good')).length >= 2",
    );
    browser.wait_for(
        "goodput",
        "document.querySelector('#peers tbody tr td:nth-child(5)').textContent.includes('kbit/s')",
    );
    // The counters of the path rise while the page is looked at.
    let cells =
        "[...document.querySelectorAll('#paths td.number, #peers td.number')].map((of) => of.textContent).join()";
    let mut seen = Vec::new();
    for _ in 0..6 {
        wait_for_draws(&mut browser, 1);
        seen.push(browser.evaluate(cells).to_string());
    }
    seen.dedup();
    assert!(seen.len() >= 3, "{seen:?}");
    assert!(browser.evaluate("document.querySelectorAll('#event-list li').length").as_u64() > Some(1));
    assert_eq!(browser.evaluate("document.querySelectorAll('#map-picture circle').length"), 2);
    // A change is on trial first, and kept if it is confirmed.
    let set = |browser: &mut Browser, key: &str, value: &str| {
        browser.evaluate(&format!(
            "{{ document.getElementById('key').value = {key:?}; document.getElementById('value').value = {value:?}; \
             document.querySelector('#set button').click(); }}"
        ));
    };
    let limit =
        "[...document.querySelectorAll('#links tbody tr')].find((of) => of.innerText.startsWith('link1')).innerText";
    set(&mut browser, "link.link1.max-rate-up", "20 Mbit/s");
    browser.wait_for("trial", "!document.getElementById('trial').hidden");
    browser.wait_for("limit", &format!("{limit}.includes('20.0 Mbit/s')"));
    assert!(!fs::read_to_string(&config).unwrap().contains("max-rate-up"), "not saved yet");
    take_pictures(&mut browser, &pictures(&dir), "real");
    browser.evaluate("{ document.getElementById('confirm').click(); }");
    browser.wait_for("end of the trial", "document.getElementById('trial').hidden");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.starts_with("# kept\n") && text.contains("max-rate-up = \"20 Mbit/s\""), "{text}");
    // Another one is undone.
    set(&mut browser, "link.link1.max-rate-up", "30 Mbit/s");
    browser.wait_for("second limit", &format!("{limit}.includes('30.0 Mbit/s')"));
    browser.evaluate("{ document.getElementById('undo').click(); }");
    browser.wait_for("first limit", &format!("{limit}.includes('20.0 Mbit/s')"));
    // What `weft check` refuses changes nothing.
    set(&mut browser, "link.link1.max-rate-up", "fast");
    browser.wait_for("refusal", "document.getElementById('set-text').classList.contains('bad') && document.getElementById('set-text').textContent.includes('max-rate-up')");
    assert_eq!(fs::read_to_string(&config).unwrap(), text);
    assert!(draws(&mut browser) > 0);
    assert!(browser.complaints.iter().all(|text| text.contains("409")), "{:?}", browser.complaints);
}
