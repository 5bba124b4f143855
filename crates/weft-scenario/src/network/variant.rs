//! What is compared in one run of a network.

use super::NetworkFlow;
use super::file::VariantFile;
use super::path::ExplicitPath;
use super::pattern::{Unique, sound_name};
use super::routing::{Routing, RoutingFile};
use super::tcp::{TcpChange, TcpSpec};
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
}

impl NetworkVariant {
    /// How a flow's TCP works in this variant.
    pub fn tcp_of(&self, flow: &NetworkFlow) -> TcpSpec {
        self.tcp.apply(flow.tcp)
    }
}

/// The variants of a file; where it has none, the network as it is, named `plain`.
pub(super) fn read(
    source: &Source<'_>,
    files: &[VariantFile],
    base: &RoutingFile,
    paths: &[ExplicitPath],
) -> Checked<Vec<NetworkVariant>> {
    base.check(source)?;
    if files.is_empty() {
        let routing = base.whole(source, paths)?;
        return Ok(vec![NetworkVariant { name: "plain".into(), routing, tcp: TcpChange::default() }]);
    }
    let mut names = Unique::new("variant");
    let mut variants = Vec::new();
    for file in files {
        sound_name(source, &file.name, "variant")?;
        names.take(source, file.name.span().start, file.name.get_ref())?;
        file.routing.check(source)?;
        let routing = file.routing.over(base).whole(source, paths)?;
        variants.push(NetworkVariant { name: file.name.get_ref().clone(), routing, tcp: file.tcp });
    }
    Ok(variants)
}
