//! Service classes of VPNs: back-off and promises (paper 004 §7.4).
//!
//! | service | backs off to | over-subscribed |
//! |---|---|---|
//! | best effort, weighted | min(λ, β μ) | shares by weight |
//! | assured rate A | min(A + β(μ − A), γ μ, λ), β < γ < 1 | relative priority: still backs off, but less than others |
//! | leased line of rate A | max(A, A + β(μ − A)) | unstable, so [`LeaseAdmission`] refuses it |
//!
//! λ is the rate that the loop may send, μ the rate that arrives at the egress. The AIMD window and the accumulation
//! law back off this way, so both offer all services. The window uses bytes instead of bits per second.

mod admission;

pub use admission::{LeaseAdmission, LeaseId, LeaseRefusal, MemberId, SegmentId};

use core::fmt;
use weft_units::Rate;

/// γ of an assured service whose configuration gives none: the fraction of the arriving rate that is always kept.
pub const DEFAULT_GAMMA: f32 = 0.98;

/// Service class of a VPN: the reaction of its loops to congestion.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Service {
    /// A share by weight, without a promise.
    #[default]
    BestEffort,
    /// Guarantees a rate as far as the paths carry it.
    ///
    /// At congestion the loop backs off only by a part of its rate above the promised one, as long as the promised rate
    /// arrives.
    Assured {
        /// The promised rate A.
        rate: Rate,
        /// γ: fraction of the arriving rate that is kept if less than A arrives.
        gamma: f32,
    },
    /// Never backs off below the promised rate.
    ///
    /// It is only for a line that [`LeaseAdmission`] granted.
    LeasedLine {
        /// The promised rate A.
        rate: Rate,
    },
}

impl Service {
    /// Rate that the service promises. Zero for best effort.
    pub fn rate(&self) -> Rate {
        match *self {
            Service::BestEffort => Rate::ZERO,
            Service::Assured { rate, .. } | Service::LeasedLine { rate } => rate,
        }
    }

    /// Rate below which a loop of this service never backs off. Zero for all services but a leased line.
    pub fn floor(&self) -> Rate {
        if let Service::LeasedLine { rate } = *self { rate } else { Rate::ZERO }
    }

    /// Returns the rate to which a loop backs off at congestion.
    ///
    /// The loop may send `current` (λ), of which `arriving` (μ) arrives. `beta` is the fraction that best effort
    /// keeps. `promised` is A, in the unit of `current` and `arriving`.
    pub fn back_off(&self, current: f64, arriving: f64, beta: f64, promised: f64) -> f64 {
        let above_promise = promised + beta * (arriving - promised);
        match *self {
            Service::BestEffort => current.min(beta * arriving),
            Service::Assured { gamma, .. } => {
                let gamma = f64::from(gamma).max((1.0 + beta) / 2.0).min(1.0);
                current.min(above_promise).min(gamma * arriving)
            }
            Service::LeasedLine { .. } => promised.max(above_promise.min(current)),
        }
    }
}

/// A VPN's share of the capacity for which the loops of all VPNs compete: its weight and its service.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    weight: f64,
    service: Service,
}

/// Reason why a [`Share`] is invalid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ShareError {
    /// The weight is not a finite number above zero.
    Weight(f64),
    /// γ of an assured service is not between zero and one.
    Gamma(f32),
    /// The rate that an assured service or a leased line promises is zero.
    ZeroRate,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareError::Weight(weight) => write!(f, "the weight is {weight}; it must be above 0"),
            ShareError::Gamma(gamma) => {
                write!(f, "gamma is {gamma}; it must be between 0 and 1, such as {DEFAULT_GAMMA}")
            }
            ShareError::ZeroRate => write!(f, "the promised rate is 0; give a rate, or make it best effort"),
        }
    }
}

impl core::error::Error for ShareError {}

impl Default for Share {
    fn default() -> Share {
        Share { weight: 1.0, service: Service::BestEffort }
    }
}

impl Share {
    /// Returns a share of `weight` with `service`.
    ///
    /// # Errors
    ///
    /// Fails if the weight is not above zero, γ is not within (0, 1), or the promised rate is zero.
    pub fn new(weight: f64, service: Service) -> Result<Share, ShareError> {
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(ShareError::Weight(weight));
        }
        match service {
            Service::Assured { gamma, .. } if !(gamma > 0.0 && gamma < 1.0) => return Err(ShareError::Gamma(gamma)),
            Service::Assured { rate: Rate::ZERO, .. } | Service::LeasedLine { rate: Rate::ZERO } => {
                return Err(ShareError::ZeroRate);
            }
            _ => {}
        }
        Ok(Share { weight, service })
    }

    /// Weight of the share, above zero.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Service of the share: how its loops react to congestion.
    pub fn service(&self) -> Service {
        self.service
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn best_effort_keeps_beta_of_what_arrives() {
        close(Service::BestEffort.back_off(10.0, 8.0, 0.95, 0.0), 7.6);
        close(Service::BestEffort.back_off(5.0, 8.0, 0.95, 0.0), 5.0);
    }

    #[test]
    fn assured_backs_off_the_excess_and_over_subscribed_everything() {
        let assured = Service::Assured { rate: Rate::from_mbps(4), gamma: 0.98 };
        close(assured.back_off(8.0, 7.0, 0.95, 4.0), 4.0 + 0.95 * 3.0);
        close(assured.back_off(4.1, 4.0, 0.95, 4.0), f64::from(0.98f32) * 4.0);
        close(assured.back_off(4.0, 3.0, 0.95, 4.0), f64::from(0.98f32) * 3.0);
        close(assured.back_off(2.0, 3.0, 0.95, 4.0), 2.0);
        let low_gamma = Service::Assured { rate: Rate::from_mbps(4), gamma: 0.5 };
        close(low_gamma.back_off(4.0, 3.0, 0.9, 4.0), 0.95 * 3.0);
    }

    #[test]
    fn a_leased_line_keeps_its_rate() {
        let line = Service::LeasedLine { rate: Rate::from_mbps(50) };
        close(line.back_off(80.0, 60.0, 0.95, 50.0), 50.0 + 0.95 * 10.0);
        close(line.back_off(50.0, 30.0, 0.95, 50.0), 50.0);
        assert_eq!((line.floor(), Service::BestEffort.floor()), (Rate::from_mbps(50), Rate::ZERO));
    }

    #[test]
    fn senseless_shares_are_refused_with_the_reason() {
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = Share::new(weight, Service::BestEffort).unwrap_err();
            assert!(alloc::format!("{error}").contains("above 0"));
        }
        let assured = |gamma, mbps| Share::new(1.0, Service::Assured { rate: Rate::from_mbps(mbps), gamma });
        assert_eq!(assured(1.0, 4), Err(ShareError::Gamma(1.0)));
        assert_eq!(assured(0.98, 0), Err(ShareError::ZeroRate));
        assert!(assured(0.98, 4).is_ok());
    }
}
