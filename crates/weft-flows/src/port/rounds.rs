//! Deficit round robin over users (Shreedhar and Varghese 1995), with delay priorities within a round.
//!
//! A lane is one user's flows of one delay priority. Lanes with packets wait in one of two sets: those whose user may
//! still send in this round, and those that wait for the next round. Within a set, higher delay priorities come first,
//! then lanes with a sparse flow. All lanes of a user draw on one deficit, so a priority moves a user's packets
//! forward within its share and never enlarges the share. Every operation takes constant time.

use super::list::{IndexList, ListLinks, Listed, NIL};
use super::packets::PacketFifo;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use weft_units::Instant;

/// Number of delay priorities. Standard: TIA-1039 signals four bits.
const PRIORITIES: usize = 16;
/// Number of levels: two for each delay priority, for lanes without and with a sparse flow.
const LEVELS: usize = PRIORITIES * 2;
/// Largest weight of a user.
///
/// Derived: with a quantum of 1,514 bytes, a user of this weight holds a link of 100 Mbit/s for 31 ms per round.
const MAX_WEIGHT: u32 = 256;

/// A user: its share of a round, and its lanes. Each lane has the user's flows of one delay priority.
#[derive(Clone, Debug)]
pub(super) struct PortUser {
    /// Number by which the caller knows the user, or `None` for the anonymous user.
    number: Option<u32>,
    weight: u32,
    deficit: i64,
    /// Round in which the user last received its quantum.
    round: u64,
    /// Number of flows in the port that belong to the user.
    flows: u32,
    /// First of the user's lanes, which are linked through [`PriorityLane::next_of_user`].
    first_lane: u32,
    /// Bytes of the user's waiting packets that no guarantee covers.
    pub(super) exposed_bytes: u64,
    /// Number of the user's flows with waiting packets that no guarantee covers.
    pub(super) exposed_flows: u32,
    /// Time when the user last received a quantum while no round ended.
    pub(super) renewed_at: Instant,
}

impl PortUser {
    /// Returns the waiting bytes that no guarantee covers, divided by the user's weight.
    pub(super) fn relative_backlog(&self) -> u64 {
        self.exposed_bytes / u64::from(self.weight)
    }

    /// Adds a flow with its waiting packets.
    pub(super) fn add_exposed(&mut self, fifo: &PacketFifo) {
        self.exposed_bytes += fifo.exposed_bytes;
        self.exposed_flows += u32::from(fifo.exposed > 0);
    }

    /// Removes a flow with its waiting packets.
    pub(super) fn remove_exposed(&mut self, fifo: &PacketFifo) {
        self.exposed_bytes -= fifo.exposed_bytes;
        self.exposed_flows -= u32::from(fifo.exposed > 0);
    }
}

/// The flows of one user with one delay priority.
#[derive(Clone, Debug)]
pub(super) struct PriorityLane {
    pub(super) user: u32,
    priority: u8,
    pub(super) new: IndexList,
    pub(super) old: IndexList,
    next_of_user: u32,
    links: ListLinks,
    /// Set (this round or the next one) and level that hold this lane, if it has flows in its lists.
    place: Option<(u8, u8)>,
}

impl Listed for PriorityLane {
    fn links(&mut self) -> &mut ListLinks {
        &mut self.links
    }
}

/// Lanes with packets, by level. A lane has one user's flows of one delay priority.
#[derive(Clone, Debug)]
struct WaitingLanes {
    levels: [IndexList; LEVELS],
    /// Bit `n` is set if `levels[n]` is not empty.
    occupied: u32,
}

/// Users, their lanes (flows of one user and delay priority), and the round in progress.
#[derive(Debug)]
pub(super) struct ServiceRounds {
    users: Vec<PortUser>,
    numbers: BTreeMap<u32, u32>,
    free_users: Vec<u32>,
    pub(super) lanes: Vec<PriorityLane>,
    free_lanes: Vec<u32>,
    sets: [WaitingLanes; 2],
    current: u8,
    round: u64,
    quantum: i64,
}

impl ServiceRounds {
    /// Returns rounds in which a user of weight one may send `quantum` bytes.
    ///
    /// User 0 is the anonymous user, and lane 0 has its flows.
    pub(super) fn new(quantum: u32) -> ServiceRounds {
        let none = WaitingLanes { levels: [IndexList::EMPTY; LEVELS], occupied: 0 };
        let mut rounds = ServiceRounds {
            users: Vec::new(),
            numbers: BTreeMap::new(),
            free_users: Vec::new(),
            lanes: Vec::new(),
            free_lanes: Vec::new(),
            sets: [none.clone(), none],
            current: 0,
            round: 1,
            quantum: i64::from(quantum),
        };
        let anonymous = rounds.add_user(None);
        rounds.lane(anonymous, 0);
        rounds
    }

    pub(super) fn set_quantum(&mut self, quantum: u32) {
        self.quantum = i64::from(quantum);
    }

    pub(super) fn user_mut(&mut self, user: u32) -> &mut PortUser {
        &mut self.users[user as usize]
    }

    /// Returns the index of the user with the most waiting bytes, relative to its weight, that no guarantee covers.
    pub(super) fn fattest_user(&self) -> Option<u32> {
        let holding = self.users.iter().enumerate().filter(|(_, user)| user.exposed_bytes > 0);
        holding.max_by_key(|(_, user)| user.relative_backlog()).map(|(at, _)| at as u32)
    }

    /// Number of entries for users, including the unused ones.
    pub(super) fn user_places(&self) -> usize {
        self.users.len()
    }

    /// Returns the first lane of a user, or [`NIL`]. A lane has the user's flows of one delay priority.
    pub(super) fn first_lane(&self, user: u32) -> u32 {
        self.users[user as usize].first_lane
    }

    /// Returns the lane (flows of one delay priority) after `lane` of the same user, or [`NIL`].
    pub(super) fn next_lane(&self, lane: u32) -> u32 {
        self.lanes[lane as usize].next_of_user
    }

    /// Counts one more flow of the user with this number, and returns the user's index.
    pub(super) fn join(&mut self, number: Option<u32>, weight: u32) -> u32 {
        let place = match number {
            None => 0,
            Some(number) => match self.numbers.get(&number) {
                Some(place) => *place,
                None => self.add_user(Some(number)),
            },
        };
        let user = &mut self.users[place as usize];
        user.flows += 1;
        if number.is_some() {
            user.weight = weight.clamp(1, MAX_WEIGHT);
        }
        place
    }

    /// Counts one flow of a user less. A user without flows is forgotten.
    ///
    /// The flow must have left its lane, and the user's waiting bytes must not contain its packets.
    pub(super) fn leave(&mut self, place: u32) {
        let user = &mut self.users[place as usize];
        user.flows = user.flows.saturating_sub(1);
        let Some(number) = user.number.filter(|_| user.flows == 0) else { return };
        let mut lane = user.first_lane;
        while lane != NIL {
            let next = self.next_lane(lane);
            self.withdraw(lane);
            self.free_lanes.push(lane);
            lane = next;
        }
        self.numbers.remove(&number);
        self.free_users.push(place);
    }

    /// Returns the lane of a user's flows with this delay priority.
    pub(super) fn lane(&mut self, user: u32, priority: u8) -> u32 {
        let priority = priority.min(PRIORITIES as u8 - 1);
        let first = self.users[user as usize].first_lane;
        let mut lane = first;
        while lane != NIL {
            if self.lanes[lane as usize].priority == priority {
                return lane;
            }
            lane = self.next_lane(lane);
        }
        let (new, old, links) = (IndexList::EMPTY, IndexList::EMPTY, ListLinks::NONE);
        let fresh = PriorityLane { user, priority, new, old, next_of_user: first, links, place: None };
        let lane = put_in_free(&mut self.lanes, &mut self.free_lanes, fresh);
        self.users[user as usize].first_lane = lane;
        lane
    }

    fn add_user(&mut self, number: Option<u32>) -> u32 {
        let user = PortUser {
            number,
            weight: 1,
            deficit: 0,
            round: 0,
            flows: 0,
            first_lane: NIL,
            exposed_bytes: 0,
            exposed_flows: 0,
            renewed_at: Instant::ZERO,
        };
        let place = put_in_free(&mut self.users, &mut self.free_users, user);
        if let Some(number) = number {
            self.numbers.insert(number, place);
        }
        place
    }

    /// Records that a lane has a flow in its lists, so that the lane is served.
    ///
    /// A lane has one user's flows of one delay priority. `is_sparse` is true if the flow is sparse.
    pub(super) fn admit(&mut self, lane: u32, is_sparse: bool) {
        let PriorityLane { user, priority, place, .. } = self.lanes[lane as usize];
        let level = priority * 2 + u8::from(is_sparse);
        let set = match place {
            Some((_, at)) if at >= level => return,
            Some((set, _)) => set,
            None if self.has_deficit(user) => self.current,
            None => 1 - self.current,
        };
        self.withdraw(lane);
        self.insert(lane, set, level);
    }

    /// Returns the lane (flows of one user and delay priority) that is served next, or `None` if nothing waits.
    ///
    /// It starts the next round if this one has ended.
    pub(super) fn next(&mut self) -> Option<u32> {
        loop {
            let current = &self.sets[usize::from(self.current)];
            if current.occupied == 0 {
                if self.sets[usize::from(1 - self.current)].occupied == 0 {
                    return None;
                }
                self.current = 1 - self.current;
                self.round += 1;
                continue;
            }
            let level = 31 - current.occupied.leading_zeros();
            let lane = current.levels[level as usize].first();
            let PriorityLane { user, new, .. } = self.lanes[lane as usize];
            if !self.has_deficit(user) {
                self.postpone(lane);
            } else if level % 2 == 1 && new.is_empty() {
                self.withdraw(lane);
                self.insert(lane, self.current, level as u8 - 1);
            } else {
                return Some(lane);
            }
        }
    }

    /// Moves a lane (flows of one user and delay priority) to the next round.
    pub(super) fn postpone(&mut self, lane: u32) {
        self.withdraw(lane);
        let PriorityLane { priority, new, .. } = self.lanes[lane as usize];
        self.insert(lane, 1 - self.current, priority * 2 + u8::from(!new.is_empty()));
    }

    /// Removes a lane (flows of one user and delay priority) from this round or the next one.
    pub(super) fn withdraw(&mut self, lane: u32) {
        let Some((set, level)) = self.lanes[lane as usize].place.take() else { return };
        let WaitingLanes { levels, occupied } = &mut self.sets[usize::from(set)];
        levels[usize::from(level)].remove(&mut self.lanes, lane);
        if levels[usize::from(level)].is_empty() {
            *occupied &= !(1 << level);
        }
    }

    /// Charges a user for a packet that was served from its share.
    pub(super) fn charge(&mut self, user: u32, bytes: u32) {
        self.users[user as usize].deficit -= i64::from(bytes);
    }

    /// Gives the user of a lane (flows of one delay priority) a quantum, so that the lane is served in this round.
    ///
    /// The caller limits how often it does so.
    pub(super) fn renew(&mut self, now: Instant, lane: u32) {
        let PriorityLane { user, priority, .. } = self.lanes[lane as usize];
        let user = &mut self.users[user as usize];
        (user.deficit, user.round, user.renewed_at) = (user.deficit.max(self.quantum), self.round, now);
        self.withdraw(lane);
        self.insert(lane, self.current, priority * 2 + 1);
    }

    /// Returns true if a user may still send in this round.
    ///
    /// It first adds the quanta of the rounds that began since the user last received one. The user's deficit stays at
    /// most one quantum, times the user's weight.
    fn has_deficit(&mut self, user: u32) -> bool {
        let user = &mut self.users[user as usize];
        let share = self.quantum * i64::from(user.weight);
        if user.round != self.round {
            let missed = i64::try_from(self.round - user.round).unwrap_or(i64::MAX);
            user.deficit = user.deficit.saturating_add(share.saturating_mul(missed)).min(share);
            user.round = self.round;
        }
        user.deficit > 0
    }

    fn insert(&mut self, lane: u32, set: u8, level: u8) {
        self.lanes[lane as usize].place = Some((set, level));
        let WaitingLanes { levels, occupied } = &mut self.sets[usize::from(set)];
        levels[usize::from(level)].push(&mut self.lanes, lane);
        *occupied |= 1 << level;
    }
}

/// Puts `value` into a free entry, or appends it. Returns its index.
fn put_in_free<N>(places: &mut Vec<N>, free: &mut Vec<u32>, value: N) -> u32 {
    match free.pop() {
        Some(at) => {
            places[at as usize] = value;
            at
        }
        None => {
            places.push(value);
            places.len() as u32 - 1
        }
    }
}
