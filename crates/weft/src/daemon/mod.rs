//! The daemon: threads for control, signals and state around one packet loop.

mod access;
mod changes;
mod clock;
mod control;
mod datapath;
mod device;
mod devices;
mod history;
mod isolation;
mod links;
mod live;
mod log;
mod lookup;
mod metrics;
mod node;
mod openvpn;
mod outside;
mod overlay;
mod owner;
mod ping;
mod platform;
mod proxy;
mod refusal;
mod restart;
mod service;
pub mod signal;
mod signals;
mod state;
pub mod tcp_er;
mod totals;
mod trust;
mod view;

pub use clock::Clock;
pub use log::{Level, Log};
pub use signals::{block as block_signals, wait as wait_for_signal};

use crate::config;
use crate::outcome::Failure;
use changes::Changes;
use control::{Sender, Server};
use datapath::Datapath;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};
use node::{Node, Parts};
use state::Keeper;
use std::io;
use std::path::Path;
use std::sync::Arc;
use weft_io::wait::{Waker, set_timer_slack};

/// Asks the kernel to write no core file of this process and to let nobody but root look into it.
fn keep_memory_private(log: Log) {
    if let Err(why) = setrlimit(Resource::RLIMIT_CORE, 0, 0).and_then(|()| prctl::set_dumpable(false)) {
        log.error(format_args!("memory stays readable for others of this user: {why}"));
    }
}

/// Runs the node that `file` describes, until it is told to stop.
///
/// # Errors
/// Why it could not start or go on.
pub fn run(file: &Path, level: Level) -> Result<(), Failure> {
    let log = Log::new(level);
    let loaded = config::load(file).map_err(Failure::new)?;
    eprint!("{}", loaded.report);
    let config::Loaded { config, identity, certificate, .. } = loaded;
    let failed = |what: &'static str| move |why: io::Error| Failure::new(format!("{what}: {why}"));

    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    keep_memory_private(log);
    let signals = signals::block().map_err(failed("signals"))?;
    let waker = Arc::new(Waker::new().map_err(failed("waker"))?);
    let (sender, tasks) = Sender::channel(Arc::clone(&waker));
    // First of all, so that a second node on the same socket disturbs nothing.
    let _server = Server::start(&config.node.control, sender.clone(), log).map_err(Failure::new)?;
    let _metrics = match &config.metrics {
        Some(at) => Some(metrics::Server::start(&at.value, sender.clone(), log).map_err(Failure::new)?),
        None => None,
    };
    let changes = Changes::begin(&config.node.control, log);
    let (keeper, stamps) = Keeper::open(&config.node.state, clock::unix_ns(), log).map_err(failed("state"))?;

    let clock = Clock::start();
    let public_key = identity.public_key();
    let parts = Parts { file: file.to_owned(), config, identity, certificate, clock, stamps, keeper, changes, log };
    let mut node = Node::new(parts)?;
    let (mut datapath, failures) = Datapath::new(&mut node, clock, waker, tasks).map_err(failed("datapath"))?;
    if node.links.active().is_empty() && !failures.is_empty() {
        return Err(Failure::new(failures.join("\n")));
    }
    signals::forward(signals, sender).map_err(failed("signals"))?;
    // Without it a wait is up to 50 µs late; pacing bears that.
    if let Err(why) = set_timer_slack(1) {
        log.debug(format_args!("timer slack: {why}"));
    }
    log.info(format_args!("{} up, public key {public_key}", node.devices.default().tun().name()));
    service::ready();
    datapath.run(&mut node).map_err(failed("packet loop"))?;
    log.info("down");
    Ok(())
}
