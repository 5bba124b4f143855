//! Keeps `weft_er`, TCP's congestion control at an explicit rate, loaded in the kernel during a run.

use super::ground::Ground;
use crate::LabError;
use crate::variants::{Daemon, wait_until};
use std::path::Path;
use weft_scenario::{CongestionControl, NetworkScenario, NetworkVariant};

/// Part of the line that `weft tcp-er` prints when the congestion control is loaded.
const LOADED: &str = "is loaded";

/// Loads `weft_er` with `weft tcp-er`, if a flow of the variant uses it. Returns `None` if no flow does.
///
/// The congestion control stays loaded until the returned program is dropped.
pub(super) fn load<'a>(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    ground: &Ground,
    weft: impl Fn() -> Result<&'a Path, LabError>,
) -> Result<Option<Daemon>, LabError> {
    let is_used = network
        .flows
        .iter()
        .any(|flow| flow.traffic.is_tcp() && variant.tcp_of(flow).congestion == CongestionControl::ExplicitRate);
    let Some(node) = ground.nodes.first().filter(|_| is_used) else { return Ok(None) };
    let log = ground.file("tcp-er.log");
    let mut command = node.command(weft()?);
    command.arg("tcp-er");
    let mut daemon = [Daemon::start("weft tcp-er", node, command, log.clone())?];
    wait_until(&mut daemon, || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(LOADED)))?;
    Ok(daemon.into_iter().next())
}
