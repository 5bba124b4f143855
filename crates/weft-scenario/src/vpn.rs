//! Defines the VPNs between two nodes, and writes them as configuration of the daemon.

use crate::error::{Checked, Source, which_exist};
use crate::file::{EntryFile, FlowFile, VpnFile};
use crate::{Action, Capacity, ControlLaw, Link, Scenario, TimedEvent, Variant, VpnService};
use serde::Deserialize;
use std::time::Duration;
use toml::{Spanned, Table};
use weft_units::Rate;

/// Maximum number of VPNs.
///
/// A larger number is probably a typing mistake. The lab distinguishes VPNs by one byte of their addresses.
const VPNS_MAX: usize = 100;
/// Greatest weight of a VPN that the daemon accepts.
const WEIGHT_MAX: i64 = 1_000_000;
/// Least and greatest queue limit in packets that the daemon accepts.
const QUEUE_PACKETS: [u64; 2] = [2, 1_000_000];
/// Least and greatest queue limit in bytes that the daemon accepts.
const QUEUE_BYTES: [u64; 2] = [3_000, 1 << 40];

/// A VPN between the two nodes of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct PairVpn {
    /// Name of the VPN in the results.
    pub name: String,
    /// Weight and promised rate of the VPN at the start of the run.
    pub share: VpnShare,
    /// Settings of the queue and loop through which the VPN's packets enter the tunnel.
    pub entry: VpnEntry,
}

/// The share of the links' capacity that a VPN may use: its weight and its promised rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VpnShare {
    /// Weight of the VPN relative to other VPNs, at least 1.
    pub weight: u32,
    /// The rate that the VPN is promised, if any.
    pub service: VpnService,
}

/// A change of a VPN's weight or promised rate during a run.
///
/// `None` keeps the present value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShareChange {
    /// Index of the VPN in the scenario's list of VPNs.
    pub vpn: usize,
    /// New weight of the VPN, or `None` to keep it.
    pub weight: Option<u32>,
    /// New promise to the VPN, or `None` to keep it.
    pub service: Option<VpnService>,
}

impl ShareChange {
    /// Returns the share that a VPN with `share` has after this change.
    pub fn of(&self, share: VpnShare) -> VpnShare {
        VpnShare { weight: self.weight.unwrap_or(share.weight), service: self.service.unwrap_or(share.service) }
    }

    /// Returns the change that gives the VPN `share` again in all values that this change sets.
    pub fn back_to(&self, share: VpnShare) -> ShareChange {
        ShareChange {
            vpn: self.vpn,
            weight: self.weight.map(|_| share.weight),
            service: self.service.map(|_| share.service),
        }
    }
}

/// Settings of the queue and loop through which a VPN's packets enter the tunnel.
///
/// `None` leaves the daemon's default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VpnEntry {
    /// Rate-control algorithm of the VPN's loop.
    pub law: Option<ControlLaw>,
    /// Discipline of the VPN's queue.
    pub queue: Option<VpnQueue>,
    /// Maximum number of packets in the VPN's queue.
    pub queue_packets: Option<u64>,
    /// Maximum number of bytes in the VPN's queue.
    pub queue_bytes: Option<u64>,
}

/// The queue discipline of a VPN.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum VpnQueue {
    /// First in, first out: drops an arriving packet for which there is no space.
    Fifo,
    /// Random early detection.
    Red,
    /// Flow random early drop.
    Fred,
    /// CoDel (RFC 8289).
    #[serde(rename = "codel")]
    CoDel,
    /// FQ-CoDel (RFC 8290).
    #[serde(rename = "fq-codel")]
    FqCoDel,
}

impl VpnEntry {
    /// Returns these settings, and those of `base` where they are `None`.
    #[must_use]
    pub fn over(&self, base: VpnEntry) -> VpnEntry {
        VpnEntry {
            law: self.law.or(base.law),
            queue: self.queue.or(base.queue),
            queue_packets: self.queue_packets.or(base.queue_packets),
            queue_bytes: self.queue_bytes.or(base.queue_bytes),
        }
    }
}

impl PairVpn {
    /// Returns the daemon's `[[vpn]]` table for this VPN, with the number `id`.
    ///
    /// `over` has the settings of the variant, which override those of the VPN. The table omits the settings that
    /// differ between nodes: device, addresses and members.
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
            ControlLaw::None => "none",
            ControlLaw::AimdWindow => "aimd-window",
            ControlLaw::Accumulation => "accumulation",
            ControlLaw::ExplicitRate => "explicit-rate",
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
    /// Returns the `[[vpn]]` table of each VPN in the daemons' configuration, in a variant.
    ///
    /// They omit the settings that differ between nodes: device, addresses and members.
    pub fn vpn_tables(&self, variant: &Variant) -> Vec<Table> {
        (1..).zip(&self.vpns).map(|(id, vpn)| vpn.table(id, &variant.vpn)).collect()
    }

    /// Returns the `[policy]` table of the daemons' configuration. It is empty if no VPN may be leased.
    pub fn policy_table(&self) -> Table {
        self.leasable.iter().map(|rate| ("leasable".to_owned(), format!("{} bit/s", rate.bps()).into())).collect()
    }

    /// Returns the weight and the promised rate of every VPN at the end of a run.
    pub fn last_shares(&self) -> Vec<VpnShare> {
        let first = self.vpns.iter().map(|vpn| vpn.share).collect();
        share_steps(&self.vpns, &self.events, self.duration).pop().map_or(first, |(_, shares)| shares)
    }
}

/// Returns the weights and promised rates of all VPNs after each change of one of them.
///
/// A change is the start of an event or its end. Each entry has the event's index.
fn share_steps(vpns: &[PairVpn], events: &[TimedEvent], duration: Duration) -> Vec<(usize, Vec<VpnShare>)> {
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

/// Returns the maximum total rate of leased VPNs that the file sets.
///
/// It checks that the links can carry this rate in each direction.
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
        Some(carried) if leasable > carried => Err(source
            .at(file, format!("`leasable` is {leasable}, but the links carry {carried} in total: lower `leasable`"))),
        _ => Ok(Some(leasable)),
    }
}

pub(crate) fn read(source: &Source<'_>, files: &[VpnFile], leasable: Option<Rate>) -> Checked<Vec<PairVpn>> {
    let mut vpns: Vec<PairVpn> = Vec::new();
    for file in files {
        let name = file.name.get_ref();
        let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(sound) {
            return Err(source.at(&file.name, "the name of a VPN must be letters, digits, - or _"));
        }
        if vpns.iter().any(|known| known.name == *name) {
            return Err(source.at(&file.name, format!("two VPNs have the name `{name}`: change one `name`")));
        }
        if vpns.len() == VPNS_MAX {
            return Err(source.at(&file.name, format!("a scenario can have at most {VPNS_MAX} VPNs: remove some")));
        }
        let weight = file.weight.as_ref().map_or(Ok(1), |weight| read_weight(source, weight))?;
        let service = match (&file.assured, &file.leased) {
            (None, None) => VpnService::BestEffort,
            (Some(rate), None) => VpnService::Assured(rate.get_ref().0),
            (None, Some(rate)) => VpnService::Leased(rate.get_ref().0),
            (Some(_), Some(leased)) => return Err(source.at(leased, "a VPN is `assured` or `leased`, not both")),
        };
        let entry = read_entry(source, &file.entry())?;
        vpns.push(PairVpn { name: name.clone(), share: VpnShare { weight, service }, entry });
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
        weight @ ..1 => Err(source.at(file, format!("the `weight` of a VPN must be above 0, not {weight}"))),
        weight => Err(source.at(
            file,
            format!(
                "the `weight` of a VPN must be at most {WEIGHT_MAX}, not {weight}: only the ratio of weights counts"
            ),
        )),
    }
}

/// Reads the queue and loop settings of a VPN and checks their limits.
pub(crate) fn read_entry(source: &Source<'_>, file: &EntryFile) -> Checked<VpnEntry> {
    let within = |value: &Option<Spanned<u64>>, [least, most]: [u64; 2], what| match value {
        Some(value) if !(least..=most).contains(value.get_ref()) => {
            let why = format!("the queue of a VPN must hold {least} to {most} {what}: change `queue-{what}`");
            Err(source.at(value, why))
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

/// Returns the index of the VPN with this name in `vpns`.
pub(crate) fn position(source: &Source<'_>, name: &Spanned<String>, vpns: &[&str]) -> Checked<usize> {
    vpns.iter().position(|vpn| vpn == name.get_ref()).ok_or_else(|| {
        let word = name.get_ref();
        let exist = match vpns {
            [] => format!("add a [[vpn]] with `name = \"{word}\"`"),
            _ => which_exist(word, vpns.iter().copied()),
        };
        source.at(name, format!("there is no VPN `{word}`: {exist}"))
    })
}

/// Returns the index of a flow's VPN. Returns `None` if the flow names no VPN.
pub(crate) fn of_flow(source: &Source<'_>, file: &FlowFile, vpns: &[PairVpn]) -> Checked<Option<usize>> {
    let names: Vec<&str> = vpns.iter().map(|vpn| vpn.name.as_str()).collect();
    file.vpn.as_ref().map(|name| position(source, name, &names)).transpose()
}

/// Checks that the total of the leased rates never exceeds the leasable rate, whatever events change.
///
/// `places` has the byte offset of `leased` for each `[[event]]`.
pub(crate) fn check_leases(
    source: &Source<'_>,
    vpns: &[PairVpn],
    events: &[TimedEvent],
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

/// Returns an error message if the leased rates together exceed the leasable rate. Returns `None` if they do not.
fn too_much_leased(shares: &[VpnShare], leasable: Option<Rate>) -> Option<String> {
    let lines = shares.iter().map(|share| match share.service {
        VpnService::Leased(rate) => rate.bps(),
        VpnService::BestEffort | VpnService::Assured(_) => 0,
    });
    let sum = Rate::from_bps(lines.fold(0, u64::saturating_add));
    match leasable {
        None if sum > Rate::ZERO => Some(format!(
            "{sum} are leased, but nothing may be leased: set the leasable rate, [policy] with leasable = \"90 \
             Mbit/s\", or use `assured`"
        )),
        Some(leasable) if sum > leasable => Some(format!(
            "the `leased` rates are {sum} in total, but only {leasable} may be leased: lower one, or use `assured`"
        )),
        _ => None,
    }
}
