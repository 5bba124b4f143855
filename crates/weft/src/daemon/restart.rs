//! Settings that a reload cannot change.

use super::services::access;
use crate::config::{Config, Routing};
use weft_session::RootPublicKey;

fn root(config: &Config) -> Option<RootPublicKey> {
    config.network.as_ref().map(|network| network.root.value)
}

/// Returns `[routing]` without the position of `bfd` in the file, so that a moved line is no change.
fn routing(config: &Config) -> Option<Routing> {
    let mut routing = config.routing.clone()?;
    if let Some(bfd) = &mut routing.bfd {
        bfd.span = 0..0;
    }
    Some(routing)
}

/// Returns the name of the first changed setting that a running node cannot change. `None` if there is none.
pub fn needs_restart(old: &Config, new: &Config) -> Option<&'static str> {
    let differs = [
        ("[node] cipher", old.node.cipher != new.node.cipher),
        ("[node] listen", old.node.listen != new.node.listen),
        ("[node] state", old.node.state != new.node.state),
        ("[node] control", old.node.control != new.node.control),
        ("[access]", access::settings(old) != access::settings(new)),
        ("[exit]", old.exit != new.exit),
        ("[router] flows", old.flows.router.flows != new.flows.router.flows),
        ("[routing]", routing(old) != routing(new)),
        ("[network] root", root(old) != root(new)),
        ("[metrics] listen", old.metrics.as_ref().map(|at| &at.value) != new.metrics.as_ref().map(|at| &at.value)),
        ("[tcp]", old.tcp != new.tcp),
        ("[tun] name", old.tun.name != new.tun.name),
        ("[tun] table", old.tun.table != new.tun.table),
        ("[tun] address", old.tun.addresses != new.tun.addresses),
    ];
    differs.iter().find(|(_, differs)| *differs).map(|(what, _)| *what)
}
