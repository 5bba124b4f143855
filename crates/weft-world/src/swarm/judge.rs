//! What hosts may see: each packet once, unaltered, at the right node, in order where that is promised.

use super::fault::FaultKind;
use super::packet::{Flow, Name, ONE_SIDED, Segment, port_of};
use super::plan::Plan;
use super::violation::Violation;
use std::collections::BTreeMap;
use weft_units::{Duration, Instant, VpnId};

/// A receiver forgets a flow that was silent for a minute, on a clock that may have jumped.
const FORGETFUL: Duration = Duration::from_secs(50);
/// No packet that is not TCP's is that old when it arrives: a second in a queue, some in flight, 5 s before a hole.
const OLDEST: Duration = Duration::from_secs(10);
/// Holes noted per flow.
const MAX_HOLES: usize = 256;

/// A packet sent, and whether it arrived.
#[derive(Clone, Copy, Debug)]
struct Sent {
    segment: Segment,
    at: Instant,
    delivered: bool,
}

/// One flow's packets.
#[derive(Debug, Default)]
struct Account {
    sent: Vec<Sent>,
    bytes: u64,
    /// One above the largest number delivered.
    next: u32,
    /// Since when the receiver has known the flow.
    known_since: Option<Instant>,
    last_delivery: Option<Instant>,
    /// Numbers that others overtook: how long that took from when the first of these was sent, and how long it should have.
    overtaken: BTreeMap<u32, (Duration, Duration)>,
}

/// What was sent, and what came out.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    flows: &'a [Flow],
    by_port: BTreeMap<(VpnId, u16), usize>,
    accounts: Vec<Account>,
    /// A node that is no member from then on.
    expelled: Option<(usize, Instant)>,
    /// A node whose key another one has. While that one is there, peers take each of the two for the other after a restart, and what
    /// was delivered before may come again.
    shares_key: Option<usize>,
    /// No machine stands still, and no clock jumps.
    is_timely: bool,
    /// Packets delivered in all.
    pub(super) delivered: u64,
}

/// What the judge must know of the receiving node.
pub(super) struct Receiver {
    pub(super) node: usize,
    /// Flows are put in order.
    pub(super) resequences: bool,
    /// Its clock jumped a short while ago.
    pub(super) stepped: bool,
}

/// A packet of a flow that others overtook: how long they waited for it, and how long they should have.
pub(super) struct Overtaken {
    pub(super) flow: usize,
    pub(super) number: u32,
    pub(super) waited: Duration,
    pub(super) hold: Duration,
}

impl<'a> Judge<'a> {
    pub(super) fn new(plan: &'a Plan) -> Judge<'a> {
        let flows = &plan.flows;
        let stops_time = |kind: &FaultKind| {
            matches!(kind, FaultKind::Pause { .. } | FaultKind::Suspend { .. } | FaultKind::ClockStep { .. })
        };
        let is_timely = !plan.faults.iter().any(|fault| stops_time(&fault.kind));
        let by_port = flows.iter().enumerate().map(|(at, flow)| ((flow.vpn, flow.port), at)).collect();
        let accounts = flows.iter().map(|_| Account::default()).collect();
        Judge {
            flows,
            by_port,
            accounts,
            expelled: plan.expelled(),
            shares_key: plan.shared_key(),
            is_timely,
            delivered: 0,
        }
    }

    /// The flow's next packet, with `len` bytes of payload; it is sent now.
    pub(super) fn send(&mut self, now: Instant, flow: usize, len: u16, push: bool) -> Segment {
        let account = &mut self.accounts[flow];
        let segment = Segment { number: account.sent.len() as u32, offset: account.bytes, len, push };
        account.bytes += u64::from(len);
        account.sent.push(Sent { segment, at: now, delivered: false });
        segment
    }

    /// The receiver starts anew with all flows from `from` to `to`.
    pub(super) fn forget_order(&mut self, from: usize, to: usize) {
        for (flow, account) in self.flows.iter().zip(&mut self.accounts) {
            if (flow.from, flow.to) == (from, to) {
                account.known_since = None;
                account.overtaken.clear();
            }
        }
    }

    /// A node writes to its TUN device of `vpn`. `hold` says how long it waits for a hole. Gives the packets that came out of order.
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        to: &Receiver,
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
            let what = format!("flow {at} was taken by node {}, which is no member of its VPN", to.node);
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
            Some(Name::Number(number)) => usize::try_from(number).ok(),
            Some(Name::Offset(offset)) => sent.binary_search_by_key(&u64::from(offset), |s| s.segment.offset).ok(),
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
        to: &Receiver,
        hold: &impl Fn(usize) -> Duration,
    ) -> Result<Option<Overtaken>, Violation> {
        let (flow, account) = (&self.flows[at], &mut self.accounts[at]);
        let (from, sent) = (flow.from, account.sent[number].at);
        if let Some((node, since)) = self.expelled
            && (flow.from == node || flow.to == node)
            && sent > since
        {
            let what = format!("flow {at}: packet {number} arrived, and node {node} is no member any more");
            return Err(Violation::new("expelled", now, what));
        }
        if self.is_timely && !flow.tcp && now - sent > OLDEST {
            let what = format!("flow {at}: packet {number} arrived {:?} after it was sent", now - sent);
            return Err(Violation::new("stale", now, what));
        }
        if core::mem::replace(&mut account.sent[number].delivered, true) {
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

    /// How many of a flow's packets never arrived, of how many.
    pub(super) fn missing(&self, flow: usize) -> (usize, usize) {
        let sent = &self.accounts[flow].sent;
        (sent.iter().filter(|s| !s.delivered).count(), sent.len())
    }

    /// The packets of a flow that never arrived: number, time of sending, payload bytes.
    pub(super) fn lost(&self, flow: usize) -> impl Iterator<Item = (u32, Instant, u16)> + '_ {
        let sent = self.accounts[flow].sent.iter().filter(|s| !s.delivered);
        sent.map(|s| (s.segment.number, s.at, s.segment.len))
    }
}

impl Account {
    /// `number` is delivered before some that were sent earlier.
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
