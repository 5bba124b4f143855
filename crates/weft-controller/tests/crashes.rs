//! The controller is killed with SIGKILL at random moments while it writes. Nothing that it has acknowledged is lost,
//! and nothing is half there.
//!
//! An ordinary run kills it some dozen times. `WEFT_CHECK=1` kills it 10,000 times for each store. Every 100th time,
//! etcd is killed too.

mod common;

use common::{Administrator, Connection, Controller, Dir, Etcd, token};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_config::entropy;
use weft_session::Identity;
use weft_units::Rng;

/// Number of writers of nodes. Each writes its own nodes.
const WRITERS: usize = 2;
/// Number of nodes of each writer.
const NODES: usize = 4;
/// Maximum time after which a controller that is ready is killed.
const LONGEST: Duration = Duration::from_millis(50);

/// A node that a writer changes again and again. Its content is a number in several forms.
#[derive(Clone, Debug, Default)]
struct WrittenNode {
    name: String,
    /// Number and revision of the last acknowledged write, or of what was read since.
    known: Option<(u64, u64)>,
    /// Number of a write without an answer.
    pending: Option<u64>,
}

/// A node whose machines join one after the other.
#[derive(Clone, Debug, Default)]
struct JoiningNode {
    /// Public key of the last machine whose join was acknowledged.
    known: Option<String>,
    /// Public key of a machine whose join has no answer yet.
    pending: Option<String>,
}

/// State of all nodes according to the answers that the writers have received.
#[derive(Clone, Debug, Default)]
struct Model {
    nodes: Vec<WrittenNode>,
    joining: JoiningNode,
    acknowledged: u64,
}

/// Returns a node whose fields all state a number.
fn content(of: usize, number: u64) -> Value {
    let groups = [format!("n{number}"), format!("m{}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15)), "g".repeat(31)];
    let [_, _, c, d] = (number as u32).to_be_bytes();
    json!({ "addresses": [format!("10.{of}.{c}.{d}/32")], "groups": groups })
}

/// Returns the number that a node states, if all its fields state the same.
fn number_of(of: usize, node: &Value) -> Option<u64> {
    let number = node["groups"][0].as_str()?.strip_prefix('n')?.parse().ok()?;
    let expected = content(of, number);
    (node["groups"] == expected["groups"] && node["addresses"] == expected["addresses"]).then_some(number)
}

/// Writes nodes until the controller is gone.
fn write_nodes(controller: &str, bearer: &str, nodes: &mut [WrittenNode], first: usize) -> u64 {
    let mut acknowledged = 0;
    let Ok(mut connection) = Connection::to(controller) else { return 0 };
    loop {
        for (at, node) in nodes.iter_mut().enumerate() {
            let number = node.known.map_or(1, |(number, _)| number + 1);
            let tag = node.known.map(|(_, revision)| format!("\"{revision}\""));
            let condition = tag.as_ref().map_or(("If-None-Match", "*"), |tag| ("If-Match", tag.as_str()));
            node.pending = Some(number);
            let body = content(first + at, number).to_string();
            let path = format!("/v1/nodes/{}", node.name);
            let Ok(answer) = connection.request("PUT", &path, &[("Authorization", bearer), condition], &body) else {
                return acknowledged;
            };
            assert_eq!(answer.status, 200, "{answer:?}");
            *node = WrittenNode {
                name: node.name.clone(),
                known: Some((number, answer.tag().parse().unwrap())),
                pending: None,
            };
            acknowledged += 1;
        }
    }
}

/// Lets machines join one after the other until the controller is gone.
fn join(controller: &str, bearer: &str, joining: &mut JoiningNode) -> Option<()> {
    let mut connection = Connection::to(controller).ok()?;
    let admin = [("Authorization", bearer)];
    let present = connection.request("PUT", "/v1/nodes/joining", &[admin[0], ("If-None-Match", "*")], "{}").ok()?;
    assert!([200, 412].contains(&present.status), "{present:?}");
    loop {
        let invitation = json!({ "node": "joining", "minutes": 5 }).to_string();
        let code = connection.request("POST", "/v1/invitations", &admin, &invitation).ok()?;
        assert_eq!(code.status, 201, "{code:?}");
        let key = Identity::from_secret(entropy::seed().unwrap()).public_key().to_string();
        let body = json!({ "code": code.json()["code"], "public_key": key, "secret_sha256": "0".repeat(64) });
        joining.pending = Some(key.clone());
        let answer = connection.request("POST", "/v1/join", &[], &body.to_string()).ok()?;
        assert_eq!(answer.status, 200, "{answer:?}");
        *joining = JoiningNode { known: Some(key), pending: None };
    }
}

/// Compares what the controller has with what it acknowledged.
fn compare(admin: &mut Administrator, model: &mut Model) {
    let nodes = admin.get("/v1/nodes").json();
    let find = |name: &str| nodes.as_array().unwrap().iter().find(|node| node["name"] == name);
    for (at, node) in model.nodes.iter_mut().enumerate() {
        let Some(found) = find(&node.name) else {
            assert!(node.known.is_none(), "{node:?} is lost");
            node.pending = None;
            continue;
        };
        let number = number_of(at, found).unwrap_or_else(|| panic!("half written: {found}"));
        let revision = found["revision"].as_u64().unwrap();
        let is_known = node.known == Some((number, revision));
        assert!(is_known || node.pending == Some(number), "{node:?} is {found}");
        *node = WrittenNode { name: node.name.clone(), known: Some((number, revision)), pending: None };
    }
    let key = find("joining").and_then(|node| node["public_key"].as_str()).map(str::to_owned);
    let JoiningNode { known, pending } = model.joining.clone();
    assert!(key == known || key == pending, "{known:?} or {pending:?}, not {key:?}");
    // An invitation is used exactly if its machine has become the node.
    let invitations = admin.get("/v1/invitations").json();
    let used = |key: &Option<String>| {
        key.is_some() && invitations.as_array().unwrap().iter().any(|of| of["used_by"].as_str() == key.as_deref())
    };
    assert!(key.is_none() || used(&key), "{key:?} joined without an invitation");
    assert!(key == pending || !used(&pending), "an invitation of {pending:?} is gone, and the node is {key:?}");
    model.joining = JoiningNode { known: key, pending: None };
}

/// Kills the controller again and again.
fn survive(name: &str, dir: &Path, more: &[&str], kills: u32, mut also: impl FnMut(u32)) {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let mut rng = Rng::new(u64::from(seed));
    let nodes = (0..WRITERS * NODES).map(|at| WrittenNode { name: format!("n{at}"), ..WrittenNode::default() });
    let mut model = Model { nodes: nodes.collect(), ..Model::default() };
    let mut early = 0;
    for kill in 0..kills {
        also(kill);
        if kill % 1_000 == 999 {
            eprintln!("{name}: {kill} kills so far");
        }
        if kill > 0 && rng.chance(0.1) {
            // Killed while it starts, for instance during the repair of the file.
            let mut starting = Controller::spawn(dir, more);
            thread::sleep(Duration::from_micros(rng.below(15_000)));
            starting.kill().unwrap();
            starting.wait().unwrap();
            early += 1;
            continue;
        }
        let mut controller = Controller::start(dir, more);
        compare(&mut Administrator::of(&controller, dir), &mut model);
        let (host, bearer) = (controller.host.clone(), format!("Bearer {}", token(dir)));
        let life = Duration::from_micros(rng.below(LONGEST.as_micros() as u64));
        let Model { nodes, joining, acknowledged } = &mut model;
        thread::scope(|scope| {
            let writers: Vec<_> = nodes
                .chunks_mut(NODES)
                .enumerate()
                .map(|(at, nodes)| {
                    scope.spawn({
                        let (host, bearer) = (&host, &bearer);
                        move || write_nodes(host, bearer, nodes, at * NODES)
                    })
                })
                .collect();
            scope.spawn(|| join(&host, &bearer, joining));
            thread::sleep(life);
            controller.kill();
            *acknowledged += writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>();
        });
    }
    let controller = Controller::start(dir, more);
    compare(&mut Administrator::of(&controller, dir), &mut model);
    assert!(model.acknowledged > u64::from(kills / 10), "the kills leave time for writes: {model:?}");
    eprintln!(
        "{name}: {kills} kills, {early} of them during the start; {} acknowledged writes are there",
        model.acknowledged
    );
}

fn kills(few: u32) -> u32 {
    if std::env::var_os("WEFT_CHECK").is_some() { 10_000 } else { few }
}

#[test]
fn nothing_acknowledged_is_lost_in_redb() {
    let dir = Dir::new();
    survive("redb", &dir.0, &[], kills(60), |_| {});
    // The file has not grown with the kills.
    let length = fs::metadata(dir.path("controller.redb")).unwrap().len();
    assert!(length < 16 << 20, "{length} bytes");
}

#[test]
fn nothing_acknowledged_is_lost_in_etcd() {
    let dir = Dir::new();
    let Some(mut etcd) = Etcd::start(&dir.path("etcd")) else { return };
    let url = etcd.url();
    let kills = kills(40);
    survive("etcd", &dir.path("controller"), &["--etcd", &url], kills, |kill| {
        if kill % 100 == 99 || kill == 20 {
            etcd.crash();
        }
    });
}
