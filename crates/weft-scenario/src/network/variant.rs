//! What is compared in one run of a network.

use super::NetworkFlow;
use super::file::VariantFile;
use super::ingress::{IngressChange, IngressSpec};
use super::link::NetworkLink;
use super::overlay::{self, Overlay, OverlayUse};
use super::path::ExplicitPath;
use super::pattern::{Unique, sound_name};
use super::routing::{Routing, RoutingFile};
use super::signalling::SignallingSpec;
use super::tcp::{TcpChange, TcpSpec};
use super::vpn::NetworkVpn;
use crate::error::{Checked, Source};

/// One of the things compared.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkVariant {
    /// Its name in the results.
    pub name: String,
    /// How its routers choose.
    pub routing: Routing,
    /// What it changes in the TCP of all flows.
    pub tcp: TcpChange,
    /// What it changes in the way all VPNs enter the tunnel.
    pub ingress: IngressChange,
    /// How explicit rates are signalled.
    pub signalling: SignallingSpec,
    /// Flows that have proxies go through them: what is changed in the TCP between the two.
    pub proxy: Option<TcpChange>,
    /// Flows go through weft, by the overlay, if it is used.
    pub overlay: Option<OverlayUse>,
}

/// What a variant may refer to.
pub(super) struct Surroundings<'a> {
    pub nodes: &'a [String],
    pub links: &'a [NetworkLink],
    pub paths: &'a [ExplicitPath],
    pub flows: &'a [NetworkFlow],
    pub vpns: &'a [NetworkVpn],
    pub overlay: &'a Overlay,
}

impl NetworkVariant {
    /// How a flow's TCP works in this variant.
    pub fn tcp_of(&self, flow: &NetworkFlow) -> TcpSpec {
        self.tcp.apply(flow.tcp)
    }

    /// How a flow's TCP works between its proxies in this variant, if it goes through them.
    pub fn proxy_tcp_of(&self, flow: &NetworkFlow) -> Option<([usize; 2], TcpSpec)> {
        let (proxies, change) = (flow.proxies?, self.proxy?);
        Some((proxies, change.apply(self.tcp_of(flow))))
    }

    /// How a VPN enters the tunnel in this variant.
    pub fn ingress_of(&self, vpn: &NetworkVpn) -> IngressSpec {
        self.ingress.apply(vpn.ingress)
    }
}

/// The variants of a file; where it has none, the network as it is, named `plain`.
pub(super) fn read(
    source: &Source<'_>,
    files: &[VariantFile],
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
            overlay::check(around, &file.tcp).map_err(|message| source.at(asked, message))?;
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
