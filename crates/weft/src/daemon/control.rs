//! Server of the control socket, on separate threads.
//!
//! A thread per client reads a request, passes it to the packet loop (the thread of `datapath`), and
//! writes the response.

use super::log::Log;
use super::services::routing::bfd::SensedAddress;
use super::services::routing::{LearntSlice, RoutingReport};
use super::threads::{Pulse, Threads, not_started};
use crate::files::{self, SocketFile};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use weft_control::{Request, Response, socket};
use weft_io::wait::Waker;

/// Maximum number of tasks that wait for the packet loop. A thread that sends a further task waits, too.
const MAX_TASKS: usize = 64;
/// Maximum number of clients at the same time. A further one is disconnected.
const MAX_CLIENTS: usize = 16;
/// Pause after a failure to accept a client.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Maximum time to wait until a killed run's socket has ended.
///
/// *Tuned*: without this wait 5 of 150 starts after a kill failed, and with it none.
const DYING_RUN: Duration = Duration::from_millis(300);
/// Interval of attempts to listen while a killed run's socket still exists.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// A task for the packet loop.
pub enum Task {
    /// Answer the request of a client, which waits for the response.
    Answer(Request, SyncSender<Response>),
    /// Apply a batch of changes of prefixes learnt from routing daemons. Send the batch back with the outcomes.
    Learn(LearntSlice, SyncSender<LearntSlice>),
    /// Store these counts of learnt routes, and these refused routes, for status output.
    Routing(Box<RoutingReport>),
    /// Report path states to FRR's `bfdd` for exactly these peer addresses.
    Sense(Vec<SensedAddress>),
    /// Process an event about TCP connections that carry datagrams: made or lost.
    Carried(weft_carrier::carrier::CarrierEvent),
    /// Read the configuration again.
    Reload,
    /// Stop the node.
    Stop,
}

/// Sends tasks to the packet loop.
#[derive(Clone)]
pub struct TaskSender {
    tasks: SyncSender<Task>,
    waker: Arc<Waker>,
}

impl TaskSender {
    /// Creates a channel to a packet loop whose poller watches `waker`.
    pub fn channel(waker: Arc<Waker>) -> (TaskSender, Receiver<Task>) {
        let (tasks, receiver) = sync_channel(MAX_TASKS);
        (TaskSender { tasks, waker }, receiver)
    }

    /// Sends a task.
    ///
    /// # Errors
    /// Returns an error if the packet loop has ended.
    pub fn send(&self, task: Task) -> io::Result<()> {
        self.tasks.send(task).map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.waker.wake()
    }

    /// Sends a request and waits for the response.
    ///
    /// Returns a refusal if the packet loop has ended, or does not answer in time.
    pub fn ask(&self, request: Request) -> Response {
        let (reply, response) = sync_channel(1);
        let patience = request.patience();
        let sent = self.send(Task::Answer(request, reply));
        let response = sent.ok().and_then(|()| response.recv_timeout(patience).ok());
        response.unwrap_or_else(|| Response::Refused { why: "the node is stopping or busy: try again".to_owned() })
    }
}

/// The listening socket. Dropping it removes its file.
pub struct ControlServer {
    _file: SocketFile,
}

impl ControlServer {
    /// Listens at `path`, for root and this process's user.
    ///
    /// # Errors
    /// Returns the reason why that fails, as text for a reader.
    pub fn start(path: &Path, tasks: TaskSender, threads: &Threads) -> Result<ControlServer, String> {
        let describe = |why: io::Error| {
            format!(
                "cannot open the control socket {}: {why}: set another path in [node] control, or run as root",
                path.display()
            )
        };
        let (listener, file) = bind(path).map_err(|why| match why.kind() {
            io::ErrorKind::AddrInUse => {
                format!("another node is running with the control socket {}: stop it with: weft down", path.display())
            }
            _ => describe(why),
        })?;
        let shared = threads.clone();
        let serve = move |pulse: &Pulse| accept(&listener, &tasks, &shared, pulse);
        threads.spawn("weft-control", serve).map_err(|why| not_started("serves the control socket", &why))?;
        Ok(ControlServer { _file: file })
    }
}

/// Listens at `path`. Waits a moment if a killed run still seems to listen there.
///
/// If the run was starting a program, the new process holds the run's descriptors until it executes the program.
fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let until = Instant::now() + DYING_RUN;
    loop {
        match files::bind(path, 0o600) {
            Err(why) if why.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                thread::sleep(AGAIN_AFTER);
            }
            result => return result,
        }
    }
}

fn accept(listener: &UnixListener, tasks: &TaskSender, threads: &Threads, pulse: &Pulse) -> ! {
    serve_some(
        || pulse.resting(|| listener.accept().map(|(stream, _)| stream)),
        MAX_CLIENTS,
        (threads, "weft-client"),
        |stream| {
            let tasks = tasks.clone();
            // A client that disconnects during its request is no error of the node.
            is_allowed(&stream, threads.log())
                .then_some(move || drop(socket::serve(stream, |request| tasks.ask(request))))
        },
    )
}

/// Place of one client in the number of served clients. Dropping it, even by a panic, frees the place.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(clients: &Arc<AtomicUsize>) -> Seat {
        clients.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(clients))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves at most `most` clients at the same time, each on a thread of its own called `name`.
///
/// Further clients are disconnected, and so are clients for which `work_for` returns no work.
pub(super) fn serve_some<S, W: FnOnce() + Send + 'static>(
    mut accept: impl FnMut() -> io::Result<S>,
    most: usize,
    (threads, name): (&Threads, &str),
    work_for: impl Fn(S) -> Option<W>,
) -> ! {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok(stream) = accept() else {
            // The process may be out of descriptors for a while, so the thread waits before it tries again.
            thread::sleep(AFTER_FAILURE);
            continue;
        };
        if clients.load(Ordering::Relaxed) >= most {
            continue;
        }
        let Some(work) = work_for(stream) else { continue };
        let seat = Seat::take(&clients);
        let serve = move || {
            let _seat = seat;
            work();
        };
        // If no thread can be started, the client is disconnected.
        let _ = threads.serve(name, serve);
    }
}

/// Returns true for root and this process's user, whatever the mode of the socket's file.
fn is_allowed(stream: &UnixStream, log: Log) -> bool {
    let Ok(client) = getsockopt(stream, PeerCredentials) else { return false };
    let allowed = client.uid() == 0 || client.uid() == geteuid().as_raw();
    if !allowed {
        log.error(format_args!(
            "control socket: refused a request of user id {} (pid {}): only root and the node's own user may send one",
            client.uid(),
            client.pid()
        ));
    }
    allowed
}
