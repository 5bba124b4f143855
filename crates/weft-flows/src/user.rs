//! Users: the units of fair sharing, with a small number each.
//!
//! A user is a host, a prefix or a certificate. The set is bounded. When it is full, a new user takes the number of a
//! user that is not in use. If a short search finds none, it shares [`UserId::OTHERS`], so forged addresses cost no
//! memory.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use hashbrown::HashTable;
use weft_core::flow::hash::SeededState;
use weft_units::VpnId;

/// Number of users that a search for an unused number looks at. Tuned: it bounds the cost of one packet.
const SEARCH: u32 = 8;

/// Number of a user. It is valid while the user has flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UserId(pub u32);

impl UserId {
    /// Number that all users share that have no number of their own.
    pub const OTHERS: UserId = UserId(0);
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identity of a user: an address, a prefix or a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UserKey {
    /// A host of a VPN. For IPv6 the caller may clear the low 64 bits, which one host can choose at will.
    Host(VpnId, IpAddr),
    /// A configured prefix, by the number that the caller gave it.
    Prefix(u32),
    /// A certificate, by the number that the caller gave it.
    Certificate(u32),
}

#[derive(Clone, Copy, Debug)]
struct UserEntry {
    key: UserKey,
    weight: u16,
}

/// The bounded set of users.
#[derive(Debug)]
pub struct Users {
    state: SeededState,
    index: HashTable<u32>,
    entries: Vec<UserEntry>,
    most: u32,
    hand: u32,
}

impl Users {
    /// Returns an empty set for `most` users, [`UserId::OTHERS`] included.
    pub fn new(most: u32, seed: u64) -> Users {
        let most = most.max(1);
        Users {
            state: SeededState::new(seed),
            // A hash table that is at most half full clears removed entries in place and never allocates.
            index: HashTable::with_capacity(2 * most as usize),
            entries: Vec::with_capacity(most as usize),
            most,
            hand: 0,
        }
    }

    /// Returns the number of a known user, or `None` if the user has no number.
    pub fn find(&self, key: &UserKey) -> Option<UserId> {
        let entries = &self.entries;
        self.index.find(self.state.hash64(key), |at| entries[*at as usize].key == *key).map(|at| UserId(at + 1))
    }

    /// Returns the number of a user. A new user gets a number with this weight.
    ///
    /// `in_use` returns true if a user has flows. A number passes to another user only if it is not in use.
    pub fn intern(&mut self, key: UserKey, weight: u16, in_use: impl Fn(UserId) -> bool) -> UserId {
        if let Some(user) = self.find(&key) {
            return user;
        }
        let entry = UserEntry { key, weight };
        let at = if (self.entries.len() as u32) < self.most - 1 {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            let Some(at) = self.unused(in_use) else { return UserId::OTHERS };
            self.forget(at);
            self.entries[at as usize] = entry;
            at
        };
        let (state, entries) = (&self.state, &self.entries);
        self.index.insert_unique(state.hash64(&key), at, |at| state.hash64(&entries[*at as usize].key));
        UserId(at + 1)
    }

    /// Returns the identity of the user with this number, or `None` for [`UserId::OTHERS`].
    pub fn key(&self, user: UserId) -> Option<UserKey> {
        self.entry(user).map(|entry| entry.key)
    }

    /// Returns the weight of a user. That of [`UserId::OTHERS`] is one.
    pub fn weight(&self, user: UserId) -> u16 {
        self.entry(user).map_or(1, |entry| entry.weight)
    }

    /// Number of users that have a number of their own.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no user has a number of its own.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn entry(&self, user: UserId) -> Option<&UserEntry> {
        self.entries.get(user.0.checked_sub(1)? as usize)
    }

    /// Returns the index of an entry, among the next [`SEARCH`] ones, whose user has no flows, or `None`.
    fn unused(&mut self, in_use: impl Fn(UserId) -> bool) -> Option<u32> {
        let entries = self.entries.len() as u32;
        for _ in 0..SEARCH.min(entries) {
            let at = self.hand;
            self.hand = (self.hand + 1) % entries;
            if !in_use(UserId(at + 1)) {
                return Some(at);
            }
        }
        None
    }

    fn forget(&mut self, at: u32) {
        let hash = self.state.hash64(&self.entries[at as usize].key);
        if let Ok(found) = self.index.find_entry(hash, |other| *other == at) {
            found.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use weft_units::Rng;

    fn draw(rng: &mut Rng) -> UserKey {
        let n = rng.below(30) as u32;
        match rng.below(3) {
            0 => UserKey::Host(VpnId(n % 2), IpAddr::from((n / 2).to_be_bytes())),
            1 => UserKey::Prefix(n),
            _ => UserKey::Certificate(n),
        }
    }

    #[test]
    fn a_number_in_use_never_passes_to_another_user() {
        let mut rng = Rng::new(4);
        let (mut users, mut used) = (Users::new(20, 1), BTreeMap::new());
        let mut others = 0;
        for _ in 0..50_000 {
            let key = draw(&mut rng);
            let user = users.intern(key, 3, |user| used.contains_key(&user));
            if user == UserId::OTHERS {
                others += 1;
                assert!(used.len() >= SEARCH as usize, "there was an unused number nearby");
            } else {
                assert_eq!((users.key(user), users.find(&key), users.weight(user)), (Some(key), Some(user), 3));
                used.insert(user, key);
            }
            assert!(used.iter().all(|(user, key)| users.key(*user) == Some(*key)));
            if rng.chance(0.4)
                && let Some(user) = used.keys().nth(rng.below(used.len() as u64) as usize).copied()
            {
                used.remove(&user);
            }
            assert!(users.len() <= 19);
        }
        assert!(others > 0 && users.key(UserId::OTHERS).is_none());
    }
}
