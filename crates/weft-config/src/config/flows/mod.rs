//! The flow-state router: `[[class]]`, `[[rule]]`, `[users]`, `[export]` and `[router]`.
//!
//! Each module parses one table. `check` then has `weft-flows` check the rules, and reports each contradiction with its
//! place in the file.

mod check;
mod class;
mod export;
mod figures;
mod router;
mod rule;
mod users;

pub use check::check;
pub use class::ClassSetting;
pub use export::{ExportFormat, ExportProtocol, ExportSettings};
pub use router::RouterSettings;
pub use rule::{RuleSetting, protocol_in, protocol_number};
pub use users::{UserKind, UserSettings};

use super::Vpn;
use super::diagnose::Report;
use super::read::Section;
use weft_flows::Classes;
use weft_flows::router::RouterConfig;
use weft_flows::rules::{FlowRules, RuleLimits};
use weft_flows::table::TableConfig;
use weft_units::VpnId;

/// Name by which rules refer to the default VPN, which has no `[[vpn]]` table.
pub const DEFAULT_VPN: &str = "default";

/// Settings of the flow-state router.
#[derive(Clone, Debug, Default)]
pub struct FlowSettings {
    /// `[[class]]`: classes that are changed or added.
    pub classes: Vec<ClassSetting>,
    /// `[[rule]]`: which flows get which class, in their order.
    pub rules: Vec<RuleSetting>,
    /// `[users]`: the users between which a port's rate is shared by weight.
    pub users: UserSettings,
    /// `[export]`: where records of flows go; absent: nowhere.
    pub export: Option<ExportSettings>,
    /// `[router]`: transit and the size of the flow table.
    pub router: RouterSettings,
    /// True if the file has at least one of the tables above.
    is_present: bool,
}

impl FlowSettings {
    /// True if the file has a table about classes, rules, users, export or the router.
    pub fn is_present(&self) -> bool {
        self.is_present
    }

    /// Returns the settings of the engine's router.
    pub fn router(&self, vpns: &[Vpn]) -> RouterConfig {
        let active = self.export.as_ref().map(|export| export.interval);
        let table = TableConfig { flows: self.router.flows, active, ..TableConfig::default() };
        RouterConfig {
            classes: self.classes(),
            rules: self.rules(vpns),
            limits: RuleLimits::default(),
            users: self.users.rule(),
            table,
        }
    }

    /// Returns the built-in classes with the changes and additions of the file.
    ///
    /// A class that cannot be added is left out. The checks refuse a file with such a class.
    pub fn classes(&self) -> Classes {
        let mut classes = Classes::built_in();
        for class in &self.classes {
            let treatment = class.treatment(&classes);
            let _ = classes.set(&class.name.value, treatment);
        }
        classes
    }

    /// Returns the rules in the order of the file.
    ///
    /// A rule with a VPN that is not in `vpns` matches no flow. The checks refuse such a rule.
    pub fn rules(&self, vpns: &[Vpn]) -> FlowRules {
        let number = |name: &str| vpn_number(name, vpns).unwrap_or(VpnId(u32::MAX));
        FlowRules::new(self.rules.iter().map(|rule| rule.flow_rule(number)).collect())
    }
}

/// Returns the number of a VPN by its name.
pub fn vpn_number(name: &str, vpns: &[Vpn]) -> Option<VpnId> {
    match vpns.iter().find(|vpn| vpn.name.value == name) {
        Some(vpn) => Some(VpnId(vpn.id.value)),
        None => (name == DEFAULT_VPN).then_some(VpnId::DEFAULT),
    }
}

/// Parses the tables `[[class]]`, `[[rule]]`, `[users]`, `[export]` and `[router]` of a file.
pub fn read(root: &mut Section<'_, '_>, report: &Report) -> FlowSettings {
    let is_present = ["class", "rule", "users", "export", "router"].iter().any(|key| root.has(key));
    let classes = root.sections("class", "[[class]]").into_iter().filter_map(class::read).collect();
    let rules = root.sections("rule", "[[rule]]").into_iter();
    let rules = rules.filter_map(|section| rule::read(section, report)).collect();
    let users = root.section("users", "[users]").map(users::read).unwrap_or_default();
    let export = root.section("export", "[export]").and_then(export::read);
    let router = root.section("router", "[router]").map(router::read).unwrap_or_default();
    FlowSettings { classes, rules, users, export, router, is_present }
}
