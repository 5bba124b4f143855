//! Reads the links of a scenario file, of a pair and of a network.

use crate::channel::{ImpairmentSettings, with_impairments};
use crate::error::{Checked, Source};
use crate::pattern::{Unique, numbered, pairs, sound_name};
use crate::quantity::{Fraction, Quantity};
use crate::queue::{self, QueueFile};
use crate::{Capacity, DirectionSpec, Link};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// Maximum length of a network interface name, in bytes.
///
/// Standard: Linux's `IFNAMSIZ`, 16, less the final zero byte.
const INTERFACE_NAME_MAX: usize = 15;
/// Minimum time between two changes of the port that a NAT gives the first node.
///
/// Derived: no session is established in less time, so more frequent changes would prevent every session.
const REBIND_MIN: Duration = Duration::from_millis(100);

with_impairments! {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct LinkFile {
        pub name: Option<Spanned<String>>,
        pub between: Option<Spanned<[Spanned<String>; 2]>>,
        pub cost: Option<Spanned<NonZeroU32>>,
        pub rate: Option<Quantity<Rate>>,
        pub trace: Option<String>,
        pub delay: Option<Quantity<Duration>>,
        pub loss: Option<Quantity<Fraction>>,
        pub queue: Option<Spanned<QueueFile>>,
        pub rebind: Option<Spanned<RebindFile>>,
        pub class: Option<String>,
        #[serde(default)]
        pub up: DirectionFile,
        #[serde(default)]
        pub down: DirectionFile,
    }
}

with_impairments! {
    /// The settings of one direction of a link, as the file gives them.
    #[derive(Deserialize, Clone, Default)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct DirectionFile {
        pub rate: Option<Quantity<Rate>>,
        pub trace: Option<String>,
        pub delay: Option<Quantity<Duration>>,
        pub loss: Option<Quantity<Fraction>>,
        pub queue: Option<Spanned<QueueFile>>,
    }
}

/// A NAT that repeatedly gives the first node another port.
#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebindFile {
    pub every: Quantity<Duration>,
}

/// The kind of scenario whose links are read, which has its own rules for them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkRules {
    /// Two nodes: each link joins them, and its name is that of a network interface.
    Pair,
    /// Each link names its ends. Its name may be missing.
    Network,
}

/// Reads the links and checks them.
///
/// A link whose ends are patterns gives one link for each pair of nodes.
pub(crate) fn read(
    source: &Source<'_>,
    files: &[Spanned<LinkFile>],
    nodes: &[String],
    rules: LinkRules,
) -> Checked<Vec<Link>> {
    let mut links = Vec::new();
    let mut names = Unique::new("link");
    for file in files {
        let pairs = file.get_ref().ends(source, file.span().start, nodes, rules)?;
        let place = file.get_ref().place(file.span().start);
        if let Some(name) = &file.get_ref().name {
            check_name(source, name, rules)?;
        }
        let called = |number: usize, [a, b]: [usize; 2]| match &file.get_ref().name {
            Some(name) => numbered(name.get_ref(), number, pairs.len()),
            None => format!("{}-{}", nodes[a], nodes[b]),
        };
        let shown = Spanned::new(place..place, called(0, pairs[0]));
        let link = file.get_ref().link(source, &shown)?;
        for (number, &ends) in pairs.iter().enumerate() {
            let name = called(number, ends);
            names.take(source, place, &name)?;
            links.push(Link { name, ends, ..link.clone() });
        }
    }
    Ok(links)
}

fn check_name(source: &Source<'_>, name: &Spanned<String>, rules: LinkRules) -> Checked<()> {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match rules {
        LinkRules::Network => sound_name(source, name, "link"),
        LinkRules::Pair if (1..=INTERFACE_NAME_MAX).contains(&name.get_ref().len()) => {
            match name.get_ref().chars().all(sound) {
                true => Ok(()),
                false => Err(wrong_interface(source, name)),
            }
        }
        LinkRules::Pair => Err(wrong_interface(source, name)),
    }
}

fn wrong_interface(source: &Source<'_>, name: &Spanned<String>) -> crate::ScenarioError {
    let rule = format!(
        "the name of a link, which its network interface also gets, must be 1 to {INTERFACE_NAME_MAX} letters, digits, \
         - or _"
    );
    source.at(name, rule)
}

impl LinkFile {
    /// Returns the byte offset in the file at which mistakes of the whole link are reported.
    ///
    /// `table` is the offset of the link's table.
    fn place(&self, table: usize) -> usize {
        let name = self.name.as_ref().map(|name| name.span().start);
        name.or_else(|| self.between.as_ref().map(|between| between.span().start)).unwrap_or(table)
    }

    /// Returns the pairs of nodes that the link joins, by their indices.
    ///
    /// Without `between` a link leads from the first of two nodes to the second.
    fn ends(&self, source: &Source<'_>, table: usize, nodes: &[String], rules: LinkRules) -> Checked<Vec<[usize; 2]>> {
        if rules == LinkRules::Pair {
            self.check_pair(source, table)?;
        }
        match &self.between {
            None if nodes.len() == 2 => Ok(vec![[0, 1]]),
            None => {
                Err(source.error(self.place(table), "`between` is missing: name the two nodes that the link joins"))
            }
            Some(between) => {
                let [from, to] = between.get_ref();
                let ends: Vec<_> = pairs(source, from, to, nodes)?.into_iter().map(|(a, b)| [a, b]).collect();
                if rules == LinkRules::Pair && ends != [[0, 1]] {
                    let order = format!(
                        "`between` must be [\"{}\", \"{}\"]: `up` is the direction from the first to the second",
                        nodes[0], nodes[1]
                    );
                    return Err(source.at(between, order));
                }
                Ok(ends)
            }
        }
    }

    /// Checks the rules that only links between two nodes have: a link needs a name and has no cost.
    fn check_pair(&self, source: &Source<'_>, table: usize) -> Checked<()> {
        match (&self.name, &self.cost) {
            (None, _) => Err(source.error(table, "`name` is missing")),
            (_, Some(cost)) => Err(source.at(cost, "a scenario with two nodes has no routes: leave `cost` out")),
            _ => Ok(()),
        }
    }

    /// Returns the link without its name and its ends, which the caller sets. `name` is used only in error messages.
    fn link(&self, source: &Source<'_>, name: &Spanned<String>) -> Checked<Link> {
        let common = self.common();
        Ok(Link {
            name: String::new(),
            ends: [0, 1],
            up: self.up.over(&common).spec(source, name, "up")?,
            down: self.down.over(&common).spec(source, name, "down")?,
            cost: self.cost.as_ref().map(|cost| u32::from(*cost.get_ref())),
            rebind: self.rebind(source)?,
            class: self.class.clone(),
        })
    }

    fn rebind(&self, source: &Source<'_>) -> Checked<Option<Duration>> {
        let Some(rebind) = &self.rebind else { return Ok(None) };
        let every = rebind.get_ref().every.0;
        if every < REBIND_MIN {
            let why = "`rebind` must be at least 100 ms: with a shorter time no session is established";
            return Err(source.at(rebind, why));
        }
        Ok(Some(every))
    }

    /// Returns the settings that apply to both directions unless a direction overrides them.
    fn common(&self) -> WholeDirection {
        let LinkFile { rate, delay, loss, .. } = *self;
        let (trace, queue, settings) = (self.trace.clone(), self.queue.clone(), self.settings());
        WholeDirection { rate, trace, delay, loss, queue, settings }
    }
}

impl DirectionFile {
    /// Returns the settings of this direction: its own, and those of both directions where it has none.
    ///
    /// A direction's own rate replaces a common trace, and its own trace replaces a common rate.
    fn over(&self, common: &WholeDirection) -> WholeDirection {
        let (rate, trace) = match (&self.rate, &self.trace) {
            (None, None) => (common.rate, common.trace.clone()),
            (rate, trace) => (*rate, trace.clone()),
        };
        WholeDirection {
            rate,
            trace,
            delay: self.delay.or(common.delay),
            loss: self.loss.or(common.loss),
            queue: self.queue.clone().or_else(|| common.queue.clone()),
            settings: self.settings().over(&common.settings),
        }
    }
}

/// The settings of one direction with the settings that the file gives for both directions.
struct WholeDirection {
    rate: Option<Quantity<Rate>>,
    trace: Option<String>,
    delay: Option<Quantity<Duration>>,
    loss: Option<Quantity<Fraction>>,
    queue: Option<Spanned<QueueFile>>,
    settings: ImpairmentSettings,
}

impl WholeDirection {
    /// Checks the settings and returns the direction. `direction` is `up` or `down`, for error messages.
    fn spec(&self, source: &Source<'_>, name: &Spanned<String>, direction: &str) -> Checked<DirectionSpec> {
        let link = name.get_ref();
        let capacity = match (self.rate, &self.trace) {
            (Some(rate), None) => Capacity::Rate(rate.0),
            (None, Some(trace)) => Capacity::Trace(trace.clone()),
            (None, None) => {
                let why = format!("link `{link}` needs a `rate` or a `trace` for its {direction} direction: add one");
                return Err(source.at(name, why));
            }
            (Some(_), Some(_)) => {
                let why =
                    format!("link `{link}` has both a `rate` and a `trace` for its {direction} direction: remove one");
                return Err(source.at(name, why));
            }
        };
        let (queue, discipline) = queue::read(source, self.queue.as_ref())?;
        let has_kind = self.queue.as_ref().is_some_and(|queue| queue.get_ref().has_kind());
        if let Some(aqm) = self.settings.aqm.as_ref().filter(|_| has_kind) {
            return Err(source.at(aqm, "the `kind` of `queue` is its discipline already: remove one, `kind` or `aqm`"));
        }
        let (jitter, impairments) = self.settings.read(source, self.trace.is_some())?;
        Ok(DirectionSpec {
            capacity,
            delay: self.delay.map_or(Duration::ZERO, |q| q.0),
            jitter,
            loss: self.loss.map_or(0.0, |q| q.0.0),
            queue,
            discipline,
            impairments,
        })
    }
}
