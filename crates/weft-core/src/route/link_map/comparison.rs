//! Compares another node's digest of its link map with the own link map, a few members at a time.
//!
//! The author of a claim is the member that signed it.

use super::LinkMap;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_wire::link_map::Digest;
use weft_wire::relay::Label;

/// A message or certificate that the other node lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lacked<'a> {
    /// Certificate of an author that the other node does not know.
    Certificate(&'a [u8]),
    /// Signed message of an author whose claims differ between the two nodes.
    Claim(&'a [u8]),
}

/// A comparison of another node's digest with the own link map. The map may change between its steps.
///
/// Certificates come first, because a node keeps no claim of an author that it does not know. Then the newest message
/// of each author comes first, so that an author with many messages does not push out the others if only some can be
/// sent.
#[derive(Debug)]
pub struct Comparison {
    /// Authors that the other node knows and the fingerprints of their claims, in rising order of the labels.
    theirs: Vec<(Label, u64)>,
    /// Number of authors compared so far that both nodes know.
    common: usize,
    has_other_claims: bool,
    /// Least and greatest label (first 32 bits of the node id) of the authors that are still to be compared.
    left: Option<(Label, Label)>,
    /// Authors whose claims differ between the two nodes, and the number of their messages already returned.
    differing: VecDeque<(Label, usize)>,
}

impl Comparison {
    /// Begins the comparison of another node's `digest` with the own link map.
    pub fn new(digest: &Digest<'_>) -> Comparison {
        let mut theirs: Vec<(Label, u64)> = digest.iter().collect();
        theirs.sort_unstable();
        let left = Some((digest.first, digest.last)).filter(|(first, last)| first <= last);
        Comparison { theirs, common: 0, has_other_claims: false, left, differing: VecDeque::new() }
    }

    /// Examines up to `most` further authors. Returns the certificates that the other node lacks.
    ///
    /// Once all authors have been compared, it returns up to `most` claims of those authors whose claims differ.
    pub fn advance<'a>(&mut self, map: &'a LinkMap, most: usize) -> Vec<Lacked<'a>> {
        match self.left {
            Some((first, last)) => self.compare(map, first, last, most),
            None => self.claims(map, most),
        }
    }

    /// Returns up to `most` further claims that the other node may lack. The authors of these claims take turns.
    fn claims<'a>(&mut self, map: &'a LinkMap, most: usize) -> Vec<Lacked<'a>> {
        let mut lacked = Vec::new();
        for _ in 0..most {
            let Some((author, told)) = self.differing.pop_front() else { break };
            if let Some(message) = map.message(author, told) {
                lacked.push(Lacked::Claim(message));
                self.differing.push_back((author, told + 1));
            }
        }
        lacked
    }

    /// Compares up to `most` authors with labels from `first` to `last`.
    ///
    /// Returns the certificates of those that the other node does not know.
    fn compare<'a>(&mut self, map: &'a LinkMap, first: Label, last: Label, most: usize) -> Vec<Lacked<'a>> {
        let authors = map.digest(first, most);
        let next = authors.last().filter(|_| authors.len() == most).and_then(|(label, _)| label.0.checked_add(1));
        self.left = next.map(|next| (Label(next), last)).filter(|(next, last)| next <= last);
        let mut lacked = Vec::new();
        for (label, fingerprint) in authors.into_iter().filter(|(label, _)| *label <= last) {
            let at = self.theirs.binary_search_by_key(&label, |(label, _)| *label).ok();
            let known = at.map(|at| self.theirs[at].1);
            self.common += usize::from(known.is_some());
            if known.is_none() {
                lacked.extend(map.member(label).map(|(_, certificate)| Lacked::Certificate(certificate)));
            }
            if known != Some(fingerprint) {
                self.has_other_claims |= known.is_some();
                self.differing.push_back((label, 0));
            }
        }
        lacked
    }

    /// True if all authors have been compared.
    pub fn is_complete(&self) -> bool {
        self.left.is_none()
    }

    /// True if all authors have been compared, and all claims that the other node may lack have been returned.
    pub fn has_ended(&self) -> bool {
        self.left.is_none() && self.differing.is_empty()
    }

    /// True if the other node stores claims or members that this node does not have, as far as fingerprints show.
    ///
    /// Meaningful once all authors have been compared.
    pub fn lacks_here(&self) -> bool {
        self.has_other_claims || self.common < self.theirs.len()
    }
}
