//! Requests to admission, and its answers and reports.

use weft_units::{Duration, Rate};
use weft_wire::er_sig::{Direction, Signal};

/// Number of a route: a path or a bundle whose capacity is granted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RouteNo(pub u16);

/// Maximum number of routes on which one grant reserves its rate.
const MAX_ROUTES: usize = 4;

/// The routes that a flow may take, each of which must carry it: its primary and its alternates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowRoutes {
    routes: [RouteNo; MAX_ROUTES],
    len: u8,
}

impl FlowRoutes {
    /// Returns these routes without repetitions, or `None` if there are none or more than four.
    pub fn new(routes: &[RouteNo]) -> Option<FlowRoutes> {
        let mut own = FlowRoutes { routes: [RouteNo::default(); MAX_ROUTES], len: 0 };
        for route in routes {
            if !own.as_slice().contains(route) {
                *own.routes.get_mut(usize::from(own.len))? = *route;
                own.len += 1;
            }
        }
        (own.len > 0).then_some(own)
    }

    /// Returns the routes of a flow that may take only this route.
    pub fn one(route: RouteNo) -> FlowRoutes {
        FlowRoutes { routes: [route, RouteNo(0), RouteNo(0), RouteNo(0)], len: 1 }
    }

    /// Returns the same routes in the order of their numbers.
    pub(super) fn sorted(&self) -> FlowRoutes {
        let mut sorted = FlowRoutes { routes: [RouteNo::default(); MAX_ROUTES], len: self.len };
        if let (Some(to), from) = (sorted.routes.get_mut(..usize::from(self.len)), self.as_slice()) {
            to.copy_from_slice(from);
            to.sort_unstable();
        }
        sorted
    }

    /// Returns the routes of the flow, without repetitions.
    pub fn as_slice(&self) -> &[RouteNo] {
        self.routes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// Treatment of a request whose rate is not available in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortfall {
    /// The request is refused: the rate "must be met" in full. The flow keeps its earlier grant.
    Refuse,
    /// The request is granted the largest rate that can be guaranteed now.
    Reduce,
    /// The flow waits without a guarantee (service AR, available rate), and gets its rate when there is capacity.
    Wait,
}

/// A request for a guaranteed rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantRequest {
    /// Rate to guarantee. Zero gives up the guarantee.
    pub rate: Rate,
    /// PP, the precedence: 0 is the lowest, 15 the highest. Higher values are treated as 15.
    pub precedence: u8,
    /// Treatment of the request if the rate is not available.
    pub shortfall: Shortfall,
    /// Time without renewal after which the grant ends, or `None` if it lasts until its release.
    pub lifetime: Option<Duration>,
}

/// Answer of admission to a request for a guaranteed rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionOutcome {
    /// Rate that is guaranteed. It is lower than the requested rate if the shortfall was [`Shortfall::Reduce`].
    Granted(Rate),
    /// The flow waits for capacity, and until then shares the rate that is not guaranteed to others.
    Waits,
    /// Nothing is guaranteed, or the flow keeps its earlier guarantee.
    Refused,
}

/// Reason why a flow lost its guarantee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoweredBy {
    /// A flow of this higher precedence needed the capacity.
    Precedence(u8),
    /// A route has less capacity than before.
    CapacityLoss(RouteNo),
}

/// A change that the caller signals to the flow in band.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionEvent<K> {
    /// The flow lost its guarantee. It waits for capacity, and shares the rate that is not guaranteed to others.
    Lowered {
        /// The flow that was lowered.
        flow: K,
        /// Rate that was guaranteed until now.
        from: Rate,
        /// Rate that is guaranteed now, which is always zero.
        to: Rate,
        /// Reason why the flow was lowered.
        why: LoweredBy,
    },
    /// The flow received the rate for which it waited.
    Raised {
        /// The flow that received its rate.
        flow: K,
        /// Rate that is guaranteed now.
        to: Rate,
    },
    /// The grant ended because the flow did not renew it.
    Expired {
        /// The flow whose grant ended.
        flow: K,
        /// Rate that was guaranteed until then; zero if the flow waited.
        from: Rate,
    },
}

/// A flow's in-band signal that passes this node.
///
/// If it is a request, an update or a response, it asks for a rate on the routes from this node onward.
#[derive(Debug)]
pub struct PassingSignal<'a> {
    /// The signal. It is lowered to the rate that the routes grant.
    pub signal: &'a mut Signal,
    /// Direction of the flow for which the signal requests the routes' capacity.
    pub direction: Direction,
    /// Rate that the routes grant each flow beyond its guarantee.
    pub available: Rate,
    /// Hash of this node's identity. A signal whose available rate is lowered here names this node by it.
    pub node: u16,
}

/// Decision of a node about a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalVerdict {
    /// Forward the signal in its present form.
    Forward,
    /// The required rate is not available. The signal returns as a rejection, and nothing is granted.
    Reject,
}
