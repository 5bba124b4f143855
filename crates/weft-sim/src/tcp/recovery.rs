//! How losses are found, by three rules.

mod new_reno;
mod sack;

pub(super) use new_reno::NewReno;
pub(super) use sack::Sack;

/// The rule in use, with its state.
#[derive(Clone, Debug)]
pub(super) enum LossDetection {
    NewReno(NewReno),
    Sack(Sack),
}
