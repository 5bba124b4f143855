//! Supervisor of OpenVPN's server, which is a process of its own.
//!
//! The supervisor restarts the process when it ends, and commands it over a Unix socket (management-notes in OpenVPN's
//! documentation). The process ends with the node.

use crate::access::clients as table;
use crate::access::openvpn::clients::{self, ClientNames};
use crate::access::openvpn::server;
use crate::access::openvpn::server::{LOG, Prepared, SOCKET};
use crate::access::openvpn::wrap::PROGRAM;
use crate::config::Openvpn;
use crate::config::access::ClientOffer;
use crate::daemon::log::Log;
use crate::daemon::rotated;
use crate::daemon::threads::{Pulse, Threads, not_started};
use crate::files::{Directory, SocketFile};
use crate::openvpn_status::Session;
use crate::outcome::Failure;
use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, UNIX_EPOCH};
use weft_control::{AccessClient, ClientProgram, ClientRefusals, Response};

/// Maximum number of messages that wait for the supervisor. A further request is refused.
const MAX_MESSAGES: usize = 16;
/// Maximum time for the process to connect to the socket, to answer a command, or to end.
///
/// A process that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval of checks while the supervisor waits for the process to connect or to end.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Interval of checks of the sessions while the process runs.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// First and longest pause before a restart of the server. Each pause is twice the one before, up to the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Run time of the server after which the next pause has the first value of [`PAUSE`] again.
const WELL: Duration = Duration::from_secs(30);

enum OpenvpnMessage {
    /// A client was admitted or removed.
    ClientsChanged,
    /// A request for the connected clients, and the channel for the response.
    ListClients(SyncSender<Response>),
}

/// Handle of the supervisor. Dropping it ends the server.
pub struct OpenvpnHandle {
    messages: Option<SyncSender<OpenvpnMessage>>,
    supervisor: Option<JoinHandle<()>>,
}

impl OpenvpnHandle {
    /// Writes the server's files and starts the server.
    ///
    /// Returns `None` if the files cannot be written to the state directory. The log has the reason.
    ///
    /// # Errors
    /// Returns the reason why it cannot start, as text for a reader.
    pub fn start(
        state: &Path,
        settings: &Openvpn,
        offer: &ClientOffer,
        threads: &Threads,
    ) -> Result<Option<OpenvpnHandle>, Failure> {
        let log = threads.log();
        let failed = |why: String| Failure::new(format!("[access.openvpn]: {why}"));
        if let Err(why) = Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).status() {
            return Err(failed(format!("cannot run {PROGRAM}: {why}: install the Debian package openvpn")));
        }
        let (messages, inbox) = sync_channel(MAX_MESSAGES);
        let supervisor = match OpenvpnSupervisor::prepare(state, settings, offer, inbox, threads) {
            Ok(supervisor) => supervisor,
            Err(why) => {
                log.error(format_args!(
                    "[access.openvpn]: no client is accepted: {why}; restart the node after the repair"
                ));
                return Ok(None);
            }
        };
        log.info(format_args!(
            "[access.openvpn]: clients of {} connect to port {}",
            settings.pool.value, settings.listen.value
        ));
        let thread = threads.spawn("weft-openvpn", move |pulse| supervisor.run(pulse));
        let supervisor = Some(thread.map_err(|why| failed(not_started("runs OpenVPN", &why)))?);
        Ok(Some(OpenvpnHandle { messages: Some(messages), supervisor }))
    }

    /// Makes the supervisor end the sessions of removed clients. Call it after a change of the clients.
    pub fn has_changed(&self) {
        // A busy supervisor checks the sessions soon anyway.
        let _ = self.messages.as_ref().map(|messages| messages.try_send(OpenvpnMessage::ClientsChanged));
    }

    /// Requests the list of connected clients. Returns a response at once if the supervisor is busy.
    pub fn ask(&self, reply: &SyncSender<Response>) -> Option<Response> {
        match self
            .messages
            .as_ref()
            .is_some_and(|messages| messages.try_send(OpenvpnMessage::ListClients(reply.clone())).is_ok())
        {
            true => None,
            false => Some(Response::Refused { why: "the node is busy: try again".to_owned() }),
        }
    }
}

impl Drop for OpenvpnHandle {
    fn drop(&mut self) {
        drop(self.messages.take());
        // The supervisor waits for the process at most `PATIENCE`.
        let _ = self.supervisor.take().map(JoinHandle::join);
    }
}

struct OpenvpnSupervisor {
    directory: Directory,
    config: String,
    listener: UnixListener,
    _socket: SocketFile,
    inbox: Receiver<OpenvpnMessage>,
    threads: Threads,
    log: Log,
}

impl OpenvpnSupervisor {
    fn prepare(
        state: &Path,
        settings: &Openvpn,
        offer: &ClientOffer,
        inbox: Receiver<OpenvpnMessage>,
        threads: &Threads,
    ) -> Result<OpenvpnSupervisor, String> {
        let prepared = table::change(state, |state, _| server::prepare(state, settings, offer))?;
        let Prepared { directory, config, .. } = prepared;
        let failed = |why: io::Error| directory.failed(SOCKET, &why);
        let (listener, socket) = directory.bind(OsStr::new(SOCKET), 0o600).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(OpenvpnSupervisor {
            directory,
            config,
            listener,
            _socket: socket,
            inbox,
            threads: threads.clone(),
            log: threads.log(),
        })
    }

    fn run(self, pulse: &Pulse) -> Result<(), String> {
        let mut pause = PAUSE.0;
        loop {
            let began = Instant::now();
            // `resting` exempts this thread from the watchdog. That is safe, because every wait in `run_once` has a
            // time limit or is for another process.
            let ended = pulse.resting(|| self.run_once());
            let Some(how) = ended.unwrap_or_else(|why| Some(why.to_string())) else { return Ok(()) };
            if began.elapsed() > WELL {
                pause = PAUSE.0;
            }
            let log = self.directory.path().join(LOG);
            self.log.error(format_args!(
                "OpenVPN: {how}; see {}; next start in {} ms",
                log.display(),
                pause.as_millis()
            ));
            if !pulse.resting(|| self.wait(pause)) {
                return Ok(());
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Runs the server from its start to its end. Returns how it ended, or `None` if this node ended it.
    fn run_once(&self) -> io::Result<Option<String>> {
        // The server gets no name of a file to write, and no file with commands: another user may have replaced files
        // there.
        let (says, said) = io::pipe()?;
        let directory = self.directory.enter(".")?;
        let copy = move |pulse: &Pulse| {
            let mut names = ClientNames::default();
            let put = |line: &mut Vec<u8>| names.put(line, || clients::list(&directory).unwrap_or_default());
            pulse.resting(|| rotated::copy(&directory, LOG, says, put));
            Ok(())
        };
        self.threads.spawn("weft-openvpn-log", copy)?;
        let mut child = Command::new(PROGRAM)
            .args(["--config", "stdin"])
            .current_dir(self.directory.held_path())
            .stdin(Stdio::piped())
            .stderr(said.try_clone()?)
            .stdout(said)
            .spawn()?;
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(self.config.as_bytes()));
        let result = written.and_then(|()| self.serve(&mut child));
        end(child)?;
        result
    }

    fn serve(&self, child: &mut Child) -> io::Result<Option<String>> {
        let Some(stream) = self.called(child)? else {
            return Ok(Some("the program did not connect to the node".to_owned()));
        };
        let mut orders = Orders::new(stream)?;
        self.log.info(format_args!("OpenVPN: running, pid {}", child.id()));
        loop {
            match self.inbox.recv_timeout(WATCH_EVERY) {
                Ok(OpenvpnMessage::ClientsChanged) => self.end_sessions(&mut orders)?,
                Ok(OpenvpnMessage::ListClients(reply)) => {
                    let clients = orders.sessions()?.into_iter().filter_map(|session| self.client(session)).collect();
                    let _ = reply.try_send(Response::Clients { clients, refused: ClientRefusals::default() });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
            if let Some(status) = child.try_wait()? {
                return Ok(Some(format!("ended, {status}")));
            }
        }
    }

    /// Waits for the server's connection to the socket.
    ///
    /// Returns `None` if it does not connect in time, or has ended.
    fn called(&self, child: &mut Child) -> io::Result<Option<UnixStream>> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && child.try_wait()?.is_none() {
            match self.listener.accept() {
                Ok((stream, _)) => return Ok(Some(stream)),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => thread::sleep(LOOK_EVERY),
                Err(why) => return Err(why),
            }
        }
        Ok(None)
    }

    fn end_sessions(&self, orders: &mut Orders) -> io::Result<()> {
        let Ok(clients) = clients::list(&self.directory) else { return Ok(()) };
        for session in orders.sessions()? {
            if clients.iter().all(|client| client.common_name != session.common_name) {
                orders.end(&session.common_name)?;
            }
        }
        Ok(())
    }

    fn client(&self, session: Session) -> Option<AccessClient> {
        let mut clients = clients::list(&self.directory).ok()?.into_iter();
        let client = clients.find(|client| client.common_name == session.common_name)?;
        let since = UNIX_EPOCH + Duration::from_secs(session.since_s);
        Some(AccessClient {
            name: client.name,
            address: client.address,
            with: ClientProgram::Openvpn,
            key: client.common_name,
            handshake_s_ago: Some(since.elapsed().unwrap_or_default().as_secs()),
            remote: session.remote,
            received_bytes: session.received_bytes,
            sent_bytes: session.sent_bytes,
        })
    }

    /// Waits for `time` and answers messages meanwhile. Returns false if the supervisor is to stop.
    fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(OpenvpnMessage::ClientsChanged) => {}
                Ok(OpenvpnMessage::ListClients(reply)) => {
                    let _ = reply.try_send(Response::Refused { why: "the OpenVPN server is not running".to_owned() });
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }
}

/// Waits for the end of the process, and kills it if that takes too long.
///
/// The process ends by itself because its command socket is closed.
fn end(mut child: Child) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Connection to the server's command interface.
struct Orders {
    stream: BufReader<UnixStream>,
}

impl Orders {
    fn new(stream: UnixStream) -> io::Result<Orders> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Orders { stream: BufReader::new(stream) })
    }

    fn sessions(&mut self) -> io::Result<Vec<Session>> {
        let lines = self.ask("status 2", |line| line == "END" || line.starts_with("ERROR:"))?;
        Ok(lines.iter().filter_map(|line| Session::parse(line)).collect())
    }

    fn end(&mut self, common_name: &str) -> io::Result<()> {
        let is_last = |line: &str| line.starts_with("SUCCESS:") || line.starts_with("ERROR:");
        self.ask(&format!("kill {common_name}"), is_last).map(drop)
    }

    fn ask(&mut self, order: &str, is_last: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        writeln!(self.stream.get_mut(), "{order}")?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if is_last(line) {
                return Ok(lines);
            }
            lines.push(line.to_owned());
        }
    }
}
