//! Finds rules that can never match, because earlier rules take all their packets.
//!
//! A rule is a box: the product of one interval for each property. Each earlier rule is cut out of it. If nothing is
//! left, the rule is shadowed, and the rules that took a piece are named. The number of pieces is bounded. A rule whose
//! pieces exceed the bound is not reported, so that every report is true.

use super::FlowRules;
use super::matching::RuleKey;
use alloc::vec;
use alloc::vec::Vec;

/// Maximum number of pieces of a rule.
///
/// *Tuned*: 1,000 random rules with wide overlaps are checked within 0.1 s. A rule that a person writes falls into
/// fewer than 100 pieces.
const MAX_PIECES: usize = 256;

const SIDES: usize = RuleKey::ALL.len();

/// The packets that a rule accepts: first and last value of each property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RuleBox([(u128, u128); SIDES]);

impl RuleBox {
    fn overlaps(&self, other: &RuleBox) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
    }

    fn contains(&self, other: &RuleBox) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
    }

    /// Adds the parts of this box outside `hole`, which overlaps it, to `pieces`.
    fn cut(mut self, hole: &RuleBox, pieces: &mut Vec<RuleBox>) {
        for side in 0..SIDES {
            let (Some(own), Some(cut)) = (self.0.get(side).copied(), hole.0.get(side).copied()) else { continue };
            let mut keep = |part: (u128, u128)| {
                let mut piece = self;
                if let Some(place) = piece.0.get_mut(side) {
                    *place = part;
                }
                pieces.push(piece);
            };
            if own.0 < cut.0 {
                keep((own.0, cut.0 - 1));
            }
            if cut.1 < own.1 {
                keep((cut.1 + 1, own.1));
            }
            if let Some(place) = self.0.get_mut(side) {
                *place = (own.0.max(cut.0), own.1.min(cut.1));
            }
        }
    }
}

/// The boxes of every rule, for IPv4 and for IPv6.
pub struct RuleBoxes([Vec<Option<RuleBox>>; 2]);

impl RuleBoxes {
    /// Computes for each rule in `list` the interval that it accepts of each property, for IPv4 and for IPv6.
    pub fn new(list: &FlowRules) -> RuleBoxes {
        let boxes = |is_ipv6| {
            let one = |rule: &super::FlowRule| {
                let mut sides = [(0, 0); SIDES];
                for (side, key) in sides.iter_mut().zip(RuleKey::ALL) {
                    *side = rule.matches.interval(key, is_ipv6, list.names())?;
                }
                Some(RuleBox(sides))
            };
            list.rules().iter().map(one).collect()
        };
        RuleBoxes([boxes(false), boxes(true)])
    }

    /// Returns the earlier rules that take all packets of `rule`, or `None` if some packet may be left.
    ///
    /// A rule that accepts no packet by itself is not shadowed.
    pub fn shadowed_by(&self, rule: usize) -> Option<Vec<usize>> {
        let mut takers = Vec::new();
        for boxes in &self.0 {
            let Some(own) = boxes.get(rule).copied().flatten() else { continue };
            takers.extend(covered(&own, boxes.get(..rule)?)?);
        }
        takers.sort_unstable();
        takers.dedup();
        (!takers.is_empty()).then_some(takers)
    }
}

/// Returns the positions of those boxes in `earlier` that together contain `own`.
///
/// Returns `None` if they do not contain it, or if there are too many pieces.
fn covered(own: &RuleBox, earlier: &[Option<RuleBox>]) -> Option<Vec<usize>> {
    let overlapping = || earlier.iter().enumerate().filter_map(|(at, hole)| Some((at, hole.as_ref()?)));
    if let Some((at, _)) = overlapping().find(|(_, hole)| hole.contains(own)) {
        return Some(vec![at]);
    }
    let (mut pieces, mut next, mut takers) = (vec![*own], Vec::new(), Vec::new());
    for (at, hole) in overlapping().filter(|(_, hole)| hole.overlaps(own)) {
        next.clear();
        let mut takes = false;
        for piece in pieces.drain(..) {
            if piece.overlaps(hole) {
                takes = true;
                piece.cut(hole, &mut next);
            } else {
                next.push(piece);
            }
        }
        core::mem::swap(&mut pieces, &mut next);
        if takes {
            takers.push(at);
        }
        if pieces.is_empty() {
            return Some(takers);
        }
        if pieces.len() > MAX_PIECES {
            return None;
        }
    }
    None
}
