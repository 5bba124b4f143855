//! `weft bugreport`: collects a report for an issue.

use crate::bugreport::{BugReport, Sources};
use crate::cli::BugReportArguments;
use crate::escape;
use crate::files;
use crate::outcome::{Failure, Outcome, json};

/// Collects a report, and prints it or writes it to a new file.
pub fn bugreport(arguments: &BugReportArguments) -> Result<Outcome, Failure> {
    let sources =
        Sources { config: &arguments.config, control: &arguments.control.control, log: arguments.log.as_deref() };
    let report = BugReport::collect(&sources, arguments.level);
    let text = if arguments.json { json(&report)? } else { escape::lines(&report.text()).into_owned() };
    let Some(file) = &arguments.output else {
        print!("{text}");
        return Ok(Outcome::Well);
    };
    files::create(file, 0o600, text.as_bytes()).map_err(|why| Failure::new(format!("{}: {why}", file.display())))?;
    println!("{}: read it before you attach it to an issue", file.display());
    Ok(Outcome::Well)
}
