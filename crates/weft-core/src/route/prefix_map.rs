//! Longest-prefix match: a path-compressed binary trie.
//!
//! The source is D. R. Morrison, "PATRICIA", J. ACM 15(4), 1968. A lookup takes at most as many steps as the longest
//! prefix has bits, whatever the number of prefixes. Each prefix needs at most two nodes.

use alloc::vec::Vec;
use core::net::IpAddr;

/// Index that stands for no trie node.
const NIL: u32 = u32::MAX;

/// An address prefix: its bits, left-aligned, and their number. All other bits are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bits {
    bits: u128,
    len: u8,
}

impl Bits {
    fn of(address: IpAddr, length: u8) -> Bits {
        match address {
            IpAddr::V4(address) => Bits::first(u128::from(u32::from(address)) << 96, length.min(32)),
            IpAddr::V6(address) => Bits::first(address.into(), length.min(128)),
        }
    }

    fn first(bits: u128, len: u8) -> Bits {
        Bits { bits: bits & !u128::MAX.checked_shr(len.into()).unwrap_or(0), len }
    }

    fn address(self, is_ipv6: bool) -> IpAddr {
        if is_ipv6 { IpAddr::V6(self.bits.into()) } else { IpAddr::V4(((self.bits >> 96) as u32).into()) }
    }

    fn covers(self, other: Bits) -> bool {
        self.len <= other.len && self.in_common(other) == self.len
    }

    /// Returns the number of leading bits that two prefixes have in common.
    fn in_common(self, other: Bits) -> u8 {
        let alike = (self.bits ^ other.bits).leading_zeros() as u8;
        alike.min(self.len).min(other.len)
    }

    /// Returns the bit after the first `len` bits (0 or 1), which is the index of a child in the trie.
    fn branch(self, len: u8) -> usize {
        (self.bits.checked_shl(len.into()).unwrap_or(0) >> 127) as usize
    }
}

/// A node of a trie.
///
/// The bits are stored in halves: a `u128` would align a node to 16 bytes, and a node with a small value would take 48
/// bytes instead of 32.
#[derive(Clone, Debug)]
struct TrieNode<T> {
    halves: [u64; 2],
    children: [u32; 2],
    len: u8,
    /// Value of the prefix. `None` in a node where two longer prefixes diverge.
    value: Option<T>,
}

impl<T> TrieNode<T> {
    fn new(prefix: Bits, value: Option<T>, children: [u32; 2]) -> TrieNode<T> {
        TrieNode { halves: [(prefix.bits >> 64) as u64, prefix.bits as u64], children, len: prefix.len, value }
    }

    fn prefix(&self) -> Bits {
        let [high, low] = self.halves;
        Bits { bits: u128::from(high) << 64 | u128::from(low), len: self.len }
    }
}

/// Place to which a node is attached: the root of an address family's trie, or one of the two children of a node.
#[derive(Clone, Copy)]
enum TrieLink {
    Root(usize),
    Child(u32, usize),
}

/// Values by address prefix, with separate tries for IPv4 and IPv6.
#[derive(Clone, Debug)]
pub struct PrefixMap<T> {
    nodes: Vec<TrieNode<T>>,
    roots: [u32; 2],
    /// Index of the first unused node. The first child of each unused node is the next unused node.
    free: u32,
    /// Number of prefixes that have a value.
    count: usize,
}

impl<T> Default for PrefixMap<T> {
    fn default() -> PrefixMap<T> {
        PrefixMap { nodes: Vec::new(), roots: [NIL; 2], free: NIL, count: 0 }
    }
}

fn family(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

impl<T: Copy> PrefixMap<T> {
    fn node(&self, at: u32) -> Option<&TrieNode<T>> {
        self.nodes.get(at as usize)
    }

    /// Returns the number of prefixes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if the map holds no prefix.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the value of the longest prefix that contains `address`.
    pub fn longest_match(&self, address: IpAddr) -> Option<T> {
        self.longest(address).map(|(_, value)| value)
    }

    /// Returns the length and the value of the longest prefix that contains `address`.
    pub fn longest(&self, address: IpAddr) -> Option<(u8, T)> {
        let whole = Bits::of(address, u8::MAX);
        let (mut at, mut found) = (self.roots[family(address)], None);
        while let Some(node) = self.node(at).filter(|node| node.prefix().covers(whole)) {
            found = node.value.map(|value| (node.len, value)).or(found);
            at = node.children[whole.branch(node.len)];
        }
        found
    }

    /// Iterates over the prefixes that contain `address`, from the shortest to the longest.
    ///
    /// Each item is a length and a value.
    pub fn matches(&self, address: IpAddr) -> impl Iterator<Item = (u8, T)> {
        let whole = Bits::of(address, u8::MAX);
        let mut at = self.roots[family(address)];
        let nodes = core::iter::from_fn(move || {
            let node = self.node(at).filter(|node| node.prefix().covers(whole))?;
            at = node.children[whole.branch(node.len)];
            Some(node)
        });
        nodes.filter_map(|node| node.value.map(|value| (node.len, value)))
    }

    /// Returns all prefixes and values, IPv4 before IPv6.
    ///
    /// They are ordered by address, with a prefix before those within it.
    pub fn entries(&self) -> Vec<(IpAddr, u8, T)> {
        let mut entries = Vec::new();
        for (family, root) in self.roots.into_iter().enumerate() {
            let mut ahead = alloc::vec![root];
            while let Some(at) = ahead.pop() {
                let Some(node) = self.node(at) else { continue };
                entries.extend(node.value.map(|value| (node.prefix().address(family == 1), node.len, value)));
                ahead.extend([node.children[1], node.children[0]]);
            }
        }
        entries
    }

    /// Assigns a value to the first `length` bits of `address`, unless they have one.
    ///
    /// # Errors
    ///
    /// Returns the present value if there is one.
    pub fn insert(&mut self, address: IpAddr, length: u8, value: T) -> Result<(), T> {
        let at = self.make(address, length);
        match self.nodes.get_mut(at as usize).map(|node| &mut node.value) {
            Some(Some(present)) => Err(*present),
            Some(vacant) => {
                *vacant = Some(value);
                self.count += 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Assigns a value to the first `length` bits of `address`, and returns their former value.
    pub fn set(&mut self, address: IpAddr, length: u8, value: T) -> Option<T> {
        let at = self.make(address, length);
        let before = self.nodes.get_mut(at as usize)?.value.replace(value);
        self.count += usize::from(before.is_none());
        before
    }

    /// Returns the index of the node of a prefix. Creates the node without a value if it does not exist.
    fn make(&mut self, address: IpAddr, length: u8) -> u32 {
        let prefix = Bits::of(address, length);
        let mut link = TrieLink::Root(family(address));
        loop {
            let at = self.follow(link);
            let Some(below) = self.node(at).map(TrieNode::prefix) else {
                let leaf = self.push(prefix, [NIL; 2]);
                self.hang(link, leaf);
                return leaf;
            };
            if below == prefix {
                return at;
            }
            if below.covers(prefix) {
                link = TrieLink::Child(at, prefix.branch(below.len));
                continue;
            }
            let len = prefix.in_common(below);
            let mut children = [NIL; 2];
            children[below.branch(len)] = at;
            if len == prefix.len {
                let above = self.push(prefix, children);
                self.hang(link, above);
                return above;
            }
            let leaf = self.push(prefix, [NIL; 2]);
            children[prefix.branch(len)] = leaf;
            let above = self.push(Bits::first(prefix.bits, len), children);
            self.hang(link, above);
            return leaf;
        }
    }

    /// Removes a prefix and returns its value, or `None` if it has none. Its memory is reused for later prefixes.
    pub fn remove(&mut self, address: IpAddr, length: u8) -> Option<T> {
        let prefix = Bits::of(address, length);
        let (mut above, mut link) = (None, TrieLink::Root(family(address)));
        let at = loop {
            let at = self.follow(link);
            let below = self.node(at)?.prefix();
            if below == prefix {
                break at;
            }
            if !below.covers(prefix) {
                return None;
            }
            above = Some((link, at));
            link = TrieLink::Child(at, prefix.branch(below.len));
        };
        let value = self.nodes.get_mut(at as usize)?.value.take()?;
        self.count -= 1;
        self.splice(link, at);
        if let Some((link, at)) = above {
            self.splice(link, at);
        }
        Some(value)
    }

    /// Removes the node `at`, to which `link` leads, if it has no value and at most one child.
    ///
    /// The child takes its place.
    fn splice(&mut self, link: TrieLink, at: u32) {
        let Some(node) = self.node(at).filter(|node| node.value.is_none()) else { return };
        let child = match node.children {
            [child, NIL] | [NIL, child] => child,
            _ => return,
        };
        self.hang(link, child);
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.children = [self.free, NIL];
            self.free = at;
        }
    }

    fn push(&mut self, prefix: Bits, children: [u32; 2]) -> u32 {
        let node = TrieNode::new(prefix, None, children);
        let at = self.free;
        match self.nodes.get_mut(at as usize) {
            Some(unused) => {
                self.free = unused.children[0];
                *unused = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    fn follow(&self, link: TrieLink) -> u32 {
        match link {
            TrieLink::Root(family) => self.roots[family],
            TrieLink::Child(at, branch) => self.node(at).map_or(NIL, |node| node.children[branch]),
        }
    }

    fn hang(&mut self, link: TrieLink, below: u32) {
        match link {
            TrieLink::Root(family) => self.roots[family] = below,
            TrieLink::Child(at, branch) => {
                if let Some(node) = self.nodes.get_mut(at as usize) {
                    node.children[branch] = below;
                }
            }
        }
    }

    /// Returns the value of a prefix that contains `address/length` or lies within it.
    ///
    /// Default routes (length 0) overlap only with themselves.
    pub fn overlap(&self, address: IpAddr, length: u8) -> Option<T> {
        let prefix = Bits::of(address, length);
        let mut at = self.roots[family(address)];
        while let Some(node) = self.node(at) {
            if prefix.covers(node.prefix()) {
                return if prefix.len == 0 { node.value.filter(|_| node.len == 0) } else { self.any_below(at) };
            }
            if !node.prefix().covers(prefix) {
                return None;
            }
            if node.value.is_some() && node.len > 0 {
                return node.value;
            }
            at = node.children[prefix.branch(node.len)];
        }
        None
    }

    /// Returns the value of a prefix at or below the node `at`.
    ///
    /// A node without a value has two children, so either child leads to a value.
    fn any_below(&self, mut at: u32) -> Option<T> {
        loop {
            let node = self.node(at)?;
            if node.value.is_some() {
                return node.value;
            }
            at = node.children[0];
        }
    }

    /// Removes all prefixes from the map and keeps its memory.
    pub fn clear(&mut self) {
        self.nodes.clear();
        (self.roots, self.free, self.count) = ([NIL; 2], NIL, 0);
    }

    /// Frees the memory that is reserved beyond the existing nodes.
    pub fn shrink_to_fit(&mut self) {
        self.nodes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    /// Generates addresses that vary in few bits of the upper half, so that prefixes overlap.
    fn address() -> impl Strategy<Value = IpAddr> {
        (any::<u16>(), any::<bool>()).prop_map(|(bits, is_v6)| {
            let few = u32::from(bits & 0xc3c1) << 16 | u32::from(bits) << 3 & 8;
            if is_v6 { Ipv6Addr::from(u128::from(few) << 96 | 1).into() } else { Ipv4Addr::from(few).into() }
        })
    }

    fn prefix() -> impl Strategy<Value = (IpAddr, u8)> {
        (address(), 0u8..=40)
            .prop_map(|(address, length)| (address, if address.is_ipv4() { length.min(32) } else { length }))
    }

    fn contains((network, length): (IpAddr, u8), address: IpAddr) -> bool {
        let bit = |address: IpAddr, n: u8| match address {
            IpAddr::V4(a) => u32::from(a) >> (31 - n) & 1 == 1,
            IpAddr::V6(a) => u128::from(a) >> (127 - n) & 1 == 1,
        };
        network.is_ipv4() == address.is_ipv4() && (0..length).all(|n| bit(network, n) == bit(address, n))
    }

    proptest! {
        #[test]
        fn is_as_looking_at_every_prefix(
            prefixes in prop::collection::vec(prefix(), 0..40),
            addresses in prop::collection::vec(address(), 1..40),
        ) {
            let mut map = PrefixMap::default();
            // The values in the map are indices in `all`. An entry of `all` is `None` if the map refused the prefix.
            let mut all: Vec<Option<(IpAddr, u8)>> = Vec::new();
            for (at, &(address, length)) in prefixes.iter().enumerate() {
                let known = |other: &&Option<(IpAddr, u8)>| other.is_some_and(|o| o.1 == length && contains(o, address));
                let before = all.iter().find(known).and_then(|found| all.iter().position(|other| other == found));
                let nested = all.iter().flatten().any(|other| {
                    let shorter = other.1.min(length);
                    (shorter > 0 || other.1 == length) && contains((other.0, shorter), address)
                });
                prop_assert_eq!(map.overlap(address, length).is_some(), nested, "{}/{}", address, length);
                prop_assert_eq!(map.insert(address, length, at), before.map_or(Ok(()), Err));
                all.push(before.is_none().then_some((address, length)));
            }
            let entries = map.entries();
            prop_assert_eq!(entries.len(), all.iter().flatten().count());
            for (network, length, at) in entries {
                let (address, its) = all[at].unwrap();
                prop_assert!(its == length && contains((network, length), address), "{}/{}", network, length);
            }
            for address in addresses {
                let fits = all.iter().enumerate().filter_map(|(at, p)| Some((at, p.filter(|p| contains(*p, address))?.1)));
                let longest = fits.max_by_key(|(_, length)| *length);
                prop_assert_eq!(map.longest_match(address), longest.map(|(at, _)| at), "{}", address);
            }
        }
    }

    /// Returns length and value of each prefix in `model`, a simple model of a map, in the order of the map.
    fn in_order(model: &BTreeMap<(bool, u128, u8), u32>) -> Vec<(u8, u32)> {
        model.iter().map(|((_, _, length), value)| (*length, *value)).collect()
    }

    proptest! {
        #[test]
        fn is_as_a_sorted_map_after_any_changes(
            changes in prop::collection::vec((prefix(), any::<u32>(), any::<bool>()), 0..200),
            addresses in prop::collection::vec(address(), 1..20),
        ) {
            let (mut map, mut model) = (PrefixMap::default(), BTreeMap::new());
            let mut most = 0;
            for ((address, length), value, is_removed) in changes {
                let bits = Bits::of(address, length);
                let key = (address.is_ipv6(), bits.bits, bits.len);
                if is_removed {
                    prop_assert_eq!(map.remove(address, length), model.remove(&key));
                } else {
                    prop_assert_eq!(map.set(address, length, value), model.insert(key, value));
                }
                most = most.max(model.len());
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.nodes.len() <= 2 * most, "{} nodes for {} prefixes", map.nodes.len(), most);
            }
            let entries: Vec<_> = map.entries().iter().map(|(_, length, value)| (*length, *value)).collect();
            prop_assert_eq!(entries, in_order(&model));
            for address in addresses {
                let contains = |key: &(bool, u128, u8)| {
                    key.0 == address.is_ipv6() && Bits { bits: key.1, len: key.2 }.covers(Bits::of(address, u8::MAX))
                };
                let longest = model.iter().filter(|(key, _)| contains(key)).max_by_key(|(key, _)| key.2);
                prop_assert_eq!(map.longest(address), longest.map(|(key, value)| (key.2, *value)));
            }
        }
    }

    #[test]
    fn a_node_of_a_small_value_takes_32_bytes() {
        assert_eq!(size_of::<TrieNode<(u16, u8)>>(), 32);
    }

    #[test]
    fn default_routes_and_hosts_live_together() {
        let mut map = PrefixMap::default();
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        for (value, (address, length)) in
            [("0.0.0.0", 0), ("10.0.0.0", 8), ("10.1.2.3", 32), ("::", 0)].iter().enumerate()
        {
            assert_eq!(map.overlap(parse(address), *length), if value == 2 { Some(1) } else { None });
            assert_eq!(map.insert(parse(address), *length, value), Ok(()));
        }
        let found = |address| map.longest_match(parse(address)).unwrap();
        assert_eq!((found("192.0.2.1"), found("10.9.9.9"), found("10.1.2.3"), found("fd00::1")), (0, 1, 2, 3));
        assert_eq!((map.overlap(parse("10.0.0.0"), 7), map.overlap(parse("0.0.0.0"), 0)), (Some(1), Some(0)));
    }
}
