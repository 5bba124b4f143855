//! The report that a person attaches to an issue.
//!
//! [`BugReport::collect`] gathers facts about the program, the machine, the node and its configuration. Every text
//! passes through one [`Anonymiser`], so that a name has the same label in all parts. A part that cannot be
//! collected contains the reason instead. This module reads no key file and no file of the node's state.

mod address;
mod anonymiser;
mod programs;
mod settings;
#[cfg(test)]
mod tests;

use crate::cli::Disclosure;
use crate::commands::{Check, diagnose};
use crate::config;
use crate::control::ask;
use crate::status::Status;
use anonymiser::{Anonymiser, HIDDEN, NameKind};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use weft_control::{Request, Response};

/// Number of log lines in a report (*tuned*: a failed start and a few changes of every path).
const LOG_LINES: usize = 200;
/// Maximum number of bytes that are read of a log file or a configuration: its last ones.
const MOST_BYTES: u64 = 16 << 20;
/// User ids of human users (*standard*: login.defs(5), UID_MIN and UID_MAX).
const PERSONS: std::ops::RangeInclusive<u32> = 1_000..=60_000;

/// A part of the report, or the reason why it is absent.
#[derive(Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
enum Collected<T> {
    /// The part was collected.
    Found(T),
    /// The part is absent, for this reason.
    Absent(String),
}

impl<T> From<Result<T, String>> for Collected<T> {
    fn from(result: Result<T, String>) -> Collected<T> {
        result.map_or_else(Collected::Absent, Collected::Found)
    }
}

/// Files and sockets from which a report is collected.
pub struct Sources<'a> {
    /// File of the configuration.
    pub config: &'a Path,
    /// Control socket of the node.
    pub control: &'a Path,
    /// File of the log. `None` means that the log is in the journal of the service.
    pub log: Option<&'a Path>,
}

/// A report, without secrets.
#[derive(Serialize, Debug)]
pub struct BugReport {
    schema: u32,
    level: &'static str,
    version: &'static str,
    /// Architecture, and whether the program was built with checks for development.
    build: String,
    kernel: String,
    node: Collected<Status>,
    /// One line for each setting of the configuration.
    configuration: Collected<Vec<String>>,
    /// Findings of `weft check` about the configuration.
    mistakes: Vec<String>,
    /// Findings of `weft doctor` about this machine.
    checks: Vec<Check>,
    /// Last lines of the log.
    log: Collected<Vec<String>>,
    /// nft tables of weft.
    tables: Collected<Vec<String>>,
    /// Routing rules and routes of weft.
    routes: Collected<Vec<String>>,
}

impl BugReport {
    /// Collects a report. It asks the node and runs other programs, which takes some seconds at most.
    pub fn collect(sources: &Sources<'_>, disclosure: Disclosure) -> BugReport {
        let mut anonymiser = Anonymiser::new(disclosure);
        let table = read(sources.config, MOST_BYTES).and_then(|text| settings::parse(&text));
        if let Ok(table) = &table {
            settings::learn(table, &mut anonymiser);
        }
        let node = status(sources.control);
        if let Ok(status) = &node {
            learn_status(status, &mut anonymiser);
        }
        learn_machine(&mut anonymiser);
        let log = sources.log.map_or_else(|| programs::journal(LOG_LINES), last_lines);
        log.iter()
            .flatten()
            .filter_map(|line| named_peer(line))
            .for_each(|peer| anonymiser.add_name(NameKind::Peer, peer));
        let usable = config::load(sources.config).ok().map(|loaded| loaded.config);
        let file = usable.is_some().then_some(sources.config);
        let mut report = BugReport {
            schema: 1,
            level: if disclosure == Disclosure::Public { "public" } else { "trusted" },
            version: env!("CARGO_PKG_VERSION"),
            build: format!("{}, debug assertions: {}", std::env::consts::ARCH, cfg!(debug_assertions)),
            kernel: proc("sys/kernel/osrelease"),
            node: node.and_then(|status| anonymous_status(&status, &mut anonymiser)).into(),
            configuration: table.map(|table| settings::lines(&table, &mut anonymiser)).into(),
            mistakes: mistakes(sources.config),
            checks: diagnose(file, usable.as_ref()),
            log: log.into(),
            tables: programs::tables().into(),
            routes: programs::routes().into(),
        };
        report.anonymise(&mut anonymiser);
        report
    }

    /// Anonymises the parts that contain text of other code. The status and the settings are anonymous already.
    fn anonymise(&mut self, anonymiser: &mut Anonymiser) {
        for part in [&mut self.log, &mut self.tables, &mut self.routes] {
            match part {
                Collected::Found(lines) => lines.iter_mut().for_each(|line| *line = anonymiser.text(line)),
                Collected::Absent(why) => *why = anonymiser.text(why),
            }
        }
        for Check { name, found, help, .. } in &mut self.checks {
            [name, found, help].into_iter().for_each(|text| *text = anonymiser.text(text));
        }
        self.mistakes.iter_mut().for_each(|line| *line = anonymiser.text(line));
        for why in [absence(&mut self.node), absence(&mut self.configuration)].into_iter().flatten() {
            *why = anonymiser.text(why);
        }
        self.kernel = anonymiser.text(&self.kernel);
    }

    /// Returns the report as text.
    pub fn text(&self) -> String {
        let BugReport { level, version, build, kernel, .. } = self;
        let mut text = format!("weft {version} ({build}), Linux {kernel}\nreport of level {level}\n");
        let mut section = |title: &str, body: &str| {
            let body = if body.trim().is_empty() { "none" } else { body.trim_end() };
            let _ = write!(text, "\n== {title}\n{body}\n");
        };
        match &self.node {
            Collected::Absent(why) => section("status", why),
            Collected::Found(status) => {
                section("status", &crate::commands::show::status(status));
                section("paths", &crate::commands::show::paths(status));
                section("flows", &crate::commands::show::flows(status));
            }
        }
        section("configuration", &lines(&self.configuration));
        section("mistakes in the configuration", &self.mistakes.join("\n"));
        let checks = self.checks.iter().map(|check| {
            let advice = if check.help.is_empty() { String::new() } else { format!(": {}", check.help) };
            format!("{}: {}: {}{advice}\n", check.name, check.verdict.word(), check.found)
        });
        section("doctor", &checks.collect::<String>());
        section("log", &lines(&self.log));
        section("nft tables", &lines(&self.tables));
        section("rules and routes", &lines(&self.routes));
        text
    }
}

fn lines(part: &Collected<Vec<String>>) -> String {
    match part {
        Collected::Found(lines) => lines.join("\n"),
        Collected::Absent(why) => format!("absent: {why}"),
    }
}

fn absence<T>(part: &mut Collected<T>) -> Option<&mut String> {
    match part {
        Collected::Found(_) => None,
        Collected::Absent(why) => Some(why),
    }
}

fn status(socket: &Path) -> Result<Status, String> {
    match ask(socket, &Request::Status) {
        Ok(Response::Status(status)) => Ok(*status),
        Ok(_) => Err("the node gave an unexpected answer".to_owned()),
        Err(failure) => Err(failure.text().to_owned()),
    }
}

/// Returns a copy of `status` in which labels replace names and addresses. Its numbers stay.
fn anonymous_status(status: &Status, anonymiser: &mut Anonymiser) -> Result<Status, String> {
    let mut value = serde_json::to_value(status).map_err(|why| why.to_string())?;
    anonymiser.value(&mut value);
    serde_json::from_value(value).map_err(|why| why.to_string())
}

fn learn_status(status: &Status, anonymiser: &mut Anonymiser) {
    anonymiser.add_name(NameKind::Key, &status.public_key);
    for peer in &status.peers {
        anonymiser.add_name(NameKind::Peer, &peer.name);
        anonymiser.add_name(NameKind::Key, &peer.public_key);
        peer.reaches.iter().for_each(|reach| anonymiser.add_name(NameKind::Peer, &reach.node));
    }
    status.vpns.iter().for_each(|vpn| anonymiser.add_name(NameKind::Vpn, &vpn.name));
    status.refused_prefixes.iter().for_each(|refused| anonymiser.add_name(NameKind::Peer, &refused.name));
    let keys = status.strangers.iter().filter_map(|stranger| stranger.public_key.as_ref());
    keys.for_each(|key| anonymiser.add_name(NameKind::Key, key));
    if let Some(overlay) = &status.overlay {
        let members = overlay.members.iter().filter_map(|member| member.name.as_ref());
        let contacts = overlay.contacts.iter().filter_map(|contact| contact.name.as_ref());
        members.chain(contacts).for_each(|name| anonymiser.add_name(NameKind::Peer, name));
    }
}

/// Adds the name of this machine and the names of its human users to the anonymiser.
fn learn_machine(anonymiser: &mut Anonymiser) {
    anonymiser.add_name(NameKind::Host, &proc("sys/kernel/hostname"));
    for line in fs::read_to_string("/etc/passwd").unwrap_or_default().lines() {
        let fields: Vec<_> = line.split(':').collect();
        if let [name, _, id, ..] = fields[..]
            && id.parse().is_ok_and(|id| PERSONS.contains(&id))
        {
            anonymiser.add_name(NameKind::User, name);
        }
    }
}

/// Returns the peer that a log line names, if it names one.
///
/// The peer may have been removed since, so status and configuration may lack its name.
fn named_peer(line: &str) -> Option<&str> {
    let (_, behind) = line.split_once(" peer ")?;
    let (name, _) = behind.split_once(':')?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// Returns the findings of `weft check`.
///
/// Quoted words of the file are hidden, unless they are keys of weft's configuration.
fn mistakes(file: &Path) -> Vec<String> {
    let Ok((_, report)) = config::read_and_check(file) else { return Vec::new() };
    let diagnostics = report.diagnostics().into_iter();
    diagnostics
        .map(|found| format!("line {}: {}: {}", found.line, found.severity, without_quotes(&found.message)))
        .collect()
}

/// Hides each quoted word of a message of `weft check` that is not a key of weft's configuration.
fn without_quotes(message: &str) -> String {
    let quoted = |(at, word): (usize, &str)| match at % 2 {
        1 if !settings::is_key(word) => HIDDEN.to_owned(),
        _ => word.to_owned(),
    };
    message.split(['`', '"']).enumerate().map(quoted).collect::<Vec<_>>().join("`")
}

fn proc(name: &str) -> String {
    fs::read_to_string(Path::new("/proc").join(name)).unwrap_or_default().trim().to_owned()
}

/// Returns the end of a file as text: at most its last `most` bytes.
fn read(file: &Path, most: u64) -> Result<String, String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut bytes = Vec::new();
    let failed = |why: std::io::Error| format!("{}: {why}", file.display());
    let mut open = crate::files::open(file).map_err(failed)?;
    let length = open.metadata().map_err(failed)?.len();
    open.seek(SeekFrom::Start(length.saturating_sub(most))).map_err(failed)?;
    open.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_lines(file: &Path) -> Result<Vec<String>, String> {
    let text = read(file, MOST_BYTES)?;
    let skipped = text.lines().count().saturating_sub(LOG_LINES);
    Ok(text.lines().skip(skipped).map(str::to_owned).collect())
}
