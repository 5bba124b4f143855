//! The real program `weft-controller`, and etcd.
#![allow(dead_code, reason = "each test file uses its own part")]

#[path = "../../../weft-web/tests/common/dir.rs"]
mod dir;

pub use dir::Dir;
use serde_json::Value;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A running `weft-controller`; dropping it kills it.
pub struct Controller {
    child: Child,
    /// Address and port.
    pub host: String,
}

impl Controller {
    /// Starts the program at a free port.
    pub fn start(dir: &Path, more: &[&str]) -> Controller {
        let mut child = Controller::spawn(dir, more);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let host = line.trim().split_once("://").expect("an address").1.to_owned();
        Controller { child, host }
    }

    /// Starts the program and does not wait until it is ready.
    pub fn spawn(dir: &Path, more: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-controller"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--dir"]).arg(dir).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Ends the program as a crash would: SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> Connection {
        Connection::to(&self.host).unwrap()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the administrator's token.
pub fn token(dir: &Path) -> String {
    fs::read_to_string(dir.join("admin.token")).unwrap().trim().to_owned()
}

/// An answer of the controller.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// Returns the text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the entity tag without its quotation marks.
    pub fn tag(&self) -> String {
        self.header("etag").unwrap_or_default().trim_matches('"').to_owned()
    }
}

/// A connection that stays open between requests.
pub struct Connection {
    reader: BufReader<TcpStream>,
    host: String,
}

impl Connection {
    pub fn to(host: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Connection { reader: BufReader::new(stream), host: host.to_owned() })
    }

    /// Sends any bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Sends a request with these further headers, and returns the answer.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> io::Result<Answer> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n", self.host, body.len());
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        self.send((text + "\r\n" + body).as_bytes())?;
        self.answer()
    }

    /// Reads an answer.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            head += &line;
        }
        let status = head.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0);
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |text| text.trim().parse().unwrap());
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        answer.body = String::from_utf8(body).unwrap();
        Ok(answer)
    }
}

/// The administrator's view of a running controller.
pub struct Administrator {
    host: String,
    bearer: String,
}

impl Administrator {
    pub fn of(controller: &Controller, dir: &Path) -> Administrator {
        Administrator { host: controller.host.clone(), bearer: format!("Bearer {}", token(dir)) }
    }

    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> io::Result<Answer> {
        let all: Vec<_> = headers.iter().copied().chain([("Authorization", self.bearer.as_str())]).collect();
        // The controller closes a connection between two requests that are seconds apart.
        Connection::to(&self.host)?.request(method, path, &all, body)
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.request("GET", path, &[], "").unwrap()
    }

    /// Sends a body of JSON under a condition: a revision, or `*` for a new record.
    pub fn put(&mut self, path: &str, condition: &str, body: &Value) -> io::Result<Answer> {
        let tag = format!("\"{condition}\"");
        let header = if condition == "*" { ("If-None-Match", "*") } else { ("If-Match", tag.as_str()) };
        self.request("PUT", path, &[header], &body.to_string())
    }

    pub fn post(&mut self, path: &str, body: &Value) -> io::Result<Answer> {
        self.request("POST", path, &[], &body.to_string())
    }
}

/// A running etcd with one member; dropping it kills it.
pub struct Etcd {
    child: Child,
    dir: PathBuf,
    ports: (u16, u16),
}

impl Etcd {
    /// Starts etcd. If it is not installed, prints a message and returns `None`; with `WEFT_CHECK` the test fails.
    pub fn start(dir: &Path) -> Option<Etcd> {
        let is_here = Command::new("etcd").arg("--version").output().is_ok_and(|output| output.status.success());
        if !is_here {
            assert!(std::env::var_os("WEFT_CHECK").is_none(), "etcd is not here: install etcd-server");
            eprintln!("skipped: etcd is not here: install etcd-server");
            return None;
        }
        let ports = (free_port(), free_port());
        let etcd = Etcd { child: Etcd::spawn(dir, ports), dir: dir.to_owned(), ports };
        etcd.wait();
        Some(etcd)
    }

    fn spawn(dir: &Path, (clients, peers): (u16, u16)) -> Child {
        let mut command = Command::new("etcd");
        let (clients, peers) = (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        command.args(["--name", "one", "--initial-cluster", &format!("one={peers}"), "--data-dir"]).arg(dir);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--logger", "zap", "--log-level", "error"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn wait(&self) {
        let begin = Instant::now();
        loop {
            let healthy = Connection::to(&format!("127.0.0.1:{}", self.ports.0));
            if healthy
                .and_then(|mut etcd| etcd.request("GET", "/health", &[], ""))
                .is_ok_and(|answer| answer.status == 200)
            {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "etcd does not start");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills etcd with SIGKILL and starts it again.
    pub fn crash(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = Etcd::spawn(&self.dir, self.ports);
        self.wait();
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.0)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
