//! Checks the packets that hosts receive.
//!
//! The judge records each packet that a host sends. A node must deliver each packet at most once, unaltered,
//! at the right node, and in order where the configuration promises order.

use super::fault::FaultKind;
use super::packet::{ONE_SIDED, PacketName, SwarmFlow, SwarmSegment, port_of};
use super::plan::Plan;
use super::violation::Violation;
use std::collections::BTreeMap;
use weft_units::{Duration, Instant, VpnId};

/// Time without a packet of a flow after which its receiver may have deleted the flow's state.
///
/// A receiver deletes the state after a minute on its own clock, which may have jumped.
const FORGETFUL: Duration = Duration::from_secs(50);
/// Maximum age at which a packet may arrive, except TCP. An older one violates the invariant `stale`.
///
/// The maximum covers 1 s in a queue, the time in flight, and 5 s of waiting for a missing unit.
const OLDEST: Duration = Duration::from_secs(10);
/// Maximum number of missing packets that are recorded for a flow. The order of further ones is not checked.
const MAX_HOLES: usize = 256;

/// A packet that was sent, and when it was delivered.
#[derive(Clone, Copy, Debug)]
struct SentPacket {
    segment: SwarmSegment,
    at: Instant,
    delivered: Option<Instant>,
}

/// The packets of one flow that were sent, and the state of their delivery.
#[derive(Debug, Default)]
struct Account {
    sent: Vec<SentPacket>,
    bytes: u64,
    /// One more than the largest number of a delivered packet.
    next: u32,
    /// Time since which the receiver has stored state for the flow without interruption.
    known_since: Option<Instant>,
    /// Time at which the receiver last discarded the state that it stored for the sender.
    forgotten_at: Option<Instant>,
    last_delivery: Option<Instant>,
    /// Packets of the flow that later packets of the flow overtook, by number.
    ///
    /// The values are the time for which the receiver waited for the packet, and the time for which it must wait.
    overtaken: BTreeMap<u32, (Duration, Duration)>,
}

/// All packets sent and delivered, by flow.
#[derive(Debug)]
pub(super) struct DeliveryJudge<'a> {
    flows: &'a [SwarmFlow],
    by_port: BTreeMap<(VpnId, u16), usize>,
    accounts: Vec<Account>,
    /// The guest whose membership ends during the run, and the time from which it is no member.
    expelled: Option<(usize, Instant)>,
    /// The node whose key a second node also has.
    ///
    /// While the second node runs, peers cannot distinguish the two nodes after a restart. A packet may then be
    /// delivered twice.
    shares_key: Option<usize>,
    /// True if no machine stops and no clock jumps in this plan.
    is_timely: bool,
    /// Number of packets that nodes delivered to hosts.
    pub(super) delivered: u64,
}

/// The properties of the receiving node that the judge needs.
pub(super) struct ReceivingNode {
    pub(super) node: usize,
    /// True if the node delivers flows in order.
    pub(super) resequences: bool,
    /// True if the node's clock jumped a short time ago, or if two nodes of the plan have the same key.
    ///
    /// The order of the node's packets is then not checked.
    pub(super) stepped: bool,
}

/// A packet that was overtaken by later packets of its flow.
///
/// It contains the time for which the receiver waited for the packet, and the time for which it must wait.
pub(super) struct Overtaken {
    pub(super) flow: usize,
    pub(super) number: u32,
    pub(super) waited: Duration,
    pub(super) hold: Duration,
}

impl<'a> DeliveryJudge<'a> {
    pub(super) fn new(plan: &'a Plan) -> DeliveryJudge<'a> {
        let flows = &plan.flows;
        let stops_time = |kind: &FaultKind| {
            matches!(kind, FaultKind::Pause { .. } | FaultKind::Suspend { .. } | FaultKind::ClockStep { .. })
        };
        let is_timely = !plan.faults.iter().any(|fault| stops_time(&fault.kind));
        let by_port = flows.iter().enumerate().map(|(at, flow)| ((flow.vpn, flow.port), at)).collect();
        let accounts = flows.iter().map(|_| Account::default()).collect();
        DeliveryJudge {
            flows,
            by_port,
            accounts,
            expelled: plan.expelled(),
            shares_key: plan.shared_key(),
            is_timely,
            delivered: 0,
        }
    }

    /// Creates the flow's next packet with `len` bytes of payload. Records that it is sent now.
    pub(super) fn send(&mut self, now: Instant, flow: usize, len: u16, push: bool) -> SwarmSegment {
        let account = &mut self.accounts[flow];
        let segment = SwarmSegment { number: account.sent.len() as u32, offset: account.bytes, len, push };
        account.bytes += u64::from(len);
        account.sent.push(SentPacket { segment, at: now, delivered: None });
        segment
    }

    /// Forgets which packets were overtaken in the flows from node `from` to node `to`.
    ///
    /// The receiver has lost its state for these flows and starts again with new state.
    pub(super) fn forget_order(&mut self, now: Instant, from: usize, to: usize) {
        for (flow, account) in self.flows.iter().zip(&mut self.accounts) {
            if (flow.from, flow.to) == (from, to) {
                (account.known_since, account.forgotten_at) = (None, Some(now));
                account.overtaken.clear();
            }
        }
    }

    /// Checks a packet that a node writes to its TUN device of `vpn`.
    ///
    /// `hold` returns the time for which the node waits for a missing packet of the sender with a given number. If
    /// later packets of the flow were delivered before this one, the function returns how long the node waited for
    /// it.
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        to: &ReceivingNode,
        vpn: VpnId,
        written: &[u8],
        hold: impl Fn(usize) -> Duration,
    ) -> Result<Option<Overtaken>, Violation> {
        let port = port_of(written);
        let Some(&at) = port.and_then(|port| self.by_port.get(&(vpn, port))) else {
            return Err(match self.flows.iter().find(|flow| Some(flow.port) == port) {
                Some(flow) => {
                    Violation::new("wrong VPN", now, format!("a packet of VPN {} came out in VPN {vpn}", flow.vpn))
                }
                None => Violation::new("altered", now, "a packet of no flow came out"),
            });
        };
        let flow = &self.flows[at];
        if flow.vpn == ONE_SIDED {
            let what = format!("flow {at} was taken by node {}, which is not a member of its VPN", to.node);
            return Err(Violation::new("wrong VPN", now, what));
        }
        if flow.forged {
            return Err(Violation::new(
                "forged",
                now,
                format!("a packet of flow {at}, whose source is another's, was taken"),
            ));
        }
        if flow.to != to.node {
            return Err(Violation::new(
                "wrong peer",
                now,
                format!("flow {at} goes to node {}, not {}", flow.to, to.node),
            ));
        }
        let packets = flow.cut(written).map_err(|why| Violation::new("altered", now, format!("flow {at}: {why}")))?;
        let mut late = None;
        for packet in packets {
            let number = self.identify(now, at, &packet)?;
            late = late.or(self.count(now, at, number, to, &hold)?);
        }
        Ok(late)
    }

    fn identify(&self, now: Instant, at: usize, packet: &[u8]) -> Result<usize, Violation> {
        let (flow, sent) = (&self.flows[at], &self.accounts[at].sent);
        let number = match flow.name_of(packet) {
            Some(PacketName::Number(number)) => usize::try_from(number).ok(),
            Some(PacketName::Offset(offset)) => {
                sent.binary_search_by_key(&u64::from(offset), |s| s.segment.offset).ok()
            }
            None => None,
        };
        let altered = |what: &str| Violation::new("altered", now, format!("flow {at}: {what}"));
        let known = number.and_then(|number| Some((number, sent.get(number)?)));
        let Some((number, sent)) = known else { return Err(altered("a packet that was never sent")) };
        let marked = packet.get(1).is_some_and(|tos| tos & 3 == 3);
        let expected = flow.expected(&sent.segment, marked);
        if packet == expected {
            return Ok(number);
        }
        let differs = packet.iter().zip(&expected).position(|(a, b)| a != b);
        let (len, of) = (packet.len(), expected.len());
        Err(altered(&format!("packet {number} differs at byte {differs:?}, {len} bytes long instead of {of}")))
    }

    fn count(
        &mut self,
        now: Instant,
        at: usize,
        number: usize,
        to: &ReceivingNode,
        hold: &impl Fn(usize) -> Duration,
    ) -> Result<Option<Overtaken>, Violation> {
        let (flow, account) = (&self.flows[at], &mut self.accounts[at]);
        let (from, sent) = (flow.from, account.sent[number].at);
        if let Some((node, since)) = self.expelled
            && (flow.from == node || flow.to == node)
            && sent > since
        {
            let what = format!("flow {at}: packet {number} arrived, and node {node} is no longer a member");
            return Err(Violation::new("expelled", now, what));
        }
        if self.is_timely && !flow.tcp && now - sent > OLDEST {
            let what = format!("flow {at}: packet {number} arrived {:?} after it was sent", now - sent);
            return Err(Violation::new("stale", now, what));
        }
        if let Some(before) = account.sent[number].delivered.replace(now) {
            // A node that was killed or suspended has no record of the packets that it delivered. Its peer sends TCP
            // segments again, so the node may deliver them twice.
            if flow.tcp && account.forgotten_at.is_some_and(|at| at >= before) {
                return Ok(None);
            }
            if self.shares_key.is_some_and(|node| flow.from == node || flow.to == node) {
                return Ok(None);
            }
            return Err(Violation::new("twice", now, format!("flow {at}: packet {number} was delivered again")));
        }
        self.delivered += 1;
        if account.last_delivery.is_some_and(|last| now - last > FORGETFUL) {
            account.known_since = None;
        }
        account.last_delivery = Some(now);
        let known_since = *account.known_since.get_or_insert(now);
        let number = number as u32;
        if number >= account.next {
            if to.resequences && !to.stepped {
                account.note_holes(now, number, known_since, || hold(from));
            }
            account.next = number + 1;
            return Ok(None);
        }
        let late = account.overtaken.remove(&number);
        Ok(late.map(|(waited, hold)| Overtaken { flow: at, number, waited, hold }))
    }

    /// Returns the number of a flow's packets that never arrived, and the number that were sent.
    pub(super) fn missing(&self, flow: usize) -> (usize, usize) {
        let sent = &self.accounts[flow].sent;
        (sent.iter().filter(|s| s.delivered.is_none()).count(), sent.len())
    }

    /// Returns the packets of a flow that never arrived: number, sending time, payload bytes.
    pub(super) fn lost(&self, flow: usize) -> impl Iterator<Item = (u32, Instant, u16)> + '_ {
        let sent = self.accounts[flow].sent.iter().filter(|s| s.delivered.is_none());
        sent.map(|s| (s.segment.number, s.at, s.segment.len))
    }
}

impl Account {
    /// Records the packets that are missing when `number` is delivered before them.
    fn note_holes(&mut self, now: Instant, number: u32, known_since: Instant, hold: impl FnOnce() -> Duration) {
        let missing: Vec<u32> = (self.next..number).collect();
        if missing.is_empty() {
            return;
        }
        let hold = hold();
        for hole in missing {
            let (Some(sent), Some(after)) = (self.sent.get(hole as usize), self.sent.get(hole as usize + 1)) else {
                break;
            };
            if sent.at > known_since && self.overtaken.len() < MAX_HOLES {
                self.overtaken.insert(hole, (now - after.at, hold));
            }
        }
    }
}
