//! Transport of messages: lines of JSON, with limits of length and time at both ends.

use crate::{Request, Response};
use serde::Serialize;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Maximum length of a response, in bytes.
const MAX_RESPONSE: u64 = 8 << 20;
/// Maximum length of a request, in bytes.
const MAX_REQUEST: u64 = 64 << 10;
/// Time that a client waits beyond the node's own time limit.
///
/// If the node reaches its time limit, the client thus still receives the answer that reports this.
const MARGIN: Duration = Duration::from_secs(2);
/// Maximum time for which a node waits for the next request of a client on a connection.
const SILENCE: Duration = Duration::from_secs(5);

/// Sends a request to the node at `socket` and returns its response, which may be a refusal.
///
/// # Errors
/// Fails if no node listens at `socket`, or if the node does not answer in time.
pub fn ask(socket: &Path, request: &Request) -> io::Result<Response> {
    Ok(serde_json::from_value(exchange(UnixStream::connect(socket)?, request)?)?)
}

/// Returns the time for which a client waits for the response.
pub fn longest_wait(request: &Request) -> Duration {
    request.patience() + MARGIN
}

/// Sends a request over a connection and returns the response as JSON.
///
/// # Errors
/// Fails if the node does not answer in time, or not with a line of JSON.
pub fn exchange(mut stream: UnixStream, request: &Request) -> io::Result<serde_json::Value> {
    stream.set_read_timeout(Some(longest_wait(request)))?;
    stream.set_write_timeout(Some(MARGIN))?;
    write_line(&mut stream, request)?;
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_RESPONSE)).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}

/// Answers a client's requests by `answer` until it disconnects, is silent for [`SILENCE`], or sends too long a line.
///
/// # Errors
/// Returns the error with which the connection ends.
pub fn serve(mut stream: UnixStream, answer: impl Fn(Request) -> Response) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.by_ref().take(MAX_REQUEST).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
        let response = match serde_json::from_slice(&line) {
            Ok(request) => answer(request),
            Err(why) => Response::Refused {
                why: format!(
                    "the node does not understand the request on its control socket: {why}: use the version of weft \
                     that the node runs"
                ),
            },
        };
        write_line(&mut stream, &response)?;
    }
}

/// Writes one message as a line of JSON.
fn write_line(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Sends lines to a server that answers each status request with `Done`, and returns its answers.
    fn answers(lines: &[u8]) -> String {
        let (mut client, server) = UnixStream::pair().unwrap();
        let serving = thread::spawn(move || serve(server, |_| Response::Done));
        client.write_all(lines).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        serving.join().unwrap().unwrap();
        text
    }

    #[test]
    fn each_line_gets_a_line() {
        let text = answers(b"{\"command\":\"status\"}\nnonsense\n{\"command\":\"down\"}\nno end");
        let lines: Vec<Response> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(&lines[..], [Response::Done, Response::Refused { .. }, Response::Done]), "{lines:?}");
    }

    #[test]
    fn a_request_without_end_is_read_to_its_limit() {
        let long = vec![b' '; MAX_REQUEST as usize];
        assert_eq!(answers(&long), "");
        let fits = [&vec![b' '; MAX_REQUEST as usize - 1][..], b"\n"].concat();
        assert_eq!(answers(&fits).lines().count(), 1);
    }

    #[test]
    fn a_client_gets_the_response_or_the_reason() {
        let answered = |bytes: &'static [u8]| {
            let (client, mut server) = UnixStream::pair().unwrap();
            let node = thread::spawn(move || {
                let mut request = String::new();
                BufReader::new(server.try_clone().unwrap()).read_line(&mut request).unwrap();
                server.write_all(bytes).unwrap();
                request
            });
            (exchange(client, &Request::Reload), node.join().unwrap())
        };
        let (response, request) = answered(b"{\"answer\":\"done\"}\n");
        assert_eq!(request, "{\"command\":\"reload\"}\n");
        assert_eq!(serde_json::from_value::<Response>(response.unwrap()).unwrap(), Response::Done);
        assert_eq!(answered(b"{\"answer\":").0.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(answered(b"no\n").0.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
