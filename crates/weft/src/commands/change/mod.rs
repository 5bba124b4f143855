//! Commands that change the configuration, with `--confirm` on trial: the node undoes the change unless it is confirmed
//! in time.
//!
//! The changed text is written to a file beside the configuration. The node runs that file. The file replaces the
//! configuration when it is confirmed, or at once if no confirmation is required. A trial that nobody confirms, or
//! that the node does not survive, thus leaves no trace.

mod edit;
mod file;
mod rules;

pub use rules::{change_classes, change_rules};

use crate::cli::{ApplyArguments, ChangeOptions, ConfirmArguments, Control, SetArguments, UnsetArguments};
use crate::config;
use crate::control::ask;
use crate::outcome::{Failure, Outcome};
use edit::Document;
use file::{ConfigFile, MAX_BYTES};
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;
use weft_control::{Request, Response};

/// `weft set`: changes one setting.
pub fn set(arguments: &SetArguments) -> Result<Outcome, Failure> {
    let SetArguments { key, value, options } = arguments;
    edited(options, |doc| edit::set(doc, key, value))
}

/// `weft unset`: removes a setting or a table.
pub fn unset(arguments: &UnsetArguments) -> Result<Outcome, Failure> {
    edited(&arguments.options, |doc| edit::unset(doc, &arguments.key))
}

/// `weft apply`: replaces the whole configuration.
pub fn apply(arguments: &ApplyArguments) -> Result<Outcome, Failure> {
    let mut text = String::new();
    let source = &arguments.new;
    let read = match source.as_os_str() == "-" {
        true => io::stdin().take(MAX_BYTES).read_to_string(&mut text),
        false => fs::File::open(source).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text)),
    };
    read.map_err(|why| Failure::new(format!("{}: {why}", source.display())))?;
    put(&arguments.options, &text)
}

/// `weft confirm`: keeps the change that is on trial.
pub fn confirm(arguments: &ConfirmArguments) -> Result<Outcome, Failure> {
    let file = open(&arguments.config)?;
    ask(&arguments.control.control, &Request::Confirm { file: file.path().display().to_string() })?;
    file.save().map_err(|why| {
        let path = file.path().display();
        let lost = "the running node keeps the change only until its next start";
        Failure::new(format!("cannot save the change in the file {path}: {why}: {lost}"))
    })?;
    println!("{}: kept", file.path().display());
    Ok(Outcome::Well)
}

/// `weft undo`: ends the trial of a changed configuration. The node returns to its earlier configuration.
pub fn undo(control: &Control) -> Result<Outcome, Failure> {
    ask(&control.control, &Request::Undo)?;
    println!("undone");
    Ok(Outcome::Well)
}

/// Finds the configuration file of the node.
fn open(path: &Path) -> Result<ConfigFile, Failure> {
    ConfigFile::at(path).map_err(|why| Failure::new(format!("{}: {why}", path.display())))
}

/// Edits the configuration with `change`, and lets the node run it.
fn edited(
    options: &ChangeOptions,
    change: impl FnOnce(&mut Document) -> Result<(), String>,
) -> Result<Outcome, Failure> {
    let told = |why: String| Failure::new(format!("{}: {why}", options.config.display()));
    let text = open(&options.config)?.text().map_err(|why| told(why.to_string()))?;
    let mut doc = Document::parse(&text).map_err(told)?;
    change(&mut doc).map_err(Failure::new)?;
    put(options, doc.text())
}

/// Checks a text, lets the node run it, and saves it unless it is on trial.
fn put(options: &ChangeOptions, text: &str) -> Result<Outcome, Failure> {
    let file = open(&options.config)?;
    if file.has_candidate() && is_on_trial(&options.control) {
        return Err(Failure::new("a change is on trial already: end the trial with weft confirm or weft undo"));
    }
    let told = |why: io::Error| Failure::new(format!("{}: {why}", file.path().display()));
    file.write_candidate(text).map_err(told)?;
    let done = try_out(options, &file);
    if done.is_err() {
        file.remove_candidate();
    }
    done
}

/// True if the node has a change on trial, whose text stands beside the configuration.
fn is_on_trial(control: &Control) -> bool {
    let answer = ask(&control.control, &Request::Status);
    matches!(answer, Ok(Response::Status(status)) if status.trial_ends_in_ms.is_some())
}

fn try_out(options: &ChangeOptions, file: &ConfigFile) -> Result<Outcome, Failure> {
    let loaded = config::load_as(&file.candidate_path(), file.path()).map_err(Failure::new)?;
    eprint!("{}", loaded.report);
    let confirm_ms = options.confirm.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let request = Request::Try { file: file.path().display().to_string(), confirm_ms };
    let is_running = match ask(&options.control.control, &request) {
        Ok(_) => true,
        Err(why) if why.outcome() == Outcome::NoDaemon && options.confirm.is_none() => false,
        Err(why) => return Err(why),
    };
    match options.confirm {
        Some(time) => println!("in effect for {}: to keep it: weft confirm", seconds(time)),
        None => {
            let path = file.path().display();
            file.save().map_err(|why| Failure::new(format!("{path}: {why}")))?;
            println!("{path}: saved{}", if is_running { ", in effect" } else { "; no node is running" });
        }
    }
    Ok(Outcome::Well)
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64().ceil())
}
