//! Limits how many connections are served at once, and shares these seats between clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections served at once. Tuned: a browser opens six connections, so ten browsers fit.
const SEATS: usize = 64;
/// Maximum number of connections of one client served at once.
///
/// Derived: a quarter of [`SEATS`], so that one client leaves seats for others.
const SEATS_OF_ONE: usize = SEATS / 4;
/// Maximum number of open connections, served or waiting. Derived: half of the usual limit of 1,024 descriptors.
const MAX_OPEN: usize = 512;
/// Maximum number of open connections of one client. Derived: a quarter of [`MAX_OPEN`].
const MAX_OPEN_OF_ONE: usize = MAX_OPEN / 4;

/// A client: an IPv4 address, an IPv6 /48, or this machine.
///
/// One subscriber may have a whole /48. Clients on this machine count as one, because a proxy or the tabs of a browser
/// share its address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Client(Option<IpAddr>);

impl Client {
    /// Returns the client to which an address belongs. `None` is a client on this machine.
    fn at(address: Option<IpAddr>) -> Client {
        let address = address.map(|address| address.to_canonical()).filter(|address| !address.is_loopback());
        Client(address.map(|address| match address {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 80 << 80).into()),
            IpAddr::V4(_) => address,
        }))
    }

    /// Returns two limits for this client: its connections that are served at once, and its open connections.
    fn limits(self) -> (usize, usize) {
        if self.0.is_some() { (SEATS_OF_ONE, MAX_OPEN_OF_ONE) } else { (SEATS, MAX_OPEN) }
    }
}

/// Shares the right to be served, one seat for each connection, between all clients.
pub struct Seats {
    all: Arc<Semaphore>,
    /// The seats of each client that has an open connection. Each open connection holds one reference to them.
    of_clients: HashMap<Client, Arc<Semaphore>>,
}

impl Seats {
    /// Creates the seats, all of them free.
    pub fn new() -> Seats {
        Seats { all: Arc::new(Semaphore::new(SEATS)), of_clients: HashMap::new() }
    }

    /// Admits a connection from an address, or from this machine. Returns `None` if its client has too many, or if all
    /// clients together have.
    pub fn admit(&mut self, address: Option<IpAddr>) -> Option<Waiting> {
        self.of_clients.retain(|_, seats| open(seats) > 0);
        let all: usize = self.of_clients.values().map(open).sum();
        let client = Client::at(address);
        let (most_seats, most_open) = client.limits();
        let own = self.of_clients.entry(client).or_insert_with(|| Arc::new(Semaphore::new(most_seats)));
        let has_room = all < MAX_OPEN && open(own) < most_open;
        has_room.then(|| Waiting { own: Arc::clone(own), all: Arc::clone(&self.all) })
    }
}

/// Returns the number of open connections of the client to which these seats belong.
fn open(seats: &Arc<Semaphore>) -> usize {
    Arc::strong_count(seats) - 1
}

/// A connection that has been admitted and that waits for its seat.
pub struct Waiting {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl Waiting {
    /// Waits for a seat. Returns the permits that stand for it: the client's own, and that of all clients.
    ///
    /// Dropping the permits makes the seat free again. Connections of one client get seats in the order of their
    /// arrival.
    pub async fn seat(self) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = self.own.acquire_owned().await.ok()?;
        Some([own, self.all.acquire_owned().await.ok()?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Duration;
    use tokio::time::timeout;
    use weft_units::Rng;

    /// Returns a random address that belongs to the client with this number. `None` is this machine.
    fn address(rng: &mut Rng, client: u64) -> Option<IpAddr> {
        let number = 1 + client as u32 % (1 << 24);
        match client % 3 {
            0 => Some(Ipv4Addr::from_bits(number).into()),
            1 => Some(Ipv4Addr::from_bits(number).to_ipv6_mapped().into()),
            _ => Some(Ipv6Addr::from_bits(u128::from(number) << 80 | u128::from(rng.next_u64())).into()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_open_all_they_can_leave_seats_for_another() {
        let mut rng = Rng::new(1);
        for _ in 0..50 {
            let (mut seats, greedy) = (Seats::new(), 1 + rng.below(3));
            let mut taken = Vec::new();
            for _ in 0..rng.below(3_000) {
                let client = rng.below(greedy);
                if let Some(waiting) = seats.admit(address(&mut rng, client)) {
                    taken.push(tokio::spawn(async move {
                        let _seat = waiting.seat().await;
                        std::future::pending::<()>().await;
                    }));
                }
            }
            let mut held = Vec::new();
            for _ in 0..6 {
                let waiting = seats.admit(None).expect("there is room");
                held.push(timeout(Duration::from_secs(1), waiting.seat()).await.expect("a seat is free"));
            }
            taken.into_iter().for_each(|task| task.abort());
        }
    }

    #[tokio::test]
    async fn a_burst_of_one_client_is_served_in_turn_and_leaves_nothing() {
        let mut rng = Rng::new(2);
        let mut seats = Seats::new();
        for _ in 0..20 {
            let client = rng.next_u64();
            let burst = (0..100).map(|_| seats.admit(address(&mut rng, client)).expect("there is room"));
            let served: Vec<_> = burst.map(|waiting| tokio::spawn(async { drop(waiting.seat().await) })).collect();
            for task in served {
                task.await.expect("it was served");
            }
        }
        let _last = seats.admit(None);
        assert_eq!((seats.of_clients.len(), seats.all.available_permits()), (1, SEATS));
    }
}
