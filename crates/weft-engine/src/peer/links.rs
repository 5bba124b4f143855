//! The paths of one peer on the local links.
//!
//! When a link appears, paths on it are opened. When it disappears, its paths go down. After a change of the
//! configuration, paths that are no longer wanted are given up.

use super::{Context, Peer};
use crate::links::Link;
use weft_units::{LinkId, PathId, PathTier};

/// Reason in the log for giving up a path that the configuration no longer contains.
const UNWANTED: &str = "no longer configured";

impl Peer {
    /// Opens, reopens or gives up paths of a link that appeared or whose settings changed.
    pub fn on_link_up(&mut self, cx: &mut Context<'_>, link: &Link) {
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            if path.link_name == link.name {
                path.rate.set_cap(link.cap);
                if path.own_use.tier != PathTier::Detour && path.own_use != link.allowed {
                    path.own_use = link.allowed;
                    path.pending.policy = true;
                }
                if link.send == path.barred && !path.ours {
                    path.barred = !link.send;
                    self.on_barred(cx, index);
                }
            }
        }
        self.bar_unwanted(cx, Some(link));
        self.open_pairs(cx, link);
        for path in self.paths.iter_mut().filter(|p| !p.ours && p.link == link.id) {
            path.link_up = true;
            path.health.on_link_up(cx.now);
        }
        self.choose_path(cx, link.id);
        if self.is_established() {
            self.call_again(cx);
        }
    }

    /// Gives up those paths opened by this node that are no longer wanted.
    ///
    /// A path is unwanted if its address is no longer configured, nothing may be sent on `link`, or `link` has no route
    /// to the address.
    pub fn bar_unwanted(&mut self, cx: &mut Context<'_>, link: Option<&Link>) {
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            let has_route = link.is_none_or(|link| link.id != path.link || link.reaches(&path.remote));
            let is_wanted = self.endpoints().any(|endpoint| *endpoint == path.remote)
                && link.is_none_or(|link| link.send || link.name != path.link_name);
            if path.ours && !path.barred && !(is_wanted && has_route) {
                self.bar(cx, index);
                self.log_path(cx.events, index, if has_route { UNWANTED } else { "no route" });
            }
        }
        self.report_gone();
    }

    /// Gives up the paths over a link that will not be used again.
    pub fn forget_link(&mut self, cx: &mut Context<'_>, link: LinkId) {
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            if path.link != link {
                continue;
            }
            match path.ours {
                true if path.barred => {}
                true => self.bar(cx, index),
                false => self.leave(cx, index),
            }
        }
        self.report_gone();
    }

    /// Marks a path that the peer opened as given up: the peer gave it up, or its local link is gone.
    fn leave(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &mut self.paths[index];
        (path.left, path.barred, path.active) = (true, true, false);
        self.move_units_away(cx, index);
    }

    /// Handles the peer's message that it has given up a path.
    pub fn on_gone(&mut self, cx: &mut Context<'_>, path: PathId) {
        if let Some(index) = self.path_index(path).filter(|index| !self.paths[*index].ours) {
            self.leave(cx, index);
            self.log_path(cx.events, index, "given up by the peer");
            self.choose_path(cx, self.paths[index].link);
        }
    }

    /// Queues a message to the peer with the ids of this node's paths that were given up, on the fastest path.
    pub fn report_gone(&mut self) {
        if self.paths.iter().any(|path| path.ours && path.is_gone())
            && let Some(fastest) = self.fastest_path()
        {
            self.paths[fastest].pending.gone = u64::MAX;
        }
    }

    /// Gives up a path that this node opened. It carries no more data, and status output omits it.
    fn bar(&mut self, cx: &mut Context<'_>, index: usize) {
        let path = &mut self.paths[index];
        path.barred = true;
        path.pending.policy |= path.active;
        path.active = false;
        self.move_units_away(cx, index);
    }

    /// Moves the units of a path to other paths if the path may no longer carry data.
    fn on_barred(&mut self, cx: &mut Context<'_>, index: usize) {
        if self.paths[index].barred {
            self.log_path(cx.events, index, UNWANTED);
            self.move_units_away(cx, index);
        }
    }
}
