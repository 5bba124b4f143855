//! What a run of a lane leaves to look at: a capture of links, the story of a flow's TCP.

use super::apps::Seat;
use super::lane::Lane;
use super::measure::Stage;
use crate::eyes::{Eyes, file, keep_story, start_capture, write_story};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use weft_sim::record::Capture;

/// A run under watch.
pub(super) struct Watch<'a> {
    directory: &'a Path,
    stem: String,
    capture: Option<Capture<BufWriter<File>>>,
    /// The position of the flow that is traced; MPTCP's has no single TCP to tell of.
    traced: Option<usize>,
}

impl<'a> Watch<'a> {
    /// From now on; `number` is the run's.
    pub(super) fn start(
        (eyes, directory): &'a (Eyes, PathBuf),
        lane: &Lane,
        number: usize,
        stage: &mut Stage<'_>,
    ) -> Result<Watch<'a>, String> {
        let stem = format!("{}-{}-{number}", stage.scenario.name, lane.name.replace([':', '/'], "-"));
        let names: Vec<&str> = stage.scenario.links.iter().map(|link| link.name.as_str()).collect();
        let world = &mut stage.world;
        let capture = match eyes.captured.is_empty() {
            true => None,
            false => {
                let out = file(directory, &stem, "pcapng")?;
                Some(start_capture(out, eyes, &names, &world.links, &mut world.simulator)?)
            }
        };
        let wanted = |seat: &Seat| eyes.traced.as_ref() == Some(&seat.flow().name);
        let traced = stage.seats.iter().position(wanted).filter(|&position| {
            let (node, flow) = stage.seats[position].sender();
            world.simulator.with_node(node, |site, _, _| keep_story(site.host_mut(flow), flow))
        });
        Ok(Watch { directory, stem, capture, traced })
    }

    /// Writes what is not yet written.
    pub(super) fn finish(self, stage: &Stage<'_>) -> Result<(), String> {
        if let Some(capture) = self.capture {
            capture.finish().map_err(|error| error.to_string())?;
        }
        let Some(position) = self.traced else { return Ok(()) };
        let (node, flow) = stage.seats[position].sender();
        let Some(site) = stage.world.simulator.nodes().get(node.index()) else { return Ok(()) };
        let out = file(self.directory, &self.stem, "tcp.csv")?;
        write_story(out, site.host(flow), flow).map_err(|error| error.to_string())
    }
}
