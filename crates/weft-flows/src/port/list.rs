//! Doubly linked lists whose nodes live in a slice and are named by their index.
//!
//! A node is in at most one list. A move allocates no memory.

/// Index that stands for no node.
pub(super) const NIL: u32 = u32::MAX;

/// The neighbours of a node in its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListLinks {
    before: u32,
    next: u32,
}

impl ListLinks {
    /// The links of a node in no list.
    pub(super) const NONE: ListLinks = ListLinks { before: NIL, next: NIL };

    /// Returns the next node of the list, or [`NIL`].
    pub(super) fn next(&self) -> u32 {
        self.next
    }
}

/// A node of a list.
pub(super) trait Listed {
    /// Returns the links of the node.
    fn links(&mut self) -> &mut ListLinks;
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexList {
    first: u32,
    last: u32,
}

impl IndexList {
    pub(super) const EMPTY: IndexList = IndexList { first: NIL, last: NIL };

    /// Returns the first node, or [`NIL`].
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// Appends a node that is in no list.
    pub(super) fn push(&mut self, nodes: &mut [impl Listed], id: u32) {
        *nodes[id as usize].links() = ListLinks { before: self.last, next: NIL };
        match nodes.get_mut(self.last as usize) {
            Some(last) => last.links().next = id,
            None => self.first = id,
        }
        self.last = id;
    }

    /// Removes a node of this list.
    pub(super) fn remove(&mut self, nodes: &mut [impl Listed], id: u32) {
        let ListLinks { before, next } = *nodes[id as usize].links();
        match nodes.get_mut(before as usize) {
            Some(node) => node.links().next = next,
            None => self.first = next,
        }
        match nodes.get_mut(next as usize) {
            Some(node) => node.links().before = before,
            None => self.last = before,
        }
    }
}
