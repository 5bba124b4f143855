//! How losses are found, by three rules.

mod new_reno;
mod proportional;
mod rack;
mod sack;
mod tail_probe;

pub(super) use new_reno::NewReno;
pub(super) use proportional::ProportionalRate;
pub(super) use rack::{Bounds, Rack};
pub(super) use sack::Sack;
pub(super) use tail_probe::{ProbeNews, TailProbe};

/// The rule in use, with its state.
#[derive(Clone, Debug)]
pub(super) enum LossDetection {
    NewReno(NewReno),
    Sack(Sack),
    RackTlp(Rack, TailProbe),
}
