//! Defines the traffic of a network, and reads it from the file.

use super::file::NetworkFlowFile;
use super::tcp::{TcpChange, TcpSpec};
use crate::Link;
use crate::error::{Checked, Source};
use crate::pattern::{Unique, node, numbered, pairs, sound_name};
use crate::quantity::{Bytes, Quantity};
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// One source of traffic in a network, and the node to which it sends.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkFlow {
    /// Name of the flow in the results.
    pub name: String,
    /// Index of the `[[flow]]` entry in the file from which this flow was made, from 0.
    pub group: usize,
    /// Index of the node that sends the data, in the network's list of nodes.
    pub from: usize,
    /// Index of the node that receives the data, in the network's list of nodes.
    pub to: usize,
    /// Earliest start of the flow, since the start of the run.
    pub start: Duration,
    /// Maximum random delay of the start.
    ///
    /// The delay is uniformly distributed and depends on the seed of the run.
    pub spread: Duration,
    /// Stop time of the flow, since the start of the run.
    pub stop: Duration,
    /// The data that the flow sends.
    pub traffic: Traffic,
    /// TCP settings of the flow, if it uses TCP.
    ///
    /// [`super::NetworkVariant::tcp_of`] returns the settings in a variant.
    pub tcp: TcpSpec,
    /// Two nodes along the route that terminate the flow's TCP connection in variants with a proxy.
    ///
    /// A separate TCP connection joins the two nodes.
    pub proxies: Option<[usize; 2]>,
}

impl NetworkFlow {
    /// Sets the rate within a burst, if the flow is a Pareto source. Does nothing for other flows.
    pub fn set_peak(&mut self, rate: Rate) {
        if let Traffic::Pareto { peak, .. } = &mut self.traffic {
            *peak = rate;
        }
    }
}

/// The kind of data that a flow sends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Traffic {
    /// One TCP connection that sends as much as it can.
    Ftp {
        /// Number of bytes to send, or `None` to send until the flow stops.
        size_bytes: Option<u64>,
    },
    /// Successive TCP connections that each carry the same number of bytes.
    Http {
        /// Number of bytes that each connection sends.
        size_bytes: u64,
        /// Time between the end of one connection and the start of the next.
        pause: Duration,
    },
    /// Short TCP connections at random times (Poisson) with geometrically distributed lengths.
    ShortFlows {
        /// Mean length of a connection, in full segments.
        mean_packets: f64,
        /// Mean time between the starts of two connections.
        interval: Duration,
    },
    /// Requests over one TCP connection, each sent after the last response and a pause.
    RequestResponse {
        /// Number of bytes of each request.
        request_bytes: u64,
        /// Number of bytes of each response.
        response_bytes: u64,
        /// Pause between a response and the next request.
        interval: Duration,
    },
    /// Datagrams in bursts, with pauses between the bursts.
    ///
    /// The lengths of bursts and pauses are Pareto distributed.
    Pareto {
        /// Size of a datagram in IP bytes.
        packet_bytes: u32,
        /// Rate of the datagrams within a burst, in IP bytes.
        peak: Rate,
        /// Mean length of a burst.
        on: Duration,
        /// Mean length of a pause.
        off: Duration,
        /// Shape parameter of both Pareto distributions, above 1.
        shape: f64,
    },
    /// Datagrams of one size at random times (Poisson).
    Poisson {
        /// Size of a datagram in IP bytes.
        packet_bytes: u32,
        /// Mean rate of the datagrams, in IP bytes.
        rate: Rate,
    },
    /// Datagrams of one size at a constant rate.
    Cbr {
        /// Size of a datagram in IP bytes.
        packet_bytes: u32,
        /// Rate of the datagrams, in IP bytes.
        rate: Rate,
    },
    /// One direction of a voice call. The default values are those of the codec G.711.
    Voip {
        /// Size of a datagram in IP bytes.
        packet_bytes: u32,
        /// Interval between two datagrams.
        interval: Duration,
    },
    /// ICMP echo requests and their replies, which measure the round-trip time.
    Ping {
        /// Interval between two requests.
        interval: Duration,
    },
    /// Small datagrams at a constant interval, which measure gaps and one-way delays.
    Probe {
        /// Interval between two datagrams.
        interval: Duration,
    },
}

impl Traffic {
    /// True if the traffic uses TCP.
    pub fn is_tcp(self) -> bool {
        use Traffic::{Ftp, Http, RequestResponse, ShortFlows};
        matches!(self, Ftp { .. } | Http { .. } | ShortFlows { .. } | RequestResponse { .. })
    }
}

/// The keyword for the application of a flow: the value of `app` in a file.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AppWord {
    Iperf3,
    Ftp,
    Http,
    ShortFlows,
    RequestResponse,
    Pareto,
    Poisson,
    Cbr,
    Voip,
    Ping,
    Probe,
}

impl AppWord {
    fn word(self) -> &'static str {
        match self {
            AppWord::Iperf3 => "iperf3",
            AppWord::Ftp => "ftp",
            AppWord::Http => "http",
            AppWord::ShortFlows => "short-flows",
            AppWord::RequestResponse => "request-response",
            AppWord::Pareto => "pareto",
            AppWord::Poisson => "poisson",
            AppWord::Cbr => "cbr",
            AppWord::Voip => "voip",
            AppWord::Ping => "ping",
            AppWord::Probe => "probe",
        }
    }

    /// Returns the keys of a `[[flow]]` that are allowed only for some applications and that this one accepts.
    fn keys(self) -> &'static [&'static str] {
        match self {
            AppWord::Iperf3 => &["tcp", "proxies"],
            AppWord::Ftp => &["tcp", "size", "proxies"],
            AppWord::Http => &["tcp", "size", "proxies", "interval"],
            AppWord::ShortFlows => &["tcp", "mean-packets", "interval"],
            AppWord::RequestResponse => &["tcp", "request", "size", "interval"],
            AppWord::Pareto => &["packet-size", "peak", "on", "off", "shape"],
            AppWord::Poisson | AppWord::Cbr => &["packet-size", "rate"],
            AppWord::Voip => &["packet-size", "interval"],
            AppWord::Ping | AppWord::Probe => &["interval"],
        }
    }
}

pub(super) fn read(
    source: &Source<'_>,
    files: &[NetworkFlowFile],
    base: &TcpChange,
    duration: Duration,
    nodes: &[String],
    links: &[Link],
) -> Checked<Vec<NetworkFlow>> {
    let mut names = Unique::new("flow");
    let mut flows = Vec::new();
    let islands = islands(nodes.len(), links);
    for (group, file) in files.iter().enumerate() {
        let app = file.app.get_ref().word();
        let (name, place) = match &file.name {
            Some(name) => {
                sound_name(source, name, "flow")?;
                (name.get_ref().as_str(), name.span().start)
            }
            None => (app, file.app.span().start),
        };
        let traffic = file.traffic(source)?;
        let (start, spread, stop) = file.times(source, duration)?;
        let own = file.tcp.as_ref().map_or(TcpChange::default(), |tcp| *tcp.get_ref());
        let tcp = own.apply(base.apply(TcpSpec::default()));
        let proxies = file.proxies(source, nodes, &islands)?;
        let pairs = pairs(source, &file.from, &file.to, nodes)?;
        if let Some((from, to)) = pairs.iter().find(|(from, to)| islands[*from] != islands[*to]) {
            return Err(source.at(
                &file.to,
                format!(
                    "the flow cannot run, because no links lead from node `{}` to node `{}`: add links",
                    nodes[*from], nodes[*to]
                ),
            ));
        }
        let per_pair = file.count.map_or(1, u32::from) as usize;
        let count = pairs.len().saturating_mul(per_pair);
        let each = pairs.iter().flat_map(|pair| std::iter::repeat_n(*pair, per_pair));
        for (number, (from, to)) in each.enumerate() {
            let name = numbered(name, number, count);
            names.take(source, place, &name)?;
            flows.push(NetworkFlow { name, group, from, to, start, spread, stop, traffic, tcp, proxies });
        }
    }
    Ok(flows)
}

/// Returns a number for each node. Two nodes have the same number if links connect them, directly or over others.
///
/// It uses union-find. The number is the least index of the nodes that are connected.
fn islands(nodes: usize, links: &[Link]) -> Vec<usize> {
    fn root(leader: &mut [usize], mut node: usize) -> usize {
        while leader[node] != node {
            leader[node] = leader[leader[node]];
            node = leader[node];
        }
        node
    }
    let mut leader: Vec<usize> = (0..nodes).collect();
    for [a, b] in links.iter().map(|link| link.ends) {
        let (a, b) = (root(&mut leader, a), root(&mut leader, b));
        leader[a.max(b)] = a.min(b);
    }
    (0..nodes).map(|node| root(&mut leader, node)).collect()
}

impl NetworkFlowFile {
    /// Returns the flow's start, the maximum random delay of the start, and its stop. All are checked.
    fn times(&self, source: &Source<'_>, duration: Duration) -> Checked<(Duration, Duration, Duration)> {
        let start = self.start.as_ref().map_or(Duration::ZERO, |s| s.get_ref().0);
        let spread = self.spread.as_ref().map_or(Duration::ZERO, |s| s.get_ref().0);
        let stop = self.stop.as_ref().map_or(duration, |s| s.get_ref().0);
        if start.saturating_add(spread) >= stop || stop > duration {
            let given = self.stop.as_ref().or(self.spread.as_ref()).or(self.start.as_ref());
            let place = given.map_or(self.app.span().start, |s| s.span().start);
            return Err(source.error(place, "a flow must start before it stops, and stop before the run ends"));
        }
        Ok((start, spread, stop))
    }

    fn proxies(&self, source: &Source<'_>, nodes: &[String], islands: &[usize]) -> Checked<Option<[usize; 2]>> {
        let Some(given) = &self.proxies else { return Ok(None) };
        let [first, second] = given.get_ref();
        let found = [node(source, first, nodes)?, node(source, second, nodes)?];
        if found[0] == found[1] || islands[found[0]] != islands[found[1]] {
            return Err(source.at(given, "proxies must be two nodes with links between them"));
        }
        Ok(Some(found))
    }

    fn traffic(&self, source: &Source<'_>) -> Checked<Traffic> {
        let app = *self.app.get_ref();
        self.only_its_own_keys(source, app)?;
        let interval = |default_ms| self.interval.as_ref().map_or(Duration::from_millis(default_ms), |q| q.get_ref().0);
        let size = self.size.as_ref().map(|q| q.get_ref().0.0);
        Ok(match app {
            AppWord::Iperf3 | AppWord::Ftp => Traffic::Ftp { size_bytes: size },
            AppWord::Http => Traffic::Http { size_bytes: size.unwrap_or(10_000_000), pause: interval(0) },
            AppWord::ShortFlows => {
                let what = "`mean-packets`, the mean number of packets in a connection,";
                let mean_packets = self.number(source, self.mean_packets.as_ref(), 14.0, what)?;
                Traffic::ShortFlows { mean_packets, interval: self.above_zero(source, interval(100))? }
            }
            AppWord::RequestResponse => Traffic::RequestResponse {
                request_bytes: self.request.as_ref().map_or(200, |q| q.get_ref().0.0),
                response_bytes: size.unwrap_or(10_000),
                interval: interval(100),
            },
            AppWord::Pareto => Traffic::Pareto {
                packet_bytes: self.packet_bytes(source, 500)?,
                peak: self.needed(source, self.peak.as_ref(), "peak")?,
                on: self.needed_time(source, self.on.as_ref(), "on")?,
                off: self.needed_time(source, self.off.as_ref(), "off")?,
                shape: self.number(
                    source,
                    self.shape.as_ref(),
                    1.5,
                    "`shape` of the Pareto-distributed times `on` and `off`, which otherwise have no mean,",
                )?,
            },
            AppWord::Poisson => Traffic::Poisson {
                packet_bytes: self.packet_bytes(source, 1_500)?,
                rate: self.needed(source, self.rate.as_ref(), "rate")?,
            },
            AppWord::Cbr => Traffic::Cbr {
                packet_bytes: self.packet_bytes(source, 1_500)?,
                rate: self.needed(source, self.rate.as_ref(), "rate")?,
            },
            AppWord::Voip => Traffic::Voip {
                packet_bytes: self.packet_bytes(source, 200)?,
                interval: self.above_zero(source, interval(20))?,
            },
            AppWord::Ping => Traffic::Ping { interval: self.above_zero(source, interval(100))? },
            AppWord::Probe => Traffic::Probe { interval: self.above_zero(source, interval(1))? },
        })
    }

    fn only_its_own_keys(&self, source: &Source<'_>, app: AppWord) -> Checked<()> {
        fn start<T>(given: Option<&Spanned<T>>) -> Option<usize> {
            given.map(|value| value.span().start)
        }
        let given = [
            ("tcp", start(self.tcp.as_ref())),
            ("proxies", start(self.proxies.as_ref())),
            ("size", start(self.size.as_ref())),
            ("request", start(self.request.as_ref())),
            ("packet-size", start(self.packet_size.as_ref())),
            ("rate", start(self.rate.as_ref())),
            ("peak", start(self.peak.as_ref())),
            ("on", start(self.on.as_ref())),
            ("off", start(self.off.as_ref())),
            ("shape", start(self.shape.as_ref())),
            ("mean-packets", start(self.mean_packets.as_ref())),
            ("interval", start(self.interval.as_ref())),
        ];
        for (key, place) in given {
            if let Some(place) = place.filter(|_| !app.keys().contains(&key)) {
                let list = app.keys().iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                return Err(source.error(
                    place,
                    format!("a flow with app `{}` cannot have `{key}`, only {list}: remove `{key}`", app.word()),
                ));
            }
        }
        Ok(())
    }

    fn needed<T: Copy>(&self, source: &Source<'_>, given: Option<&Spanned<Quantity<T>>>, key: &str) -> Checked<T> {
        let app = self.app.get_ref().word();
        given
            .map(|q| q.get_ref().0)
            .ok_or_else(|| source.at(&self.app, format!("a flow with app `{app}` needs the setting `{key}`: add it")))
    }

    fn needed_time(
        &self,
        source: &Source<'_>,
        given: Option<&Spanned<Quantity<Duration>>>,
        key: &str,
    ) -> Checked<Duration> {
        let time = self.needed(source, given, key)?;
        match given {
            Some(given) if time.is_zero() => {
                Err(source.at(given, format!("the time `{key}` of a flow must be greater than zero")))
            }
            _ => Ok(time),
        }
    }

    /// Returns the given number after a check that it is above one. Without a given number it returns `default`.
    fn number(&self, source: &Source<'_>, given: Option<&Spanned<f64>>, default: f64, what: &str) -> Checked<f64> {
        match given {
            None => Ok(default),
            Some(number) if number.get_ref().is_finite() && *number.get_ref() > 1.0 => Ok(*number.get_ref()),
            Some(number) => Err(source.at(number, format!("{what} must be above 1"))),
        }
    }

    fn above_zero(&self, source: &Source<'_>, interval: Duration) -> Checked<Duration> {
        match &self.interval {
            Some(given) if interval < Duration::from_micros(1) => {
                Err(source.at(given, "expected an interval of at least 1 us"))
            }
            _ => Ok(interval),
        }
    }

    fn packet_bytes(&self, source: &Source<'_>, default: u32) -> Checked<u32> {
        let Some(size) = &self.packet_size else { return Ok(default) };
        let Quantity(Bytes(bytes)) = size.get_ref();
        let fits = u32::try_from(*bytes).ok().filter(|bytes| (28..=65_535).contains(bytes));
        fits.ok_or_else(|| source.at(size, "a datagram must have 28 B to 65535 B, including its IP and UDP headers"))
    }
}
