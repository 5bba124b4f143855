//! Defines the variants that one run of a network compares.

use super::NetworkFlow;
use super::file::NetworkVariantFile;
use super::ingress::{IngressChange, IngressSpec};
use super::overlay::{self, OverlaySpec, OverlayUse};
use super::path::ExplicitPath;
use super::routing::{Routing, RoutingFile};
use super::signalling::SignallingSpec;
use super::tcp::{TcpChange, TcpSpec};
use super::vpn::NetworkVpn;
use crate::Link;
use crate::error::{Checked, Source};
use crate::pattern::{Unique, sound_name};

/// One of the alternatives that a run of a network compares.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkVariant {
    /// Name of the variant in the results.
    pub name: String,
    /// The routing of all routers in this variant.
    pub routing: Routing,
    /// Changes to the TCP settings of all flows.
    pub tcp: TcpChange,
    /// Changes to the queues and loops through which all VPNs enter the tunnel.
    pub ingress: IngressChange,
    /// Settings of explicit-rate signalling.
    pub signalling: SignallingSpec,
    /// Changes to the TCP settings between two proxies.
    ///
    /// `None` means that flows do not use their proxies.
    pub proxy: Option<TcpChange>,
    /// Settings of the overlay, which carries all flows; `None`: the variant has no overlay.
    pub overlay: Option<OverlayUse>,
}

/// The parts of the network that a variant may refer to.
pub(super) struct Surroundings<'a> {
    pub nodes: &'a [String],
    pub links: &'a [Link],
    pub paths: &'a [ExplicitPath],
    pub flows: &'a [NetworkFlow],
    pub vpns: &'a [NetworkVpn],
    pub overlay: &'a OverlaySpec,
}

impl NetworkVariant {
    /// Returns the TCP settings of a flow in this variant.
    pub fn tcp_of(&self, flow: &NetworkFlow) -> TcpSpec {
        self.tcp.apply(flow.tcp)
    }

    /// Returns the two proxies of a flow, and the settings of the TCP connection between them.
    ///
    /// Returns `None` if the flow uses no proxies in this variant.
    pub fn proxy_tcp_of(&self, flow: &NetworkFlow) -> Option<([usize; 2], TcpSpec)> {
        let (proxies, change) = (flow.proxies?, self.proxy?);
        Some((proxies, change.apply(self.tcp_of(flow))))
    }

    /// Returns the queue and loop settings of a VPN in this variant.
    pub fn ingress_of(&self, vpn: &NetworkVpn) -> IngressSpec {
        self.ingress.apply(vpn.ingress)
    }
}

/// Returns the variants that a file describes.
///
/// For a file without variants, it returns one with the name `plain`, which changes nothing.
pub(super) fn read(
    source: &Source<'_>,
    files: &[NetworkVariantFile],
    base: &RoutingFile,
    signalling: &SignallingSpec,
    around: &Surroundings<'_>,
) -> Checked<Vec<NetworkVariant>> {
    let Surroundings { nodes, links, paths, .. } = *around;
    base.check(source)?;
    if files.is_empty() {
        let routing = base.whole(source, paths)?;
        let (tcp, ingress) = (TcpChange::default(), IngressChange::default());
        let (name, signalling) = ("plain".into(), signalling.clone());
        return Ok(vec![NetworkVariant { name, routing, tcp, ingress, signalling, proxy: None, overlay: None }]);
    }
    let mut names = Unique::new("variant");
    let mut variants = Vec::new();
    for file in files {
        sound_name(source, &file.name, "variant")?;
        names.take(source, file.name.span().start, file.name.get_ref())?;
        file.routing.check(source)?;
        let asked = file.overlay.as_ref().filter(|overlay| *overlay.get_ref());
        if let Some(asked) = asked {
            overlay::check(around, file).map_err(|message| source.at(asked, message))?;
        }
        let used = overlay::used(source, file, around.overlay)?;
        let overlay = asked.map(|_| used);
        let routing = file.routing.over(base).whole(source, paths)?;
        let (name, ingress) = (file.name.get_ref().clone(), file.ingress.change(source)?);
        let signalling = file.signalling.apply(source, signalling, nodes, links)?;
        let (tcp, proxy) = (file.tcp, file.proxy);
        variants.push(NetworkVariant { name, routing, tcp, ingress, signalling, proxy, overlay });
    }
    Ok(variants)
}
