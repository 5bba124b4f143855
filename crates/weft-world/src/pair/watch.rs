//! Records of one lane's run: a capture of links, and a record of one flow's TCP sender over time.

use super::apps::FlowEnds;
use super::lane::SimLane;
use super::measure::SimStage;
use crate::observers::{Observers, file, keep_story, start_capture, write_story};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use weft_sim::record::Capture;

/// The records of a run in progress.
pub(super) struct RunRecords<'a> {
    directory: &'a Path,
    stem: String,
    capture: Option<Capture<BufWriter<File>>>,
    /// Position in the scenario of the flow whose TCP sender is recorded.
    ///
    /// MPTCP has no single TCP sender, so its flows are not traced.
    traced: Option<usize>,
}

impl<'a> RunRecords<'a> {
    /// Starts the records of a run. `number` is the number of this run among the runs of the lane, from 1.
    pub(super) fn start(
        (observers, directory): &'a (Observers, PathBuf),
        lane: &SimLane,
        number: usize,
        stage: &mut SimStage<'_>,
    ) -> Result<RunRecords<'a>, String> {
        let stem = format!("{}-{}-{number}", stage.scenario.name, lane.name.replace([':', '/'], "-"));
        let names: Vec<&str> = stage.scenario.links.iter().map(|link| link.name.as_str()).collect();
        let world = &mut stage.world;
        let capture = match observers.captured.is_empty() {
            true => None,
            false => {
                let out = file(directory, &stem, "pcapng")?;
                Some(start_capture(out, observers, &names, &world.links, &mut world.simulator)?)
            }
        };
        let wanted = |ends: &FlowEnds| observers.traced.as_ref() == Some(&ends.flow().name);
        let traced = stage.flow_ends.iter().position(wanted).filter(|&position| {
            let (node, flow) = stage.flow_ends[position].sender();
            world.simulator.with_node(node, |site, _, _| keep_story(site.host_mut(flow), flow))
        });
        Ok(RunRecords { directory, stem, capture, traced })
    }

    /// Completes the capture's file, and writes the record of the TCP sender.
    pub(super) fn finish(self, stage: &SimStage<'_>) -> Result<(), String> {
        if let Some(capture) = self.capture {
            capture.finish().map_err(|error| error.to_string())?;
        }
        let Some(position) = self.traced else { return Ok(()) };
        let (node, flow) = stage.flow_ends[position].sender();
        let Some(site) = stage.world.simulator.nodes().get(node.index()) else { return Ok(()) };
        let out = file(self.directory, &self.stem, "tcp.csv")?;
        write_story(out, site.host(flow), flow).map_err(|error| error.to_string())
    }
}
