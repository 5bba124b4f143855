//! Figures of a rule that replace those of its class.

use crate::class::{burst_tolerance, packet_of_burst};
use crate::treatment::{Service, Treatment};
use weft_units::{Duration, Rate};

/// Figures that replace those of a class. An absent one keeps the class's figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Overrides {
    /// Service. If it is absent, it follows from the rates.
    pub service: Option<Service>,
    /// GR: rate to reserve.
    pub guaranteed: Option<Rate>,
    /// AR: maximum rate that the flow requests beyond its guarantee.
    pub available: Option<Rate>,
    /// MR: rate above which the flow is policed.
    pub maximum: Option<Rate>,
    /// BT: bytes that the flow may send above its rate before it is policed.
    pub burst_bytes: Option<u32>,
    /// DV: largest variation of the delay that the flow bears.
    pub delay_variance: Option<Duration>,
    /// PP: precedence, 0 to 15. A higher one keeps its guarantee longer when capacity is short.
    pub precedence: Option<u8>,
    /// DP: delay priority, 0 to 15. Among flows without a guarantee, a higher one is served earlier.
    pub delay_priority: Option<u8>,
    /// True if the flow is refused where its guarantee cannot be met.
    pub must_be_met: Option<bool>,
}

/// Request of a flow by its rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowRequest {
    /// Figures of the class with the rule's overrides.
    pub treatment: Treatment,
    /// AR: maximum rate that the flow requests beyond its guarantee. `None`: as much as is available.
    pub available: Option<Rate>,
}

impl Overrides {
    /// Returns the figures of `class`, each replaced by the figure that is set here.
    ///
    /// If a rate or the delay variance is set here and the burst tolerance is not, the burst tolerance is computed from
    /// the new figures and the packet size of the class.
    pub fn apply(&self, class: &Treatment) -> FlowRequest {
        let mut treatment = Treatment {
            guaranteed: self.guaranteed.unwrap_or(class.guaranteed),
            maximum: self.maximum.or(class.maximum),
            delay_variance: self.delay_variance.or(class.delay_variance),
            precedence: self.precedence.unwrap_or(class.precedence),
            delay_priority: self.delay_priority.unwrap_or(class.delay_priority),
            must_be_met: self.must_be_met.unwrap_or(class.must_be_met),
            ..*class
        };
        treatment.service = self.service.unwrap_or_else(|| self.derived_service(class, &treatment));
        treatment.burst_bytes = match self.burst_bytes {
            Some(bytes) => bytes,
            None if self.changes_burst() => burst_tolerance(&treatment, packet_of_burst(class)),
            None => class.burst_bytes,
        };
        FlowRequest { treatment, available: self.available }
    }

    fn changes_burst(&self) -> bool {
        self.guaranteed.is_some() || self.maximum.is_some() || self.delay_variance.is_some()
    }

    /// Returns the service that the rates imply.
    ///
    /// With a guaranteed rate the service is VR, which adds a share of the available rate. It is GR, without such a
    /// share, only if the class has GR and no available rate is set.
    fn derived_service(&self, class: &Treatment, treatment: &Treatment) -> Service {
        let changes_rates = self.guaranteed.is_some() || self.available.is_some() || self.maximum.is_some();
        match (treatment.guaranteed != Rate::ZERO, treatment.maximum) {
            _ if !changes_rates => class.service,
            (true, _) if class.service == Service::Guaranteed && self.available.is_none() => Service::Guaranteed,
            (true, _) => Service::Variable,
            (false, Some(_)) => Service::Maximum,
            (false, None) => Service::Available,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Classes;

    fn class(name: &str) -> Treatment {
        let classes = Classes::built_in();
        classes.get(classes.find(name).unwrap()).unwrap().treatment
    }

    #[test]
    fn nothing_changes_without_overrides() {
        for (_, class) in Classes::built_in().iter() {
            let request = Overrides::default().apply(&class.treatment);
            assert_eq!(request, FlowRequest { treatment: class.treatment, available: None });
        }
    }

    #[test]
    fn a_new_rate_brings_its_burst_and_its_service() {
        let twice = Overrides { guaranteed: Some(Rate::from_bps(164_000)), ..Overrides::default() };
        let voice = twice.apply(&class("voice")).treatment;
        assert_eq!((voice.burst_bytes, voice.service), (200 + 205, Service::Guaranteed));
        let bulk = twice.apply(&class("bulk")).treatment;
        assert_eq!((bulk.burst_bytes, bulk.service), (1_500 + 2_050, Service::Variable));
        let ceiling = Overrides { maximum: Some(Rate::from_mbps(1)), ..Overrides::default() };
        assert_eq!(ceiling.apply(&class("bulk")).treatment.service, Service::Maximum);
        assert_eq!(ceiling.apply(&class("video")).treatment.service, Service::Variable);
        let none = Overrides { guaranteed: Some(Rate::ZERO), ..Overrides::default() };
        assert_eq!(none.apply(&class("voice")).treatment.service, Service::Available);
        let shares = Overrides { available: Some(Rate::from_mbps(1)), ..Overrides::default() };
        assert_eq!(shares.apply(&class("voice")).treatment.service, Service::Variable);
    }

    #[test]
    fn explicit_figures_win() {
        let all = Overrides {
            service: Some(Service::Guaranteed),
            guaranteed: Some(Rate::from_mbps(1)),
            burst_bytes: Some(7_000),
            precedence: Some(15),
            delay_priority: Some(0),
            must_be_met: Some(true),
            ..Overrides::default()
        };
        let treatment = all.apply(&class("video")).treatment;
        assert_eq!((treatment.service, treatment.burst_bytes), (Service::Guaranteed, 7_000));
        assert_eq!((treatment.precedence, treatment.delay_priority, treatment.must_be_met), (15, 0, true));
    }
}
