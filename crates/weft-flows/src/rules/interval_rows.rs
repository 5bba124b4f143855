//! One dimension of the classifier: for each interval of values, the rules that accept it, as a row of bits.
//!
//! The method is T. V. Lakshman and D. Stiliadis, "High-Speed Policy-based Packet Forwarding Using Efficient
//! Multi-dimensional Range Matching", SIGCOMM 1998. The ends of the rules' ranges cut a dimension into at most 2n + 1
//! intervals. Within one of them the same rules match.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_wire::ip::FlowKey;

/// Number of rules whose bits one word of a row holds.
pub const WORD_BITS: usize = 64;
/// Words that are compared at once. A row is a whole number of such blocks.
///
/// *Derived*: a cache line of 64 bytes.
pub const BLOCK_WORDS: usize = 8;

/// Maximum number of properties that a packet is looked up by.
///
/// *Derived*: one for each [`super::RuleKey`]. Rules of access have fewer.
const MAX_ROWS: usize = super::RuleKey::ALL.len();

/// A value of a property: an unsigned integer whose highest eight bits can be read.
pub trait RuleValue: Copy + Ord + TryFrom<u128> {
    /// Returns the value's highest eight bits.
    fn top_byte(self) -> u8;
}

macro_rules! rule_value {
    ($($name:ty),+) => {
        $(impl RuleValue for $name {
            fn top_byte(self) -> u8 {
                (self >> (<$name>::BITS - 8)) as u8
            }
        })+
    };
}
rule_value!(u8, u16, u32, u128);

/// For each interval of the values of one property, the rules that accept it.
#[derive(Clone, Debug)]
pub struct IntervalRows<K> {
    /// First value of each interval, in rising order. The first interval begins at the smallest value.
    starts: Vec<K>,
    /// Offset in `rows` of each interval's row, in words.
    offsets: Vec<u32>,
    /// For each top byte, the number of intervals that begin with a lower top byte; at the end the number of all.
    by_top_byte: Vec<u32>,
    /// Rows. Bit r of a row is set if rule r accepts the interval. Equal rows are stored once.
    rows: Vec<u64>,
    /// Words in a row, a multiple of [`BLOCK_WORDS`].
    words: usize,
}

impl<K: RuleValue> IntervalRows<K> {
    /// Returns the rows for rules that accept these ranges of values; `None` accepts no value.
    pub fn new(ranges: impl Iterator<Item = Option<(u128, u128)>>, words: usize) -> IntervalRows<K> {
        let mut changes: BTreeMap<u128, Vec<usize>> = BTreeMap::from([(0, Vec::new())]);
        for (rule, (first, last)) in ranges.enumerate().filter_map(|(rule, range)| Some((rule, range?))) {
            changes.entry(first).or_default().push(rule);
            if let Some(after) = last.checked_add(1) {
                changes.entry(after).or_default().push(rule);
            }
        }
        let mut built =
            IntervalRows { starts: Vec::new(), offsets: Vec::new(), by_top_byte: Vec::new(), rows: Vec::new(), words };
        let (mut current, mut known) = (vec![0u64; words], BTreeMap::new());
        for (start, toggled) in changes {
            // An interval that begins behind the largest value has no values.
            let Ok(start) = K::try_from(start) else { continue };
            for rule in toggled {
                if let Some(word) = current.get_mut(rule / WORD_BITS) {
                    *word ^= 1 << (rule % WORD_BITS);
                }
            }
            let next = built.rows.len() as u32;
            let offset = *known.entry(current.clone()).or_insert(next);
            if offset == next {
                built.rows.extend_from_slice(&current);
            }
            built.starts.push(start);
            built.offsets.push(offset);
        }
        let starts = &built.starts;
        let lower = |byte: u16| starts.partition_point(|start| u16::from(start.top_byte()) < byte) as u32;
        built.by_top_byte = (0..=256).map(lower).collect();
        built
    }

    /// Returns true if every value has the same row.
    pub fn is_uniform(&self) -> bool {
        self.rows.len() <= self.words
    }

    /// Returns the row of the interval that contains `value`.
    #[inline]
    pub fn row(&self, value: K) -> &[u64] {
        let byte = usize::from(value.top_byte());
        let bound = |byte: usize| self.by_top_byte.get(byte).copied().unwrap_or(0) as usize;
        let (lower, upper) = (bound(byte), bound(byte + 1));
        let candidates = self.starts.get(lower..upper).unwrap_or_default();
        let begun = lower + candidates.partition_point(|start| *start <= value);
        let offset = self.offsets.get(begun.saturating_sub(1)).copied().unwrap_or(0) as usize;
        self.rows.get(offset..offset + self.words).unwrap_or_default()
    }

    /// Returns the bytes that the rows and intervals take.
    pub fn bytes(&self) -> usize {
        self.starts.len() * (size_of::<K>() + 4) + self.by_top_byte.len() * 4 + self.rows.len() * 8
    }
}

/// Rows of the two addresses of a packet, in one IP version.
#[derive(Clone, Debug)]
pub struct AddressRows<K> {
    pub from: IntervalRows<K>,
    pub to: IntervalRows<K>,
}

/// Rows of the properties of one packet.
#[derive(Default)]
pub struct RowSet<'a> {
    rows: [&'a [u64]; MAX_ROWS],
    len: usize,
}

impl<'a> RowSet<'a> {
    /// Adds a row.
    #[inline]
    pub fn add(&mut self, row: &'a [u64]) {
        if let Some(place) = self.rows.get_mut(self.len) {
            *place = row;
            self.len += 1;
        }
    }

    /// Adds the row of a property's value, if rules name the property.
    #[inline]
    pub fn add_of<K: RuleValue>(&mut self, rows: &'a Option<IntervalRows<K>>, value: K) {
        if let Some(rows) = rows {
            self.add(rows.row(value));
        }
    }

    /// Adds the rows of both addresses. Returns `None` if they are of two versions, which no packet has.
    #[inline]
    pub fn add_addresses(&mut self, v4: &'a AddressRows<u32>, v6: &'a AddressRows<u128>, key: &FlowKey) -> Option<()> {
        match (key.src, key.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                self.add(v4.from.row(src.to_bits()));
                self.add(v4.to.row(dst.to_bits()));
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                self.add(v6.from.row(src.to_bits()));
                self.add(v6.to.row(dst.to_bits()));
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the number of the first bit that is set in all rows, or `None` if there is none.
    #[inline]
    pub fn first_common(&self, words: usize) -> Option<usize> {
        let rows = self.rows.get(..self.len)?;
        (0..words).step_by(BLOCK_WORDS).find_map(|start| {
            let mut common = [u64::MAX; BLOCK_WORDS];
            for row in rows {
                let block: &[u64; BLOCK_WORDS] = row.get(start..)?.first_chunk()?;
                for (bits, of_row) in common.iter_mut().zip(block) {
                    *bits &= of_row;
                }
            }
            let (at, bits) = common.iter().enumerate().find(|(_, bits)| **bits != 0)?;
            Some((start + at) * WORD_BITS + bits.trailing_zeros() as usize)
        })
    }
}
