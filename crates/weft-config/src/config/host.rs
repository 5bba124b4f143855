//! Configuration of `weft signal`, with which a host signals that runs no node.
//!
//! The file has the table `[signal]` with the interface and the rules, and the table `[tcp-er]`.

use super::check::signal::{Carried, check_signal};
use super::diagnose::{Report, Severity};
use super::parse::interface_name;
use super::read::{At, Section};
use super::{Signal, TcpEr, signal, tcp_er};
use std::path::Path;
use toml::de::DeTable;
use weft_units::{Rate, parse_rate};

/// A checked configuration of `weft signal`.
#[derive(Clone, Debug)]
pub struct Host {
    /// Interface whose packets carry signals.
    pub interface: String,
    /// Capacity of the interface for sending, counted in bytes of IP packets.
    pub rate: Rate,
    /// Capacity of the interface for reception, counted in bytes of IP packets.
    pub rate_down: Rate,
    /// `[signal]`, as in a node's configuration.
    pub signal: Signal,
    /// `[tcp-er]`: rates of this machine's own sockets.
    pub tcp_er: TcpEr,
}

/// Reads and checks the configuration in `file`. The report holds warnings only.
///
/// # Errors
/// Returns the mistakes as text for a reader.
pub fn load(file: &Path) -> Result<(Host, Report), String> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|why| format!("{name}: {why}\n"))?;
    let report = Report::new(name, text);
    let mut host = parse(&report, file.parent().unwrap_or(Path::new(".")));
    if let Some(host) = &mut host {
        let least = host.rate.min(host.rate_down);
        check_signal(&mut host.signal, Some(Carried::Interface(least)), &report);
    }
    match host {
        Some(host) if report.count(Severity::Error) == 0 => Ok((host, report)),
        _ => Err(report.to_string()),
    }
}

/// Parses the text of `report`. A relative path of the key file is relative to `directory`.
///
/// Returns `None` if the text is no TOML or a required key is missing.
pub fn parse(report: &Report, directory: &Path) -> Option<Host> {
    let root = match DeTable::parse(report.text()) {
        Ok(root) => root,
        Err(why) => {
            report.error(why.span().unwrap_or(0..0), why.message().replace('\n', ", "), None);
            return None;
        }
    };
    let mut root = Section::new("the file", root.get_ref(), 0..0, report);
    let table = root.section("signal", "[signal]");
    if !root.has("signal") {
        root.missing("[signal]", "the file must name the interface: [signal] interface = \"eth0\"");
    }
    let tcp_er = root.section("tcp-er", "[tcp-er]").map(tcp_er::read).unwrap_or_default();
    let host = table.and_then(|section| read(section, tcp_er, directory, report));
    root.finish();
    host
}

fn read(mut section: Section<'_, '_>, tcp_er: TcpEr, directory: &Path, report: &Report) -> Option<Host> {
    let interface = section.parsed("interface", "\"eth0\"", nftables_name);
    let rate = section.parsed("rate", "\"100 Mbit/s\"", some_rate);
    let rate_down = section.parsed("rate-down", "\"100 Mbit/s\"", some_rate);
    let helps = [
        ("interface", "the interface whose packets carry signals, such as \"eth0\""),
        ("rate", "the interface's rate, such as \"100 Mbit/s\""),
    ];
    for (key, help) in helps {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
    let signal = signal::read(section, directory, report);
    let (At { value: interface, .. }, At { value: rate, .. }) = (interface?, rate?);
    Some(Host { interface, rate, rate_down: rate_down.map_or(rate, |at| at.value), signal, tcp_er })
}

/// Parses the name of an interface. Refuses a name that cannot stand between quotes in a rule of nftables.
fn nftables_name(text: &str) -> Result<String, &'static str> {
    if text.contains(['"', '\\', '*']) {
        Err("nftables accepts no interface name with `\"`, `\\` or `*`: rename the interface")
    } else {
        interface_name(text)
    }
}

fn some_rate(text: &str) -> Result<Rate, String> {
    match parse_rate(text) {
        Ok(Rate::ZERO) => Err("the rate of the interface must be greater than zero, such as 100 Mbit/s".to_owned()),
        Ok(rate) => Ok(rate),
        Err(why) => Err(why.to_string()),
    }
}
