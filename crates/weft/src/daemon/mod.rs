//! The daemon: one packet loop, and threads around it.
//!
//! The packet loop is the thread that receives and sends all packets and datagrams. It alone owns the engine. The
//! other threads serve control, signals, state, metrics, clients and proxies. They send tasks to the packet loop
//! through bounded channels and wake it. No thread but the packet loop may delay a packet: disks, logs and other
//! processes are served elsewhere.

mod carriers;
mod clock;
mod control;
mod datapath;
mod gather;
mod links;
mod log;
pub mod machine;
mod metrics;
mod node;
mod overlay;
mod ping;
mod platform;
mod quota;
mod restart;
mod rotated;
mod service;
pub mod services;
pub mod shown;
mod signals;
mod stamps;
mod state;
pub mod threads;
mod trial;
mod trust;
mod turns;

pub use clock::Clock;
pub use log::{Level, Log};
pub use signals::{block as block_signals, wait as wait_for_signal};

use crate::config;
use crate::outcome::Failure;
use control::{ControlServer, TaskSender};
use datapath::Datapath;
use machine::changes::Changes;
use machine::exit::ExitForwarding;
use machine::kill_switch::{self, KillSwitch};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};
use node::{DaemonNode, Parts};
use services::names::Names;
use state::StateWriter;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use threads::{Threads, not_started};
use weft_io::wait::{Waker, set_timer_slack};

/// Maximum time for the log to write its last lines when the process ends.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Prevents core files, access by other processes of this user, and swapping of this process's memory.
fn keep_memory_private(log: Log) {
    if let Err(why) = setrlimit(Resource::RLIMIT_CORE, 0, 0).and_then(|()| prctl::set_dumpable(false)) {
        log.error(format_args!("cannot stop other processes of the same user from reading the node's memory: {why}"));
    }
    if let Err(why) = lock_memory() {
        log.debug(format_args!("cannot lock the node's memory, so the kernel may swap it to disk: {why}"));
    }
}

/// Locks every page in memory from its first use on.
///
/// Nothing is locked if the limit of locked memory (RLIMIT_MEMLOCK) is finite, because the kernel would later refuse
/// memory beyond this limit.
fn lock_memory() -> nix::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    let is_limited = soft != RLIM_INFINITY;
    if is_limited {
        // With a limit of zero, `mlockall` succeeds only for a process that the limit does not bind (CAP_IPC_LOCK).
        setrlimit(Resource::RLIMIT_MEMLOCK, 0, hard)?;
    }
    let on_fault = MlockAllFlags::from_bits_retain(nix::libc::MCL_ONFAULT);
    let result = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault);
    if is_limited {
        setrlimit(Resource::RLIMIT_MEMLOCK, soft, hard)?;
    }
    result
}

/// Runs the node that `file` describes, until `weft down` or a signal ends it.
///
/// # Errors
/// Returns the reason why it could not start or continue. The message is already in the log.
pub fn run(file: &Path, level: Level) -> Result<(), Failure> {
    let log = Log::new(level);
    let failed = |why: io::Error| {
        Failure::new(format!(
            "cannot start the threads of the node: {why}: check the limits of threads, open files and memory"
        ))
    };
    // Threads inherit the blocked signals, so they are blocked before any thread starts.
    let signals = signals::block().map_err(failed)?;
    let waker = Arc::new(Waker::new().map_err(failed)?);
    let wakes = Arc::clone(&waker);
    let threads = Threads::start(log, move || drop(wakes.wake())).map_err(failed)?;
    threads::log_panics(log);
    let result = catch_unwind(AssertUnwindSafe(|| serve(file, signals, waker, &threads)));
    let result = result.unwrap_or_else(|panic| {
        let why = threads::words(&*panic);
        Err(Failure::new(format!(
            "the node ends, because its main thread panicked: {why}: this is a fault of weft: please report it"
        )))
    });
    // The message goes through the log: a write to standard error may block if no process reads it.
    let result = result.map_err(|failure| failure.say(|text| log.plain(text)));
    log.flush(LAST_LINES);
    result
}

fn serve(file: &Path, signals: SigSet, waker: Arc<Waker>, threads: &Threads) -> Result<(), Failure> {
    let log = threads.log();
    let loaded = config::load(file).map_err(Failure::new)?;
    log.plain(loaded.report.to_string());
    let config::Loaded { mut config, identity, certificate, .. } = loaded;
    let no_thread = |work: &'static str| move |why: io::Error| Failure::new(not_started(work, &why));

    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    keep_memory_private(log);
    let (sender, tasks) = TaskSender::channel(Arc::clone(&waker));
    // The control socket opens first, so that a second node with the same socket changes nothing.
    let _server = ControlServer::start(&config.node.control, sender.clone(), threads).map_err(Failure::new)?;
    let _metrics = match &config.metrics {
        Some(at) => Some(metrics::MetricsServer::start(&at.value, sender.clone(), threads).map_err(Failure::new)?),
        None => None,
    };
    let changes = Changes::begin(&config.node.control, kill_switch::change(&config).as_ref(), log);
    let mut kill_switch = KillSwitch::new(changes.clone(), threads);
    kill_switch.set(&config).map_err(Failure::new)?;
    let (state_writer, stamps) = StateWriter::open(&config.node.state, clock::unix_ns(), threads)
        .map_err(no_thread("writes the node's state files"))?;

    let names = Names::new(sender.clone(), threads);
    names.start(&mut config).map_err(no_thread("looks up host names"))?;
    let clock = Clock::start();
    let public_key = identity.public_key();
    let _exit = ExitForwarding::start(&config, &changes, log).map_err(Failure::new)?;
    machine::forwarding::say(&config, log);
    let threads = threads.clone();
    let parts = Parts {
        file: file.to_owned(),
        config,
        names,
        identity,
        certificate,
        clock,
        stamps,
        state_writer,
        changes,
        kill_switch,
        threads,
        sender: sender.clone(),
    };
    let mut node = DaemonNode::new(parts)?;
    let (mut datapath, failures) = Datapath::new(&mut node, clock, waker, tasks).map_err(|why| {
        Failure::new(format!("cannot start to forward packets: {why}: check the limits of open files and memory"))
    })?;
    // Peers begin handshakes at every link. If another program has the port on a link, this node receives none there.
    if node.links.is_port_taken() || (node.links.active().is_empty() && !failures.is_empty()) {
        return Err(Failure::new(failures.join("\n")));
    }
    signals::forward(signals, sender, node.threads()).map_err(no_thread("waits for SIGTERM and SIGINT"))?;
    // If this fails, a wait may end 50 µs late, which pacing tolerates.
    if let Err(why) = set_timer_slack(1) {
        log.debug(format_args!("cannot set the timer slack, so the node may send 50 µs late: {why}"));
    }
    log.info(format_args!("{} up, public key {public_key}", node.devices.default().tun().name()));
    service::ready();
    let result = datapath.run(&mut node).map_err(|why| {
        Failure::new(format!("the node ends, because it cannot forward packets any more: {why}: start it again"))
    });
    node.finish();
    if result.is_ok() {
        log.info("down");
    }
    result
}
