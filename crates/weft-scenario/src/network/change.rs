//! Changes a network scenario after it was read, so that a program can vary a parameter.

use super::vpn::edge_of;
use super::{NetworkFlow, NetworkScenario, NetworkVariant, NetworkVpn, RouteSet};
use crate::pattern::matches;
use crate::{Action, EventTarget, Link};
use std::time::Duration;

impl NetworkScenario {
    /// Returns the index of the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|known| known == name)
    }

    /// Returns the link with this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// Returns the variant with this name.
    pub fn variant(&self, name: &str) -> Option<&NetworkVariant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// Returns the VPNs whose names match a pattern, in which `*` matches any characters.
    pub fn vpns_mut<'a>(&'a mut self, pattern: &'a str) -> impl Iterator<Item = &'a mut NetworkVpn> {
        self.vpns.iter_mut().filter(move |vpn| matches(pattern, &vpn.name))
    }

    /// Returns the index in [`NetworkScenario::edges`] of the edge behind which a host is.
    ///
    /// Returns `None` for other nodes.
    pub fn edge_of(&self, node: usize) -> Option<usize> {
        edge_of(node, &self.edges, &self.links)
    }

    /// Returns the links whose names match a pattern, in which `*` matches any characters.
    pub fn links_mut<'a>(&'a mut self, pattern: &'a str) -> impl Iterator<Item = &'a mut Link> {
        self.links.iter_mut().filter(move |link| matches(pattern, &link.name))
    }

    /// Returns the flows whose names match a pattern, in which `*` matches any characters.
    pub fn flows_mut<'a>(&'a mut self, pattern: &'a str) -> impl Iterator<Item = &'a mut NetworkFlow> {
        self.flows.iter_mut().filter(move |flow| matches(pattern, &flow.name))
    }

    /// Returns the network with its warm-up, flows and events delayed by `time`, in a run that is longer by `time`.
    #[must_use]
    pub fn begun_after(&self, time: Duration) -> NetworkScenario {
        let mut later = self.clone();
        later.duration += time;
        later.warmup += time;
        for flow in &mut later.flows {
            flow.start += time;
            flow.stop += time;
        }
        later.events.iter_mut().for_each(|event| event.at += time);
        later
    }

    /// Removes the nodes whose names match a pattern.
    ///
    /// It also removes their links, and the paths, flows and events that use them. It removes the VPNs that have fewer
    /// than two hosts left. The remaining items get new indices.
    pub fn remove_nodes(&mut self, pattern: &str) {
        let nodes = renumbered(&self.nodes, |name| !matches(pattern, name));
        let links = renumbered(&self.links, |link| link.ends.iter().all(|end| nodes[*end].is_some()));
        for destinations in self.paths.iter_mut().filter_map(|path| path.destinations.as_mut()) {
            *destinations = destinations.iter().filter_map(|node| nodes[*node]).collect();
        }
        let paths = renumbered(&self.paths, |path| {
            let has_nodes = path.nodes.iter().all(|node| nodes[*node].is_some());
            has_nodes && path.destinations.as_ref().is_none_or(|destinations| !destinations.is_empty())
        });

        keep(&mut self.nodes, &nodes);
        self.overlay.renumber(&nodes, &links);
        if let Some(grid) = &mut self.grid {
            grid.links = grid.links.iter().filter_map(|link| links[*link]).collect();
        }
        keep(&mut self.links, &links);
        keep(&mut self.paths, &paths);
        let proxies = |flow: &NetworkFlow| flow.proxies.into_iter().flatten().all(|node| nodes[node].is_some());
        self.flows.retain(|flow| nodes[flow.from].is_some() && nodes[flow.to].is_some() && proxies(flow));
        self.events.retain(|event| match event.target {
            EventTarget::Link(link) => links[link].is_some(),
            EventTarget::Node(node) => nodes[node].is_some(),
            EventTarget::Carrying(_) | EventTarget::Weft => true,
        });

        self.edges.retain(|edge| nodes[edge.node].is_some());
        for vpn in &mut self.vpns {
            vpn.hosts = vpn.hosts.iter().filter_map(|host| nodes[*host]).collect();
        }
        let vpns = renumbered(&self.vpns, |vpn| vpn.hosts.len() > 1);
        keep(&mut self.vpns, &vpns);
        self.events.retain(|event| !matches!(&event.action, Action::Share(change) if vpns[change.vpn].is_none()));

        let renumber = |old: &mut usize, new: &[Option<usize>]| *old = new[*old].unwrap_or(*old);
        for edge in &mut self.edges {
            renumber(&mut edge.node, &nodes);
        }
        for link in &mut self.links {
            link.ends.iter_mut().for_each(|end| renumber(end, &nodes));
        }
        for path in &mut self.paths {
            path.nodes.iter_mut().for_each(|node| renumber(node, &nodes));
            path.links.iter_mut().for_each(|link| renumber(link, &links));
        }
        for flow in &mut self.flows {
            renumber(&mut flow.from, &nodes);
            renumber(&mut flow.to, &nodes);
            flow.proxies.iter_mut().flatten().for_each(|node| renumber(node, &nodes));
        }
        for event in &mut self.events {
            if let Action::Share(change) = &mut event.action {
                renumber(&mut change.vpn, &vpns);
            }
            match &mut event.target {
                EventTarget::Link(link) => renumber(link, &links),
                EventTarget::Node(node) => renumber(node, &nodes),
                EventTarget::Carrying(_) | EventTarget::Weft => {}
            }
        }
        for variant in &mut self.variants {
            if let RouteSet::Explicit { paths: used } = &mut variant.routing.routes {
                *used = used.iter().filter_map(|path| paths[*path]).collect();
            }
        }
    }
}

/// Returns the new index of each item for which `stays` is true, and `None` for each removed item.
fn renumbered<T>(items: &[T], stays: impl Fn(&T) -> bool) -> Vec<Option<usize>> {
    let mut next = 0..;
    items.iter().map(|item| if stays(item) { next.next() } else { None }).collect()
}

/// Removes the items that have no new index in `numbers`. The others keep their order.
fn keep<T>(items: &mut Vec<T>, numbers: &[Option<usize>]) {
    let mut numbers = numbers.iter();
    items.retain(|_| numbers.next().is_some_and(Option::is_some));
}
