//! The head thread: receives the daemon's orders and reports the status of all workers.
//!
//! While the proxy has capacity, it lets nftables divert new connections to the proxy. It forwards no bytes itself.

use super::capacity::{ProxyCapacity, plan_capacity};
use super::descriptors::Poll;
use super::listeners::Listeners;
use super::nft;
use super::orders::{Order, OrderReader};
use super::policy::ProxyPolicy;
use super::rates::PeerTotals;
use super::ruleset::DiversionNames;
use super::shared::{ProxySettings, ProxyState};
use super::status::ProxyStatus;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

/// Minimum interval between status reports to the daemon. An unchanged status is not reported.
const TELL: Duration = Duration::from_secs(1);
/// Minimum interval between reports of refused connections to the daemon.
const TELL_REFUSED: Duration = Duration::from_secs(10);
/// Interval at which the proxy checks for free capacity while new connections are not diverted to it.
const LOOK: Duration = Duration::from_millis(50);
/// Fraction of the capacity below which a full proxy accepts connections again.
///
/// It applies to the total and to each worker.
const REOPEN: (usize, usize) = (9, 10);

/// Poll token of the daemon's orders.
const ORDERS: u64 = 0;
/// Poll token of the workers' wake-up signal.
const BELL: u64 = 1;

/// The orders with which the daemon starts the proxy.
pub struct First {
    /// The first policy: the connections to proxy.
    pub policy: ProxyPolicy,
    /// The latest rates toward the peers that came before that policy.
    pub totals: PeerTotals,
}

/// The thread that receives the daemon's orders and reports the status.
pub struct HeadThread<'a> {
    names: &'a DiversionNames,
    poll: Poll,
    orders: OrderReader,
}

impl<'a> HeadThread<'a> {
    /// Starts to read the daemon's orders.
    ///
    /// # Errors
    /// Fails if the kernel refuses a descriptor.
    pub fn new(names: &'a DiversionNames) -> io::Result<HeadThread<'a>> {
        let (poll, orders) = (Poll::new()?, OrderReader::new()?);
        poll.watch_input(orders.as_raw_fd(), ORDERS)?;
        Ok(HeadThread { names, poll, orders })
    }

    /// Waits for the first policy. `None` means that the daemon ended the orders.
    ///
    /// # Errors
    /// Fails on an invalid order.
    pub fn first_orders(&mut self) -> io::Result<Option<First>> {
        let mut totals = PeerTotals::default();
        loop {
            while let Some(order) = self.orders.next()? {
                match order {
                    Order::Policy(policy) => return Ok(Some(First { policy, totals })),
                    Order::Totals(new) => totals = new,
                    Order::End => return Ok(None),
                }
            }
            self.poll.wait(TELL, &mut Vec::new())?;
        }
    }

    /// Runs until the daemon ends the orders or a worker ends.
    ///
    /// # Errors
    /// Fails if the kernel or nft returns an error.
    pub fn run(&mut self, first: First, shared: &ProxyState, listeners: &Listeners) -> io::Result<()> {
        self.poll.watch_input(shared.head().as_raw_fd(), BELL)?;
        let mut diversion = ProxyDiversion::new(self.names, shared, listeners)?;
        shared.set_totals(&first.totals);
        diversion.set_policy(first.policy)?;
        let mut happened = Vec::new();
        while !shared.is_over() {
            self.poll.wait(diversion.time_to_wait(Instant::now()), &mut happened)?;
            for event in &happened {
                match event.token {
                    ORDERS => {
                        if !self.take_orders(&mut diversion)? {
                            return Ok(());
                        }
                    }
                    _ => shared.head().clear()?,
                }
            }
            diversion.follow()?;
            diversion.report_status(Instant::now())?;
            diversion.tell_refused(Instant::now())?;
        }
        Ok(())
    }

    /// Executes all received orders. Returns false if the daemon has ended the orders.
    fn take_orders(&mut self, diversion: &mut ProxyDiversion<'_>) -> io::Result<bool> {
        while let Some(order) = self.orders.next()? {
            match order {
                Order::Policy(policy) => diversion.set_policy(policy)?,
                Order::Totals(totals) => diversion.shared.set_totals(&totals),
                Order::End => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Diverts new connections to the proxy while it has capacity.
struct ProxyDiversion<'a> {
    shared: &'a ProxyState,
    listeners: &'a Listeners,
    nft: nft::NftTable,
    policy: ProxyPolicy,
    /// Maximum numbers of the proxy's connections and pipes under that policy.
    capacity: ProxyCapacity,
    status: ProxyStatus,
    /// Time of the next status report.
    due: Instant,
    /// Status that was reported last.
    reported: ProxyStatus,
    /// Time from which a refused connection may be reported.
    due_refused: Instant,
}

impl<'a> ProxyDiversion<'a> {
    /// Creates the nftables table, which diverts no connections to the proxy yet.
    fn new(names: &DiversionNames, shared: &'a ProxyState, listeners: &'a Listeners) -> io::Result<ProxyDiversion<'a>> {
        Ok(ProxyDiversion {
            shared,
            listeners,
            nft: nft::NftTable::create(names)?,
            policy: ProxyPolicy::default(),
            capacity: ProxyCapacity::default(),
            status: ProxyStatus::default(),
            due: Instant::now(),
            reported: ProxyStatus::default(),
            due_refused: Instant::now(),
        })
    }

    fn time_to_wait(&self, now: Instant) -> Duration {
        let until_report = self.due.saturating_duration_since(now);
        if self.status.is_open { until_report } else { until_report.min(LOOK) }
    }

    fn set_policy(&mut self, policy: ProxyPolicy) -> io::Result<()> {
        self.capacity = plan_capacity(policy.capacity, self.shared.workers())?;
        self.status.capacity = self.capacity.connections as u64;
        self.status.congestion = self.listeners.choose_congestion(&policy.congestion);
        let (congestion, access) = (self.status.congestion.clone(), policy.access.clone());
        self.shared.set(ProxySettings { capacity: self.capacity, congestion, access });
        self.policy = policy;
        self.set_open(self.has_capacity(|most| most - 1))
    }

    fn set_open(&mut self, open: bool) -> io::Result<()> {
        self.status.is_open = open;
        self.due = Instant::now();
        match open {
            true => self.nft.open(&self.policy, &self.listeners.ports()),
            false => self.nft.shut(),
        }
    }

    /// True if the total and each worker's number of connections are within `part` of their maximum.
    ///
    /// `part` gets a maximum and returns the number to compare with.
    fn has_capacity(&self, part: impl Fn(usize) -> usize) -> bool {
        let is_within = |connections: usize, most: usize| most > 0 && connections <= part(most);
        is_within(self.shared.connections(), self.capacity.connections)
            && self.shared.counts().all(|worker| is_within(worker.connections as usize, self.capacity.each))
    }

    /// Stops diverting new connections when a worker is full, and diverts them when there is capacity again.
    fn follow(&mut self) -> io::Result<()> {
        let (of, whole) = REOPEN;
        match (self.shared.was_full(), self.status.is_open) {
            (true, true) => self.set_open(false),
            (_, false) if self.has_capacity(|most| most * of / whole) => self.set_open(true),
            _ => Ok(()),
        }
    }

    fn report_status(&mut self, now: Instant) -> io::Result<()> {
        if now < self.due {
            return Ok(());
        }
        self.due = now + TELL;
        self.status.counts = self.shared.counts().sum();
        if self.status != self.reported {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", self.status).and_then(|()| out.flush())?;
            self.reported = self.status.clone();
        }
        Ok(())
    }

    /// Reports the connection that was refused last, if the last such report was long enough ago.
    ///
    /// The counters in the status include all refused connections.
    fn tell_refused(&mut self, now: Instant) -> io::Result<()> {
        if now < self.due_refused {
            return Ok(());
        }
        let Some(refused) = self.shared.take_refused() else { return Ok(()) };
        self.due_refused = now + TELL_REFUSED;
        let mut out = io::stdout().lock();
        writeln!(out, "{refused}").and_then(|()| out.flush())
    }
}
