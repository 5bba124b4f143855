use super::*;
use base64ct::{Base64, Base64UrlUnpadded, Encoding as _};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is removed at the end of the test.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> TestDirectory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weft-bugreport-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        TestDirectory(path)
    }

    /// Writes the files, collects reports of both levels, and returns them as text and as JSON.
    fn reports(&self, config: &str, log: &str) -> Vec<(String, String)> {
        let (file, lines) = (self.0.join("weft.toml"), self.0.join("weft.log"));
        fs::write(&file, config).unwrap();
        fs::write(&lines, log).unwrap();
        let sources = Sources { config: &file, control: &self.0.join("no.sock"), log: Some(&lines) };
        let levels = [Disclosure::Public, Disclosure::Trusted].into_iter();
        let report = |level| BugReport::collect(&sources, level);
        levels.map(report).map(|report| (report.text(), serde_json::to_string(&report).unwrap())).collect()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a random secret in a usual form: key in base64, key in hex, or code of an invitation.
fn token() -> impl Strategy<Value = String> {
    (any::<[u8; 32]>(), 0..3).prop_map(|(bytes, form)| match form {
        0 => Base64::encode_string(&bytes),
        1 => hex(&bytes),
        _ => format!("weft1-{}", Base64UrlUnpadded::encode_string(&bytes)),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Table and key of settings whose value can be a secret, a file with a secret, or credentials.
///
/// Some of these settings exist in no version of weft.
const KEYS: [(&str, &str); 17] = [
    ("node", "key"),
    ("node", "state"),
    ("node", "control"),
    ("node", "secret"),
    ("tcp", "key"),
    ("tcp", "certificate"),
    ("network", "certificate"),
    ("network", "root"),
    ("[peer]", "public-key"),
    ("[peer]", "preshared-key"),
    ("[peer]", "password"),
    ("[link]", "http-proxy"),
    ("signal", "key"),
    ("metrics", "listen"),
    ("metrics", "token"),
    ("routing", "bfd"),
    ("web", "token"),
];

fn config(secrets: &[String]) -> String {
    let mut text = String::from("# a comment with COMMENT-SECRET\n");
    let mut last = "";
    for ((table, key), secret) in KEYS.iter().zip(secrets) {
        if *table != last {
            text += &format!("[{table}]\n");
            last = table;
        }
        // Only letters and digits can be part of a file name and of a password alike.
        text += &match *key {
            "http-proxy" => format!("{key} = \"http://alice:{secret}@proxy.example.org:3128\"\n"),
            _ => format!("{key} = \"{secret}\"\n"),
        };
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn no_planted_secret_appears_at_any_level(
        tokens in prop::collection::vec(token(), KEYS.len()..=KEYS.len()),
        passwords in prop::collection::vec("[a-z]{3}[A-Za-z0-9]{5,12}", KEYS.len()..=KEYS.len()),
        use_passwords: bool,
        logged in prop::collection::vec(token(), 4..5),
    ) {
        let scratch = TestDirectory::new();
        // These keys hold public keys. A password in their place is no setting of weft, so passwords are not tested
        // there.
        let is_key = |key: &str| matches!(key, "public-key" | "root");
        let pick = |at: usize| if use_passwords && !is_key(KEYS[at].1) { passwords[at].clone() } else { tokens[at].clone() };
        let secrets: Vec<_> = (0..KEYS.len()).map(pick).collect();
        fs::write(scratch.0.join("stamp"), &logged[0]).unwrap();
        let repeated = secrets.iter().map(|secret| format!("error: {secret} in base64 {}\n", Base64::encode_string(secret.as_bytes())));
        let log = repeated.collect::<String>()
            + &format!("peer {}: session established\ncode {}\nkey={}, http://u:{}@proxy\n", logged[0], logged[1], logged[2], logged[3]);
        let text = config(&secrets).replace("[[peer]]\n", &format!("[[peer]]\nname = \"{}\"\n", logged[0]));
        for (text, json) in scratch.reports(&text, &log) {
            for secret in secrets.iter().chain(&logged).map(String::as_str).chain(["COMMENT-SECRET"]) {
                let forms = [secret.to_owned(), Base64::encode_string(secret.as_bytes()), hex(secret.as_bytes())];
                for form in &forms {
                    prop_assert!(!text.contains(form), "{form} in {text}");
                    prop_assert!(!json.contains(form), "{form} in {json}");
                }
            }
        }
    }
}

#[test]
fn a_report_of_a_node_that_is_down_has_all_other_parts() {
    let scratch = TestDirectory::new();
    let config = "[node]\nkey = \"weft.key\"\nlisten = 51900\n[tun]\naddress = [\"10.9.0.1/24\"]\n[[peer]]\nname = \"office\"\n\
                  endpoints = [\"198.51.100.7:51900\", \"vpn.example.org:51900\"]\npreshared-key = \"office.psk\"\n";
    let log = "2026-11-27T17:15:01.123Z peer office: no answer from 198.51.100.7:51900\n\
               2026-11-27T17:15:02.123Z peer cabin: revoked\n";
    let reports = scratch.reports(config, log);
    for (text, json) in &reports {
        assert!(text.contains("no node is running") && json.contains("no node is running"), "{text}");
        for part in
            ["node.listen = 51900", "peer.preshared-key = (hidden)", "node.key = (hidden)", "== doctor\n", "kernel"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        serde_json::from_str::<serde_json::Value>(json).unwrap();
    }
    let public = &reports[0].0;
    for private in ["office", "cabin", "198.51.100.7", "vpn.example.org", "10.9.0.1"] {
        assert!(!public.contains(private), "{private} in {public}");
    }
    let address = public.split("no answer from ").nth(1).unwrap().split(':').next().unwrap();
    assert!(
        address.ends_with("-public4") && public.contains(&format!("peer.endpoints = [\"{address}:51900\",\"host-")),
        "{public}"
    );
    let trusted = &reports[1].0;
    for shown in
        ["peer office: no answer from 198.51.100.7:51900", "peer cabin: revoked", "vpn.example.org", "10.9.0.1/24"]
    {
        assert!(trusted.contains(shown), "{shown} in {trusted}");
    }
}

#[test]
fn a_report_names_a_broken_or_absent_configuration() {
    let scratch = TestDirectory::new();
    for (text, _) in scratch.reports("[node]\nkey = hunter2-hunter2\n", "x\n") {
        assert!(
            text.contains("file is not valid TOML: weft check shows the mistake in line 2")
                && !text.contains("hunter2"),
            "{text}"
        );
        assert!(text.contains("== doctor\n") && text.contains("== log\nx\n"), "{text}");
    }
    let absent =
        Sources { config: Path::new("/nonexistent/weft.toml"), control: Path::new("/nonexistent/s"), log: None };
    let text = BugReport::collect(&absent, Disclosure::Public).text();
    assert!(text.contains("== configuration\nabsent: "), "{text}");
}

#[test]
fn a_mistake_quotes_no_word_of_the_file_but_keys() {
    assert_eq!(without_quotes("unknown key `hunter2` in `peer`"), "unknown key `(hidden)` in `peer`");
}

#[test]
fn of_a_long_file_the_end_is_read() {
    let directory = TestDirectory::new();
    let file = directory.0.join("weft.log");
    let text: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
    fs::write(&file, &text).unwrap();
    for most in [0, 1, 9, 500, text.len() as u64 - 1, text.len() as u64, 1 << 20] {
        let from = text.len().saturating_sub(most as usize);
        assert_eq!(read(&file, most).unwrap(), &text[from..], "at most {most} bytes");
    }
}
