//! The interface: what each operation refuses, and what nodes, invitations, policy and configurations do together.

mod common;

use common::{Administrator, Answer, Connection, Controller, Dir, Etcd, token};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};
use weft_config::entropy;
use weft_controller::Secret;
use weft_controller::api::{Audience, BODY_PATIENCE, Conditions, MAX_BODY, operations};
use weft_session::Identity;

const CONFIGURATION: &str = "\
# A client.
[node]
key = \"weft.key\"
[tun]
address = [\"10.9.0.2/24\"]
[[peer]]
name = \"hub\"
public-key = \"KEY\"
endpoints = [\"192.0.2.1:51900\"]
prefixes = [\"10.9.0.1/32\"]
groups = [\"hubs\"]
";

fn key() -> String {
    Identity::from_secret(entropy::seed().unwrap()).public_key().to_string()
}

fn configuration() -> String {
    CONFIGURATION.replace("KEY", &key())
}

/// A controller with a node `laptop` that has joined and has a configuration.
struct Joined {
    dir: Dir,
    controller: Controller,
    /// Secret of the node.
    secret: Secret,
}

impl Joined {
    fn start() -> Joined {
        let dir = Dir::new();
        let controller = Controller::start(&dir.0, &[]);
        let joined = Joined { controller, secret: Secret::random().unwrap(), dir };
        let mut admin = joined.admin();
        let node = json!({ "addresses": ["10.9.0.2/32"], "groups": ["clients"] });
        assert_eq!(admin.put("/v1/nodes/laptop", "*", &node).unwrap().status, 200);
        assert_eq!(admin.put("/v1/nodes/other", "*", &json!({})).unwrap().status, 200);
        let text = json!({ "toml": configuration() });
        assert_eq!(admin.put("/v1/nodes/laptop/configuration", "*", &text).unwrap().status, 204);
        let code = admin.post("/v1/invitations", &json!({ "node": "laptop", "minutes": 5 })).unwrap().json();
        assert_eq!(joined.join(&code, &key(), &joined.secret).status, 200);
        joined
    }

    fn admin(&self) -> Administrator {
        Administrator::of(&self.controller, &self.dir.0)
    }

    fn join(&self, code: &Value, key: &str, secret: &Secret) -> Answer {
        let body = json!({ "code": code["code"], "public_key": key, "secret_sha256": secret.hash().text() });
        self.controller.connect().request("POST", "/v1/join", &[], &body.to_string()).unwrap()
    }

    /// Sends a request with this token on a connection of its own.
    fn request(&self, token: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let all: Vec<_> = headers.iter().copied().chain([("Authorization", bearer.as_str())]).collect();
        self.controller.connect().request(method, path, &all, body).unwrap()
    }

    /// Returns everything that can be read.
    fn state(&self) -> Vec<Value> {
        let mut admin = self.admin();
        let paths = ["/v1/nodes", "/v1/invitations", "/v1/nodes/laptop/configuration", "/v1/policy"];
        paths.iter().map(|path| admin.get(path).json()).collect()
    }
}

fn path_of(operation: &str) -> String {
    operation.replace("{name}", "laptop").replace("{id}", "0123456789abcdef")
}

#[test]
fn each_operation_refuses_strangers_pages_and_other_nodes() {
    let joined = Joined::start();
    let (right, node) = (token(&joined.dir.0), joined.secret.text().to_owned());
    let before = joined.state();
    let wrong = prop_oneof![
        "[A-Za-z0-9_-]{43}",
        "[!-~]{1,60}",
        (0usize..42).prop_map({
            let right = right.clone();
            move |at| right[..at].to_owned()
        }),
        Just(format!("{right}x")),
        Just(Secret::parse(&right).unwrap().hash().text().to_owned()),
    ];
    let mut runner = TestRunner::new(Config { cases: 12, ..Config::default() });
    let result = runner.run(&wrong, |wrong| {
        for operation in operations().iter().filter(|operation| operation.audience != Audience::Everybody) {
            let (method, path) = (operation.method.as_str(), path_of(operation.path));
            let answer = joined.request(&wrong, method, &path, &[("If-Match", "\"1\"")], "{}");
            prop_assert_eq!(answer.status, 401, "{} {}: {:?}", method, path, answer);
            prop_assert!(answer.header("www-authenticate") == Some("Bearer"));
        }
        Ok(())
    });
    result.unwrap();
    for operation in operations() {
        let (method, path) = (operation.method.as_str(), path_of(operation.path));
        let answer = joined.request(&right, method, &path, &[("Origin", "https://a.example")], "{}");
        assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
        if operation.audience == Audience::Everybody {
            continue;
        }
        let answer = joined.controller.connect().request(method, &path, &[], "{}").unwrap();
        assert_eq!(answer.status, 401, "{method} {path}");
        let may = operation.audience == Audience::Node;
        assert_eq!(
            joined.request(&node, method, &path, &[], "{}").status,
            if may { 200 } else { 401 },
            "{method} {path}"
        );
        // The node may not read anything of another node.
        let other = operation.path.replace("{name}", "other").replace("{id}", "0123456789abcdef");
        assert_eq!(joined.request(&node, method, &other, &[], "{}").status, 401, "{method} {other}");
        let nobody = operation.path.replace("{name}", "nobody").replace("{id}", "0123456789abcdef");
        assert_eq!(joined.request(&node, method, &nobody, &[], "{}").status, 401, "{method} {nobody}");
    }
    assert_eq!(joined.state(), before);
}

#[test]
fn each_operation_refuses_bodies_and_conditions_that_are_none() {
    let joined = Joined::start();
    let right = token(&joined.dir.0);
    let before = joined.state();
    let bodies = prop_oneof![
        "[ -~]{0,80}",
        "\\{\"(toml|node|addresses|code|minutes)\":(null|-?[0-9]{1,12}|true|\\[\\[\\]\\])\\}",
        Just("{\"unknown\":1}".to_owned()),
        Just("[]".to_owned()),
        "\\PC{1,40}",
    ];
    let bodies = bodies.prop_filter("an empty node", |body| body.trim() != "{}");
    let conditions = prop_oneof![
        Just(vec![]),
        "[!-~]{1,20}"
            .prop_filter("right", |text| text != "*")
            .prop_map(|text| vec![("If-None-Match", format!("{text}'"))]),
        "[0-9]{1,5}".prop_map(|text| vec![("If-Match", text)]),
        "[a-z]{1,9}".prop_map(|text| vec![("If-Match", format!("\"{text}\""))]),
        Just(vec![("If-Match", "\"1\"".to_owned()), ("If-None-Match", "*".to_owned())]),
        Just(vec![("If-Match", "\"1\"".to_owned()), ("If-Match", "\"1\"".to_owned())]),
        Just(vec![("If-Match", "\"99999999999999999999999\"".to_owned())]),
    ];
    let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
    let result = runner.run(&(bodies, conditions), |(body, conditions)| {
        for operation in operations() {
            let (method, path) = (operation.method.as_str(), path_of(operation.path));
            let writes = operation.conditions == Conditions::Write;
            if operation.takes.is_some() {
                let answer =
                    joined.request(&right, method, &path, if writes { &[("If-Match", "\"1\"")] } else { &[] }, &body);
                prop_assert_eq!(answer.status, 400, "{} {} {}: {:?}", method, path, body, answer);
                prop_assert_eq!(answer.header("content-type"), Some("application/problem+json"));
                prop_assert!(!answer.json()["detail"].as_str().unwrap().is_empty());
            }
            if writes {
                let headers: Vec<_> = conditions.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let answer = joined.request(&right, method, &path, &headers, "{\"toml\":\"\"}");
                prop_assert!([400, 428].contains(&answer.status), "{} {} {:?}: {:?}", method, path, headers, answer);
            }
        }
        Ok(())
    });
    result.unwrap();
    let long = "a".repeat(MAX_BODY + 1);
    for operation in operations().iter().filter(|operation| operation.takes.is_some()) {
        let (method, path) = (operation.method.as_str(), path_of(operation.path));
        let answer = joined.request(&right, method, &path, &[("If-Match", "\"1\"")], &long);
        assert_eq!(answer.status, 413, "{method} {path}");
    }
    for (method, path, status) in
        [("PATCH", "/v1/nodes", 405), ("GET", "/v1/nothing", 404), ("GET", "/v1/nodes/a/b/c", 404)]
    {
        assert_eq!(joined.request(&right, method, path, &[], "").status, status, "{method} {path}");
    }
    assert_eq!(joined.state(), before);
}

#[test]
fn a_client_that_sends_slowly_is_left() {
    let joined = Joined::start();
    let mut slow = joined.controller.connect();
    let head = "POST /v1/join HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{";
    slow.send(head.as_bytes()).unwrap();
    let begin = Instant::now();
    assert_eq!(slow.answer().unwrap().status, 408);
    assert!(begin.elapsed() >= BODY_PATIENCE);
}

#[test]
fn the_document_describes_each_operation_and_nothing_else() {
    let joined = Joined::start();
    let document = joined.controller.connect().request("GET", "/openapi.json", &[], "").unwrap().json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            described.insert((method.to_ascii_uppercase(), path.clone()));
            let parameters = operation["parameters"].as_array().unwrap();
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{path}");
            // The running program has the route: it answers neither 404 nor 405.
            let answer =
                joined.controller.connect().request(&method.to_ascii_uppercase(), &path_of(path), &[], "").unwrap();
            assert!(![404, 405].contains(&answer.status), "{method} {path}: {answer:?}");
            let secured = !operation["security"].as_array().unwrap().is_empty();
            assert_eq!(answer.status == 401, secured, "{method} {path}: {answer:?}");
        }
    }
    let all = operations().iter().map(|operation| (operation.method.to_string(), operation.path.to_owned())).collect();
    assert_eq!(described, all);
    // Each `$ref` in the OpenAPI document has a target.
    let text = document.to_string();
    let references: BTreeSet<_> =
        text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(references.len() >= 8, "{references:?}");
    for reference in references {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
}

#[test]
fn an_invitation_serves_one_machine_once() {
    let joined = Joined::start();
    let mut admin = joined.admin();
    let mut invite = |body: Value| admin.post("/v1/invitations", &body).unwrap();
    for (body, status) in [
        (json!({ "node": "nobody", "minutes": 5 }), 404),
        (json!({ "node": "laptop", "minutes": 0 }), 400),
        (json!({ "node": "laptop", "minutes": 43_201 }), 400),
    ] {
        assert_eq!(invite(body.clone()).status, status, "{body}");
    }
    let code = invite(json!({ "node": "other", "minutes": 5 })).json();
    let (first, second, secret) = (key(), key(), Secret::random().unwrap());
    for wrong in ["", ".", "0123456789abcdef.", &format!("{}x", code["code"].as_str().unwrap()), "a.b.c"] {
        assert_eq!(joined.join(&json!({ "code": wrong }), &first, &secret).status, 403, "{wrong}");
    }
    let bad = json!({ "code": code["code"], "public_key": "a", "secret_sha256": secret.hash().text() }).to_string();
    assert_eq!(joined.controller.connect().request("POST", "/v1/join", &[], &bad).unwrap().status, 400);
    // If several machines join with one code at the same time, one is accepted.
    let won: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = [&first, &second].map(|key| scope.spawn(|| joined.join(&code, key, &secret).status)).into();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(won == [200, 403] || won == [403, 200], "{won:?}");
    let winner = if won[0] == 200 { &first } else { &second };
    // The accepted machine may ask again, for instance because the answer was lost.
    assert_eq!(joined.join(&code, winner, &secret).status, 200);
    assert_eq!(joined.join(&code, winner, &Secret::random().unwrap()).status, 403);
    let list = admin.get("/v1/invitations");
    let text = code["code"].as_str().unwrap().split_once('.').unwrap().1;
    assert!(!list.body.contains(text) && list.body.contains(winner.as_str()), "{list:?}");
    assert_eq!(admin.get("/v1/nodes/other").json()["public_key"], winner.as_str());
    // A withdrawn code opens nothing.
    let code = admin.post("/v1/invitations", &json!({ "node": "other", "minutes": 5 })).unwrap().json();
    let path = format!("/v1/invitations/{}", code["id"].as_str().unwrap());
    assert_eq!(admin.request("DELETE", &path, &[], "").unwrap().status, 204);
    assert_eq!(admin.request("DELETE", &path, &[], "").unwrap().status, 404);
    assert_eq!(joined.join(&code, &key(), &secret).status, 403);
}

#[test]
fn a_node_gets_a_free_address_of_a_network_and_keeps_it() {
    let joined = Joined::start();
    let mut admin = joined.admin();
    let mut addresses = |name: &str, condition: &str, body: Value| {
        let answer = admin.put(&format!("/v1/nodes/{name}"), condition, &body).unwrap();
        let view = answer.json();
        (answer.status, view["revision"].to_string(), view["addresses"].clone())
    };
    // The node `laptop` has 10.9.0.2/32. A site behind another node takes a part of the network, a gateway none of it.
    let site = json!({ "addresses": ["10.9.0.4/30", "10.0.0.0/8"] });
    assert_eq!(addresses("site", "*", site).0, 200);
    let pool = json!({ "networks": ["10.9.0.0/28", "fd00:9::/64"] });
    let mut found = Vec::new();
    for name in ["a", "b", "c"] {
        let (status, _, given) = addresses(name, "*", pool.clone());
        assert_eq!(status, 200);
        found.push(given[0].as_str().unwrap().to_owned());
        assert_eq!(given[1], json!(format!("fd00:9::{}/128", found.len())));
    }
    assert_eq!(found, ["10.9.0.1/32", "10.9.0.3/32", "10.9.0.8/32"]);
    // The address stays after another change. An address that the description has itself needs none.
    let (_, tag, _) = addresses("d", "*", json!({ "networks": ["10.9.0.0/28"], "groups": ["x"] }));
    let (status, tag, given) = addresses("d", &tag, json!({ "networks": ["10.9.0.0/28"], "groups": ["y"] }));
    assert_eq!((status, given), (200, json!(["10.9.0.9/32"])));
    let (_, _, given) = addresses("d", &tag, json!({ "networks": ["10.9.0.0/28"], "addresses": ["10.9.0.12/32"] }));
    assert_eq!(given, json!(["10.9.0.12/32"]));
    // Five of the network's addresses are left.
    let statuses: Vec<u16> = (0..6).map(|n| addresses(&format!("n{n}"), "*", pool.clone()).0).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 422]);
    assert_eq!(addresses("e", "*", json!({ "networks": ["10.9.0.0"] })).0, 400);
}

#[test]
fn nodes_do_not_contradict_each_other() {
    let joined = Joined::start();
    let mut admin = joined.admin();
    let taken = admin.get("/v1/nodes/laptop").json();
    let mut put = |name: &str, body: Value| admin.put(&format!("/v1/nodes/{name}"), "*", &body).unwrap().status;
    assert_eq!(put("b", json!({ "addresses": ["10.9.0.2/32"] })), 422);
    assert_eq!(put("b", json!({ "public_key": taken["public_key"] })), 422);
    assert_eq!(put("b", json!({ "addresses": ["10.9.0.3"] })), 400);
    assert_eq!(put("b", json!({ "addresses": ["10.9.0.3/32", "10.9.0.3/32"] })), 400);
    assert_eq!(put("b", json!({ "groups": ["a b"] })), 400);
    assert_eq!(put("b", json!({ "public_key": "a" })), 400);
    for name in ["-a", ".a", "a%20b", "a%2fb", "%C3%A4", &"a".repeat(64)] {
        assert_eq!(put(name, json!({})), 400, "{name}");
    }
    // Host bits do not hide a conflict.
    assert_eq!(put("b", json!({ "addresses": ["10.8.1.2/16"] })), 200);
    assert_eq!(put("c", json!({ "addresses": ["10.8.0.0/16"] })), 422);
    // A change of groups keeps key and secret; another key ends the access of the machine before.
    let revision = |admin: &mut Administrator| admin.get("/v1/nodes/laptop").tag();
    let old = revision(&mut admin);
    assert_eq!(admin.put("/v1/nodes/laptop", &old, &json!({ "groups": ["x"] })).unwrap().status, 200);
    let effective = || joined.request(joined.secret.text(), "GET", "/v1/nodes/laptop/effective", &[], "").status;
    assert_eq!((effective(), admin.put("/v1/nodes/laptop", &old, &json!({})).unwrap().status), (200, 412));
    let new = revision(&mut admin);
    assert_eq!(admin.put("/v1/nodes/laptop", &new, &json!({ "public_key": key() })).unwrap().status, 200);
    assert_eq!(effective(), 401);
    let tag = format!("\"{}\"", revision(&mut admin));
    assert_eq!(admin.request("DELETE", "/v1/nodes/laptop", &[("If-Match", &tag)], "").unwrap().status, 204);
    assert_eq!(admin.get("/v1/nodes/laptop/configuration").status, 404);
    assert!(!admin.get("/v1/invitations").body.contains("laptop"));
}

#[test]
fn a_text_is_accepted_only_if_nodes_can_run_it() {
    let joined = Joined::start();
    let mut admin = joined.admin();
    let effective = |tag: &str| {
        let known = format!("\"{tag}\"");
        let headers = if tag.is_empty() { vec![] } else { vec![("If-None-Match", known.as_str())] };
        joined.request(joined.secret.text(), "GET", "/v1/nodes/laptop/effective", &headers, "")
    };
    let first = effective("");
    assert_eq!(first.json()["digest"], first.tag());
    assert_eq!((effective(&first.tag()).status, effective("0").status), (304, 200));
    let path = "/v1/nodes/laptop/configuration";
    let revision = admin.get(path).tag();
    for (bad, said) in [
        ("[node", "configuration:1:6"),
        ("[node]\nkye = \"a\"\n", "did you mean `key`"),
        (&CONFIGURATION.replace("KEY", "a"), "public-key"),
    ] {
        let answer = admin.put(path, &revision, &json!({ "toml": bad })).unwrap();
        assert!(answer.status == 422 && answer.body.contains(said), "{answer:?}");
    }
    let policy = "\
[[allow]]
name = \"web\"
from = \"group:clients\"
protocol = \"tcp\"
ports = \"443\"
[[allow-test]]
from = \"node:laptop\"
to = \"10.9.0.9\"
protocol = \"tcp\"
port = PORT
expect = \"allow\"
";
    let mut put = |text: &str| admin.put("/v1/policy", "*", &json!({ "toml": text })).unwrap();
    let failing = put(&policy.replace("PORT", "22"));
    assert!(
        failing.status == 422 && failing.body.contains("policy:6:1") && failing.body.contains("in this line (expect"),
        "{failing:?}"
    );
    for bad in
        ["[node]\nkey = \"a\"\n", "[[allow]]\nform = \"any\"\n", "[[allow]]\nports = [\"70000\"]\n", "x", "allow = 3"]
    {
        assert_eq!(put(bad).status, 422, "{bad}");
    }
    assert_eq!(put(&policy.replace("PORT", "443")).status, 204);
    // Nodes get the rules, not the tests.
    let text = effective(&first.tag()).json()["toml"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("# A client.") && text.contains("name = \"web\"") && !text.contains("allow-test"),
        "{text}"
    );
    // The test names the group of the laptop, so it cannot leave the group or go.
    let old = admin.get("/v1/nodes/laptop").tag();
    let answer = admin.put("/v1/nodes/laptop", &old, &json!({ "addresses": ["10.9.0.2/32"] })).unwrap();
    assert!(
        answer.status == 422 && answer.body.contains("with this change the policy would no longer hold"),
        "{answer:?}"
    );
    // A rule of the node with the name of a rule of the policy would make the whole invalid.
    let revision = admin.get(path).tag();
    let own = configuration() + "[[allow]]\nname = \"web\"\n";
    let answer = admin.put(path, &revision, &json!({ "toml": own })).unwrap();
    assert!(answer.status == 422 && answer.body.contains("two [[allow]] tables"), "{answer:?}");
    assert_eq!(admin.put(path, &revision, &json!({ "toml": configuration() })).unwrap().status, 204);
    assert_eq!(admin.put(path, &revision, &json!({ "toml": configuration() })).unwrap().status, 412);
}

#[test]
fn two_controllers_at_one_etcd_make_no_contradiction() {
    let dir = Dir::new();
    let Some(etcd) = Etcd::start(&dir.path("etcd")) else { return };
    let url = etcd.url();
    let dirs = [dir.path("a"), dir.path("b")];
    let controllers = dirs.each_ref().map(|dir| Controller::start(dir, &["--etcd", &url]));
    // Both controllers give the same addresses to different nodes. For each address only one of them succeeds.
    let given: Vec<Vec<u16>> = thread::scope(|scope| {
        let both: Vec<_> = controllers
            .iter()
            .zip(&dirs)
            .enumerate()
            .map(|(own, (controller, dir))| {
                scope.spawn(move || {
                    let mut admin = Administrator::of(controller, dir);
                    let mut give = |at: u8| {
                        let node = json!({ "addresses": [format!("10.9.0.{at}/32")] });
                        admin.put(&format!("/v1/nodes/n{own}-{at}"), "*", &node).unwrap().status
                    };
                    (0..24).map(&mut give).collect()
                })
            })
            .collect();
        both.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (at, pair) in given[0].iter().zip(&given[1]).enumerate() {
        assert!(matches!(pair, (200, 422) | (422, 200)), "10.9.0.{at}: {pair:?}");
    }
    assert_eq!(Administrator::of(&controllers[0], &dirs[0]).get("/v1/nodes").json().as_array().unwrap().len(), 24);
}

fn pem(kind: &str, bytes: &[u8]) -> String {
    use base64ct::{Base64, Encoding as _};
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", Base64::encode_string(bytes))
}

#[test]
fn other_machines_need_tls() {
    let dir = Dir::new();
    let mut open = std::process::Command::new(env!("CARGO_BIN_EXE_weft-controller"));
    open.args(["serve", "--listen", "0.0.0.0:0", "--dir"]).arg(&dir.0);
    let output = open.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("--certificate"), "{said}");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.path("a.pem"), dir.path("a.key"));
    std::fs::write(&certificate, pem("CERTIFICATE", made.cert.der())).unwrap();
    std::fs::write(&key, pem("PRIVATE KEY", &made.signing_key.serialize_der())).unwrap();
    let more = ["--certificate", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let controller = Controller::start(&dir.0, &more);
    // Without TLS there is no answer.
    let mut plain = controller.connect();
    assert!(plain.request("GET", "/openapi.json", &[], "").is_err());
    let port = controller.host.rsplit_once(':').unwrap().1;
    let server = format!("https://localhost:{port}").parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = |authority: Option<&std::path::Path>| {
        let client = weft_controller::http::Client::new(weft_controller::tls::client(authority, None).unwrap());
        let asked = client.request(
            &server,
            weft_controller::http::Request {
                method: "GET".parse().unwrap(),
                path: "/openapi.json",
                headers: vec![],
                body: String::new(),
            },
        );
        runtime.block_on(asked).map(|answer| answer.status)
    };
    assert_eq!(ask(Some(&certificate)), Ok(200));
    assert!(ask(None).is_err(), "an unknown authority");
    // A client that never ends its TLS handshake is disconnected after a time limit.
    let silent: Vec<_> = (0..80).map(|_| Connection::to(&controller.host).unwrap()).collect();
    let begin = Instant::now();
    while ask(Some(&certificate)) != Ok(200) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no place left");
    }
    drop(silent);
}
