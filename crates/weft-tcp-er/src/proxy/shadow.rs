//! Finds access rules that can never decide, because earlier rules decide all connections that they match.
//!
//! A rule is a set of boxes with three sides: ranges of client addresses, server addresses and ports. The boxes of
//! earlier rules are cut away from those of the rule. If nothing is left, the rules that cut it shadow it.

use super::permit::{CLOSED, Permit};
use super::policy::PolicyPrefix;
use std::net::IpAddr;

/// Maximum number of boxes that represent the connections that earlier rules leave to one rule.
///
/// A box is one range each of client addresses, server addresses and ports. A rule with more boxes is assumed to decide
/// some connection.
const MOST: usize = 10_000;

/// A reason why an access rule never decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shade {
    /// The earlier rule with this index, counted from 0, decides some of its connections.
    Rule(usize),
    /// Some of the rule's servers have addresses that no rule can open.
    Closed,
    /// The rule's clients and servers are of different address families.
    Family,
}

/// First and last value of a range, both included.
type Range = (u128, u128);

/// A box: one range each of client addresses, server addresses and ports, of one address family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Volume {
    is_ipv6: bool,
    /// Ranges of client addresses, server addresses and ports.
    sides: [Range; 3],
}

impl Volume {
    /// Returns the boxes that remain of this box without `other`, or `None` if the two do not overlap.
    fn without(self, other: &Volume) -> Option<Vec<Volume>> {
        let meets = |(a, b): (&Range, &Range)| a.0 <= b.1 && b.0 <= a.1;
        if self.is_ipv6 != other.is_ipv6 || !self.sides.iter().zip(&other.sides).all(meets) {
            return None;
        }
        let (mut rest, mut core) = (Vec::new(), self);
        for (side, cut) in other.sides.iter().enumerate() {
            let Some(&(first, last)) = core.sides.get(side) else { continue };
            let piece = |range| {
                let mut piece = core;
                if let Some(side) = piece.sides.get_mut(side) {
                    *side = range;
                }
                piece
            };
            if first < cut.0 {
                rest.push(piece((first, cut.0 - 1)));
            }
            if last > cut.1 {
                rest.push(piece((cut.1 + 1, last)));
            }
            core = piece((first.max(cut.0), last.min(cut.1)));
        }
        Some(rest)
    }
}

fn range(prefix: &PolicyPrefix) -> (bool, Range) {
    let (bits, width, is_ipv6) = match prefix.address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32, false),
        IpAddr::V6(address) => (address.to_bits(), 128, true),
    };
    let free = u32::from(width - prefix.length.min(width));
    let below = 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
    (is_ipv6, (bits & !below, bits | below))
}

fn whole(is_ipv6: bool) -> Range {
    (0, if is_ipv6 { u128::MAX } else { u32::MAX.into() })
}

fn volumes(rule: &Permit) -> Vec<Volume> {
    const PORTS: Range = (0, u16::MAX as u128);
    let ports: Vec<Range> = match rule.ports.as_slice() {
        [] => vec![PORTS],
        ports => ports.iter().map(|ports| (ports.first.into(), ports.last.into())).collect(),
    };
    let mut all = Vec::new();
    for (is_ipv6, to) in rule.to.iter().map(range) {
        let from: Vec<Range> = match rule.from.as_slice() {
            [] => vec![whole(is_ipv6)],
            from => from.iter().map(range).filter(|(family, _)| *family == is_ipv6).map(|(_, range)| range).collect(),
        };
        for from in from {
            all.extend(ports.iter().map(|ports| Volume { is_ipv6, sides: [from, to, *ports] }));
        }
    }
    all
}

/// Returns the reasons why the last of `rules` never decides. The list is empty if that rule can decide.
pub fn shades(rules: &[Permit]) -> Vec<Shade> {
    let Some((last, earlier)) = rules.split_last() else { return Vec::new() };
    let mut left = volumes(last);
    if left.is_empty() {
        return vec![Shade::Family];
    }
    let closed = CLOSED.iter().map(|(prefix, _)| {
        let (is_ipv6, to) = range(prefix);
        (Shade::Closed, vec![Volume { is_ipv6, sides: [whole(is_ipv6), to, (0, u16::MAX.into())] }])
    });
    let earlier = earlier.iter().enumerate().map(|(index, rule)| (Shade::Rule(index), volumes(rule)));
    let mut shades = Vec::new();
    for (shade, cuts) in closed.chain(earlier) {
        for cut in cuts {
            let mut next = Vec::new();
            for volume in left {
                match volume.without(&cut) {
                    None => next.push(volume),
                    Some(rest) => {
                        next.extend(rest);
                        if !shades.contains(&shade) {
                            shades.push(shade);
                        }
                    }
                }
            }
            left = next;
            if left.is_empty() {
                return shades;
            }
            if left.len() > MOST {
                return Vec::new();
            }
        }
    }
    Vec::new()
}
