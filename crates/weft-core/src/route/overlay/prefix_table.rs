//! The routing table of the overlay networks Tapestry and Chimera.
//!
//! Row r holds the nodes whose identifiers share r digits with this node's. Column c of it holds those whose next digit
//! is c. One ordered map represents all rows and cells: a cell is a range of identifiers. Empty rows need no memory.

use alloc::collections::BTreeMap;
use weft_units::NodeId;

/// Table of the other nodes, ordered by identifier.
#[derive(Clone, Debug)]
pub struct PrefixTable<T> {
    own: NodeId,
    nodes: BTreeMap<NodeId, T>,
}

impl<T> PrefixTable<T> {
    /// Returns the table of the node `own`, which never contains that node itself.
    pub fn new(own: NodeId) -> PrefixTable<T> {
        PrefixTable { own, nodes: BTreeMap::new() }
    }

    /// Returns the value that the table stores for a node.
    pub fn get(&self, id: NodeId) -> Option<&T> {
        self.nodes.get(&id)
    }

    /// Returns a mutable reference to the value that the table stores for a node.
    pub fn get_mut(&mut self, id: NodeId) -> Option<&mut T> {
        self.nodes.get_mut(&id)
    }

    /// Inserts a node into the table, unless it is the table's own node.
    pub fn insert(&mut self, id: NodeId, value: T) {
        if id != self.own {
            self.nodes.insert(id, value);
        }
    }

    /// Removes a node from the table.
    pub fn remove(&mut self, id: NodeId) -> Option<T> {
        self.nodes.remove(&id)
    }

    /// Iterates over all nodes in order of their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// Number of rows from row 0 to the last one that holds a node.
    pub fn rows(&self) -> usize {
        let neighbours = [self.clockwise_from(self.own).next(), self.counterclockwise_from(self.own).next()];
        neighbours.into_iter().flatten().map(|(id, _)| self.own.common_digits(&id) + 1).max().unwrap_or(0)
    }

    /// Iterates over the nodes that share `row` digits with `of` and continue with `column`.
    pub fn cell(&self, of: NodeId, row: usize, column: u8) -> impl Iterator<Item = (NodeId, &T)> {
        self.nodes.range(of.cell(row, column)).map(|(id, node)| (*id, node))
    }

    /// Iterates over the nodes in that cell of this node's table to which `id` belongs.
    pub fn cell_of(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &T)> {
        let row = self.own.common_digits(&id);
        self.cell(self.own, row, id.digit(row))
    }

    /// Iterates over all nodes except `id`, clockwise around the ring from `id`.
    pub fn clockwise_from(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &T)> {
        let (after, before) = (self.nodes.range(id..), self.nodes.range(..id));
        after.chain(before).map(|(id, node)| (*id, node)).filter(move |(other, _)| *other != id)
    }

    /// Iterates over all nodes except `id`, counterclockwise around the ring from `id`.
    pub fn counterclockwise_from(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &T)> {
        let (after, before) = (self.nodes.range(id..), self.nodes.range(..id));
        before.rev().chain(after.rev()).map(|(id, node)| (*id, node)).filter(move |(other, _)| *other != id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Generates identifiers of which many are equal or share leading digits.
    ///
    /// They differ only in their first three digits and the last one.
    fn few() -> impl Strategy<Value = NodeId> {
        (0u16..0x400, 0u8..2).prop_map(|(first, last)| {
            let mut bytes = [0; 20];
            bytes[..2].copy_from_slice(&(first << 2).to_be_bytes());
            bytes[19] = last;
            NodeId::new(bytes)
        })
    }

    proptest! {
        #[test]
        fn views_are_as_looking_at_every_node(own in few(), ids in prop::collection::vec(few(), 0..60), of in few()) {
            let mut table = PrefixTable::new(own);
            ids.iter().for_each(|id| table.insert(*id, ()));
            let mut all: Vec<NodeId> = ids.into_iter().filter(|id| *id != own).collect();
            all.sort();
            all.dedup();
            prop_assert_eq!(table.rows(), all.iter().map(|id| own.common_digits(id) + 1).max().unwrap_or(0));
            for row in [0, 1, 2, 3, 4, 38, 39] {
                for column in 0..16 {
                    let cell: Vec<_> = table.cell(of, row, column).map(|(id, ())| id).collect();
                    let naive = all.iter().filter(|id| id.common_digits(&of) >= row && id.digit(row) == column);
                    prop_assert!(cell.iter().eq(naive));
                }
            }
            let around: Vec<_> = table.clockwise_from(of).map(|(id, ())| id).collect();
            let mut naive: Vec<NodeId> = all.iter().copied().filter(|id| *id != of).collect();
            naive.sort_by_key(|id| of.clockwise_to(id));
            prop_assert_eq!(&around, &naive);
            prop_assert!(table.counterclockwise_from(of).map(|(id, ())| id).eq(around.into_iter().rev()));
        }
    }
}
