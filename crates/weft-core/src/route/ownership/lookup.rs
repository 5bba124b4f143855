//! Lookup of an address's owner.
//!
//! An address lies in several regions, which are prefixes of different lengths. The lookup asks the holders of the
//! longest region first. The longest region with an owner decides. If the first query has no sure answer, a second
//! query about the region follows, and with it the first query about the next shorter region. The holders of a short
//! prefix, to which many addresses belong, are thus seldom asked about addresses in a longer region that has an
//! owner.
//!
//! A holder may be silent, new, or lying. A query without an answer is repeated near the key, where other holders
//! are, or at a holder that another node named. The lookup accepts that an address has no owner only from two
//! holders. It accepts an owner only by its certificate.

use super::cache::OwnerCache;
use super::region::{LEVELS, Region};
use super::{AddressOwner, DIRECTORY, DirectoryContext, Found, beside, question, verified};
use crate::route::calls::{Calls, Patience};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_units::{Duration, Instant, NodeId};
use weft_wire::overlay::Contacts;
use weft_wire::ownership::{OwnershipQuestion, Reply};

/// Maximum number of queries about one region: the first at its key, the others on both sides of the key.
const ATTEMPTS: usize = 8;
/// Time without an answer after which a query is repeated at another place on the ring, in ms. Indexed by attempt.
const ASK_ELSEWHERE_MS: [u64; ATTEMPTS] = [300, 300, 400, 400, 500, 500, 1_000, 2_000];
/// Time-out of one query, which is sent once. It is long, so that late answers are used too.
const PATIENCE: Patience = Patience { first: Duration::from_secs(4), tries: 1 };
/// Maximum number of lookups in progress at a time.
pub const MOST: usize = 64;

/// State of a lookup in one of the regions that contain the address.
#[derive(Clone, Debug)]
enum LookupProgress {
    Asking {
        attempts: usize,
        /// Holders that stated that the address has no owner in this region, once per answer.
        denied_by: Vec<NodeId>,
        /// Nodes that named holders instead of answering, and those named holders that were chosen to be asked.
        passed: Vec<NodeId>,
        /// Holder that another node named, and that the next query goes to.
        named: Option<NodeId>,
        /// Time at which the query is repeated elsewhere. It is far in the future before the first query.
        due: Instant,
    },
    Decided(Option<AddressOwner>),
    /// All attempts are used up, and too few holders answered for a result.
    Unknown,
}

/// Lookup of the owner of one address.
#[derive(Clone, Debug)]
struct AddressLookup {
    regions: [(NodeId, LookupProgress); LEVELS],
    /// Number of the attempt with which the lookup starts, counted from 0. It selects the first query's place.
    ///
    /// It is not the first attempt if the owner was not reached at the contact details of an earlier answer.
    first: usize,
}

/// All lookups in progress, and the results of finished ones that have not been fetched.
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    open: BTreeMap<IpAddr, AddressLookup>,
    asked: BTreeMap<u32, (IpAddr, usize)>,
    found: VecDeque<(IpAddr, Found)>,
}

impl Lookups {
    /// Starts the lookup of an address unless it is in progress.
    ///
    /// `failures` is how often the address's owner was recently not reached. Returns false if too many are in progress.
    pub fn begin(&mut self, at: &DirectoryContext<'_>, calls: &mut Calls, address: IpAddr, failures: usize) -> bool {
        if self.open.contains_key(&address) {
            return true;
        }
        if self.open.len() >= MOST {
            return false;
        }
        let asking = || LookupProgress::Asking {
            attempts: 0,
            denied_by: Vec::new(),
            passed: Vec::new(),
            named: None,
            due: Instant::FAR_FUTURE,
        };
        let regions = Region::around(address).map(|region| (region.key(at.authority), asking()));
        self.open.insert(address, AddressLookup { regions, first: failures });
        self.ask(at, calls, address, 0);
        true
    }

    /// True if the call with this number is an unanswered query of a lookup.
    pub fn has_asked(&self, number: u32) -> bool {
        self.asked.contains_key(&number)
    }

    /// Processes the answer of node `by` to the query with this call number.
    ///
    /// `reply` is `None` if the answer was not understood.
    pub fn on_reply(
        &mut self,
        at: &DirectoryContext<'_>,
        calls: &mut Calls,
        cache: &OwnerCache,
        number: u32,
        by: NodeId,
        reply: Option<Reply<'_>>,
    ) {
        let Some((address, level)) = self.asked.remove(&number) else { return };
        let least = Region::around(address).get(level).map_or(0, |region| region.prefix().1);
        let owner = match reply {
            Some(Reply::Owner(claim)) => match verified(at.authority, claim, address) {
                Some(owner) if owner.prefix.1 >= least => Some(owner),
                Some(_) => None,
                // An answer with a false claim is treated as no answer.
                None => return self.ask_unless_asked(at, calls, address, level),
            },
            Some(Reply::Nobody) => None,
            Some(Reply::Holders(contacts)) => {
                self.redirect(address, level, by, contacts);
                return self.ask_unless_asked(at, calls, address, level);
            }
            None => return self.ask_unless_asked(at, calls, address, level),
        };
        if owner.as_ref().is_some_and(|owner| cache.has_failed(at.now, address, owner.id, &owner.details)) {
            return self.ask_unless_asked(at, calls, address, level);
        }
        let Some((_, progress)) = self.open.get_mut(&address).and_then(|lookup| lookup.regions.get_mut(level)) else {
            return;
        };
        let LookupProgress::Asking { denied_by, .. } = progress else { return };
        if owner.is_none() {
            denied_by.push(by);
            let is_sure = denied_by.iter().any(|other| *other != by) || denied_by.len() == ATTEMPTS;
            if !is_sure {
                return self.ask_unless_asked(at, calls, address, level);
            }
        }
        *progress = LookupProgress::Decided(owner);
        self.conclude(calls, address);
    }

    /// Processes the failure of a lookup's query, which was the call `number`.
    pub fn on_unanswered(&mut self, number: u32) {
        self.asked.remove(&number);
    }

    /// Repeats the queries whose time has come at other places on the ring.
    pub fn handle_timeout(&mut self, at: &DirectoryContext<'_>, calls: &mut Calls) {
        let is_due =
            |progress: &LookupProgress| matches!(progress, LookupProgress::Asking { due, .. } if *due <= at.now);
        let due: Vec<(IpAddr, usize)> = self
            .open
            .iter()
            .flat_map(|(address, lookup)| {
                let levels = lookup.regions.iter().enumerate().filter(|(_, (_, progress))| is_due(progress));
                levels.map(|(level, _)| (*address, level))
            })
            .collect();
        due.into_iter().for_each(|(address, level)| self.ask(at, calls, address, level));
    }

    /// Returns the time at which the next call of [`Lookups::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Instant {
        let progress = self.open.values().flat_map(|lookup| &lookup.regions).map(|(_, progress)| progress);
        let due = progress.filter_map(|progress| match progress {
            LookupProgress::Asking { due, .. } => Some(*due),
            _ => None,
        });
        due.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Removes and returns the next finished lookup: the address and the result.
    pub fn poll(&mut self) -> Option<(IpAddr, Found)> {
        self.found.pop_front()
    }

    /// Processes an answer of a node that is not a holder but names the holders.
    ///
    /// The lookup next asks the named holder nearest to the key. If this holder should have answered already, it asks
    /// the second nearest.
    fn redirect(&mut self, address: IpAddr, level: usize, by: NodeId, contacts: Contacts<'_>) {
        if let Some(lookup) = self.open.get_mut(&address)
            && let Some((key, LookupProgress::Asking { denied_by, passed, named, .. })) = lookup.regions.get_mut(level)
        {
            passed.push(by);
            let mut holders: Vec<NodeId> = contacts.map(|contact| contact.id).collect();
            holders.sort_by_key(|id| (id.distance_to(key), *id));
            let silent = usize::from(denied_by.is_empty());
            let is_new = |id: &&NodeId| !denied_by.contains(id) && !passed.contains(id);
            *named = holders.iter().skip(silent).find(is_new).copied();
            passed.extend(*named);
        }
    }

    fn ask_unless_asked(&mut self, at: &DirectoryContext<'_>, calls: &mut Calls, address: IpAddr, level: usize) {
        if !self.asked.values().any(|of| *of == (address, level)) {
            self.ask(at, calls, address, level);
        }
    }

    /// Sends the next query for a region. If all attempts are used up, the region's result becomes unknown.
    ///
    /// The second query for a region also starts the first one for the next shorter region.
    fn ask(&mut self, at: &DirectoryContext<'_>, calls: &mut Calls, address: IpAddr, level: usize) {
        let Some(lookup) = self.open.get_mut(&address) else { return };
        let first = lookup.first;
        let Some((key, LookupProgress::Asking { attempts, due, named, .. })) = lookup.regions.get_mut(level) else {
            return;
        };
        let (key, attempt) = (*key, *attempts);
        if let Some(wait) = ASK_ELSEWHERE_MS.get(attempt) {
            (*attempts, *due) = (attempt + 1, at.now + Duration::from_millis(*wait));
            let place = named.take().unwrap_or_else(|| beside(at.overlay.leaves(), key, (first + attempt) % ATTEMPTS));
            let body = question(OwnershipQuestion::Owner { key, address });
            if let Ok(number) = calls.call(at.now, at.overlay, place, DIRECTORY, &body, PATIENCE) {
                self.asked.insert(number, (address, level));
            }
        } else if let Some((_, progress)) = lookup.regions.get_mut(level) {
            *progress = LookupProgress::Unknown;
            self.conclude(calls, address);
        }
        if attempt == 1 {
            self.ask(at, calls, address, level + 1);
        }
    }

    /// Ends a lookup once the result is known for each region down to the longest one that has an owner.
    fn conclude(&mut self, calls: &mut Calls, address: IpAddr) {
        let Some(lookup) = self.open.get(&address) else { return };
        let longest = lookup.regions.iter().find(|(_, progress)| !matches!(progress, LookupProgress::Decided(None)));
        let found = match longest {
            None => Found::Nobody,
            Some((_, LookupProgress::Decided(Some(owner)))) => Found::Owner(owner.clone()),
            Some((_, LookupProgress::Unknown)) => Found::NoAnswer,
            Some(_) => return,
        };
        self.open.remove(&address);
        let (ended, asked) = core::mem::take(&mut self.asked).into_iter().partition(|(_, (of, _))| *of == address);
        self.asked = asked;
        let ended: BTreeMap<u32, (IpAddr, usize)> = ended;
        ended.keys().for_each(|number| calls.forget(*number));
        self.found.push_back((address, found));
    }
}
