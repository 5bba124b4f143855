//! Doubly linked lists of record numbers, in one array.
//!
//! Every operation takes constant time. A list is a ring through its head, so no operation has a special case. An item
//! is in one list at most.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

/// A fixed number of lists over a growing number of items.
#[derive(Debug)]
pub struct Lists {
    /// The links of the heads, then the links of the items.
    links: Vec<Link>,
    heads: u32,
}

impl Lists {
    /// Returns `heads` empty lists, with memory for `items` items.
    pub fn new(heads: u32, items: u32) -> Lists {
        let mut links = Vec::with_capacity(heads as usize + items as usize);
        links.extend((0..heads).map(|at| Link { next: at, prev: at }));
        Lists { links, heads }
    }

    /// Adds the item with the next number. It is in no list.
    pub fn add_item(&mut self) {
        let at = self.links.len() as u32;
        self.links.push(Link { next: at, prev: at });
    }

    /// Appends an item that is in no list.
    pub fn push_back(&mut self, list: u32, item: u32) {
        let at = self.heads + item;
        let last = self.links[list as usize].prev;
        self.links[at as usize] = Link { next: list, prev: last };
        self.links[last as usize].next = at;
        self.links[list as usize].prev = at;
    }

    /// Removes an item from its list. An item that is in no list is not changed.
    ///
    /// Returns the number of the list if the list is empty now.
    pub fn unlink(&mut self, item: u32) -> Option<u32> {
        let at = self.heads + item;
        let Link { next, prev } = self.links[at as usize];
        self.links[prev as usize].next = next;
        self.links[next as usize].prev = prev;
        self.links[at as usize] = Link { next: at, prev: at };
        (next == prev && next < self.heads).then_some(next)
    }

    /// Returns the first item of a list, or `None` if it is empty.
    pub fn front(&self, list: u32) -> Option<u32> {
        self.links[list as usize].next.checked_sub(self.heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use weft_units::Rng;

    #[test]
    fn behaves_as_queues_with_removal_from_the_middle() {
        let mut rng = Rng::new(1);
        let (mut lists, mut model) = (Lists::new(5, 40), alloc::vec![VecDeque::new(); 5]);
        let mut place = [None; 40];
        for _ in 0..40 {
            lists.add_item();
        }
        for _ in 0..100_000 {
            let (item, list) = (rng.below(40) as u32, rng.below(5) as usize);
            match place[item as usize].take() {
                Some(old) => {
                    let queue: &mut VecDeque<u32> = &mut model[old];
                    queue.retain(|other| *other != item);
                    assert_eq!(lists.unlink(item), queue.is_empty().then_some(old as u32));
                }
                None => {
                    assert_eq!(lists.unlink(item), None, "an item in no list stays there");
                    lists.push_back(list as u32, item);
                    model[list].push_back(item);
                    place[item as usize] = Some(list);
                }
            }
            assert!((0..5).all(|list| lists.front(list) == model[list as usize].front().copied()));
        }
    }
}
