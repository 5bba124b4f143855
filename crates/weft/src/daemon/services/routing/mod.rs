//! A routing daemon beside this node, such as FRR: its routes become prefixes of peers.
//!
//! A thread watches the kernel's routes out of the TUN devices. It passes changes to the packet loop (`datapath`) in
//! batches and waits for the packet loop's answer to each batch, so that very many routes never hold up packets.
//! Another thread reports path states to FRR's `bfdd` ([`bfd`]).

pub mod bfd;
mod table;

pub use table::{RoutedDevice, RoutingReport};

use crate::config::{Routing, prefix, protocol_name};
use crate::daemon::control::{Task, TaskSender};
use crate::daemon::log::Log;
use crate::daemon::threads::{Pulse, Threads};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use table::RoutingTable;
use weft_engine::{LearntChange, LearntRefusal, Prefix};
use weft_io::netlink::{Polled, RouteEvent, RouteWatch};
use weft_io::wait::{Poller, Ready, Waker};
use weft_units::VpnId;

/// Interval at which the learnt routes are compared with the kernel's routing table.
///
/// The kernel reports no event for some removals, such as those with a nexthop object.
const COMPARE_AFTER: Duration = Duration::from_secs(300);
/// Minimum interval between two reports to the packet loop for status output.
const REPORT_AFTER: Duration = Duration::from_millis(500);
/// Maximum number of refusals that are logged per [`REPORT_AFTER`]. For further ones, one line states the total.
const MOST_LOGGED: usize = 8;
/// Maximum number of prefixes for which a warning about nexthop objects is logged. Others get none.
const MOST_WARNED: usize = 64;
/// Poller token of the netlink socket.
const ROUTES: u64 = 0;
/// Poller token of the waker, with which other threads end this thread's wait.
const WAKER: u64 = 1;

/// A batch of changes of learnt prefixes, and the packet loop's reaction to each.
#[derive(Default)]
pub struct LearntSlice {
    /// Changes of learnt prefixes, by VPN.
    pub changes: Vec<(VpnId, LearntChange)>,
    /// The refusal of each change, or `None`.
    pub outcomes: Vec<Option<LearntRefusal>>,
}

/// Data about the node that the thread needs.
#[derive(Clone, Default)]
pub struct RoutingSurroundings {
    /// TUN devices whose routes become prefixes of peers.
    pub devices: Vec<RoutedDevice>,
    /// Outer addresses of peers and contacts.
    pub endpoints: Vec<IpAddr>,
}

struct SharedRoutes {
    surroundings: Mutex<RoutingSurroundings>,
    has_changed: AtomicBool,
    is_over: AtomicBool,
    waker: Waker,
}

/// The thread that learns routes. Dropping the value ends it.
pub struct RouteLearner(Arc<SharedRoutes>);

impl RouteLearner {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn start(
        settings: &Routing,
        surroundings: RoutingSurroundings,
        sender: TaskSender,
        threads: &Threads,
    ) -> io::Result<RouteLearner> {
        let shared = Arc::new(SharedRoutes {
            surroundings: Mutex::new(surroundings.clone()),
            has_changed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            waker: Waker::new()?,
        });
        let (watch, poller) = (RouteWatch::open()?, Poller::new()?);
        poller.add(watch.as_raw_fd(), ROUTES)?;
        poller.add(shared.waker.as_raw_fd(), WAKER)?;
        let (reply, replies) = sync_channel(1);
        let learner = Learner {
            table: RoutingTable::new(settings.clone(), surroundings.devices),
            endpoints: surroundings.endpoints,
            warned: BTreeSet::new(),
            watch,
            poller,
            sender,
            reply,
            replies,
            slice: Some(LearntSlice::default()),
            shared: Arc::clone(&shared),
            reported: RoutingReport::default(),
            logged_learnt: 0,
            report_at: Instant::now(),
            logged: 0,
            log: threads.log(),
        };
        threads.spawn("weft-routes", move |pulse| learner.run(pulse))?;
        Ok(RouteLearner(shared))
    }

    /// Passes all routes to the packet loop again, because peers, their prefixes or the devices have changed.
    pub fn refresh(&self, surroundings: RoutingSurroundings) {
        *self.0.surroundings.lock().unwrap_or_else(PoisonError::into_inner) = surroundings;
        self.0.has_changed.store(true, Ordering::Release);
        // A waker that cannot be woken belongs to a thread that has ended.
        let _ = self.0.waker.wake();
    }
}

impl Drop for RouteLearner {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        let _ = self.0.waker.wake();
    }
}

/// State of the thread that learns routes.
struct Learner {
    table: RoutingTable,
    /// Outer addresses of peers and contacts.
    endpoints: Vec<IpAddr>,
    /// Prefixes for which a warning about nexthop objects was logged.
    warned: BTreeSet<(IpAddr, u8)>,
    watch: RouteWatch,
    poller: Poller,
    sender: TaskSender,
    reply: SyncSender<LearntSlice>,
    replies: Receiver<LearntSlice>,
    /// The batch of changes that is passed to and fro. `None` while the packet loop has it.
    slice: Option<LearntSlice>,
    shared: Arc<SharedRoutes>,
    reported: RoutingReport,
    logged_learnt: usize,
    report_at: Instant,
    logged: usize,
    log: Log,
}

impl Learner {
    fn run(mut self, pulse: &Pulse) -> Result<(), String> {
        let mut ready: Vec<Ready> = Vec::new();
        let mut compare_at = Instant::now();
        while !self.shared.is_over.load(Ordering::Acquire) {
            if Instant::now() >= compare_at {
                pulse.resting(|| self.compare()).map_err(|why| why.to_string())?;
                compare_at = Instant::now() + COMPARE_AFTER;
            }
            self.on_time();
            while self.pass_slice(pulse) {
                self.take_events(pulse)?;
            }
            self.report();
            let due = self.table.next_timeout().into_iter().chain(self.next_report()).fold(compare_at, Instant::min);
            let wait = due.saturating_duration_since(Instant::now());
            pulse.resting(|| self.poller.wait(Some(wait), &mut ready)).map_err(|why| why.to_string())?;
            if ready.iter().any(|ready| ready.token == WAKER) {
                self.on_woken();
            }
            self.take_events(pulse)?;
        }
        Ok(())
    }

    fn on_woken(&mut self) {
        let _ = self.shared.waker.clear();
        if self.shared.has_changed.swap(false, Ordering::AcqRel) {
            let surroundings = self.shared.surroundings.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.table.set_devices(surroundings.devices);
            self.endpoints = surroundings.endpoints;
            self.table.retry();
        }
    }

    fn take_events(&mut self, pulse: &Pulse) -> Result<(), String> {
        let (now, indices) = (Instant::now(), self.table.indices());
        let Learner { watch, table, endpoints, warned, log, .. } = self;
        let polled = watch.poll(&indices, |event| {
            table.on_event(now, &event);
            warn_of_object(&event, endpoints, warned, *log);
        });
        let polled = polled.map_err(|why| why.to_string())?;
        pulse.beat();
        match polled {
            Polled::All | Polled::Some => Ok(()),
            Polled::Lost => pulse.resting(|| self.compare()).map_err(|why| why.to_string()),
        }
    }

    /// Compares the learnt routes with the kernel's routing table, and corrects those that differ.
    fn compare(&mut self) -> io::Result<()> {
        let (now, indices) = (Instant::now(), self.table.indices());
        let Learner { watch, table, endpoints, warned, log, .. } = self;
        table.begin_dump();
        watch.dump(&indices, |event| {
            table.on_event(now, &event);
            warn_of_object(&event, endpoints, warned, *log);
        })?;
        table.end_dump(Instant::now());
        Ok(())
    }

    fn on_time(&mut self) {
        for protocol in self.table.on_time(Instant::now()) {
            let name = protocol_name(protocol);
            self.log.info(format_args!(
                "routing: protocol {name} has no route left: the prefixes learnt from it stay for the time `hold` of \
                 [routing]"
            ));
        }
    }

    /// Passes a batch of changes to the packet loop and waits for the outcomes. Returns false if no change waits.
    fn pass_slice(&mut self, pulse: &Pulse) -> bool {
        let mut slice = self.slice.take().unwrap_or_default();
        self.table.take_slice(&mut slice.changes);
        if slice.changes.is_empty() {
            self.slice = Some(slice);
            return false;
        }
        slice.outcomes.clear();
        let passed = pulse.resting(|| {
            self.sender.send(Task::Learn(slice, self.reply.clone())).ok()?;
            self.replies.recv().ok()
        });
        // If the batch does not return, the packet loop has ended, and the process ends soon.
        let Some(slice) = passed else { return false };
        for ((vpn, change), outcome) in slice.changes.iter().zip(&slice.outcomes) {
            if self.table.on_outcome(*vpn, change, *outcome) {
                self.log_refusal(change, *outcome);
            }
        }
        self.slice = Some(slice);
        true
    }

    fn log_refusal(&mut self, change: &LearntChange, outcome: Option<LearntRefusal>) {
        let (Some(why), Some(next_hop)) = (outcome, change.next_hop) else { return };
        self.logged += 1;
        if self.logged <= MOST_LOGGED {
            let (prefix, name) = (prefix::text(change.prefix), protocol_name(change.protocol));
            self.log.error(format_args!(
                "routing: prefix {prefix} of protocol {name} via next hop {next_hop} is not learnt: {why}"
            ));
        }
    }

    /// Returns the time of the next report, if something has changed.
    fn next_report(&self) -> Option<Instant> {
        let report = self.table.report();
        (report.learnt != self.logged_learnt || report != self.reported).then_some(self.report_at)
    }

    fn report(&mut self) {
        let now = Instant::now();
        if now < self.report_at {
            return;
        }
        let report = self.table.report();
        let RoutingReport { learnt, refused, left_out, .. } = report;
        // The number of learnt routes is logged when it is the same in two reports.
        if learnt == self.reported.learnt && learnt != self.logged_learnt {
            self.log.info(format_args!("routing: {learnt} prefixes learnt"));
            self.logged_learnt = learnt;
        }
        self.report_at = now + REPORT_AFTER;
        if report == self.reported {
            return;
        }
        if left_out > self.reported.left_out {
            self.log.error(format_args!(
                "routing: the table of learnt prefixes is full, and {left_out} routes are left out: raise `most` in \
                 [routing]"
            ));
        }
        if self.logged > MOST_LOGGED {
            self.log.error(format_args!("routing: {refused} routes cannot be learnt; the reasons: weft prefixes"));
        }
        self.logged = 0;
        // Sending fails only after the packet loop has ended, which then needs no report.
        let _ = self.sender.send(Task::Routing(Box::new(report.clone())));
        self.reported = report;
    }
}

/// Warns of a route with a nexthop object to a network that contains an outer address.
///
/// The kernel's lookup for a bound socket stops at such a route. It then finds neither a shorter prefix at the same network
/// address nor another route to the same prefix, so the link may lose its own route to the peer.
fn warn_of_object(event: &RouteEvent, endpoints: &[IpAddr], warned: &mut BTreeSet<(IpAddr, u8)>, log: Log) {
    let RouteEvent::Added(route) = event else { return };
    if !route.has_object || warned.len() >= MOST_WARNED {
        return;
    }
    let (prefix, name) =
        (Prefix { address: route.destination, length: route.prefix_len }, protocol_name(route.protocol));
    if let Some(endpoint) = endpoints.iter().find(|endpoint| prefix.contains(**endpoint))
        && warned.insert((route.destination, route.prefix_len))
    {
        let prefix = prefix::text(prefix);
        log.error(format_args!(
            "routing: {prefix} of {name} contains the endpoint {endpoint} and has a nexthop object, which may hide the link's \
             own route: put `no zebra nexthop kernel enable` into the configuration of zebra"
        ));
    }
}
