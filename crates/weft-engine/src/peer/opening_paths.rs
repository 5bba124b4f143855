//! Which pairs of a link here and an address there are open, and which are not.
//!
//! A path that does not answer is *turned* to the next address of its link. It keeps its id, its packet numbers, and what came on it, so
//! that no number is used twice under a key and the peer's reports go on; everything else begins anew. The peer follows the newest datagram.

use super::{Context, Peer};
use crate::PathState;
use crate::event::Event;
use crate::links::{Link, Links};
use crate::path::choice::{self, Candidate, MAX_PATHS, MOST_OWN};
use crate::path::{Ends, Path};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::net::SocketAddr;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, LinkId, PathId};

/// Links come one after another at the start; what they leave untried is said once.
const SAY_AFTER: Duration = Duration::from_secs(2);
/// Links named of those that have no path.
const MOST_NAMED: usize = 4;

/// What became of pairs that are not open.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// How often a link tried an address in vain since it last answered.
    failed: Vec<(LinkId, SocketAddr, u32)>,
    /// Pairs that are not open, called at so far.
    called: usize,
    /// Since when the links or addresses are what they are, until it is said what is not tried.
    changed_at: Option<Instant>,
    said: AddressPairs,
}

impl Attempts {
    fn of(&self, link: LinkId, remote: &SocketAddr) -> u32 {
        let failed = self.failed.iter().find(|(by, to, _)| *by == link && to == remote);
        failed.map_or(0, |(_, _, times)| *times)
    }

    fn count(&mut self, link: LinkId, remote: SocketAddr) {
        match self.failed.iter_mut().find(|(by, to, _)| *by == link && *to == remote) {
            Some((_, _, times)) => *times = times.saturating_add(1),
            None => self.failed.push((link, remote, 1)),
        }
    }

    /// The link has gone: what did not answer may answer when it is back.
    pub(super) fn forget_link(&mut self, now: Instant, link: LinkId) {
        self.failed.retain(|(by, _, _)| *by != link);
        self.changed_at = Some(now);
    }
}

/// Counts the pairs of a local link and an address of the peer, and the pairs that no path tries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressPairs {
    /// All that have the same address family.
    pub all: usize,
    /// Those that are not open and were not tried before.
    pub not_tried: usize,
    /// Addresses each link tries at a time.
    pub at_once: usize,
    /// Links that have no path to the peer, because as many are open as may be.
    pub links_without_path: Vec<String>,
    /// Datagrams dropped because the peer sent them on more paths than it may open.
    pub refused_datagrams: u64,
}

impl AddressPairs {
    /// Whether there is nothing to tell.
    pub fn is_complete(&self) -> bool {
        self.not_tried == 0 && self.links_without_path.is_empty() && self.refused_datagrams == 0
    }
}

impl fmt::Display for AddressPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AddressPairs { all, not_tried, at_once, links_without_path, refused_datagrams } = self;
        let each = if *at_once == 1 { "address" } else { "addresses" };
        write!(f, "{not_tried} of {all} address pairs not tried: each link tries {at_once} {each} at a time")?;
        if !links_without_path.is_empty() {
            write!(
                f,
                "; no path by {}",
                links_without_path.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ")
            )?;
            let more = links_without_path.len().saturating_sub(MOST_NAMED);
            if more > 0 {
                write!(f, " and {more} more")?;
            }
            write!(f, ": at most {MOST_OWN} paths are opened to a peer")?;
        }
        if *refused_datagrams > 0 {
            write!(f, "; {refused_datagrams} datagrams dropped: the peer may open {MOST_OWN} paths")?;
        }
        Ok(())
    }
}

impl Peer {
    /// Whether the peer may open a path of this id: ids of this node's parity are not its own, and half of all paths are this node's.
    pub(super) fn may_open(&self, id: PathId) -> bool {
        let theirs = self.paths.iter().filter(|path| !path.ours).count();
        u16::from(id.0) % 2 != self.next_path % 2 && theirs < MAX_PATHS - MOST_OWN
    }

    /// Opens the pairs that a link has a share for, those that were open before first.
    pub(crate) fn open_pairs(&mut self, cx: &mut Context<'_>, link: &Link) {
        self.attempts.changed_at = Some(cx.now);
        if !link.send {
            return;
        }
        let wanted: Vec<SocketAddr> = self.endpoints().copied().collect();
        self.attempts.failed.retain(|(_, remote, _)| wanted.contains(remote));
        let is_on = |p: &&mut Path| p.ours && p.link_name == link.name && link.reaches(&p.remote);
        for path in self.paths.iter_mut().filter(is_on).filter(|p| wanted.contains(&p.remote)) {
            path.link = link.id;
            path.link_up = !planted::is(Fault::LinkStaysDown);
            path.barred = false;
            path.health.on_link_up(cx.now);
        }
        let share = self.share(cx.links);
        while self.open_on(link) < share {
            let Some(remote) = self.next_address(cx.links, link) else { return };
            if !self.open_path(cx, link, remote) {
                return;
            }
        }
    }

    /// Paths that each link may open.
    fn share(&self, links: &Links) -> usize {
        let routes = self.routes.len() + self.detours.len();
        let room = MOST_OWN - routes.min(MOST_OWN / 2);
        choice::at_once(self.links_toward(links).count(), self.config.endpoints.len(), room)
    }

    /// The links that can carry datagrams to one of the peer's addresses.
    fn links_toward<'a>(&self, links: &'a Links) -> impl Iterator<Item = &'a Link> {
        let endpoints = &self.config.endpoints;
        links.iter().filter(|link| link.send && endpoints.iter().any(|remote| link.reaches(remote)))
    }

    /// Paths that are open on a link from here. Routes over one relay have one name, and lead to an address each.
    fn open_on(&self, link: &Link) -> usize {
        let is_on = |path: &&Path| path.link_name == link.name && link.reaches(&path.remote);
        self.paths.iter().filter(|path| path.ours && !path.barred).filter(is_on).count()
    }

    /// The addresses that a link could try and does not.
    fn candidates(&self, links: &Links, link: &Link) -> impl Iterator<Item = Candidate> {
        let place = links.place_of(link);
        let ordinal = self.links_toward(links).filter(|other| links.place_of(other) < place).count();
        let reached = self.endpoints().filter(|remote| link.reaches(remote)).count();
        let open = |path: &&Path| path.ours && !path.barred;
        let candidate = move |(position, remote): (usize, &SocketAddr)| {
            let mut to_it = self.paths.iter().filter(open).filter(|path| path.remote == *remote);
            let elsewhere = to_it.clone().filter(|path| path.link_name != link.name).count();
            let is_open = to_it.any(|path| path.link_name == link.name);
            (!is_open).then(|| Candidate {
                remote: *remote,
                attempts: self.attempts.of(link.id, remote),
                is_near: link.is_near(remote),
                elsewhere,
                distance: choice::distance(ordinal, position, reached),
            })
        };
        self.endpoints().filter(|remote| link.reaches(remote)).enumerate().filter_map(candidate)
    }

    /// The address that a link tries next.
    fn next_address(&self, links: &Links, link: &Link) -> Option<SocketAddr> {
        self.candidates(links, link).min_by_key(Candidate::rank).map(|candidate| candidate.remote)
    }

    /// Opens a path, under the next id of this side's parity or instead of a path that is of less use. False where there is neither.
    fn open_path(&mut self, cx: &mut Context<'_>, link: &Link, remote: SocketAddr) -> bool {
        let ends = self.ends(link, remote);
        if self.paths.iter().filter(|path| path.ours).count() < MOST_OWN
            && let Ok(id) = u8::try_from(self.next_path)
        {
            self.next_path += if planted::is(Fault::PathIdTwice) { 0 } else { 2 };
            self.paths.push(Path::new(cx.now, PathId(id), ends, true));
            return true;
        }
        let Some(index) = self.least_useful(cx.links, link) else { return false };
        self.turn_path(cx, index, ends);
        true
    }

    fn ends(&self, link: &Link, remote: SocketAddr) -> Ends {
        Ends {
            link: link.id,
            link_name: link.name.clone(),
            link_mtu: link.mtu,
            remote,
            local: None,
            cap: link.cap,
            barred: false,
            standby: self.detours.contains(&remote),
        }
    }

    /// The path that `link` may take over: one that is not wanted, or whose link is gone, or one in reserve on a link that has more than its
    /// share. There the one that is least likely to be missed.
    fn least_useful(&self, links: &Links, link: &Link) -> Option<usize> {
        let share = self.share(links);
        let open_on = |name: &str| self.paths.iter().filter(|p| p.ours && !p.barred && p.link_name == name).count();
        let class = |path: &Path| match path.state() {
            _ if path.barred => Some((0, 0)),
            _ if !path.link_up => Some((1, 0)),
            _ if path.active || path.link_name == link.name => None,
            state => {
                let beyond = open_on(&path.link_name).saturating_sub(share);
                let class = if state == PathState::Opening { 2 } else { 3 };
                (beyond > 0).then_some((class, usize::MAX - beyond))
            }
        };
        let own = self.paths.iter().enumerate().filter(|(_, path)| path.ours);
        let ranked = own.filter_map(|(index, path)| Some((class(path)?, Reverse(index))));
        ranked.min().map(|(_, Reverse(index))| index)
    }

    /// Turns a path to other ends. What it has queued or in flight goes elsewhere.
    fn turn_path(&mut self, cx: &mut Context<'_>, index: usize, ends: Ends) {
        self.close_books(cx, index);
        let Some(path) = self.paths.get_mut(index) else { return };
        let before = core::mem::replace(path, Path::new(cx.now, path.id, ends, true));
        path.book = before.book;
        path.log = before.log;
        path.newest = before.newest;
        path.newest_policy = before.newest_policy;
        path.pending.policy = true;
    }

    /// A probe is due on a path that has not answered for long: its link tries the next address instead, if there is one. The path by which a
    /// link last carried data is kept, unless it is the link's only one.
    pub(super) fn try_next_address(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &self.paths[index];
        let is_silent = matches!(path.state(), PathState::Opening | PathState::Down);
        let probe_at = self.probe_at(path, cx.now);
        if !is_silent || !path.ours || !path.link_up || path.barred || probe_at > cx.now {
            return;
        }
        let has_answered = path.state() == PathState::Down && path.rtt().is_known();
        let Some(link) = cx.links.get(path.link) else { return };
        if path.health.unanswered() < choice::patience(has_answered, self.attempts.of(link.id, &path.remote))
            || (has_answered && path.active && self.open_on(link) > 1)
        {
            return;
        }
        let Some(next) = self.next_address(cx.links, link) else { return };
        let (ends, before) = (self.ends(link, next), path.remote);
        self.attempts.count(link.id, before);
        self.turn_path(cx, index, ends);
    }

    /// A path answers: its pair is as good as one never tried.
    pub(super) fn forget_attempts(&mut self, index: usize) {
        let Some(path) = self.paths.get(index) else { return };
        let (link, remote) = (path.link, path.remote);
        self.attempts.failed.retain(|(by, to, _)| (*by, *to) != (link, remote));
    }

    /// Pairs that are not open and to be called at, `most` of them, beginning where the last call ended.
    pub(crate) fn pairs_to_call(&mut self, links: &Links, most: usize) -> Vec<(LinkId, SocketAddr)> {
        let of = |link| self.candidates(links, link).map(|candidate| (candidate.rank(), link.id, candidate.remote));
        let mut pairs: Vec<_> = self.links_toward(links).flat_map(of).collect();
        pairs.sort_unstable();
        let begin = if pairs.is_empty() { 0 } else { self.attempts.called % pairs.len() };
        self.attempts.called = self.attempts.called.wrapping_add(most.min(pairs.len()));
        let from_there = pairs.iter().cycle().skip(begin).take(most.min(pairs.len()));
        from_there.map(|(_, link, remote)| (*link, *remote)).collect()
    }

    /// The peer has answered a call by this pair: a path is open there, if need be instead of another of the link.
    pub(crate) fn open_answered(&mut self, cx: &mut Context<'_>, link: LinkId, remote: SocketAddr) {
        let Some(link) = cx.links.get(link) else { return };
        let is_known = |peer: &Peer| peer.candidates(cx.links, link).any(|candidate| candidate.remote == remote);
        // Without any path, the address that answered is the only one there is.
        if !link.send || !self.paths.is_empty() && !is_known(self) {
            return;
        }
        let is_unproven = |p: &Path| {
            p.ours && !p.barred && p.link_name == link.name && (p.state() == PathState::Opening || !p.rtt().is_known())
        };
        match self.paths.iter().rposition(is_unproven) {
            Some(index) => {
                let ends = self.ends(link, remote);
                self.turn_path(cx, index, ends);
            }
            None => drop(self.open_path(cx, link, remote)),
        }
    }

    /// What of the peer's addresses is tried by which links.
    pub(crate) fn address_pairs(&self, links: &Links) -> AddressPairs {
        let reached = |link: &Link| self.config.endpoints.iter().filter(|remote| link.reaches(remote)).count();
        let untried = |link| self.candidates(links, link).filter(|candidate| candidate.attempts == 0).count();
        let without_path = self.links_toward(links).filter(|link| self.open_on(link) == 0);
        AddressPairs {
            all: self.links_toward(links).map(reached).sum(),
            not_tried: self.links_toward(links).map(untried).sum(),
            at_once: self.share(links),
            links_without_path: without_path.map(|link| link.name.clone()).collect(),
            refused_datagrams: self.totals.refused_datagrams,
        }
    }

    /// Says what is not tried, when the links and addresses have been the same for a while and it is news.
    pub(super) fn say_untried(&mut self, cx: &mut Context<'_>) {
        if self.attempts.changed_at.is_none_or(|at| cx.now - at < SAY_AFTER) {
            return;
        }
        self.attempts.changed_at = None;
        let pairs = self.address_pairs(cx.links);
        if pairs != self.attempts.said && !pairs.is_complete() {
            cx.events.push_back(Event::NotTried { peer: self.id, pairs: pairs.clone() });
        }
        self.attempts.said = pairs;
    }
}
