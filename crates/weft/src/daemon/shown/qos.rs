//! The state of flows, users and ports as `weft qos` shows it.

use crate::daemon::services::signalling;
use crate::status::{self, Qos, QosClass, QosFlow, QosHeard, QosLoad, QosPort, QosRule, QosUser};
use weft_engine::{Engine, FlowListing, FlowView, HeardLoadView, PortView, UserView};
use weft_flows::port::PortLoad;
use weft_flows::router::FlowVerdict;
use weft_flows::rules::{FlowRule, RuleKey, RuleMatch};
use weft_flows::{FlowClass, Service};
use weft_units::{Instant, Rate};

/// Returns the state of flows, users and ports. `None` if the node has no flow state.
///
/// `listing` is a complete collection of the flows with the highest rates and of all users.
pub fn qos(engine: &Engine, now: Instant, listing: FlowListing) -> Option<Qos> {
    let totals = engine.flow_totals()?;
    let router = engine.flow_router()?;
    let (flows, users) = engine.finish_listing(now, listing);
    Some(Qos {
        schema: status::SCHEMA,
        flow_count: totals.flows as u64,
        began: totals.table.began,
        evicted: totals.table.evicted,
        refused: totals.table.refused_rate + totals.table.refused_quota + totals.table.refused_full,
        lost_records: totals.lost_records,
        flows: flows.iter().map(|view| flow(now, view)).collect(),
        users: users.into_iter().map(user).collect(),
        ports: engine.port_views(now).into_iter().map(port).collect(),
        heard: engine.heard_loads(now).into_iter().map(heard).collect(),
        classes: router.classes().iter().map(|(_, of)| class(of)).collect(),
        rules: router.rules().rules().iter().map(rule).collect(),
    })
}

fn flow(now: Instant, view: &FlowView) -> QosFlow {
    let FlowView { record, verdict, .. } = view;
    QosFlow {
        flow: signalling::flow(&record.key),
        vpn: record.vpn.0,
        peer: view.peer.clone(),
        user: view.user.clone(),
        class: view.class.clone(),
        rule: view.rule.clone(),
        precedence: record.granted.precedence,
        asked_bps: record.asked.bps(),
        granted_bps: record.granted.guaranteed.bps(),
        sent_bps: record.achieved[0].bps(),
        returned_bps: record.achieved[1].bps(),
        sent_bytes: record.total[0].bytes,
        returned_bytes: record.total[1].bytes,
        marked: record.marks,
        dropped: record.drops,
        verdict: name(*verdict).to_owned(),
        why: why(view),
        age_ms: u64::try_from((now - record.start).as_millis()).unwrap_or(u64::MAX),
    }
}

fn name(verdict: FlowVerdict) -> &'static str {
    match verdict {
        FlowVerdict::NothingAsked => "nothing-asked",
        FlowVerdict::Granted => "granted",
        FlowVerdict::Waits => "waits",
        FlowVerdict::Preempted => "preempted",
        FlowVerdict::CapacityLost => "capacity-lost",
        FlowVerdict::Refused => "refused",
    }
}

/// Returns a sentence that states why a flow has its treatment.
fn why(view: &FlowView) -> String {
    let asked = view.record.asked;
    let rule = |rule: &String| format!("rule {rule} matches the flow");
    let by = view.rule.as_ref().map_or_else(|| "no rule matches the flow".to_owned(), rule);
    let class = &view.class;
    let shares = format!("the flow shares the rate of its user {} with the user's other flows", view.user);
    match view.verdict {
        FlowVerdict::NothingAsked => format!("{by}; class {class} asks for no guaranteed rate, so {shares}"),
        FlowVerdict::Granted => {
            format!("{by}; class {class} asks for a guaranteed rate of {asked}, and the flow has this guarantee")
        }
        FlowVerdict::Waits => {
            format!("{by}; class {class} asks for a guarantee of {asked}, which is not free: until it is, {shares}")
        }
        FlowVerdict::Preempted => format!(
            "{by}; a flow of a higher precedence than {} took this flow's guarantee of {asked}: until the rate is free \
             again, {shares}",
            view.record.granted.precedence
        ),
        FlowVerdict::CapacityLost => {
            format!(
                "{by}; the paths carry less than before, so this flow's guarantee of {asked} ended: until the rate is \
                 free again, {shares}"
            )
        }
        FlowVerdict::Refused => format!(
            "{by}; this flow's guarantee of {asked} must be met, and the paths cannot: ask for less, or set \
             must-be-met = false"
        ),
    }
}

fn user(view: UserView) -> QosUser {
    let UserView { name, weight, flows, rate, bytes } = view;
    QosUser { name, weight, flows, bps: rate.bps(), bytes }
}

fn port(view: PortView) -> QosPort {
    QosPort {
        peer: view.peer,
        capacity_bps: view.capacity.bps(),
        reservable_bps: view.reservable.bps(),
        guaranteed_bps: view.guaranteed.bps(),
        policed: view.policed,
        load: load(&view.load),
        classes: view.classes.iter().map(|(name, of)| (name.clone(), load(of))).collect(),
    }
}

fn heard(view: HeardLoadView) -> QosHeard {
    let state = match (view.counts, view.is_full) {
        (false, _) => "too-old",
        (true, true) => "full",
        (true, false) => "free",
    };
    QosHeard {
        peer: view.peer,
        prefix: format!("{}/{}", view.prefix.address, view.prefix.length),
        arrived_bps: view.rate.bps(),
        flows: view.flows,
        delay_ms: view.queue_delay.as_secs_f64() * 1e3,
        headroom_bps: view.headroom.into_iter().map(|(class, left)| (class, left.bps())).collect(),
        age_ms: u64::try_from(view.age.as_millis()).unwrap_or(u64::MAX),
        state: state.to_owned(),
    }
}

fn load(load: &PortLoad) -> QosLoad {
    QosLoad {
        arrived_bps: load.arrived.bps(),
        left_bps: load.departed.bps(),
        waiting_bytes: load.backlog_bytes,
        flows: load.active_flows,
        delay_ms: load.queue_delay.as_secs_f64() * 1e3,
        headroom_bps: load.headroom.bps(),
    }
}

fn class(class: &FlowClass) -> QosClass {
    let of = &class.treatment;
    let service = match of.service {
        Service::Available => "available",
        Service::Guaranteed => "guaranteed",
        Service::Maximum => "maximum",
        Service::Variable => "variable",
    };
    QosClass {
        name: class.name.clone(),
        service: service.to_owned(),
        guaranteed_bps: of.guaranteed.bps(),
        maximum_bps: of.maximum.map(Rate::bps),
        burst_bytes: of.burst_bytes,
        delay_variance_ms: of.delay_variance.map(|of| of.as_secs_f64() * 1e3),
        precedence: of.precedence,
        delay_priority: of.delay_priority,
        must_be_met: of.must_be_met,
    }
}

fn rule(rule: &FlowRule) -> QosRule {
    QosRule { name: rule.name.clone(), matches: matches(&rule.matches), class: rule.class.clone() }
}

/// Returns the properties that a rule compares, as in the configuration.
fn matches(of: &RuleMatch) -> String {
    let prefix = |of: &weft_flows::rules::FlowPrefix| format!("{}/{}", of.address, of.length);
    let ports = |of: &std::ops::RangeInclusive<u16>| match of.start() == of.end() {
        true => of.start().to_string(),
        false => format!("{}-{}", of.start(), of.end()),
    };
    let value = |key: RuleKey| match key {
        RuleKey::From => of.from.as_ref().map(prefix),
        RuleKey::To => of.to.as_ref().map(prefix),
        RuleKey::FromPorts => of.from_ports.as_ref().map(ports),
        RuleKey::ToPorts => of.to_ports.as_ref().map(ports),
        RuleKey::Protocol => of.protocol.map(|of| of.to_string()),
        RuleKey::Dscp => of.dscp.map(|of| of.to_string()),
        RuleKey::Vpn => of.vpn.map(|of| of.0.to_string()),
        RuleKey::User => of.user.clone(),
        RuleKey::Near => of.near.clone(),
        RuleKey::Far => of.far.clone(),
    };
    let parts = RuleKey::ALL.iter().filter_map(|key| Some(format!("{} {}", key.name(), value(*key)?)));
    let text = parts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "every flow".to_owned() } else { text }
}
