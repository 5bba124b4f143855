//! Parsing of `[export]`: the collector of flow records.

use super::figures::time_within;
use crate::config::read::{At, Section, names};
use std::net::SocketAddr;
use weft_flows::ipfix::{Dialect, ExporterConfig};
use weft_units::Duration;

/// Transport of the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExportProtocol {
    /// UDP datagrams.
    #[default]
    Udp,
    /// A TCP stream.
    Tcp,
}

names!(ExportProtocol { Udp = "udp", Tcp = "tcp" });

/// Format of the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExportFormat {
    /// IPFIX (RFC 7011).
    #[default]
    Ipfix,
    /// NetFlow version 9 (RFC 3954).
    Netflow9,
}

names!(ExportFormat { Ipfix = "ipfix", Netflow9 = "netflow9" });

/// Time between two records of a flow that continues, if none is set.
///
/// *Standard*: the active time-out of most exporters, which collectors expect.
const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum of `interval`. A collector must receive a record of each long flow at least once an hour.
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);
/// Maximum of `template-interval`.
///
/// *Standard*: RFC 7011 §8.4 has a default of 10 minutes. A collector need not wait longer for a template.
const TEMPLATE_INTERVAL_MAX: Duration = Duration::from_secs(600);
/// Minimum of `interval` and of `template-interval`.
const SHORTEST: Duration = Duration::from_secs(1);

/// `[export]`: the collector of flow records.
#[derive(Clone, PartialEq, Debug)]
pub struct ExportSettings {
    /// Address and port of the collector.
    pub collector: At<SocketAddr>,
    /// Transport of the records.
    pub protocol: ExportProtocol,
    /// Format of the records.
    pub format: ExportFormat,
    /// Time between two records of a flow that continues.
    pub interval: Duration,
    /// Time after which the templates are repeated over UDP.
    pub template_interval: Duration,
    /// Observation domain: the id by which a collector distinguishes this node from others.
    pub domain: u32,
}

impl ExportSettings {
    /// Returns the settings of the exporter.
    pub fn exporter(&self) -> ExporterConfig {
        ExporterConfig {
            dialect: match self.format {
                ExportFormat::Ipfix => Dialect::Ipfix,
                ExportFormat::Netflow9 => Dialect::NetflowV9,
            },
            is_stream: self.protocol == ExportProtocol::Tcp,
            domain: self.domain,
            template_interval: self.template_interval,
            ..ExporterConfig::default()
        }
    }
}

/// Parses `[export]`.
pub fn read(mut section: Section<'_, '_>) -> Option<ExportSettings> {
    let collector = section.parsed("collector", "\"192.0.2.9:4739\"", collector);
    if !section.has("collector") {
        section.missing("collector", "for example collector = \"192.0.2.9:4739\"");
    }
    let protocol = section.choice("protocol").unwrap_or_default();
    let format = section.choice("format").unwrap_or_default();
    if format == ExportFormat::Netflow9 && protocol == ExportProtocol::Tcp {
        let help = "use \"udp\", or format = \"ipfix\"";
        section.complain(section.key_span("protocol"), "NetFlow version 9 does not run over TCP", help);
    }
    let interval = section.parsed("interval", "\"60 s\"", time_within("interval", SHORTEST, INTERVAL_MAX));
    let within = time_within("template-interval", SHORTEST, TEMPLATE_INTERVAL_MAX);
    let templates = section.parsed("template-interval", "\"30 s\"", within);
    let domain = section.integer("domain", 0..1 << 32).map_or(0, |at| at.value as u32);
    section.finish();
    Some(ExportSettings {
        collector: collector?,
        protocol,
        format,
        interval: interval.map_or(INTERVAL, |at| at.value),
        template_interval: templates.map_or(ExporterConfig::default().template_interval, |at| at.value),
        domain,
    })
}

fn collector(text: &str) -> Result<SocketAddr, &'static str> {
    let address: SocketAddr = text.parse().map_err(|_| "expected an IP address and a port")?;
    match address.ip() {
        _ if address.port() == 0 => Err("the collector cannot have port 0: write a port from 1 to 65535"),
        ip if ip.is_unspecified() || ip.is_multicast() => {
            Err("the collector's address must be that of one machine, not 0.0.0.0, :: or multicast")
        }
        _ => Ok(address),
    }
}
