//! Runs one seed, from the plan to the verdict.

use super::fault::FaultKind;
use super::packet::SwarmFlow;
use super::plan::{Plan, Talk};
use super::violation::Violation;
use super::world::SwarmWorld;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weft_engine::{Engine, Recovery};
use weft_units::{Duration, Instant, Rate};

const LAST_UNITS_KEPT: Duration = Duration::from_secs(6);
/// Maximum number of times [`LAST_UNITS_KEPT`] for which a check of memory waits for queues that become shorter.
///
/// The loop of a VPN sends about 200 kbit/s over a link that loses a packet in 25. A full queue then lasts 15 s.
const SHORTER_QUEUES: u32 = 10;
const PASSING_ON: Duration = Duration::from_millis(7);
/// Minimum rate of a loop that the check accepts: one packet in the longest round trip.
///
/// It is less than the minimum rate of the rate algorithm.
const LEAST_RATE: Rate = Rate::from_bps(200);
/// Minimum number of full packets for each peer for which a queue must have space.
///
/// The peers share the link. In a smaller queue many packets are lost before each peer sends at its share of the rate.
const FEWEST_EACH: u64 = 2;
/// Maximum time for which a peer may make a node wait for a missing unit (SECURITY.md).
const LONGEST_HOLD: Duration = Duration::from_secs(5);
/// Maximum window of a loop that the check accepts, in bytes.
const MOST_WINDOW: u64 = 1 << 30;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwarmOutcome {
    /// The first violated invariant, if any.
    pub violation: Option<Violation>,
    /// Number of datagrams that arrived at any node.
    pub datagrams: u64,
    /// Number of packets delivered to hosts.
    pub packets: u64,
    /// Number of turns of the nodes' event loops.
    pub turns: u64,
}

/// Runs a plan. A panic is reported as a violation.
pub(super) fn play(plan: &Plan) -> SwarmOutcome {
    play_in(&mut SwarmWorld::new(plan))
}

/// Runs a plan and returns a log of its events.
pub(super) fn describe_plan(plan: &Plan) -> String {
    let mut world = SwarmWorld::new(plan);
    world.story = Some(String::new());
    play_in(&mut world);
    world.story.unwrap_or_default()
}

fn play_in(world: &mut SwarmWorld<'_>) -> SwarmOutcome {
    let played = catch_unwind(AssertUnwindSafe(|| phases(world)));
    let verdict = played.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(Violation::new("panic", world.now, what.unwrap_or_default()))
    });
    SwarmOutcome {
        violation: verdict.err(),
        datagrams: world.counts.datagrams,
        packets: world.judge.delivered,
        turns: world.counts.turns,
    }
}

fn phases(world: &mut SwarmWorld<'_>) -> Result<(), Violation> {
    let times = world.plan.times;
    world.run_until(times.proof)?;
    check_holds(world)?;
    let dropped = dropped_by_queues(world);
    let refused = world.refused;
    world.run_until(times.settled)?;
    if world.refused > refused {
        let what = format!("{} datagrams were refused that nobody had touched", world.refused - refused);
        return Err(Violation::new("refused", world.now, what));
    }
    let unexcused = |at: Instant| at >= times.proof || !world.plan.faults.iter().any(|f| f.may_end_a_session(at));
    let lost = world.sessions_lost.iter().filter(|(_, node, peer, _)| !world.plan.is_doubtful(*node, *peer));
    if let Some((at, node, _, cause)) = lost.into_iter().find(|(at, ..)| unexcused(*at)) {
        return Err(Violation::new("session lost", *at, format!("node {node}: {cause}")));
    }
    check_expelled(world)?;
    check_proof(world, &dropped)?;
    check_loops(world, LoopsAre::AtWork)?;
    world.run_until(times.end)?;
    if check_memory(world).is_ok() {
        return check_loops(world, LoopsAre::Settled);
    }
    let mut ends = times.end;
    // A full queue in front of a slow link or loop may become empty only now. If only parts of a unit arrived, the node
    // keeps them for 5 s.
    for _ in 0..SHORTER_QUEUES {
        let before = queued_bytes(world);
        ends += LAST_UNITS_KEPT;
        world.run_until(ends)?;
        if queued_bytes(world) >= before || check_memory(world).is_ok() {
            break;
        }
    }
    if check_memory(world).is_err() {
        // A relay may have stored a probe at the last check, to forward it. By now it has freed the buffer.
        world.run_until(ends + PASSING_ON)?;
        check_memory(world)?;
    }
    check_loops(world, LoopsAre::Settled)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopsAre {
    AtWork,
    Settled,
}

/// Checks that no node keeps a guest as a peer after the guest's membership ended.
fn check_expelled(world: &SwarmWorld<'_>) -> Result<(), Violation> {
    let engines = world.sites.iter().filter_map(|site| site.engine.as_ref());
    if world.plan.expelled().is_some() && engines.into_iter().any(|engine| engine.certified_peers().next().is_some()) {
        return Err(Violation::new("expelled", world.now, "a guest whose certificate does not hold is still a peer"));
    }
    Ok(())
}

/// Checks that no peer makes a node wait longer for a missing unit than weft promises.
fn check_holds(world: &SwarmWorld<'_>) -> Result<(), Violation> {
    let engines = world.sites.iter().filter_map(|site| Some((site, site.engine.as_ref()?)));
    for (site, engine) in engines {
        let peers = engine.snapshot(site.local(world.now)).peers;
        if let Some(peer) = peers.iter().find(|peer| peer.hold > LONGEST_HOLD) {
            let what = format!("peer {} makes a node wait {:?} for a missing unit", peer.name, peer.hold);
            return Err(Violation::new("hold", world.now, what));
        }
    }
    Ok(())
}

/// Checks that windows and rates are within their bounds.
///
/// With [`LoopsAre::Settled`], no unit may still be recorded as in flight. Each must be recorded as received or lost,
/// although markers and reports may have been lost.
fn check_loops(world: &SwarmWorld<'_>, are: LoopsAre) -> Result<(), Violation> {
    let engines = world.sites.iter().map(|site| site.engine.as_ref()).enumerate();
    for (node, engine) in engines.filter_map(|(node, engine)| Some((node, engine?))) {
        for (vpn, member) in engine.vpns().iter().flat_map(|vpn| vpn.members.iter().map(move |member| (vpn, member))) {
            let Some(control) = member.entry.and_then(|entry| entry.control) else { continue };
            let is_within = control.rate >= LEAST_RATE
                && control.window_bytes <= MOST_WINDOW
                && u64::from(control.in_flight_bytes) <= MOST_WINDOW;
            if !is_within || (are == LoopsAre::Settled && control.in_flight_bytes > 0) {
                let what = format!("node {node}, VPN {} toward {}: {control:?}", vpn.id, member.peer);
                return Err(Violation::new("loop", world.now, what));
            }
        }
    }
    Ok(())
}

/// Returns for each flow the number of packets that its sender's queues of its VPN have dropped so far.
///
/// The number includes the drops of all flows of the VPN. A queue may drop packets even of a slow flow: after two of
/// its packets have waited too long, the queue does not treat it as a sparse flow.
fn dropped_by_queues(world: &SwarmWorld<'_>) -> Vec<usize> {
    let dropped = |flow: &SwarmFlow| {
        let vpns = world.sites[flow.from].engine.as_ref().map(Engine::vpns).unwrap_or_default();
        let members = vpns.iter().filter(|vpn| vpn.id == flow.vpn).flat_map(|vpn| &vpn.members);
        members.filter_map(|member| member.entry).map(|entry| entry.counters.dropped_aqm as usize).sum()
    };
    world.plan.flows.iter().map(dropped).collect()
}

/// Checks that the packets sent after the faults have arrived.
///
/// Packets that queues have dropped may be missing. `before` contains for each flow the packets that queues had dropped
/// before these packets were sent.
fn check_proof(world: &SwarmWorld<'_>, before: &[usize]) -> Result<(), Violation> {
    let plan = world.plan;
    let dropped = dropped_by_queues(world);
    for talk in plan.talks.iter().filter(|t| t.from >= plan.times.proof) {
        let (missing, sent) = world.judge.missing(talk.flow);
        let dropped = dropped[talk.flow].saturating_sub(before[talk.flow]).min(sent.saturating_sub(1));
        if missing > may_miss(plan, talk, sent).max(dropped) {
            let flow = &plan.flows[talk.flow];
            let lost: Vec<_> = world.judge.lost(talk.flow).take(4).collect();
            let kind = if missing == sent { "silence" } else { "lost" };
            let what = format!(
                "flow {} from node {} to {}: {missing} of {sent} packets never arrived: {lost:?}",
                talk.flow, flow.from, flow.to
            );
            return Err(Violation::new(kind, world.now, what));
        }
    }
    Ok(())
}

/// Returns the number of packets of `talk` that may be missing, of `sent` packets that were sent after the faults.
///
/// With retransmission no packet of a sparse flow may be missing. A burst may exceed a short queue on its
/// path.
fn may_miss(plan: &Plan, talk: &Talk, sent: usize) -> usize {
    let flow = &plan.flows[talk.flow];
    let nodes = [&plan.nodes[flow.from], &plan.nodes[flow.to]];
    let peers = plan.nodes.len() as u64 - 1;
    let loses = nodes.iter().flat_map(|n| &n.links).any(|l| l.loss > 0.0 || l.queue_packets() < FEWEST_EACH * peers);
    // A node that sent nothing for a long time detects a black hole only now, by the loss of about a dozen packets.
    let may_be_new = plan.faults.iter().any(|f| matches!(f.kind, FaultKind::Mtu { .. }));
    match (nodes[0].policy.recovery, talk.burst) {
        (Recovery::Arq, 1) if may_be_new => 1 + sent / 4,
        (Recovery::Arq, 1) if !loses => 0,
        (Recovery::Arq, 1) => 1 + sent / 20,
        _ => sent - 1,
    }
}

/// Checks that no packet is in flight, and that no node uses memory for one.
fn check_memory(world: &SwarmWorld<'_>) -> Result<(), Violation> {
    for (node, site) in world.sites.iter().enumerate() {
        let is_expelled = world.plan.expelled().is_some_and(|(guest, _)| guest == node);
        // An expelled node keeps the newest segment of a flow for two minutes, in case it is admitted again. Its
        // memory is therefore not checked.
        let Some(engine) = site.engine.as_ref().filter(|_| !is_expelled) else { continue };
        let left = what_is_left(engine, site.local(world.now));
        if !left.is_empty() {
            return Err(Violation::new("memory", world.now, format!("node {node} keeps {}", left.join(", "))));
        }
    }
    Ok(())
}

/// Returns the bytes in all flow queues.
fn queued_bytes(world: &SwarmWorld<'_>) -> u64 {
    let engines = world.sites.iter().filter_map(|site| Some((site.engine.as_ref()?, site.local(world.now))));
    engines.flat_map(|(engine, local)| engine.snapshot(local).peers).map(|peer| peer.queue_bytes).sum()
}

fn what_is_left(engine: &Engine, local: Instant) -> Vec<String> {
    let snapshot = engine.snapshot(local);
    let peers = snapshot.peers.iter().flat_map(|p| {
        [
            (p.units_in_flight as u64, "units in flight"),
            (p.held_units as u64, "units held for order"),
            (p.queue_bytes, "bytes in the flow queue"),
        ]
    });
    let all = peers.chain([(snapshot.buffers_in_use as u64, "buffers")]);
    all.filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}
