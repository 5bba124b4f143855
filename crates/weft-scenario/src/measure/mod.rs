//! Computes the results of a run from the records of the lab or the simulator.
//!
//! A figure therefore has the same meaning in both. This module measures nothing itself.

mod arrivals;
mod bound;
mod campaign;
mod carried;
mod hosts;
mod lengths;
mod marks;
mod replies;
mod sizes;
mod vpns;

pub use arrivals::{
    PROBE_PAYLOAD_BYTES, ProbeArrival, RECENT_PROBES, carrying_link, longest_gap, newest_age_ms_p95, probe_result,
};
pub use bound::{bound_bps, bulk_direction, omniscient_ms_p95};
pub use campaign::{arrange, predict, variants_to_run, wanted_variants};
pub use carried::{CarriedBytes, STEP};
pub use hosts::{host_fairness, host_results};
pub use lengths::{LengthSummary, Lengths};
pub use marks::DeliveryMarks;
pub use replies::{EchoReply, ping_result};
pub use sizes::{KEPT_SIZES, PacketSizes};
pub use vpns::{EntryEnd, vpn_fairness, vpn_results, vpn_series};
