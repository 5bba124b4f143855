//! A drop box: a program on the overlay that stores texts by name.
//!
//! Any node of the network can retrieve a text.
//!
//!     drop_box SOCKET serve                 on the machine of each node that stores entries
//!     drop_box SOCKET put NAME TEXT
//!     drop_box SOCKET get NAME
//!
//! It knows no network addresses: it sends lines of JSON to weft's control socket. A name has a list of keys. Each text
//! is stored at the roots of the first keys until three different nodes have it. A node that stores a text stores it
//! again at intervals, so that it stays at the right nodes when nodes join or die. A text is lost only if three nodes
//! die between two such rounds. Of two texts with one name the later one counts.

use base64ct::{Base64, Encoding};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Application number of this program, which distinguishes its calls from those of other programs.
const APPLICATION: u16 = 1_729;
/// Number of nodes that store each text.
const COPIES: usize = 3;
/// Number of keys of a name; several keys may have the same root.
const KEYS: usize = 24;
/// Interval at which a node stores its texts again.
const AGAIN: Duration = Duration::from_secs(4);

/// A message to the root of a key, or the root's answer.
enum Message {
    /// Stores a text: its name, its time in µs since 1970, and its content.
    Put(String, u64, String),
    /// Requests the text with this name.
    Get(String),
}

impl Message {
    fn encode(&self) -> String {
        match self {
            Message::Put(name, at, text) => json!(["put", name, at, text]).to_string(),
            Message::Get(name) => json!(["get", name]).to_string(),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Message> {
        let Value::Array(parts) = serde_json::from_slice(bytes).ok()? else { return None };
        let text = |at: usize| Some(parts.get(at)?.as_str()?.to_owned());
        match parts.first()?.as_str()? {
            "put" => Some(Message::Put(text(1)?, parts.get(2)?.as_u64()?, text(3)?)),
            "get" => Some(Message::Get(text(1)?)),
            _ => None,
        }
    }
}

/// A connection to the local node.
struct Node(BufReader<UnixStream>);

impl Node {
    fn connect(socket: &str) -> io::Result<Node> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Node(BufReader::new(stream)))
    }

    fn ask(&mut self, request: &Value) -> io::Result<Value> {
        writeln!(self.0.get_mut(), "{request}")?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Calls the roots of a name's keys until enough different nodes have answered; returns their answers.
    fn call(&mut self, name: &str, message: &Message) -> io::Result<BTreeMap<String, Vec<u8>>> {
        let body = Base64::encode_string(message.encode().as_bytes());
        let mut answers = BTreeMap::new();
        for number in 0..KEYS {
            let key = format!("drop box {number} {name}");
            let answer = self.ask(&json!({"command": "call", "key": key, "application": APPLICATION, "body": body}))?;
            let [by, body] = ["by", "body"].map(|part| answer.get(part).and_then(Value::as_str));
            if let (Some(by), Some(body)) = (by, body.and_then(|body| Base64::decode_vec(body).ok())) {
                answers.insert(by.to_owned(), body);
            }
            if answers.len() == COPIES {
                break;
            }
        }
        Ok(answers)
    }
}

/// Stores a text; returns the number of nodes that now have it.
fn put(node: &mut Node, name: &str, at_us: u64, text: &str) -> io::Result<usize> {
    Ok(node.call(name, &Message::Put(name.to_owned(), at_us, text.to_owned()))?.len())
}

fn get(node: &mut Node, name: &str) -> io::Result<Option<String>> {
    let answers = node.call(name, &Message::Get(name.to_owned()))?;
    let texts = answers.values().filter_map(|answer| match Message::decode(answer) {
        Some(Message::Put(_, at, text)) => Some((at, text)),
        _ => None,
    });
    Ok(texts.max().map(|(_, text)| text))
}

/// Stores the texts that other nodes send, and stores them again at the right nodes.
fn serve(socket: &str) -> io::Result<ExitCode> {
    let mut node = Node::connect(socket)?;
    let mut kept: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut again = Instant::now() + AGAIN;
    loop {
        let asked = node.ask(&json!({"command": "receive", "application": APPLICATION}))?;
        if let (Some(call), Some(body)) = (asked.get("call"), asked.get("body").and_then(Value::as_str)) {
            let message = Base64::decode_vec(body).ok().and_then(|body| Message::decode(&body));
            let answer = match message {
                Some(Message::Put(name, at, text)) => {
                    let is_newer = kept.get(&name).is_none_or(|(known, _)| *known < at);
                    if is_newer {
                        kept.insert(name, (at, text));
                    }
                    "kept".to_owned()
                }
                Some(Message::Get(name)) => match kept.get(&name) {
                    Some((at, text)) => Message::Put(name, *at, text.clone()).encode(),
                    None => "nothing".to_owned(),
                },
                None => "what?".to_owned(),
            };
            let body = Base64::encode_string(answer.as_bytes());
            node.ask(&json!({"command": "answer", "call": call, "body": body}))?;
        }
        if Instant::now() >= again {
            again = Instant::now() + AGAIN;
            // This needs its own connection and thread: the node may itself be a root, and must answer meanwhile.
            let (things, socket) = (kept.clone(), socket.to_owned());
            std::thread::spawn(move || -> io::Result<()> {
                let mut node = Node::connect(&socket)?;
                for (name, (at, text)) in things {
                    put(&mut node, &name, at, &text)?;
                }
                Ok(())
            });
        }
    }
}

/// Executes the arguments.
pub fn run(args: &[&str]) -> io::Result<ExitCode> {
    match args {
        [socket, "serve"] => serve(socket),
        [socket, "put", name, text] => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let at_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
            let kept = put(&mut Node::connect(socket)?, name, at_us, text)?;
            println!("kept by {kept} nodes");
            Ok(if kept > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        [socket, "get", name] => match get(&mut Node::connect(socket)?, name)? {
            Some(text) => {
                println!("{text}");
                Ok(ExitCode::SUCCESS)
            }
            None => Ok(ExitCode::FAILURE),
        },
        _ => {
            eprintln!("usage: drop_box SOCKET serve | put NAME TEXT | get NAME");
            Ok(ExitCode::from(2))
        }
    }
}

#[cfg(not(test))]
fn main() -> io::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}
