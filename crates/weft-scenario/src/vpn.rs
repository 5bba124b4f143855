//! VPNs between the two nodes of a scenario, in the daemon's words.

use crate::error::{Checked, Source, which_exist};
use crate::file::{EntryFile, FlowFile, VpnFile};
use crate::{Action, Capacity, Event, Link, LoopLaw, Scenario, Variant, VpnService};
use serde::Deserialize;
use std::time::Duration;
use toml::{Spanned, Table};
use weft_units::Rate;

/// More VPNs than this are a slip of the pen, and have no addresses.
const VPNS_MAX: usize = 100;
/// The greatest weight the daemon takes.
const WEIGHT_MAX: i64 = 1_000_000;
/// Packets that a queue holds, at least and at most, and bytes, as the daemon takes them.
const QUEUE_PACKETS: [u64; 2] = [2, 1_000_000];
const QUEUE_BYTES: [u64; 2] = [3_000, 1 << 40];

/// A network of its own between the two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Vpn {
    /// Its name in the results.
    pub name: String,
    /// What it may have at the beginning.
    pub share: VpnShare,
    /// How its packets enter the tunnel.
    pub entry: VpnEntry,
}

/// What a VPN may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VpnShare {
    /// Beside other VPNs; above zero.
    pub weight: u32,
    /// What it is promised.
    pub service: VpnService,
}

/// A change of a VPN's share; what is left out stays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShareChange {
    /// The VPN's position.
    pub vpn: usize,
    /// The new weight.
    pub weight: Option<u32>,
    /// What is promised from then on.
    pub service: Option<VpnService>,
}

impl ShareChange {
    /// `share` with what changes.
    pub fn of(&self, share: VpnShare) -> VpnShare {
        VpnShare { weight: self.weight.unwrap_or(share.weight), service: self.service.unwrap_or(share.service) }
    }

    /// The change that makes it `share` again.
    pub fn back_to(&self, share: VpnShare) -> ShareChange {
        ShareChange {
            vpn: self.vpn,
            weight: self.weight.map(|_| share.weight),
            service: self.service.map(|_| share.service),
        }
    }
}

/// How a VPN's packets enter the tunnel; what is left out is as the daemon has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VpnEntry {
    /// The law of its loop.
    pub law: Option<LoopLaw>,
    /// What its queue does.
    pub queue: Option<VpnQueue>,
    /// Packets the queue holds at most.
    pub queue_packets: Option<u64>,
    /// Bytes the queue holds at most.
    pub queue_bytes: Option<u64>,
}

/// `queue` of a VPN.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum VpnQueue {
    /// First in, first out.
    Fifo,
    /// Random early detection.
    Red,
    /// Flow random early drop.
    Fred,
    /// RFC 8289.
    #[serde(rename = "codel")]
    CoDel,
    /// RFC 8290.
    #[serde(rename = "fq-codel")]
    FqCoDel,
}

impl VpnEntry {
    /// `base` with what is set here.
    fn over(&self, base: VpnEntry) -> VpnEntry {
        VpnEntry {
            law: self.law.or(base.law),
            queue: self.queue.or(base.queue),
            queue_packets: self.queue_packets.or(base.queue_packets),
            queue_bytes: self.queue_bytes.or(base.queue_bytes),
        }
    }
}

impl Vpn {
    /// The daemon's `[[vpn]]` with this number, without what is a node's own: device, addresses and members.
    fn table(&self, id: i64, over: &VpnEntry) -> Table {
        let entry = over.over(self.entry);
        let mut table = Table::new();
        table.insert("id".into(), id.into());
        table.insert("name".into(), self.name.clone().into());
        table.insert("weight".into(), i64::from(self.share.weight).into());
        let promise = match self.share.service {
            VpnService::BestEffort => None,
            VpnService::Assured(rate) => Some(("assured", rate)),
            VpnService::Leased(rate) => Some(("leased", rate)),
        };
        table.extend(promise.map(|(key, rate)| (key.to_owned(), format!("{} bit/s", rate.bps()).into())));
        let law = entry.law.map(|law| match law {
            LoopLaw::None => "none",
            LoopLaw::AimdWindow => "aimd-window",
            LoopLaw::Accumulation => "accumulation",
            LoopLaw::ExplicitRate => "explicit-rate",
        });
        let queue = entry.queue.map(|queue| match queue {
            VpnQueue::Fifo => "fifo",
            VpnQueue::Red => "red",
            VpnQueue::Fred => "fred",
            VpnQueue::CoDel => "codel",
            VpnQueue::FqCoDel => "fq-codel",
        });
        let words = [("loop", law), ("queue", queue)];
        table.extend(words.into_iter().filter_map(|(key, word)| Some((key.to_owned(), word?.into()))));
        let numbers = [("queue-packets", entry.queue_packets), ("queue-bytes", entry.queue_bytes)];
        table.extend(numbers.into_iter().filter_map(|(key, n)| Some((key.to_owned(), i64::try_from(n?).ok()?.into()))));
        table
    }
}

impl Scenario {
    /// The daemon's `[[vpn]]` tables in a variant, without what is a node's own: device, addresses and members.
    pub fn vpn_tables(&self, variant: &Variant) -> Vec<Table> {
        (1..).zip(&self.vpns).map(|(id, vpn)| vpn.table(id, &variant.vpn)).collect()
    }

    /// The daemon's `[policy]` table; empty if nothing is said.
    pub fn policy_table(&self) -> Table {
        self.leasable.iter().map(|rate| ("leasable".to_owned(), format!("{} bit/s", rate.bps()).into())).collect()
    }

    /// What every VPN may have when a run ends.
    pub fn last_shares(&self) -> Vec<VpnShare> {
        let first = self.vpns.iter().map(|vpn| vpn.share).collect();
        share_steps(&self.vpns, &self.events, self.duration).pop().map_or(first, |(_, shares)| shares)
    }
}

/// After each event that changes a share, and after its end, what every VPN may have; with the event's position.
fn share_steps(vpns: &[Vpn], events: &[Event], duration: Duration) -> Vec<(usize, Vec<VpnShare>)> {
    let mut steps = Vec::new();
    for (position, event) in events.iter().enumerate() {
        let Action::Share(change) = event.action else { continue };
        steps.push((event.at, position, change));
        let end = event.lasting.map(|lasting| event.at + lasting).filter(|end| *end < duration);
        let before = vpns.get(change.vpn).map(|vpn| vpn.share);
        steps.extend(end.zip(before).map(|(end, before)| (end, position, change.back_to(before))));
    }
    steps.sort_by_key(|(at, ..)| *at);
    let mut shares: Vec<VpnShare> = vpns.iter().map(|vpn| vpn.share).collect();
    let apply = |(_, position, change): (Duration, usize, ShareChange)| {
        if let Some(share) = shares.get_mut(change.vpn) {
            *share = change.of(*share);
        }
        (position, shares.clone())
    };
    steps.into_iter().map(apply).collect()
}

/// What leased lines may take together, checked against the links.
pub(crate) fn leasable(
    source: &Source<'_>,
    file: Option<&Spanned<crate::quantity::Quantity<Rate>>>,
    links: &[Link],
) -> Checked<Option<Rate>> {
    let Some(file) = file else { return Ok(None) };
    let leasable = file.get_ref().0;
    let carried = [|link: &Link| link.up.capacity.clone(), |link: &Link| link.down.capacity.clone()].map(|way| {
        let rate = |link| match way(link) {
            Capacity::Rate(rate) => Some(rate.bps()),
            Capacity::Trace(_) => None,
        };
        links.iter().map(rate).sum::<Option<u64>>()
    });
    match carried.into_iter().flatten().min().map(Rate::from_bps) {
        Some(carried) if leasable > carried => {
            Err(source.at(file, format!("{leasable} cannot be leased: the links carry {carried} together")))
        }
        _ => Ok(Some(leasable)),
    }
}

pub(crate) fn read(source: &Source<'_>, files: &[VpnFile], leasable: Option<Rate>) -> Checked<Vec<Vpn>> {
    let mut vpns: Vec<Vpn> = Vec::new();
    for file in files {
        let name = file.name.get_ref();
        let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(sound) {
            return Err(source.at(&file.name, "a VPN's name has letters, digits, - or _"));
        }
        if vpns.iter().any(|known| known.name == *name) {
            return Err(source.at(&file.name, format!("there are two VPNs named `{name}`")));
        }
        if vpns.len() == VPNS_MAX {
            return Err(source.at(&file.name, format!("more than {VPNS_MAX} VPNs")));
        }
        let weight = file.weight.as_ref().map_or(Ok(1), |weight| read_weight(source, weight))?;
        let service = match (&file.assured, &file.leased) {
            (None, None) => VpnService::BestEffort,
            (Some(rate), None) => VpnService::Assured(rate.get_ref().0),
            (None, Some(rate)) => VpnService::Leased(rate.get_ref().0),
            (Some(_), Some(leased)) => return Err(source.at(leased, "a VPN is `assured` or `leased`, not both")),
        };
        let entry = read_entry(source, &file.entry())?;
        vpns.push(Vpn { name: name.clone(), share: VpnShare { weight, service }, entry });
        let shares: Vec<VpnShare> = vpns.iter().map(|vpn| vpn.share).collect();
        if let (Some(leased), Some(why)) = (&file.leased, too_much_leased(&shares, leasable)) {
            return Err(source.at(leased, why));
        }
    }
    Ok(vpns)
}

pub(crate) fn read_weight(source: &Source<'_>, file: &Spanned<i64>) -> Checked<u32> {
    match *file.get_ref() {
        weight @ 1..=WEIGHT_MAX => Ok(weight as u32),
        weight @ ..1 => Err(source.at(file, format!("the weight is {weight}: it must be above 0"))),
        weight => Err(source.at(file, format!("the weight is {weight}: {WEIGHT_MAX} at most; only the ratio counts"))),
    }
}

/// How VPNs enter the tunnel, if it makes sense.
pub(crate) fn read_entry(source: &Source<'_>, file: &EntryFile) -> Checked<VpnEntry> {
    let within = |value: &Option<Spanned<u64>>, [least, most]: [u64; 2], what| match value {
        Some(value) if !(least..=most).contains(value.get_ref()) => {
            Err(source.at(value, format!("a queue holds {least} to {most} {what}")))
        }
        value => Ok(value.as_ref().map(|value| *value.get_ref())),
    };
    Ok(VpnEntry {
        law: file.law,
        queue: file.queue,
        queue_packets: within(&file.queue_packets, QUEUE_PACKETS, "packets")?,
        queue_bytes: within(&file.queue_bytes, QUEUE_BYTES, "bytes")?,
    })
}

/// The position of the VPN that is meant.
pub(crate) fn position(source: &Source<'_>, name: &Spanned<String>, vpns: &[Vpn]) -> Checked<usize> {
    vpns.iter().position(|vpn| vpn.name == *name.get_ref()).ok_or_else(|| {
        let word = name.get_ref();
        let exist = match vpns {
            [] => "add a [[vpn]] with that `name`".to_owned(),
            _ => which_exist(word, vpns.iter().map(|vpn| vpn.name.as_str())),
        };
        source.at(name, format!("there is no VPN `{word}`: {exist}"))
    })
}

/// The VPN of a flow; none where it says none.
pub(crate) fn of_flow(source: &Source<'_>, file: &FlowFile, vpns: &[Vpn]) -> Checked<Option<usize>> {
    file.vpn.as_ref().map(|name| position(source, name, vpns)).transpose()
}

/// Lines that events lease fit what may be leased; `places` are those of `leased` in each `[[event]]`.
pub(crate) fn check_leases(
    source: &Source<'_>,
    vpns: &[Vpn],
    events: &[Event],
    duration: Duration,
    leasable: Option<Rate>,
    places: &[Option<usize>],
) -> Checked<()> {
    for (position, shares) in share_steps(vpns, events, duration) {
        let place = events.get(position).and_then(|event| *places.get(event.group)?);
        if let Some((place, why)) = place.zip(too_much_leased(&shares, leasable)) {
            return Err(source.error(place, why));
        }
    }
    Ok(())
}

/// Why leased lines cannot be, if they cannot.
fn too_much_leased(shares: &[VpnShare], leasable: Option<Rate>) -> Option<String> {
    let lines = shares.iter().map(|share| match share.service {
        VpnService::Leased(rate) => rate.bps(),
        VpnService::BestEffort | VpnService::Assured(_) => 0,
    });
    let sum = Rate::from_bps(lines.fold(0, u64::saturating_add));
    match leasable {
        None if sum > Rate::ZERO => Some(format!(
            "{sum} are leased, where nothing may be: say what may, [policy] with leasable = \"90 Mbit/s\", or use `assured`"
        )),
        Some(leasable) if sum > leasable => Some(format!(
            "leased lines take {sum} together, where {leasable} may be leased: lease less, or use `assured`"
        )),
        _ => None,
    }
}
