//! The local links, and the paths they make with the peers' addresses.

use crate::interface::LinkEvent;
use crate::path::Ends;
use crate::peer::{Context, Peer};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_units::{Instant, LinkId, Rate};

/// A local link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) name: String,
    pub(crate) mtu: u16,
    pub(crate) ipv4: bool,
    pub(crate) ipv6: bool,
}

impl Link {
    fn reaches(&self, address: &SocketAddr) -> bool {
        if address.is_ipv4() { self.ipv4 } else { self.ipv6 }
    }
}

/// All links that can be used now.
#[derive(Debug, Default)]
pub(crate) struct Links {
    list: Vec<Link>,
}

impl Links {
    pub(crate) fn get(&self, id: LinkId) -> Option<&Link> {
        self.list.iter().find(|l| l.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.list.iter()
    }

    /// Takes in a change; the link it is about, if it can be used.
    pub(crate) fn apply(&mut self, event: &LinkEvent) -> Option<Link> {
        let id = match event {
            LinkEvent::Up { link, .. } | LinkEvent::Down { link, .. } => *link,
        };
        self.list.retain(|l| l.id != id);
        let LinkEvent::Up { link, name, mtu, ipv4, ipv6 } = event else { return None };
        let link = Link { id: *link, name: name.clone(), mtu: *mtu, ipv4: *ipv4, ipv6: *ipv6 };
        self.list.push(link.clone());
        Some(link)
    }
}

impl Peer {
    /// A link can be used: paths over it open, or open again.
    pub(crate) fn on_link_up(&mut self, cx: &mut Context<'_>, link: &Link, cap: Option<Rate>) {
        let endpoints = self.config.endpoints.clone();
        for remote in endpoints.into_iter().filter(|e| link.reaches(e)) {
            match self.paths.iter().position(|p| p.ours && p.link_name == link.name && p.remote == remote) {
                Some(index) => self.reopen_path(cx.now, index, link),
                None => {
                    let ends = Ends {
                        link: link.id,
                        link_name: link.name.clone(),
                        link_mtu: link.mtu,
                        remote,
                        local: None,
                        cap,
                    };
                    self.open_path(cx.now, ends);
                }
            }
        }
        for path in self.paths.iter_mut().filter(|p| !p.ours && p.link == link.id) {
            path.link_up = true;
            path.health.on_link_up(cx.now);
        }
    }

    fn reopen_path(&mut self, now: Instant, index: usize, link: &Link) {
        let path = &mut self.paths[index];
        path.link = link.id;
        path.link_up = true;
        path.health.on_link_up(now);
    }
}
