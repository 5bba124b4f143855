//! Commands that change the configuration, on trial if that is asked.
//!
//! The changed text goes to a file beside the configuration. The node runs it from there. Only when it is confirmed,
//! or when no confirmation is asked, it replaces the configuration. A trial that nobody confirms, or that the node does
//! not survive, thus leaves no trace.

mod edit;
mod rules;

pub use rules::change_rules;

use crate::cli::{ApplyArguments, ChangeOptions, Control, SetArguments, UnsetArguments};
use crate::config;
use crate::control::ask;
use crate::files::Directory;
use crate::outcome::{Failure, Outcome};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml_edit::DocumentMut;
use weft_control::{CANDIDATE_SUFFIX, Request, Response};

/// Largest configuration, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// `weft set`
pub fn set(arguments: &SetArguments) -> Result<Outcome, Failure> {
    let SetArguments { key, value, options } = arguments;
    edited(options, |doc| edit::set(doc, key, value))
}

/// `weft unset`
pub fn unset(arguments: &UnsetArguments) -> Result<Outcome, Failure> {
    edited(&arguments.options, |doc| edit::unset(doc, &arguments.key))
}

/// `weft apply`
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
pub fn confirm(control: &Control) -> Result<Outcome, Failure> {
    let Response::Kept { file } = ask(&control.control, &Request::Confirm)? else {
        return Err(Failure::new("the node gave an unexpected answer"));
    };
    save(Path::new(&file)).map_err(|why| {
        Failure::new(format!("{file}: {why}: the node keeps the change until its next start, but it is not saved"))
    })?;
    println!("{file}: kept");
    Ok(Outcome::Well)
}

/// `weft undo`: ends the trial, and the configuration before it counts again.
pub fn undo(control: &Control) -> Result<Outcome, Failure> {
    ask(&control.control, &Request::Undo)?;
    println!("undone");
    Ok(Outcome::Well)
}

/// Edits the configuration and puts it in force.
fn edited(
    options: &ChangeOptions,
    change: impl FnOnce(&mut DocumentMut) -> Result<(), String>,
) -> Result<Outcome, Failure> {
    let told = |why: String| Failure::new(format!("{}: {why}", options.config.display()));
    let text = fs::read_to_string(&options.config).map_err(|why| told(why.to_string()))?;
    let mut doc = edit::parse(&text).map_err(told)?;
    change(&mut doc).map_err(Failure::new)?;
    put(options, &doc.to_string())
}

/// Checks a text, lets the node run it, and saves it unless it is on trial.
fn put(options: &ChangeOptions, text: &str) -> Result<Outcome, Failure> {
    let file = fs::canonicalize(&options.config)
        .map_err(|why| Failure::new(format!("{}: {why}", options.config.display())))?;
    let candidate = candidate(&file);
    let told = |why: io::Error| Failure::new(format!("{}: {why}", candidate.display()));
    if candidate.exists() && is_on_trial(&options.control) {
        return Err(Failure::new("a change is on trial already: weft confirm, or weft undo"));
    }
    write(&file, text).map_err(told)?;
    let done = try_out(options, &file, &candidate);
    if done.is_err() {
        let _ = fs::remove_file(&candidate);
    }
    done
}

/// True if the node has a change on trial, whose text stands beside the configuration.
fn is_on_trial(control: &Control) -> bool {
    let answer = ask(&control.control, &Request::Status);
    matches!(answer, Ok(Response::Status(status)) if status.trial_ends_in_ms.is_some())
}

fn try_out(options: &ChangeOptions, file: &Path, candidate: &Path) -> Result<Outcome, Failure> {
    let loaded = config::load(candidate).map_err(Failure::new)?;
    eprint!("{}", loaded.report);
    let confirm_ms = options.confirm.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let request = Request::Try { file: file.display().to_string(), confirm_ms };
    let is_running = match ask(&options.control.control, &request) {
        Ok(_) => true,
        Err(why) if why.outcome() == Outcome::NoDaemon && options.confirm.is_none() => false,
        Err(why) => return Err(why),
    };
    match options.confirm {
        Some(time) => println!("in effect for {}: to keep it: weft confirm", seconds(time)),
        None => {
            save(file).map_err(|why| Failure::new(format!("{}: {why}", file.display())))?;
            println!("{}: saved{}", file.display(), if is_running { ", in effect" } else { "; no node is running" });
        }
    }
    Ok(Outcome::Well)
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64().ceil())
}

/// Returns the file beside the configuration that has a changed text.
fn candidate(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(CANDIDATE_SUFFIX);
    name.into()
}

/// Writes the text beside the configuration, for those who may read the configuration.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let (directory, name) = place(file)?;
    let of: Metadata = fs::metadata(file)?;
    directory.write(&format!("{name}{CANDIDATE_SUFFIX}"), text.as_bytes())?;
    let candidate = candidate(file);
    chown(&candidate, Some(of.uid()), Some(of.gid()))?;
    fs::set_permissions(&candidate, of.permissions())
}

/// Replaces the configuration by the text beside it.
fn save(file: &Path) -> io::Result<()> {
    let (directory, name) = place(file)?;
    directory.rename(&format!("{name}{CANDIDATE_SUFFIX}"), &name)
}

fn place(file: &Path) -> io::Result<(Directory, String)> {
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name of the file is not UTF-8"))?;
    Ok((Directory::open(file.parent().unwrap_or(Path::new("/")))?, name.to_owned()))
}
