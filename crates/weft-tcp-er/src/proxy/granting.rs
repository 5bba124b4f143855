//! Sets the rates of a worker's TCP connections to other proxies, and renews the rates of those that are in use.

use super::connection::Connection;
use super::rates::{Use, is_worth_it};
use super::shared::ProxyState;
use super::table::{ConnectionTable, Id};
use std::time::{Duration, Instant};

/// Interval between renewals of the rates.
const INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval between two renewals, if a connection begins to send in between.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);
/// Fraction of its granted rate from which on a connection is assumed to want more.
const HUNGRY: (u64, u64) = (9, 10);

/// The TCP connections of one worker to other proxies, which need rates.
pub struct Granting {
    /// Active connections: those that have sent, or have unacknowledged data, since the last renewal.
    active: Vec<Id>,
    /// Connections that started before their rate was known, and that have no rate yet.
    unlimited: Vec<Id>,
    /// Time at which the rates were last renewed.
    renewed: Instant,
    /// Time at which the rates must be renewed next.
    due: Instant,
}

impl Granting {
    /// Creates a [`Granting`] without connections.
    pub fn new(now: Instant) -> Granting {
        Granting { active: Vec::new(), unlimited: Vec::new(), renewed: now, due: now }
    }

    /// Returns the time at which the rates must be renewed next; `None` while no connection sends.
    pub fn due(&self) -> Option<Instant> {
        (!self.active.is_empty()).then_some(self.due)
    }

    /// Records that a connection may have sent to the peer. If it has, it becomes active.
    pub fn used(&mut self, id: Id, connection: &mut Connection) {
        if !connection.is_active && connection.sent_to_peer() > connection.counted {
            connection.is_active = true;
            self.active.push(id);
            self.due = self.due.min(self.renewed + LEAST_INTERVAL);
        }
    }

    /// Records a connection that started without a rate.
    ///
    /// It gets a rate as soon as one is known, even if it sends nothing.
    pub fn began_unlimited(&mut self, id: Id) {
        self.unlimited.push(id);
    }

    /// Returns the measured demands of all active connections, or `None` if the rates need no renewal yet.
    pub fn uses(&mut self, now: Instant, connections: &mut ConnectionTable) -> Option<Vec<Use>> {
        if self.active.is_empty() || now < self.due {
            return None;
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
        self.renewed = now;
        self.due = now + INTERVAL;
        Some(uses)
    }

    /// Sets the current rates on the sockets of all active connections and of all that have no rate yet.
    pub fn renew(&mut self, shared: &ProxyState, connections: &mut ConnectionTable) {
        self.unlimited.retain(|id| {
            let Some(connection) = connections.get_mut(*id) else { return false };
            grant(connection, shared.granted(connection.peer_address()));
            connection.rate.is_none()
        });
        for id in &self.active {
            if let Some(connection) = connections.get_mut(*id) {
                grant(connection, shared.granted(connection.peer_address()));
            }
        }
    }
}

/// Returns a connection's demand since the last call, or `None` if it sent nothing and all its data is acknowledged.
///
/// `elapsed` is the time since the last call.
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
    if is_worth_it(connection.rate, rate)
        && let Some(leg) = connection.peer_leg()
        && leg.set_rate(rate).is_ok()
    {
        connection.rate = rate;
    }
}
