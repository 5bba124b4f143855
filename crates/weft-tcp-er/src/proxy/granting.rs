//! Rates for the legs between proxies, renewed while they are used.

use super::connection::Connection;
use super::rates::{Rates, Totals, Use};
use super::table::{Id, Table};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How often rates are renewed, and at least how long they last when flows come and go.
const INTERVAL: Duration = Duration::from_millis(100);
const LEAST_INTERVAL: Duration = Duration::from_millis(10);
/// Who uses so much of what he was granted would take more.
const HUNGRY: (u64, u64) = (9, 10);
/// A rate that changes by less than this part stays.
const WORTH: u64 = 50;

/// Who sends, and what is granted to them.
pub struct Granting {
    rates: Rates,
    active: Vec<Id>,
    renewed: Instant,
    due: Instant,
}

impl Granting {
    /// Nothing is known, nothing is limited.
    pub fn new(now: Instant) -> Granting {
        Granting { rates: Rates::default(), active: Vec::new(), renewed: now, due: now }
    }

    /// When rates have to be renewed; not while nobody sends.
    pub fn due(&self) -> Option<Instant> {
        (!self.active.is_empty()).then_some(self.due)
    }

    /// What a leg toward the peer with this address behind it may send.
    pub fn granted(&self, address: IpAddr) -> Option<u64> {
        self.rates.granted(address)
    }

    /// Goes by other totals from now on.
    pub fn set(&mut self, totals: &Totals) {
        self.rates.set(totals);
        self.due = self.renewed + LEAST_INTERVAL;
    }

    /// A leg was given something to send, perhaps.
    pub fn used(&mut self, id: Id, connection: &mut Connection) {
        if !connection.is_active && connection.sent_to_peer() > connection.counted {
            connection.is_active = true;
            self.active.push(id);
            self.due = self.due.min(self.renewed + LEAST_INTERVAL);
        }
    }

    /// Renews the rates if it is time.
    pub fn renew(&mut self, now: Instant, connections: &mut Table) {
        if self.active.is_empty() || now < self.due {
            return;
        }
        let elapsed = now.saturating_duration_since(self.renewed).max(LEAST_INTERVAL);
        let mut uses = Vec::with_capacity(self.active.len());
        self.active.retain(|id| {
            let Some(connection) = connections.get_mut(*id) else { return false };
            let used = used(connection, elapsed);
            connection.is_active = used.is_some();
            uses.extend(used);
            connection.is_active
        });
        self.rates.share(&uses);
        for id in &self.active {
            if let Some(connection) = connections.get_mut(*id) {
                grant(connection, self.rates.granted(connection.peer_address()));
            }
        }
        self.renewed = now;
        self.due = now + INTERVAL;
    }
}

/// What a leg used; nothing when it has nothing more to send.
fn used(connection: &mut Connection, elapsed: Duration) -> Option<Use> {
    let leg = connection.peer_leg()?;
    let (waiting, unsent) = (leg.unacknowledged(), leg.unsent());
    let sent = connection.sent_to_peer() - connection.counted;
    connection.counted += sent;
    if sent == 0 && waiting == 0 {
        return None;
    }
    let rate = (sent as f64 / elapsed.as_secs_f64()) as u64;
    let (part, whole) = HUNGRY;
    let is_hungry = unsent > 0 || connection.rate.is_some_and(|granted| rate >= granted / whole * part);
    Some(Use { address: connection.peer_address(), demand: if is_hungry { u64::MAX } else { rate } })
}

fn grant(connection: &mut Connection, rate: Option<u64>) {
    let is_worth_it = match (connection.rate, rate) {
        (Some(old), Some(new)) => old.abs_diff(new) > old / WORTH,
        (old, new) => old != new,
    };
    if is_worth_it
        && let Some(leg) = connection.peer_leg()
        && leg.set_rate(rate).is_ok()
    {
        connection.rate = rate;
    }
}
