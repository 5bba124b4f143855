//! Detects losses by one of three methods: NewReno, SACK, or RACK with tail loss probes.

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

/// The loss detection method in use, with its state.
#[derive(Clone, Debug)]
pub(super) enum LossDetection {
    NewReno(NewReno),
    Sack(Sack),
    RackTlp(Rack, TailProbe),
}
