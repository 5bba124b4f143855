//! The correct state of an overlay, computed from the state of all nodes: roots of keys, fates of packets, full tables.
//!
//! A real node cannot compute this. The functions never change the state.

use super::world::OverlayWorld;
use weft_core::route::overlay::{CELL, NextHop};
use weft_units::{NodeId, RingDistance};

/// The identifiers of the live nodes of a network or of one part of it, sorted, to find the root of a key.
#[derive(Clone, Debug)]
pub struct Roots {
    sorted: Vec<NodeId>,
}

impl Roots {
    /// Returns the identifiers of the live nodes that `node` can reach: those on its side of a partition.
    pub fn beside(world: &OverlayWorld, node: u32) -> Roots {
        let alive = world.alive().into_iter().filter(|other| world.terrain.are_together(*other, node));
        let mut sorted: Vec<NodeId> = alive.map(|node| world.id(node)).collect();
        sorted.sort();
        Roots { sorted }
    }

    /// Returns the root of `key`: the node with the identifier nearest to it. `None` if there are no nodes.
    pub fn of(&self, key: NodeId) -> Option<NodeId> {
        let at = self.sorted.partition_point(|id| *id < key);
        let around = [at.checked_sub(1).unwrap_or(self.sorted.len().checked_sub(1)?), at % self.sorted.len()];
        around.into_iter().map(|n| self.sorted[n]).min_by_key(|id| remoteness(*id, key))
    }

    fn count(&self, cell: &std::ops::RangeInclusive<NodeId>, but: NodeId) -> usize {
        let first = self.sorted.partition_point(|id| id < cell.start());
        self.sorted[first..].iter().take_while(|id| *id <= cell.end()).filter(|id| **id != but).take(CELL).count()
    }
}

fn remoteness(id: NodeId, key: NodeId) -> (RingDistance, NodeId) {
    (id.distance_to(&key), id)
}

/// The fate of a packet, if the state of the overlay does not change while it is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Walk {
    /// The packet ends at this node, which considers itself the root, after this number of hops.
    Ends(NodeId, usize),
    /// The packet is dropped, or sent to a node that is dead or behind a cut.
    Lost,
    /// The packet is sent to a node that is no nearer to the key, so that it may loop.
    Astray,
}

/// Follows a packet from `node` toward `key`, and returns its fate.
///
/// If a node sends the packet on two routes, returns the better of the two fates. If one of the two goes astray, so
/// does the packet.
pub fn walk(world: &OverlayWorld, node: u32, key: NodeId) -> Walk {
    follow(world, node, key, true, 0)
}

fn follow(world: &OverlayWorld, node: u32, key: NodeId, may_duplicate: bool, hops: usize) -> Walk {
    let Some(overlay) = world.overlay(node) else { return Walk::Lost };
    let onward = |to: NodeId, may_duplicate| {
        if remoteness(to, key) >= remoteness(overlay.id(), key) {
            return Walk::Astray;
        }
        let next = world.node(to);
        let relay = overlay.via(to).map(|via| world.node(via));
        let hands_on = |relay: u32| world.overlay(relay).is_some_and(|relay| relay.relays_to(to));
        let stations: Vec<u32> = [Some(node), relay, Some(next)].into_iter().flatten().collect();
        let is_cut = stations.windows(2).any(|hop| world.terrain.is_cut(hop[0], hop[1]));
        if is_cut || !relay.is_none_or(hands_on) {
            return Walk::Lost;
        }
        follow(world, next, key, may_duplicate, hops + stations.len() - 1)
    };
    match overlay.next_hop_for(key, may_duplicate) {
        NextHop::Deliver => Walk::Ends(overlay.id(), hops),
        NextHop::Drop => Walk::Lost,
        NextHop::Forward(to) => onward(to, may_duplicate),
        NextHop::Duplicate(first, second) => match (onward(first, false), onward(second, false)) {
            (Walk::Astray, _) | (_, Walk::Astray) => Walk::Astray,
            (Walk::Lost, end) | (end, Walk::Lost) => end,
            (Walk::Ends(a, via_a), Walk::Ends(b, via_b)) => {
                if remoteness(a, key) <= remoteness(b, key) {
                    Walk::Ends(a, via_a)
                } else {
                    Walk::Ends(b, via_b)
                }
            }
        },
    }
}

/// Returns the number of entries that are missing in the cells of `node`'s routing table.
///
/// A full cell has three entries. If fewer live nodes fit the cell, it has one entry for each of these nodes.
pub fn missing_in_cells(world: &OverlayWorld, node: u32, roots: &Roots) -> usize {
    let Some(overlay) = world.overlay(node) else { return 0 };
    let own = overlay.id();
    let members: Vec<NodeId> = overlay.members().filter(|id| world.overlay(world.node(*id)).is_some()).collect();
    let mut missing = 0;
    for row in 0..NodeId::DIGITS {
        let share_row = row == 0 || roots.count(&own.cell(row - 1, own.digit(row - 1)), own) > 0;
        if !share_row {
            break;
        }
        for column in (0..16).filter(|column| *column != own.digit(row)) {
            let cell = own.cell(row, column);
            let has = members.iter().filter(|id| cell.contains(id)).take(CELL).count();
            missing += roots.count(&cell, own).saturating_sub(has);
        }
    }
    missing
}
