//! The sites of an overlay: nodes that own prefixes.
//!
//! It defines their certificates, their directories of prefix owners, the results of lookups, and nodes that lie.

use super::world::OverlayWorld;
use std::collections::BTreeSet;
use std::net::IpAddr;
use weft_core::route::overlay::{NodeContact, OverlayState};
use weft_core::route::ownership::{
    CertificateGrant, DirectoryAuthority, DirectoryContext, DirectoryEvent, Found, OwnershipDirectory, Region,
};
use weft_session::{Certificate, Claims, PublicKey, RootKey, RootPublicKey};
use weft_units::{Duration, Instant, NodeId, Rng};
use weft_wire::call;
use weft_wire::certificate::WirePrefix;
use weft_wire::ownership::{self, Claim, ClaimVerdict, Reply, emit_holders};

/// Time of day at the start of a run, in seconds since 1970.
pub const START_UNIX_S: u64 = 1_700_000_000;
/// Validity of a certificate, in seconds: one year.
const VALID_S: u64 = 31_536_000;

/// The root key of the VPN, and the nodes whose certificates the root has revoked.
pub struct Registry {
    key: RootKey,
    root: RootPublicKey,
    revoked: BTreeSet<NodeId>,
}

/// The registry together with the present time. It checks certificates for directories of prefix owners.
pub(super) struct Now<'a> {
    pub(super) registry: &'a Registry,
    pub(super) now: Instant,
}

impl Default for Registry {
    fn default() -> Registry {
        let key = RootKey::from_seed([7; 32]);
        Registry { root: key.public_key(), key, revoked: BTreeSet::new() }
    }
}

impl Registry {
    /// Returns a certificate for the node `id` and these prefixes.
    ///
    /// It is valid for a year, from `since` seconds after the start of the run.
    pub fn certify(&self, id: NodeId, prefixes: &[WirePrefix], since: u64) -> Vec<u8> {
        let mut public_key = PublicKey([0; 32]);
        public_key.0[..NodeId::LEN].copy_from_slice(id.as_bytes());
        let not_before_unix_s = START_UNIX_S + since;
        let claims = Claims {
            public_key,
            name: format!("site-{id}"),
            not_before_unix_s,
            not_after_unix_s: not_before_unix_s + VALID_S,
            may_relay: true,
            prefixes: prefixes.to_vec(),
            groups: vec![],
        };
        self.key.sign(&claims).expect("prefixes of the world are prefixes").encoded().to_vec()
    }
}

impl DirectoryAuthority for Now<'_> {
    fn place_of(&self, name: &[u8]) -> NodeId {
        weft_session::place_of(name)
    }

    /// Checks a certificate, and returns what it grants: its owner, prefixes and duration. `None` if it is invalid.
    ///
    /// In the simulation, a node's identifier is the first bytes of its key. A real node's identifier is a hash of
    /// its key.
    fn check(&self, certificate: &[u8]) -> Option<CertificateGrant> {
        let certificate = Certificate::decode(certificate).ok()?;
        let unix_s = START_UNIX_S + (self.now - Instant::ZERO).as_secs();
        self.registry.root.check(&certificate, unix_s).ok()?;
        let claims = certificate.claims();
        let owner = NodeId::new(*claims.public_key.0.first_chunk()?);
        let holds_for = Duration::from_secs(claims.not_after_unix_s + 1 - unix_s);
        let (since_unix_s, prefixes) = (claims.not_before_unix_s, claims.prefixes.clone());
        let is_revoked = self.registry.revoked.contains(&owner);
        (!is_revoked).then_some(CertificateGrant { owner, since_unix_s, holds_for, prefixes })
    }
}

/// The lie of a node about prefix owners: how it changes the answers that it gives or forwards.
#[derive(Clone, Debug)]
pub enum Lie {
    /// Answers that the address has no owner, and that only the node itself stores claims.
    Denies,
    /// Answers with wrong addresses of the owner.
    Misleads,
    /// Answers as if the node itself were the owner, with this certificate.
    Shows(Vec<u8>),
    /// Forwards no calls of other nodes, and answers none.
    Swallows,
}

impl Lie {
    /// Returns the message that the lying node `own` sends instead of `bytes`, or `None` if it sends nothing.
    pub(super) fn forge(&self, own: &NodeContact, bytes: &[u8]) -> Option<Vec<u8>> {
        let Ok(message) = call::CallMessage::parse(bytes) else { return Some(bytes.to_vec()) };
        if matches!(self, Lie::Swallows) {
            return (message.header.source == own.id && message.kind != call::CallKind::Answer).then(|| bytes.to_vec());
        }
        if message.kind != call::CallKind::Answer || message.header.source != own.id {
            return Some(bytes.to_vec());
        }
        let mut body = [0; call::MAX_BODY];
        let only_itself = weft_wire::overlay::WireContact { id: own.id, details: &own.details };
        let len = match (self, Reply::parse(message.body).ok()?) {
            (_, Reply::Holders(_)) => emit_holders(std::iter::once(only_itself), &mut body).ok()?,
            (Lie::Misleads, Reply::Owner(claim)) => {
                Reply::Owner(Claim { seq: claim.seq + 1_000, details: &[0xee; 39], ..claim }).emit(&mut body).ok()?
            }
            (Lie::Shows(certificate), _) => {
                let claim = Claim { seq: u64::MAX, details: &own.details, certificate };
                Reply::Owner(claim).emit(&mut body).ok()?
            }
            _ => Reply::Nobody.emit(&mut body).ok()?,
        };
        let mut out = [0; call::MAX_MESSAGE];
        let len = call::CallMessage { body: &body[..len], ..message }.emit(&mut out).ok()?;
        Some(out[..len].to_vec())
    }
}

/// The result of a lookup of an address's owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookupResult {
    /// The node that looked up the owner.
    pub node: u32,
    /// The address whose owner was looked up.
    pub address: IpAddr,
    /// The owner of the address, or the reason why none was found.
    pub found: Found,
    /// The time at which the lookup ended.
    pub at: Instant,
}

/// The state of a site apart from its overlay state: its directory of prefix owners and its certificate.
#[derive(Default)]
pub(super) struct OverlaySite {
    pub(super) directory: Option<OwnershipDirectory>,
    pub(super) certificate: Vec<u8>,
    pub(super) lie: Option<Lie>,
    /// Nodes that are not neighbours, and with which the site had a session only for the directory of prefix owners.
    pub(super) met: BTreeSet<u32>,
}

impl OverlaySite {
    /// Starts the directory of prefix owners of a site whose program starts for the `run`-th time.
    pub(super) fn start(&mut self, run: u32, now: Instant, overlay: &OverlayState, registry: &Registry, rng: Rng) {
        let mut directory = OwnershipDirectory::new(START_UNIX_S, run, rng);
        let context = DirectoryContext { now, overlay, authority: &Now { registry, now } };
        if !self.certificate.is_empty() {
            directory.own(&context, &self.certificate);
        }
        (self.directory, self.met) = (Some(directory), BTreeSet::new());
    }
}

impl OverlayWorld {
    /// From now on, every node that starts gets a directory of prefix owners.
    pub fn keep_directories(&mut self) {
        self.registry = Some(Registry::default());
    }

    /// Gives a node a certificate for these prefixes, and makes the node claim them.
    pub fn own(&mut self, node: u32, prefixes: &[WirePrefix]) {
        let since = (self.now() - Instant::ZERO).as_secs();
        let certificate = self.registry.as_ref().map(|registry| registry.certify(self.id(node), prefixes, since));
        self.show(node, certificate.unwrap_or_default());
    }

    /// Lets `thief` claim the prefixes of a certificate that may be another node's. Returns the verdict of `holder`.
    ///
    /// `seq` is the sequence number of the claim. The result is `None` if `holder` gives no verdict.
    pub fn claim_as(&mut self, thief: u32, holder: u32, certificate: &[u8], seq: u64) -> Option<ClaimVerdict> {
        let claim = Claim { seq, details: &self.nodes[thief as usize].contact.details, certificate };
        let mut out = [0; ownership::MAX_MESSAGE];
        let len = ownership::ClaimMessage::Claim(claim).emit(&mut out).ok()?;
        let thief = self.id(thief);
        self.with_directory(holder, |directory, context| {
            let mut verdict = [0; ownership::MAX_MESSAGE];
            directory.handle_message(context, thief, &out[..len]).ok()?;
            while let Some(transmit) = directory.poll_transmit(context.overlay, &mut verdict) {
                let bytes = &verdict[..transmit.len];
                if let (true, Ok(ownership::ClaimMessage::Verdict { verdict, .. })) =
                    (transmit.to == thief, ownership::ClaimMessage::parse(bytes))
                {
                    return Some(verdict);
                }
            }
            None
        })?
    }

    /// Makes a node claim the prefixes in this certificate.
    pub fn show(&mut self, node: u32, certificate: Vec<u8>) {
        self.nodes[node as usize].site.certificate = certificate.clone();
        self.with_directory(node, |directory, context| directory.own(context, &certificate));
    }

    /// Makes a node withdraw the claim for its prefixes.
    pub fn withdraw(&mut self, node: u32) {
        self.nodes[node as usize].site.certificate.clear();
        self.with_directory(node, |directory, context| directory.withdraw(context));
    }

    /// Changes the address of a node, and lets the node notice it.
    pub fn relocate(&mut self, node: u32) {
        let this = &mut self.nodes[node as usize];
        this.contact.details[0] += 1;
        if let Some(overlay) = &mut this.overlay {
            overlay.set_own_details(&this.contact.details);
        }
        self.with_directory(node, |directory, context| directory.contact_changed(context));
    }

    /// Revokes a node's certificates at the root. Every live node learns of it at once.
    pub fn revoke(&mut self, node: u32) {
        let id = self.id(node);
        if let Some(registry) = &mut self.registry {
            registry.revoked.insert(id);
        }
        for other in self.alive() {
            self.with_directory(other, |directory, _| directory.revoke(id));
        }
    }

    /// Makes a node lie in this way from now on.
    pub fn corrupt(&mut self, node: u32, lie: Lie) {
        self.nodes[node as usize].site.lie = Some(lie);
    }

    /// Lets a node start to look up the owner of an address. The result is in [`OverlayWorld::take_findings`].
    pub fn look_up(&mut self, node: u32, address: IpAddr) {
        self.with_directory(node, |directory, context| directory.look_up(context, address));
    }

    /// True if the owner that a lookup found is alive, at the address in the result.
    ///
    /// If it is not, the node that looked it up reports this to its directory of prefix owners.
    pub fn meet(&mut self, finding: &LookupResult) -> bool {
        let Found::Owner(owner) = &finding.found else { return false };
        let to = &self.nodes[self.node(owner.id) as usize];
        let is_there = to.overlay.is_some() && to.contact.details == owner.details;
        let (id, now) = (owner.id, self.now());
        if !is_there {
            self.with_directory(finding.node, |directory, _| directory.handle_unreachable(now, id));
        }
        is_there
    }

    /// Returns the results of the lookups that ended since the last call.
    pub fn take_findings(&mut self) -> Vec<LookupResult> {
        std::mem::take(&mut self.findings)
    }

    /// Returns all other events of the directories since the last call, each with the number of its node.
    pub fn take_reports(&mut self) -> Vec<(u32, DirectoryEvent)> {
        std::mem::take(&mut self.reports)
    }

    /// Returns the key under which claims for prefixes in a region are stored.
    pub fn key_of(&self, region: Region) -> NodeId {
        self.registry.as_ref().map_or(NodeId::default(), |registry| region.key(&Now { registry, now: self.now() }))
    }

    /// Returns the number of nodes with which a node had a session only for the directory of prefix owners.
    pub fn met(&self, node: u32) -> u32 {
        self.nodes[node as usize].site.met.len() as u32
    }

    /// Returns a node's directory of prefix owners, or `None` if the node is dead or has none.
    pub fn directory(&self, node: u32) -> Option<&OwnershipDirectory> {
        self.nodes.get(node as usize)?.site.directory.as_ref()
    }

    /// Calls `act` with a node's directory of prefix owners, and sends the resulting messages.
    ///
    /// It returns the result of `act`, or `None` if the node has no directory.
    pub fn with_directory<T>(
        &mut self,
        node: u32,
        act: impl FnOnce(&mut OwnershipDirectory, &DirectoryContext<'_>) -> T,
    ) -> Option<T> {
        let now = self.now();
        let this = &mut self.nodes[node as usize];
        let (registry, overlay, directory) =
            (self.registry.as_ref()?, this.overlay.as_ref()?, this.site.directory.as_mut()?);
        let result = act(directory, &DirectoryContext { now, overlay, authority: &Now { registry, now } });
        self.settle(node);
        Some(result)
    }
}
