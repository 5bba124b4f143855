//! Faults of rules and classes: settings that contradict themselves, each other, or the paths' capacity and delay.

use super::matching::{MAX_DSCP, RuleKey};
use super::overrides::FlowRequest;
use super::shadow::RuleBoxes;
use super::{FlowRule, FlowRules, MAX_RULES, RuleMatch};
use crate::class::{Classes, MAX_PRIORITY, own_burst_delay};
use crate::treatment::{Service, Treatment};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use weft_units::{Duration, Rate};
use weft_wire::ip::protocol;

/// Limits of the paths, against which rules are checked. An absent limit is not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleLimits {
    /// Highest rate that can be guaranteed to one flow.
    pub capacity: Option<Rate>,
    /// Smallest delay variance of any path.
    pub delay_variance: Option<Duration>,
}

/// A fault of a rule or a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleProblem {
    /// There are more than [`MAX_RULES`] rules.
    TooMany,
    /// An earlier rule has the same name.
    NameTwice {
        /// Position in the list, from 0, of the earlier rule with the same name.
        earlier: usize,
    },
    /// The class that the rule names does not exist.
    NoSuchClass {
        /// Name of the class.
        class: String,
    },
    /// Earlier rules match every flow that this one matches.
    Shadowed {
        /// Positions (from 0) and names of the earlier rules.
        by: Vec<(usize, String)>,
    },
    /// One prefix is IPv4 and the other IPv6.
    TwoFamilies,
    /// Ports are named for a protocol that has none.
    PortsWithoutProtocol,
    /// The value of a property is out of range or its range is empty.
    OutOfRange {
        /// Property of the rule with this value.
        key: RuleKey,
    },
    /// The precedence or the delay priority is above [`MAX_PRIORITY`].
    Priority,
    /// The service needs a rate that neither the class nor the rule sets.
    ServiceWithoutRate {
        /// Service that needs a rate.
        service: Service,
    },
    /// The guarantee exceeds the ceiling.
    AboveMaximum {
        /// Guaranteed rate of the flow.
        guaranteed: Rate,
        /// Ceiling of the flow's rate.
        maximum: Rate,
    },
    /// The guarantee exceeds the capacity of each path.
    AboveCapacity {
        /// Guaranteed rate of the flow.
        guaranteed: Rate,
        /// Highest rate that any path can guarantee.
        capacity: Rate,
    },
    /// The flow's own burst at its own rate delays its packets by more than its delay variance.
    VarianceBelowBurst {
        /// Delay variance that the flow requests.
        delay_variance: Duration,
        /// Delay that the flow's own burst adds at the flow's own rate.
        burst: Duration,
    },
    /// No path has so small a delay variance.
    VarianceBelowPath {
        /// Delay variance that the flow requests.
        delay_variance: Duration,
        /// The smallest delay variance of any path.
        path: Duration,
    },
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleProblem::TooMany => write!(f, "there are more than {MAX_RULES} rules"),
            RuleProblem::NameTwice { earlier } => write!(f, "rule {earlier} has the same name"),
            RuleProblem::NoSuchClass { class } => write!(f, "there is no class `{class}`"),
            RuleProblem::Shadowed { by } => {
                let names: Vec<String> = by.iter().map(|(at, name)| alloc::format!("`{name}` ({at})")).collect();
                let verb = if names.len() == 1 { "matches" } else { "together match" };
                write!(f, "it never applies: {} before it {verb} all its flows", names.join(", "))
            }
            RuleProblem::TwoFamilies => f.write_str("no flow is both IPv4 and IPv6: `from` and `to` differ in family"),
            RuleProblem::PortsWithoutProtocol => f.write_str("only TCP and UDP have ports: name one as `protocol`"),
            RuleProblem::OutOfRange { key } => write!(f, "`{key}` is out of range"),
            RuleProblem::Priority => write!(f, "precedence and delay priority are 0 to {MAX_PRIORITY}"),
            RuleProblem::ServiceWithoutRate { service: Service::Maximum } => {
                f.write_str("the service `maximum` needs `maximum`")
            }
            RuleProblem::ServiceWithoutRate { .. } => f.write_str("the service needs `guaranteed`"),
            RuleProblem::AboveMaximum { guaranteed, maximum } => {
                write!(f, "the guarantee of {guaranteed} exceeds the maximum of {maximum}")
            }
            RuleProblem::AboveCapacity { guaranteed, capacity } => {
                write!(f, "the guarantee of {guaranteed} exceeds {capacity}, the most that any path can guarantee")
            }
            RuleProblem::VarianceBelowBurst { delay_variance, burst } => {
                write!(
                    f,
                    "a delay variance of {delay_variance:?} contradicts the burst, which alone delays by {burst:?}"
                )
            }
            RuleProblem::VarianceBelowPath { delay_variance, path } => {
                write!(f, "a delay variance of {delay_variance:?} is below the {path:?} of the best path")
            }
        }
    }
}

/// A fault and the rule that has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleFault {
    /// Position of the rule in the list, from 0.
    pub rule: usize,
    /// Name of the rule.
    pub name: String,
    /// The fault of the rule.
    pub problem: RuleProblem,
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule `{}` ({}): {}", self.name, self.rule, self.problem)
    }
}

/// Returns every fault of `list`, in the order of the rules.
pub fn check(list: &FlowRules, classes: &Classes, limits: &RuleLimits) -> Vec<RuleFault> {
    let rules = list.rules();
    let fault = |rule: usize, problem| {
        let name = rules.get(rule).map(|rule| rule.name.clone()).unwrap_or_default();
        RuleFault { rule, name, problem }
    };
    if rules.len() > MAX_RULES {
        return Vec::from([fault(MAX_RULES, RuleProblem::TooMany)]);
    }
    let (boxes, mut names, mut faults) = (RuleBoxes::new(list), BTreeMap::new(), Vec::new());
    for (at, rule) in rules.iter().enumerate() {
        let mut problems = match_problems(&rule.matches);
        if let Some(earlier) = names.insert(rule.name.as_str(), at) {
            problems.push(RuleProblem::NameTwice { earlier });
        }
        problems.extend(class_problems(rule, classes, limits));
        if let Some(by) = boxes.shadowed_by(at) {
            let named = |at: usize| (at, rules.get(at).map(|rule| rule.name.clone()).unwrap_or_default());
            problems.push(RuleProblem::Shadowed { by: by.into_iter().map(named).collect() });
        }
        faults.extend(problems.into_iter().map(|problem| fault(at, problem)));
    }
    faults
}

fn match_problems(matches: &RuleMatch) -> Vec<RuleProblem> {
    let mut problems = Vec::new();
    let mut out_of_range = |key, is_wrong: bool| is_wrong.then(|| problems.push(RuleProblem::OutOfRange { key }));
    let too_long = |prefix: Option<super::FlowPrefix>| {
        prefix.is_some_and(|prefix| prefix.length > if prefix.address.is_ipv4() { 32 } else { 128 })
    };
    out_of_range(RuleKey::From, too_long(matches.from));
    out_of_range(RuleKey::To, too_long(matches.to));
    out_of_range(RuleKey::FromPorts, matches.from_ports.as_ref().is_some_and(|ports| ports.is_empty()));
    out_of_range(RuleKey::ToPorts, matches.to_ports.as_ref().is_some_and(|ports| ports.is_empty()));
    out_of_range(RuleKey::Dscp, matches.dscp.is_some_and(|dscp| dscp > MAX_DSCP));
    let families = matches.from.zip(matches.to);
    if families.is_some_and(|(from, to)| from.address.is_ipv4() != to.address.is_ipv4()) {
        problems.push(RuleProblem::TwoFamilies);
    }
    let has_ports = matches.from_ports.is_some() || matches.to_ports.is_some();
    if has_ports && !matches!(matches.protocol, Some(protocol::TCP | protocol::UDP)) {
        problems.push(RuleProblem::PortsWithoutProtocol);
    }
    problems
}

fn class_problems(rule: &FlowRule, classes: &Classes, limits: &RuleLimits) -> Vec<RuleProblem> {
    match classes.find(&rule.class).and_then(|id| classes.get(id)) {
        None => Vec::from([RuleProblem::NoSuchClass { class: rule.class.clone() }]),
        Some(class) => treatment_problems(&rule.overrides.apply(&class.treatment), limits),
    }
}

/// Returns the contradictions in a flow's request.
pub fn treatment_problems(request: &FlowRequest, limits: &RuleLimits) -> Vec<RuleProblem> {
    let Treatment { service, guaranteed, maximum, precedence, delay_priority, delay_variance, .. } = request.treatment;
    let mut problems = Vec::new();
    if precedence > MAX_PRIORITY || delay_priority > MAX_PRIORITY {
        problems.push(RuleProblem::Priority);
    }
    let lacks_rate = match service {
        Service::Available => false,
        Service::Guaranteed | Service::Variable => guaranteed == Rate::ZERO,
        Service::Maximum => maximum.is_none(),
    };
    if lacks_rate {
        problems.push(RuleProblem::ServiceWithoutRate { service });
    }
    if let Some(maximum) = maximum.filter(|maximum| guaranteed > *maximum) {
        problems.push(RuleProblem::AboveMaximum { guaranteed, maximum });
    }
    if let Some(capacity) = limits.capacity.filter(|capacity| guaranteed > *capacity) {
        problems.push(RuleProblem::AboveCapacity { guaranteed, capacity });
    }
    if let Some(delay_variance) = delay_variance {
        if let Some(burst) = own_burst_delay(&request.treatment).filter(|burst| *burst > delay_variance) {
            problems.push(RuleProblem::VarianceBelowBurst { delay_variance, burst });
        }
        if let Some(path) = limits.delay_variance.filter(|path| *path > delay_variance) {
            problems.push(RuleProblem::VarianceBelowPath { delay_variance, path });
        }
    }
    problems
}
