//! Chooses which pairs of a local link and a remote address have a path.
//!
//! Each link gets an equal share of the paths. A path that does not answer is *turned* to the next address of its
//! link. It keeps its id, its packet numbers, its record of sent packets and its receive log. No number is therefore
//! used twice under a key, and the peer's reports stay valid. All other state of the path starts anew. The peer follows
//! the newest datagram of the path.

use super::{Context, Peer};
use crate::api::{AddressPairs, Event, PathState};
use crate::links::{Link, Links};
use crate::path::choice::{self, Candidate, MAX_PATHS, MOST_OWN};
use crate::path::{Ends, Path};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::net::SocketAddr;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, LinkId, PathId, PathTier};

/// Time since links or addresses last changed before untried pairs are reported.
///
/// At the start, links appear one after another.
const REPORT_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of links without a path that a log message names.
const MOST_NAMED: usize = 4;

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
    /// True if the peer may open a path with this id.
    ///
    /// The id must be even or odd as the peer's ids are. The peer must have opened less than half of [`MAX_PATHS`].
    pub(super) fn may_open(&self, id: PathId) -> bool {
        let theirs = self.paths.iter().filter(|path| !path.ours).count();
        u16::from(id.0) % 2 != self.addresses.next_path % 2 && theirs < MAX_PATHS - MOST_OWN
    }

    /// Opens paths to the peer on a link until the link has its share.
    ///
    /// Paths that were open before on the link are opened again first.
    pub fn open_pairs(&mut self, cx: &mut Context<'_>, link: &Link) {
        self.addresses.attempts.changed_at = Some(cx.now);
        if !link.send {
            return;
        }
        let wanted: Vec<SocketAddr> = self.endpoints().copied().collect();
        self.addresses.attempts.failed.retain(|(_, remote, _)| wanted.contains(remote));
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

    /// Returns the number of paths to the peer that each link may open.
    fn share(&self, links: &Links) -> usize {
        let routes = self.addresses.routes.len() + self.addresses.detours.len();
        let room = MOST_OWN - routes.min(MOST_OWN / 2);
        choice::at_once(self.links_toward(links).count(), self.config.endpoints.len(), room)
    }

    /// Returns the links that can carry datagrams to one of the peer's addresses.
    fn links_toward<'a>(&self, links: &'a Links) -> impl Iterator<Item = &'a Link> {
        let endpoints = &self.config.endpoints;
        links.iter().filter(|link| link.send && endpoints.iter().any(|remote| link.reaches(remote)))
    }

    /// Returns the number of paths to the peer that this node has open on a link.
    ///
    /// Routes over one relay share a link name and differ by address.
    fn open_on(&self, link: &Link) -> usize {
        let is_on = |path: &&Path| path.link_name == link.name && link.reaches(&path.remote);
        self.paths.iter().filter(|path| path.ours && !path.barred).filter(is_on).count()
    }

    /// Returns the addresses of the peer that a link could try and that it has no path to.
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
                attempts: self.addresses.attempts.of(link.id, remote),
                is_near: link.is_near(remote),
                elsewhere,
                distance: choice::distance(ordinal, position, reached),
            })
        };
        self.endpoints().filter(|remote| link.reaches(remote)).enumerate().filter_map(candidate)
    }

    /// Returns the address of the peer that a link tries next, or `None` if the link tries all already.
    fn next_address(&self, links: &Links, link: &Link) -> Option<SocketAddr> {
        self.candidates(links, link).min_by_key(Candidate::rank).map(|candidate| candidate.remote)
    }

    /// Opens a path to `remote` under the next free id, or moves a less useful path to this link and address.
    ///
    /// Returns false if neither is possible.
    fn open_path(&mut self, cx: &mut Context<'_>, link: &Link, remote: SocketAddr) -> bool {
        let ends = self.ends(link, remote);
        if self.paths.iter().filter(|path| path.ours).count() < MOST_OWN
            && let Ok(id) = u8::try_from(self.addresses.next_path)
        {
            self.addresses.next_path += if planted::is(Fault::PathIdTwice) { 0 } else { 2 };
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
            allowed: if self.addresses.detours.contains(&remote) { PathTier::Detour.into() } else { link.allowed },
        }
    }

    /// Returns the index of a path that may be moved to `link`, or `None` if there is none.
    ///
    /// Such a path is unwanted, its link is gone, or it carries no data and its link has more paths than its share.
    /// Among these paths, the least useful one is chosen.
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

    /// Moves a path to another link or address. The path's id and its record of sent packets stay.
    ///
    /// Its queued units and its units in flight move to other paths.
    fn turn_path(&mut self, cx: &mut Context<'_>, index: usize, ends: Ends) {
        self.move_units_away(cx, index);
        let Some(path) = self.paths.get_mut(index) else { return };
        let before = core::mem::replace(path, Path::new(cx.now, path.id, ends, true));
        path.sent_packets = before.sent_packets;
        path.log = before.log;
        path.newest = before.newest;
        path.newest_policy = before.newest_policy;
        path.pending.policy = true;
    }

    /// Moves a path that was silent for long to the peer's next address, on the same link.
    ///
    /// It does so when the next probe of the path is due. A path that has answered, and that its link uses for data,
    /// keeps its address, unless it is the link's only path.
    pub(super) fn try_next_address(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &self.paths[index];
        let is_silent = matches!(path.state(), PathState::Opening | PathState::Down);
        let probe_at = self.probe_at(path, cx.now);
        if !is_silent || !path.ours || !path.link_up || path.barred || probe_at > cx.now {
            return;
        }
        let has_answered = path.state() == PathState::Down && path.rtt().is_known();
        let Some(link) = cx.links.get(path.link) else { return };
        if path.health.unanswered() < choice::patience(has_answered, self.addresses.attempts.of(link.id, &path.remote))
            || (has_answered && path.active && self.open_on(link) > 1)
        {
            return;
        }
        let Some(next) = self.next_address(cx.links, link) else { return };
        let (ends, before) = (self.ends(link, next), path.remote);
        self.addresses.attempts.count(link.id, before);
        self.turn_path(cx, index, ends);
    }

    /// Deletes the count of failed attempts at the link and address of a path, because the path answers.
    pub(super) fn forget_attempts(&mut self, index: usize) {
        let Some(path) = self.paths.get(index) else { return };
        let (link, remote) = (path.link, path.remote);
        self.addresses.attempts.failed.retain(|(by, to, _)| (*by, *to) != (link, remote));
    }

    /// Returns at most `most` pairs of a link and an address that have no path and to which to send an initiation.
    ///
    /// Each call of this function continues after the pairs that the previous call returned.
    pub fn pairs_to_call(&mut self, links: &Links, most: usize) -> Vec<(LinkId, SocketAddr)> {
        let of = |link| self.candidates(links, link).map(|candidate| (candidate.rank(), link.id, candidate.remote));
        let mut pairs: Vec<_> = self.links_toward(links).flat_map(of).collect();
        pairs.sort_unstable();
        let begin = if pairs.is_empty() { 0 } else { self.addresses.attempts.called % pairs.len() };
        self.addresses.attempts.called = self.addresses.attempts.called.wrapping_add(most.min(pairs.len()));
        let from_there = pairs.iter().cycle().skip(begin).take(most.min(pairs.len()));
        from_there.map(|(_, link, remote)| (*link, *remote)).collect()
    }

    /// Opens a path on the link and to the address by which the peer answered an initiation.
    ///
    /// If the link has a path whose address never answered, that path is moved to the pair instead.
    pub fn open_answered(&mut self, cx: &mut Context<'_>, link: LinkId, remote: SocketAddr) {
        let Some(link) = cx.links.get(link) else { return };
        let is_known = |peer: &Peer| peer.candidates(cx.links, link).any(|candidate| candidate.remote == remote);
        // While there is no path at all, an address is accepted that is not in the configuration: the address that
        // answered is the only one known to work.
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

    /// Counts the pairs of a local link and an address of the peer, and those of them that are not tried.
    pub fn address_pairs(&self, links: &Links) -> AddressPairs {
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

    /// Reports the pairs that are not tried, once links and addresses have not changed for [`REPORT_AFTER`].
    ///
    /// An unchanged result is not reported again.
    pub(super) fn report_untried(&mut self, cx: &mut Context<'_>) {
        if self.addresses.attempts.changed_at.is_none_or(|at| cx.now - at < REPORT_AFTER) {
            return;
        }
        self.addresses.attempts.changed_at = None;
        let pairs = self.address_pairs(cx.links);
        if pairs != self.addresses.attempts.said && !pairs.is_complete() {
            cx.events.push_back(Event::NotTried { peer: self.id, pairs: pairs.clone() });
        }
        self.addresses.attempts.said = pairs;
    }
}
