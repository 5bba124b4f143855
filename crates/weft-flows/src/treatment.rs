//! Treatment of a flow: its rates, its burst tolerance, its delay variance and its precedence (paper 001 §III-A).

use weft_units::{Duration, Rate};

/// Number of a class in the list of classes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ClassId(pub u16);

/// The four services of TIA-1039.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Service {
    /// AR: an equal share of the available rate.
    #[default]
    Available,
    /// GR: a reserved rate. All reserved rates of this and higher precedences together fit into a route's capacity.
    Guaranteed,
    /// MR: a ceiling that is policed. Nothing is reserved.
    Maximum,
    /// VR: a reserved rate, and in addition a share of the available rate.
    Variable,
}

/// The treatment that a flow requests, or that a router granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Treatment {
    /// Class that the rates come from.
    pub class: ClassId,
    /// Service of the flow.
    pub service: Service,
    /// GR: the rate that is reserved, in IP bytes. Zero if nothing is reserved.
    pub guaranteed: Rate,
    /// MR: the rate above which the flow is policed, in IP bytes. `None` if there is no ceiling.
    pub maximum: Option<Rate>,
    /// BT: the bytes that the flow may send above its rate before it is policed.
    pub burst_bytes: u32,
    /// DV: the largest variation of the delay that the flow bears. `None` if it bears any.
    pub delay_variance: Option<Duration>,
    /// PP, the precedence: a flow with a higher one keeps its guarantee longer when capacity is short.
    ///
    /// 0 is the lowest, 15 the highest.
    pub precedence: u8,
    /// DP, the delay priority: among flows without a guarantee, a higher one is served earlier.
    ///
    /// 0 is the lowest, 15 the highest.
    pub delay_priority: u8,
    /// True if the flow is refused where its guarantee cannot be met in full.
    pub must_be_met: bool,
}
