//! Defines the checked form of a scenario with two nodes, and checks it.

use crate::any::Shape;
use crate::error::{Checked, Source, which_exist};
use crate::event::{self, EventSurroundings};
use crate::file::{FlowFile, ScenarioFile, VariantFile};
use crate::flow::{self, CBR_PACKET_BYTES};
use crate::link_file::{self, LinkFile, LinkRules};
use crate::run_length::{RunLength, run_length};
use crate::vpn::{self, PairVpn, VpnEntry};
use crate::{
    App, Capacity, Flow, FlowDirection, Grid, Link, PACKET_BYTES, PAYLOAD_BYTES, ScenarioError, TimedEvent, Variant,
    VariantKind, VariantTcp,
};
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// Maximum number of flows.
///
/// A larger number is probably a typing mistake, because each flow is two processes in the lab.
const FLOWS_MAX: usize = 1_000;
/// Allowed IP packet sizes of a `cbr` flow, in bytes.
///
/// Derived: the headers and a time stamp need the minimum. The maximum is the least MTU of IPv6.
const CBR_PACKET_RANGE: RangeInclusive<u32> = 64..=1_280;

/// One experiment with two nodes: links, flows, events and the variants to compare.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Name of the scenario in the results.
    pub name: String,
    /// One sentence that describes the scenario to people.
    pub description: String,
    /// Names of the two nodes.
    ///
    /// The up direction of a link leads from the first node to the second.
    pub nodes: [String; 2],
    /// Duration of a run.
    pub duration: Duration,
    /// Time at the start of a run that the results leave out.
    pub warmup: Duration,
    /// Number of runs of each variant, with different seeds.
    pub repeats: u32,
    /// Seed from which the random numbers of the links derive.
    pub seed: u64,
    /// The links between the two nodes.
    pub links: Vec<Link>,
    /// VPNs between the nodes, in addition to the default VPN.
    pub vpns: Vec<PairVpn>,
    /// Maximum total of the rates that are promised to leased VPNs; `None`: no VPN may be leased.
    pub leasable: Option<Rate>,
    /// Names of the hosts behind the first node that begin flows.
    pub hosts: Vec<String>,
    /// Flows of the scenario, one for each application.
    pub flows: Vec<Flow>,
    /// Timed events in order of time, with every repetition as its own event.
    pub events: Vec<TimedEvent>,
    /// The variants that a run compares.
    pub variants: Vec<Variant>,
    /// Parameters that take several values; see [`Scenario::cells`].
    pub grid: Option<Grid>,
}

impl Scenario {
    /// Reads and checks a scenario. `file` is the name that error messages give to the text.
    ///
    /// # Errors
    /// Fails if the text is not TOML, a key or unit is unknown, or a reference names a missing item. It also fails if
    /// the text describes a [`crate::NetworkScenario`].
    pub fn parse(text: &str, file: &str) -> Result<Scenario, ScenarioError> {
        let source = Source { file, text };
        if let Shape::Network { told_at } = Shape::of(&source)? {
            return Err(source.error(told_at, "this scenario describes a network: run it with `weft-lab sim`"));
        }
        Scenario::parse_pair(&source)
    }

    /// Reads a file that is known to describe a scenario with two nodes.
    pub(crate) fn parse_pair(source: &Source<'_>) -> Checked<Scenario> {
        let read: ScenarioFile = crate::read::read(source)?;
        Checker { source: *source }.scenario(read)
    }

    /// Returns the upper bound of goodput without a tunnel, in bit/s.
    ///
    /// It is the sum of rate × 1448/1500 over all links with a constant rate. It leaves out links with a trace.
    pub fn constant_rate_bound_bps(&self, direction: FlowDirection) -> f64 {
        let share = PAYLOAD_BYTES as f64 / PACKET_BYTES as f64;
        let rate_bps = |link: &Link| match &link.towards(direction).capacity {
            Capacity::Rate(rate) => rate.bps() as f64,
            Capacity::Trace(_) => 0.0,
        };
        self.links.iter().map(|link| rate_bps(link) * share).sum()
    }

    /// Returns the scenario with the variant's changes to its TCP flows.
    pub fn under(&self, variant: &Variant) -> Scenario {
        let mut scenario = self.clone();
        scenario.flows.iter_mut().filter(|flow| flow.app.is_tcp()).for_each(|flow| variant.tcp.lay_over(flow));
        scenario
    }

    /// Returns the link with this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }
}

struct Checker<'a> {
    source: Source<'a>,
}

impl Checker<'_> {
    fn scenario(&self, read: ScenarioFile) -> Checked<Scenario> {
        let RunLength { duration, warmup, repeats } =
            run_length(&self.source, &read.duration, read.warmup.as_ref(), &read.repeats)?;
        let nodes = self.nodes(read.nodes)?;
        let links = self.links(&read.links, &nodes)?;
        let leasable = vpn::leasable(&self.source, read.policy.leasable.as_ref(), &links)?;
        let vpns = vpn::read(&self.source, &read.vpns, leasable)?;
        let (flows, hosts) = self.flows(read.flows, duration, &vpns)?;
        let leases: Vec<_> = read.events.iter().map(|event| event.leased.as_ref().map(|at| at.span().start)).collect();
        let probes = flows.iter().filter(|flow| flow.app == App::Probe);
        let around = EventSurroundings {
            nodes: &nodes,
            links: &links,
            vpns: vpns.iter().map(|vpn| vpn.name.as_str()).collect(),
            probes: Some(probes.map(|flow| flow.name.as_str()).collect()),
            has_weft: true,
        };
        let events = event::read(&self.source, &read.events, duration, &around)?;
        vpn::check_leases(&self.source, &vpns, &events, duration, leasable, &leases)?;
        let variants = self.variants(read.variants, read.named_variants, &links, &vpns, &flows)?;
        Ok(Scenario {
            name: read.name,
            description: read.description,
            nodes,
            duration,
            warmup,
            repeats,
            seed: read.seed,
            links,
            vpns,
            leasable,
            hosts,
            flows,
            events,
            variants,
            grid: read.grid.map(Grid::read),
        })
    }

    fn at<T>(&self, what: &Spanned<T>, message: impl Into<String>) -> ScenarioError {
        self.source.at(what, message)
    }

    fn nodes(&self, nodes: Option<Spanned<Vec<String>>>) -> Checked<[String; 2]> {
        let Some(nodes) = nodes else { return Ok(["home".into(), "hub".into()]) };
        let start = nodes.span().start;
        <[String; 2]>::try_from(nodes.into_inner()).ok().filter(|[a, b]| a != b).ok_or_else(|| {
            self.source.error(start, "expected two nodes with different names, such as [\"home\", \"hub\"]")
        })
    }

    fn links(&self, read: &[Spanned<LinkFile>], nodes: &[String]) -> Checked<Vec<Link>> {
        if read.is_empty() {
            let why = "the scenario has no link: add a [[link]] with `name`, `rate` and `delay`";
            return Err(self.source.error(0, why));
        }
        link_file::read(&self.source, read, nodes, LinkRules::Pair)
    }

    /// Returns the flows that the file describes, and the names of the hosts that begin some of them.
    fn flows(&self, read: Vec<FlowFile>, duration: Duration, vpns: &[PairVpn]) -> Checked<(Vec<Flow>, Vec<String>)> {
        let (mut flows, mut hosts): (Vec<Flow>, Vec<String>) = (Vec::new(), Vec::new());
        for flow in read {
            let vpn = vpn::of_flow(&self.source, &flow, vpns)?;
            let host = flow::host_of(&self.source, &flow, &mut hosts)?;
            let mean_packets = flow::mean_packets(&self.source, &flow)?;
            let cbr = self.cbr(&flow)?;
            let app = *flow.app.get_ref();
            let (name, named_at) = match &flow.name {
                Some(name) => (name.get_ref().clone(), name.span().start),
                None => (app.word().to_owned(), flow.app.span().start),
            };
            let names: Vec<String> = match flow.count {
                None => vec![name],
                Some(count) => (0..count.get()).map(|n| format!("{name}-{n}")).collect(),
            };
            if flows.len() + names.len() > FLOWS_MAX {
                let why = format!("a scenario can have at most {FLOWS_MAX} flows: remove some");
                return Err(self.source.error(named_at, why));
            }
            if let Some(name) = names.iter().find(|name| flows.iter().any(|known| known.name == **name)) {
                return Err(self
                    .source
                    .error(named_at, format!("two flows have the name `{name}`: change one `name`")));
            }
            let start = flow.start.as_ref().map_or(Duration::ZERO, |s| s.get_ref().0);
            let stop = flow.stop.as_ref().map_or(duration, |s| s.get_ref().0);
            if start >= stop || stop > duration {
                let place = flow.stop.as_ref().or(flow.start.as_ref()).map_or(named_at, |s| s.span().start);
                return Err(self
                    .source
                    .error(place, "a flow must start before it stops, and stop before the run ends"));
            }
            let plain = Flow::plain(String::new(), app, duration);
            let interval = flow.interval.map_or(plain.interval, |q| q.0).max(Duration::from_micros(100));
            let (packet_bytes, interval) = cbr.unwrap_or((plain.packet_bytes, interval));
            self.check_tcp(&flow)?;
            let read = Flow {
                vpn,
                host,
                pacing: flow.pacing.map(|q| q.into_inner().0),
                receive_buffer_bytes: flow.receive_buffer.map(|q| q.into_inner().0.0),
                direction: flow.direction.unwrap_or(plain.direction),
                congestion: flow.congestion.unwrap_or_else(|| plain.congestion.clone()),
                start,
                stop,
                interval,
                packet_bytes,
                size_bytes: flow.size.map_or(plain.size_bytes, |q| q.0.0),
                mean_packets,
                ..plain
            };
            flows.extend(names.into_iter().map(|name| Flow { name, ..read.clone() }));
        }
        Ok((flows, hosts))
    }

    fn check_tcp(&self, flow: &FlowFile) -> Checked<()> {
        let app = *flow.app.get_ref();
        match (&flow.pacing, &flow.receive_buffer) {
            (Some(pacing), _) if !matches!(app, App::Iperf3 | App::Transfer) => Err(self.at(
                pacing,
                format!("`pacing` works only with the apps iperf3 and transfer, not with `{}`: remove it", app.word()),
            )),
            (_, Some(buffer)) if !matches!(app, App::Iperf3 | App::Transfer) => Err(self.at(
                buffer,
                format!(
                    "`receive-buffer` works only with the apps iperf3 and transfer, not with `{}`: remove it",
                    app.word()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Returns the packet size in IP bytes and the packet interval of a `cbr` flow.
    ///
    /// Returns `None` for other applications.
    fn cbr(&self, flow: &FlowFile) -> Checked<Option<(u32, Duration)>> {
        let (is_cbr, word) = (*flow.app.get_ref() == App::Cbr, flow.app.get_ref().word());
        let bytes = match &flow.packet_size {
            Some(size) if !is_cbr => {
                return Err(
                    self.at(size, format!("`packet-size` works only with app = \"cbr\", not with `{word}`: remove it"))
                );
            }
            Some(size) => match u32::try_from(size.get_ref().0.0) {
                Ok(bytes) if CBR_PACKET_RANGE.contains(&bytes) => bytes,
                _ => {
                    let (least, most) = (CBR_PACKET_RANGE.start(), CBR_PACKET_RANGE.end());
                    return Err(self.at(
                        size,
                        format!(
                            "`packet-size` must be {least} B to {most} B, so that every tunnel can carry the packet"
                        ),
                    ));
                }
            },
            None => CBR_PACKET_BYTES,
        };
        match &flow.rate {
            Some(rate) if is_cbr => Ok(Some((bytes, rate.get_ref().0.time_for(bytes.into())))),
            Some(rate) => {
                Err(self.at(rate, format!("`rate` works only with app = \"cbr\", not with `{word}`: remove it")))
            }
            None if is_cbr => Err(self.at(&flow.app, "`cbr` needs a `rate`, in IP bytes")),
            None => Ok(None),
        }
    }

    fn known_link(&self, place: usize, name: &str, links: &[Link]) -> Checked<()> {
        if links.iter().any(|link| link.name == name) {
            return Ok(());
        }
        let exist = which_exist(name, links.iter().map(|link| link.name.as_str()));
        Err(self.source.error(place, format!("there is no link `{name}`: {exist}")))
    }

    fn variants(
        &self,
        plain: Vec<Spanned<VariantKind>>,
        named: Vec<VariantFile>,
        links: &[Link],
        vpns: &[PairVpn],
        flows: &[Flow],
    ) -> Checked<Vec<Variant>> {
        let mut variants: Vec<Variant> = Vec::new();
        for kind in plain {
            if variants.iter().any(|known| known.kind == *kind.get_ref()) {
                return Err(self.at(
                    &kind,
                    format!("`variants` lists the variant `{}` twice: remove one of the two", kind.get_ref().word()),
                ));
            }
            if *kind.get_ref() == VariantKind::WeftEachVpn && vpns.is_empty() {
                return Err(self.at(&kind, "the scenario has no VPN: add a [[vpn]] with `name`"));
            }
            variants.push(Variant::plain(*kind.get_ref()));
        }
        for read in named {
            let name = read.name.get_ref().clone();
            if variants.iter().any(|known| known.name == name) {
                return Err(self.at(&read.name, format!("two variants have the name `{name}`: change one `name`")));
            }
            if !read.kind.is_weft() && !read.weft.is_empty() {
                return Err(self.at(
                    &read.name,
                    format!(
                        "variant `{name}` is of kind `{}`, which has no weft settings: remove `weft`",
                        read.kind.word()
                    ),
                ));
            }
            if read.weft.contains_key("vpn") {
                return Err(self.at(&read.name, "set the settings for all VPNs in `vpn` of the variant, not in `weft`"));
            }
            if read.kind == VariantKind::WeftEachVpn && vpns.is_empty() {
                return Err(self.at(&read.name, "the scenario has no VPN: add a [[vpn]] with `name`"));
            }
            let used = match read.links {
                None => Vec::new(),
                Some(used) => {
                    used.get_ref().iter().try_for_each(|name| self.known_link(used.span().start, name, links))?;
                    used.into_inner()
                }
            };
            let vpn = match &read.vpn {
                None => VpnEntry::default(),
                Some(vpn) if !read.kind.is_weft() || vpns.is_empty() => {
                    return Err(self.at(
                        vpn,
                        format!(
                            "the key `vpn` of variant `{name}` needs a `kind` that runs weft, and a [[vpn]] in the \
                             scenario: add what is missing, or remove the key"
                        ),
                    ));
                }
                Some(vpn) => vpn::read_entry(&self.source, vpn.get_ref())?,
            };
            if let Some(flow) = &read.tcp.flow {
                let names = flows.iter().map(|flow| flow.name.as_str());
                if !names.clone().any(|name| name == flow.get_ref()) {
                    let exist = which_exist(flow.get_ref(), names);
                    return Err(self.at(flow, format!("there is no flow `{}`: {exist}", flow.get_ref())));
                }
            }
            let openvpn = match read.openvpn {
                Some(proto) if !matches!(read.kind, VariantKind::Weft | VariantKind::Openvpn) => {
                    return Err(self.at(&proto, "use OpenVPN in variants of kind `weft` or `openvpn`"));
                }
                proto => proto.map(Spanned::into_inner),
            };
            let tcp = VariantTcp::read(read.tcp);
            let openvpn_options = read.openvpn_options;
            variants.push(Variant {
                name,
                kind: read.kind,
                links: used,
                vpn,
                tcp,
                openvpn,
                openvpn_options,
                weft: read.weft,
            });
        }
        if variants.is_empty() {
            variants = [VariantKind::EachLink, VariantKind::BestLink, VariantKind::Mptcp, VariantKind::Weft]
                .map(Variant::plain)
                .into();
        }
        Ok(variants)
    }
}
