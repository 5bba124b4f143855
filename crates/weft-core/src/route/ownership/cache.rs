//! Cache of recent lookups: owners found, addresses without owner, and owners that were not reached.

use super::region::{self, Region};
use super::{AddressOwner, Found};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_units::{Duration, Instant, NodeId};
use weft_wire::certificate::WirePrefix;

/// Time for which the cache keeps a found owner.
const OWNER_FOR: Duration = Duration::from_secs(60);
/// Time for which the cache keeps the result that an address has no owner.
const NOBODY_FOR: Duration = Duration::from_secs(5);
/// Time for which the contact details of an owner are not trusted after the owner was not reached at them.
const FAILED_FOR: Duration = Duration::from_secs(10);
/// Maximum number of entries of each kind: owners, addresses without owner, and owners that were not reached.
const MOST: usize = 1_024;

/// Values by prefix, each with the time at which it expires. Their number is limited to [`MOST`].
#[derive(Clone, Debug)]
struct Timed<T>(BTreeMap<WirePrefix, (Instant, T)>);

impl<T> Default for Timed<T> {
    fn default() -> Timed<T> {
        Timed(BTreeMap::new())
    }
}

impl<T> Timed<T> {
    /// Returns the value of the longest prefix that contains an address and has not expired.
    fn get(&self, now: Instant, address: IpAddr) -> Option<&T> {
        let mut known = region::matches(&self.0, address).map(|(_, entry)| entry);
        known.find(|(until, _)| *until > now).map(|(_, value)| value)
    }

    /// Stores a value. If the table is full, the entry that expires first is removed.
    fn put(&mut self, prefix: WirePrefix, until: Instant, value: T) {
        if self.0.len() >= MOST
            && let Some((first, _)) =
                self.0.iter().min_by_key(|(_, (until, _))| *until).map(|(prefix, e)| (*prefix, e.0))
        {
            self.0.remove(&first);
        }
        self.0.insert(prefix, (until, value));
    }
}

/// Contact details (key and addresses) at which an owner was not reached, and how often that happened.
#[derive(Clone, Debug)]
struct FailedContact {
    owner: NodeId,
    details: Box<[u8]>,
    count: usize,
}

/// Cached results of lookups, and contact details at which owners were not reached.
#[derive(Clone, Debug, Default)]
pub struct OwnerCache {
    owners: Timed<AddressOwner>,
    nobody: Timed<()>,
    failures: Timed<FailedContact>,
}

impl OwnerCache {
    /// Returns the cached result of the lookup of an address, or `None` if there is none.
    pub fn get(&self, now: Instant, address: IpAddr) -> Option<Found> {
        let owner = self.owners.get(now, address).map(|owner| Found::Owner(owner.clone()));
        owner.or_else(|| self.nobody.get(now, address).map(|()| Found::Nobody))
    }

    /// Stores the result of the lookup of `address`. A lookup that got no answer is not stored.
    pub fn put(&mut self, now: Instant, address: IpAddr, found: &Found) {
        match found {
            Found::Owner(owner) => self.owners.put(scope(owner.prefix, address), now + OWNER_FOR, owner.clone()),
            Found::Nobody => self.nobody.put((address, region::width(address)), now + NOBODY_FOR, ()),
            Found::NoAnswer => {}
        }
    }

    /// Records that an owner was not reached at the cached contact details, and deletes its cached results.
    pub fn fail(&mut self, now: Instant, owner: NodeId) {
        let known: Vec<(WirePrefix, AddressOwner)> = self
            .owners
            .0
            .iter()
            .filter(|(_, (_, o))| o.id == owner)
            .map(|(scope, (_, o))| (*scope, o.clone()))
            .collect();
        self.forget(owner);
        for (scope, AddressOwner { details, .. }) in known {
            let count = self.failures(now, scope.0) + 1;
            self.failures.put(scope, now + FAILED_FOR, FailedContact { owner, details, count });
        }
    }

    /// Returns how often the owner of an address was not reached in the last 10 s.
    pub fn failures(&self, now: Instant, address: IpAddr) -> usize {
        self.failures.get(now, address).map_or(0, |failure| failure.count)
    }

    /// True if this owner of `address` was not reached at these contact details in the last 10 s.
    pub fn has_failed(&self, now: Instant, address: IpAddr, owner: NodeId, details: &[u8]) -> bool {
        self.failures.get(now, address).is_some_and(|f| f.owner == owner && *f.details == *details)
    }

    /// Deletes the cached results that name this owner.
    pub fn forget(&mut self, owner: NodeId) {
        self.owners.0.retain(|_, (_, known)| known.id != owner);
    }
}

/// Returns the addresses for which a lookup result is valid: those of `prefix`, the owner's prefix.
///
/// If `prefix` is nearly a default route, the result is valid only for `address`, because other owners may have
/// prefixes within it.
fn scope(prefix: WirePrefix, address: IpAddr) -> WirePrefix {
    if Region::of(prefix).prefix().1 == 0 { (address, region::width(address)) } else { prefix }
}
