//! Carries out the timed events of a run, and measures the effect of each.

use crate::LabError;
use crate::apps::probe::ProbeArrivals;
use crate::emulator::{EmulatedDirection, EmulatorHandle, LinkSide};
use crate::interrupt;
use crate::variants::WeftControl;
use crate::world::{WorldLink, emulated};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};
use weft_scenario::measure::{CarriedBytes, RECENT_PROBES, carrying_link, longest_gap};
use weft_scenario::{
    Action, Directions, EventLink, EventResult, FlowDirection, Scenario, ShareChange, TimedEvent, Traces,
};

/// Interval between two reads of the paths' states.
const POLL: Duration = Duration::from_millis(50);
/// Time after a change for the worse during which the paths' states are watched.
const WATCH: Duration = Duration::from_secs(5);

/// The parts of a run that events change or observe.
pub(crate) struct LabStage<'a> {
    pub scenario: &'a Scenario,
    pub traces: &'a Traces,
    pub links: &'a [WorldLink],
    pub emulator: EmulatorHandle,
    /// The control sockets, as in [`crate::lane::LabLane::weft`].
    pub weft: &'a [[WeftControl; 2]],
    /// The arrivals of each `probe` flow, by the flow's name.
    pub arrivals: &'a BTreeMap<String, ProbeArrivals>,
    pub epoch: Instant,
}

/// An event that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct CompletedEvent {
    event: TimedEvent,
    at: Duration,
    /// Position of the event's link in the scenario.
    link: Option<usize>,
    restored_at: Option<Duration>,
    /// The states of the link's paths when the event happened.
    before: Severities,
    demoted_after: Option<Duration>,
}

/// A change in time order: the beginning of an event, or its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LabChange {
    at: Duration,
    event: usize,
    is_end: bool,
}

/// Carries out all events. Returns after the last one.
pub(crate) fn play(stage: &LabStage) -> Result<Vec<CompletedEvent>, LabError> {
    let events = &stage.scenario.events;
    let starts = events.iter().enumerate().map(|(event, e)| Reverse(LabChange { at: e.at, event, is_end: false }));
    let mut due: BinaryHeap<Reverse<LabChange>> = starts.collect();
    let mut happened: BTreeMap<usize, CompletedEvent> = BTreeMap::new();
    let mut watch = None;
    while let Some(Reverse(next)) = due.pop() {
        wait(stage, next.at, &mut watch, &mut happened)?;
        let Some(event) = events.get(next.event) else { continue };
        let now = stage.epoch.elapsed();
        if next.is_end {
            let Some(done) = happened.get_mut(&next.event) else { continue };
            done.restored_at = Some(now);
            undo(stage, event, done.link)?;
            continue;
        }
        let link = event.link.as_ref().and_then(|link| find(stage, link));
        let before = severities(stage, link);
        carry_out(stage, event, link)?;
        let done =
            CompletedEvent { event: event.clone(), at: now, link, restored_at: None, before, demoted_after: None };
        happened.insert(next.event, done);
        if !stage.weft.is_empty() && worsens(&event.action) {
            watch = Some(next.event);
        }
        due.extend(
            event.lasting.map(|lasting| Reverse(LabChange { at: next.at + lasting, event: next.event, is_end: true })),
        );
    }
    let last = stage.epoch.elapsed() + WATCH;
    wait(stage, last.min(stage.scenario.duration), &mut watch, &mut happened)?;
    Ok(happened.into_values().collect())
}

fn worsens(action: &Action) -> bool {
    matches!(action, Action::Cut | Action::Loss(_))
}

/// Waits until `until` of the run.
///
/// Meanwhile checks whether weft demotes the path of the event in `watch`.
fn wait(
    stage: &LabStage,
    until: Duration,
    watch: &mut Option<usize>,
    happened: &mut BTreeMap<usize, CompletedEvent>,
) -> Result<(), LabError> {
    while let Some(done) = watch.and_then(|event| happened.get_mut(&event)) {
        let now = stage.epoch.elapsed();
        if now >= until {
            return Ok(());
        }
        if now > done.at + WATCH {
            break;
        }
        if is_worse(&severities(stage, done.link), &done.before) {
            done.demoted_after = Some(stage.epoch.elapsed().saturating_sub(done.at));
            break;
        }
        interrupt::sleep_until(stage.epoch + (now + POLL).min(until))?;
    }
    *watch = None;
    interrupt::sleep_until(stage.epoch + until)
}

/// The severity of each path's state on a link, by the path's number. Severity 0 is good.
type Severities = BTreeMap<u8, usize>;

fn severities(stage: &LabStage, link: Option<usize>) -> Severities {
    let severity = |state: &str| ["good", "degraded", "suspect", "down"].iter().position(|known| *known == state);
    let Some(name) = link.and_then(|link| stage.links.get(link)).map(|link| &link.name) else {
        return Severities::new();
    };
    let paths = stage.weft.first().and_then(|[home, _]| home.paths().ok()).unwrap_or_default();
    paths.iter().filter(|path| path.link == *name).filter_map(|path| Some((path.id, severity(&path.state)?))).collect()
}

/// True if any of a link's paths is worse than before. Only the path in use sees the link's losses.
fn is_worse(now: &Severities, before: &Severities) -> bool {
    now.iter().any(|(path, severity)| before.get(path).is_some_and(|before| severity > before))
}

fn find(stage: &LabStage, link: &EventLink) -> Option<usize> {
    match link {
        EventLink::Named(name) => stage.links.iter().position(|known| known.name == *name),
        EventLink::Carrying(flow) => carrier(stage, flow),
    }
}

fn carrier(stage: &LabStage, flow: &str) -> Option<usize> {
    let seen = stage.arrivals.get(flow).and_then(|arrivals| arrivals.recent_one_way(RECENT_PROBES));
    carrying_link(stage.scenario, flow, seen)
}

fn directions(directions: Directions) -> Vec<LinkSide> {
    let up = directions.has_up().then_some(LinkSide::Forward);
    up.into_iter().chain(directions.has_down().then_some(LinkSide::Backward)).collect()
}

fn carry_out(stage: &LabStage, event: &TimedEvent, link: Option<usize>) -> Result<(), LabError> {
    if let Action::Weights(weights) = &event.action {
        // Only weft has weights. Other variants continue unchanged.
        return stage.weft.iter().try_for_each(|[home, _]| Ok(home.set_weights(weights)?));
    }
    if let Action::Share(change) = &event.action {
        return set_share(stage, change);
    }
    let Some(link) = link else { return Ok(()) };
    match &event.action {
        Action::Cut => stage.emulator.cut(link, &directions(event.directions), true)?,
        Action::Restore => stage.emulator.cut(link, &directions(event.directions), false)?,
        changed => set(stage, link, event.directions, changed)?,
    }
    Ok(())
}

/// Changes a VPN's share at both ends, so that it applies in both directions.
fn set_share(stage: &LabStage, change: &ShareChange) -> Result<(), LabError> {
    let Some(vpn) = stage.scenario.vpns.get(change.vpn) else { return Ok(()) };
    let own = if stage.weft.len() > 1 { stage.weft.get(change.vpn) } else { stage.weft.first() };
    own.into_iter().flatten().try_for_each(|control| Ok(control.set_share(&vpn.name, change)?))
}

fn undo(stage: &LabStage, event: &TimedEvent, link: Option<usize>) -> Result<(), LabError> {
    if let Action::Share(change) = &event.action {
        let before = stage.scenario.vpns.get(change.vpn).map(|vpn| change.back_to(vpn.share));
        return before.map_or(Ok(()), |before| set_share(stage, &before));
    }
    let Some(link) = link else { return Ok(()) };
    match &event.action {
        Action::Cut => stage.emulator.cut(link, &directions(event.directions), false)?,
        Action::Restore => stage.emulator.cut(link, &directions(event.directions), true)?,
        Action::Weights(_) | Action::Share(_) => {}
        Action::Rate(_) | Action::Loss(_) | Action::Delay(_) => set(stage, link, event.directions, &Action::Restore)?,
    }
    Ok(())
}

/// Sets a link to the scenario's description, with `change` applied to it.
fn set(stage: &LabStage, link: usize, which: Directions, change: &Action) -> Result<(), LabError> {
    let Some(described) = stage.scenario.links.get(link) else { return Ok(()) };
    for direction in directions(which) {
        let described_direction = if direction == LinkSide::Forward { &described.up } else { &described.down };
        let mut spec: EmulatedDirection = emulated(described_direction, described.base_rtt(), stage.traces)?;
        match change {
            Action::Rate(rate) => spec.capacity = crate::emulator::EmulatedCapacity::Rate(*rate),
            Action::Loss(loss) => spec.loss = *loss,
            Action::Delay(delay) => spec.delay = *delay,
            Action::Cut | Action::Restore | Action::Weights(_) | Action::Share(_) => {}
        }
        stage.emulator.set(link, direction, spec)?;
    }
    Ok(())
}

/// Returns the effect of each event, measured from the probes' arrivals and the links' bytes.
pub(crate) fn judge(stage: &LabStage, happened: &[CompletedEvent], carried: &CarriedBytes) -> Vec<EventResult> {
    let direction = stage.scenario.flows.first().map_or(FlowDirection::Up, |flow| flow.direction);
    let arrivals = stage.arrivals.values().next().map(ProbeArrivals::all);
    let ends = happened.iter().skip(1).map(|next| next.at).chain([stage.scenario.duration]);
    happened
        .iter()
        .zip(ends)
        .map(|(done, end)| EventResult {
            group: done.event.group,
            at_s: done.at.as_secs_f64(),
            action: done.event.action.word().to_owned(),
            link: done.link.and_then(|l| stage.links.get(l)).map(|l| l.name.clone()),
            direction: done.event.directions.word().to_owned(),
            gap_ms: arrivals.as_ref().map(|arrivals| longest_gap(arrivals, done.at, end).as_secs_f64() * 1e3),
            share_back_s: share_back(done, carried, direction, end).map(|time| time.as_secs_f64()),
            demoted_s: done.demoted_after.map(|time| time.as_secs_f64()),
        })
        .collect()
}

/// Returns the time from the end of a cut until the link carried its former share again.
fn share_back(
    done: &CompletedEvent,
    carried: &CarriedBytes,
    direction: FlowDirection,
    end: Duration,
) -> Option<Duration> {
    let restored = done.restored_at.filter(|_| done.event.action == Action::Cut)?;
    carried.share_back(done.link?, direction, done.at, restored, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_demoted_when_any_of_its_paths_is() {
        let before = Severities::from([(0, 0), (3, 0), (6, 3)]);
        let after = |states: &[(u8, usize)]| is_worse(&states.iter().copied().collect(), &before);
        assert!(!after(&[(0, 0), (3, 0), (6, 3)]));
        assert!(after(&[(0, 0), (3, 1), (6, 3)]), "another address of the peer than the first is in use");
        assert!(!after(&[(6, 1)]), "better");
        assert!(!after(&[(9, 2)]), "new");
    }
}
