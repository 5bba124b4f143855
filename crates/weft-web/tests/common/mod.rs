//! The real program `weft-web`, in front of a stand-in for a node.
#![allow(dead_code, reason = "each test file uses its own part")]

mod dir;
pub mod node;

pub use dir::Dir;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running `weft-web`; dropping it ends it.
pub struct Server {
    child: Child,
    /// Address and port.
    pub host: String,
    pub token: String,
}

impl Server {
    pub fn start(control: &Path, more: &[&str]) -> Server {
        Server::start_program(Path::new(env!("CARGO_BIN_EXE_weft-web")), control, more)
    }

    pub fn start_program(program: &Path, control: &Path, more: &[&str]) -> Server {
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--control"]).arg(control).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line.trim().split_once('#').expect("an address with a token");
        let host = address.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        Server { child, host, token: token.to_owned() }
    }

    pub fn url(&self) -> String {
        format!("http://{}/#{}", self.host, self.token)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends the text of a request and returns the whole answer until the server closes.
    pub fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        // The server may refuse and close before it has read all.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a correct request with this method, path and body, and returns status and answer.
    pub fn request(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len(),
            host = self.host,
        );
        let answer = self.exchange(&text);
        (status_of(&answer), answer)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `weft-web` at a Unix socket and waits until it listens.
pub fn socket_server(control: &Path, at: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-web"));
    command.arg("--listen").arg(at).arg("--control").arg(control);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("http://localhost/#"), "{line}");
    child
}

/// Returns the status of an answer; 0 if there is none.
pub fn status_of(answer: &str) -> u16 {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok()).unwrap_or(0)
}
