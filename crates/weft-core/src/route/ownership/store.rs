//! Claims that a node stores for other nodes. It accepts a claim only from the claim's owner.

use super::region::{self, Region};
use super::{CertificateGrant, Conflict, DirectoryAuthority, LIFETIME};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_units::{Instant, NodeId};
use weft_wire::certificate::WirePrefix;
use weft_wire::ownership::{Claim, ClaimVerdict};

/// Maximum number of owners whose claims a node stores.
pub const MOST_OWNERS: usize = 4_096;
/// Maximum number of prefixes of one region that a node stores.
pub const MOST_IN_REGION: usize = 512;

/// The last message of an owner that this node stores: a claim or a withdrawal.
#[derive(Clone, Debug)]
struct ClaimRecord {
    seq: u64,
    until: Instant,
    /// The claim with its certificate.
    ///
    /// `None` after a withdrawal, which is stored because an older claim may still be in flight.
    claim: Option<StoredClaim>,
}

#[derive(Clone, Debug)]
struct StoredClaim {
    details: Box<[u8]>,
    certificate: Box<[u8]>,
    grant: CertificateGrant,
    /// Time at which the certificate expires.
    ends: Instant,
}

/// The claims that a node stores, by owner and by prefix.
#[derive(Clone, Debug, Default)]
pub struct Store {
    records: BTreeMap<NodeId, ClaimRecord>,
    prefixes: BTreeMap<WirePrefix, NodeId>,
}

impl Store {
    /// Processes a claim that its owner `from` sent, and returns the verdict for the owner.
    ///
    /// `belongs` returns true for the regions whose claims this node stores. Conflicts found are added to `conflicts`.
    pub fn claim(
        &mut self,
        now: Instant,
        authority: &dyn DirectoryAuthority,
        from: NodeId,
        claim: Claim<'_>,
        belongs: impl Fn(Region) -> bool,
        conflicts: &mut Vec<Conflict>,
    ) -> ClaimVerdict {
        let known = self.records.get(&from).filter(|record| record.until > now);
        if known.is_some_and(|record| record.seq > claim.seq) {
            return ClaimVerdict::Outdated;
        }
        // If this certificate is stored already, its signature was checked when it was stored.
        let checked =
            known.and_then(|record| record.claim.as_ref()).filter(|kept| *kept.certificate == *claim.certificate);
        let granted = match checked {
            Some(kept) => Some((kept.grant.clone(), kept.ends)),
            None => authority.check(claim.certificate).map(|grant| (grant.clone(), now + grant.holds_for)),
        };
        let Some((grant, ends)) = granted.filter(|(grant, ends)| grant.owner == from && *ends > now) else {
            return ClaimVerdict::Uncertified;
        };
        if self.records.len() >= MOST_OWNERS && !self.records.contains_key(&from) {
            return ClaimVerdict::Full;
        }
        self.remove_prefixes(from);
        let kept = grant.prefixes.iter().filter(|prefix| belongs(Region::of(**prefix)));
        let verdicts: Vec<ClaimVerdict> = kept.map(|prefix| self.give(*prefix, &grant, conflicts)).collect();
        let verdict = match verdicts.iter().find(|verdict| **verdict == ClaimVerdict::Taken).or(verdicts.first()) {
            Some(ClaimVerdict::Taken) => ClaimVerdict::Taken,
            refused => {
                self.records.remove(&from);
                return refused.copied().unwrap_or(ClaimVerdict::Elsewhere);
            }
        };
        let (details, certificate) = (claim.details.into(), claim.certificate.into());
        let claim_kept = Some(StoredClaim { details, certificate, grant, ends });
        self.records.insert(from, ClaimRecord { seq: claim.seq, until: ends.min(now + LIFETIME), claim: claim_kept });
        verdict
    }

    /// Processes the withdrawal of all prefixes of the owner `from`, and returns the verdict for it.
    pub fn withdraw(&mut self, now: Instant, from: NodeId, seq: u64) -> ClaimVerdict {
        match self.records.get(&from) {
            Some(record) if record.seq > seq => ClaimVerdict::Outdated,
            Some(_) => {
                let withdrawn = ClaimRecord { seq, until: now + LIFETIME, claim: None };
                self.remove_prefixes(from);
                self.records.insert(from, withdrawn);
                ClaimVerdict::Taken
            }
            None => ClaimVerdict::Taken,
        }
    }

    /// Returns the claim that owns the longest stored prefix around an address, or `None` if there is no such prefix.
    pub fn owner_of(&self, now: Instant, address: IpAddr) -> Option<Claim<'_>> {
        let mut owners = region::matches(&self.prefixes, address).filter_map(|(_, owner)| self.records.get(owner));
        let record = owners.find(|record| record.until > now)?;
        let kept = record.claim.as_ref()?;
        Some(Claim { seq: record.seq, details: &kept.details, certificate: &kept.certificate })
    }

    /// Returns the key and addresses of an owner, as its stored claim states them.
    pub fn details(&self, owner: NodeId) -> Option<&[u8]> {
        self.records.get(&owner)?.claim.as_ref().map(|kept| &*kept.details)
    }

    /// Deletes all claims of a node.
    pub fn forget(&mut self, owner: NodeId) {
        self.remove_prefixes(owner);
        self.records.remove(&owner);
    }

    /// Deletes the claims that were not repeated in time or whose certificate has expired.
    pub fn expire(&mut self, now: Instant) {
        let is_over = |(owner, record): (&NodeId, &ClaimRecord)| (record.until <= now).then_some(*owner);
        for owner in self.records.iter().filter_map(is_over).collect::<Vec<_>>() {
            self.forget(owner);
        }
    }

    /// Returns the regions of the stored prefixes, each with the owners of these prefixes.
    pub fn regions(&self) -> BTreeMap<Region, Vec<NodeId>> {
        let mut regions: BTreeMap<Region, Vec<NodeId>> = BTreeMap::new();
        for (prefix, owner) in &self.prefixes {
            let owners = regions.entry(Region::of(*prefix)).or_default();
            if !owners.contains(owner) {
                owners.push(*owner);
            }
        }
        regions
    }

    /// Number of owners with stored claims, and number of their prefixes.
    pub fn len(&self) -> (usize, usize) {
        (self.records.values().filter(|record| record.claim.is_some()).count(), self.prefixes.len())
    }

    /// Stores the owner of a certificate as the owner of one of its prefixes, and returns the verdict.
    ///
    /// It refuses if another owner has an older certificate for an overlapping prefix. Each conflict is added to
    /// `conflicts`.
    fn give(&mut self, prefix: WirePrefix, grant: &CertificateGrant, conflicts: &mut Vec<Conflict>) -> ClaimVerdict {
        let others: Vec<(WirePrefix, NodeId)> =
            self.overlaps(prefix).filter(|(_, owner)| *owner != grant.owner).collect();
        let seniority = |grant: &CertificateGrant| (grant.since_unix_s, grant.owner);
        let kept_by = |owner: &NodeId| self.records.get(owner).and_then(|record| record.claim.as_ref());
        let older = others
            .iter()
            .find(|(_, owner)| kept_by(owner).is_some_and(|kept| seniority(&kept.grant) < seniority(grant)));
        if let Some((_, owner)) = older {
            conflicts.push(Conflict { prefix, owner: *owner, refused: grant.owner });
            return ClaimVerdict::Owned;
        }
        for (other, owner) in others {
            conflicts.push(Conflict { prefix: other, owner: grant.owner, refused: owner });
            self.prefixes.remove(&other);
        }
        let region = Region::of(prefix);
        let alike = region::within(&self.prefixes, region.prefix()).filter(|(known, _)| Region::of(*known) == region);
        if alike.count() >= MOST_IN_REGION {
            return ClaimVerdict::Full;
        }
        self.prefixes.insert(prefix, grant.owner);
        ClaimVerdict::Taken
    }

    /// Returns the stored prefixes that contain this one or lie within it.
    ///
    /// Default routes (length 0) overlap only with each other.
    fn overlaps(&self, prefix: WirePrefix) -> impl Iterator<Item = (WirePrefix, NodeId)> {
        let around = region::matches(&self.prefixes, prefix.0).filter(move |(known, _)| known.1 < prefix.1);
        let all = around.chain(region::within(&self.prefixes, prefix));
        all.filter(move |(known, _)| *known == prefix || known.1 > 0 && prefix.1 > 0)
            .map(|(known, owner)| (known, *owner))
    }

    fn remove_prefixes(&mut self, owner: NodeId) {
        let claim = self.records.get(&owner).and_then(|record| record.claim.as_ref());
        for prefix in claim.into_iter().flat_map(|kept| &kept.grant.prefixes) {
            if self.prefixes.get(prefix) == Some(&owner) {
                self.prefixes.remove(prefix);
            }
        }
    }
}
