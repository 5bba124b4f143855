//! Changes from the page, with a stand-in for the program `weft` that writes down how it was called.

use super::browser::Browser;
use super::common::node::FakeNode;
use super::common::{Dir, Server};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Writes down its arguments, one a line, and answers as `weft` does.
const WEFT: &str = r#"#!/bin/sh
for word in "$@"; do printf '%s\n' "$word" >>"$0.calls"; done; echo == >>"$0.calls"
case " $* " in
  *" refused.key "*) echo "weft: error: there is no setting <b>refused.key</b>" >&2; exit 1 ;;
  *" invite "*" slow "*) sleep 1; echo "weft-CODE-slow"; exec sleep 60 ;;
  *" invite "*) echo "weft-CODE-0123456789"; echo "on the new node: weft join" >&2; exec sleep 60 ;;
  *) echo "in effect for 60 s" ;;
esac
"#;

/// Copies the server beside a stand-in for `weft`.
fn program(dir: &Dir) -> std::path::PathBuf {
    let (server, weft) = (dir.path("weft-web"), dir.path("weft"));
    fs::copy(env!("CARGO_BIN_EXE_weft-web"), &server).unwrap();
    fs::write(&weft, WEFT).unwrap();
    fs::set_permissions(&weft, fs::Permissions::from_mode(0o755)).unwrap();
    server
}

/// Returns the calls of `weft` so far, each with its words.
fn calls(dir: &Dir) -> Vec<String> {
    let text = fs::read_to_string(dir.path("weft.calls")).unwrap_or_default();
    text.split("==\n").map(|call| call.trim_end().replace('\n', " ")).filter(|call| !call.is_empty()).collect()
}

fn fill(browser: &mut Browser, field: &str, text: &str) {
    browser.evaluate(&format!("{{ document.getElementById('{field}').value = {text:?}; }}"));
}

fn press(browser: &mut Browser, selector: &str) {
    browser.evaluate(&format!("{{ document.querySelector('{selector}').click(); }}"));
}

#[test]
fn settings_and_invitations_go_through_the_program_weft() {
    let dir = Dir::new();
    let Some(mut browser) = Browser::start(&dir.0) else { return };
    let node = FakeNode::start(2);
    let server =
        Server::start_program(&program(&dir), &node.control, &["--allow-changes", "--config", "/nowhere/weft.toml"]);
    let control = node.control.display();
    browser.open(&server.url());
    browser.wait_for("changes", "!document.getElementById('changes').hidden");
    fill(&mut browser, "key", "link.lte.max-rate-up");
    fill(&mut browser, "value", "--20 Mbit/s; $(reboot)");
    press(&mut browser, "#set button");
    browser.wait_for("answer", "document.getElementById('set-text').textContent === 'in effect for 60 s'");
    fill(&mut browser, "key", "refused.key");
    press(&mut browser, "#unset");
    browser.wait_for("refusal", "document.getElementById('set-text').textContent.includes('<b>refused.key</b>')");
    assert_eq!(browser.evaluate("document.querySelectorAll('#set-text b').length"), 0);
    press(&mut browser, "#undo");
    browser.wait_for("undo", "document.getElementById('trial-text').textContent.includes('no change is on trial') || document.getElementById('trial').hidden");
    fill(&mut browser, "invite-name", "--help");
    fill(&mut browser, "invite-prefixes", "192.168.7.0/24, 192.168.8.0/24");
    press(&mut browser, "#invite-button");
    browser.wait_for("code", "document.getElementById('code-text').textContent === 'weft-CODE-0123456789'");
    browser.wait_for("QR code", "document.querySelector('#code-picture path').getAttribute('d').length > 500");
    browser.wait_for(
        "withdraw",
        "!document.getElementById('withdraw').hidden && document.getElementById('invite-button').disabled",
    );
    let waits = sleeping(&dir.path("weft"));
    assert_eq!(waits.len(), 1, "one invitation waits");
    // A second one is refused, and the code is nowhere but in the first answer.
    let body = r#"{"name":"other","minutes":1}"#;
    let (status, answer) = server.request("POST", "/api/invite", body);
    assert!(status == 409 && !answer.contains("CODE"), "{answer}");
    if let Some(kept) = std::env::var_os("WEFT_PICTURES") {
        browser.look((1280, 900), "light");
        browser.pictures(Path::new(&kept), "invitation");
    }
    press(&mut browser, "#withdraw");
    browser.wait_for(
        "end",
        "document.getElementById('code').hidden && document.getElementById('code-text').textContent === ''",
    );
    browser.wait_for("text", "document.getElementById('invite-text').textContent.includes('withdrawn')");
    assert!(sleeping(&dir.path("weft")).is_empty(), "the program ended");
    let set = format!(
        "--color never set --config /nowhere/weft.toml --control {control} --confirm 60s -- link.lte.max-rate-up --20 Mbit/s; $(reboot)"
    );
    let unset =
        format!("--color never unset --config /nowhere/weft.toml --control {control} --confirm 60s -- refused.key");
    let invite =
        "--color never invite --for 15m --dir /nowhere --prefix=192.168.7.0/24 --prefix=192.168.8.0/24 -- --help";
    assert_eq!(calls(&dir), [set, unset, invite.to_owned()]);
    assert!(browser.complaints.iter().all(|text| text.contains("409")), "{:?}", browser.complaints);
}

#[test]
fn a_browser_that_leaves_too_early_leaves_a_whole_change() {
    let dir = Dir::new();
    let node = FakeNode::start(1);
    let server = Server::start_program(&program(&dir), &node.control, &["--allow-changes"]);
    let body = r#"{"name":"slow","minutes":1}"#;
    let text = format!(
        "POST /api/invite HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        server.token,
        body.len(),
        host = server.host,
    );
    let mut stream = server.connect();
    stream.write_all(text.as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(500));
    drop(stream);
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(sleeping(&dir.path("weft")).len(), 1, "the invitation waits");
    let (status, answer) = server.request("POST", "/api/withdraw", "{}");
    assert_eq!(status, 200, "{answer}");
    thread::sleep(Duration::from_millis(500));
    assert!(sleeping(&dir.path("weft")).is_empty());
    let (status, answer) = server.request("POST", "/api/invite", r#"{"name":"next","minutes":1}"#);
    assert!(status == 200 && answer.contains("weft-CODE-0123456789"), "{answer}");
}

/// Returns the processes that the stand-in for `weft` became. They have its output, and its directory in their
/// environment or none; the test tells them by their parent.
fn sleeping(weft: &Path) -> Vec<u32> {
    let server = weft.with_file_name("weft-web");
    let is_server = |id: u32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|exe| exe == server);
    let ids =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let lives = |id: u32| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|words| words.starts_with(b"sleep"));
    ids.filter(|id| lives(*id) && parent(*id).is_some_and(is_server)).collect()
}
