//! Reads the label-switched paths of a network from its `[[path]]` tables.

use super::file::PathFile;
use crate::Link;
use crate::error::{Checked, Source};
use crate::pattern::{Unique, matching, node, sound_name};
use toml::Spanned;

/// A label-switched path. Its first node sends packets for destinations behind its last node along it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplicitPath {
    /// Name of the path.
    pub name: String,
    /// Indices of the nodes along the path in the network's list of nodes, from the path's start.
    pub nodes: Vec<usize>,
    /// Indices of the links between these nodes, in the network's list of links.
    pub links: Vec<usize>,
    /// Weight of the path, if the routers spread packets over several paths by weight.
    pub weight: u32,
    /// True if the path exists in one direction only. Otherwise a path over the same nodes leads back.
    pub one_way: bool,
    /// Indices of the nodes to which packets may take the path.
    ///
    /// `None`: all nodes to which a route of least cost leads through the path's last node.
    pub destinations: Option<Vec<usize>>,
}

pub(super) fn read(
    source: &Source<'_>,
    files: &[PathFile],
    nodes: &[String],
    links: &[Link],
) -> Checked<Vec<ExplicitPath>> {
    let mut names = Unique::new("path");
    let mut paths = Vec::new();
    for file in files {
        sound_name(source, &file.name, "path")?;
        names.take(source, file.name.span().start, file.name.get_ref())?;
        let visited = visited(source, file, nodes)?;
        let places = file.via.get_ref().iter().skip(1);
        let hops = visited.windows(2).zip(places).map(|(hop, place)| hop_link(source, hop, place, nodes, links));
        paths.push(ExplicitPath {
            name: file.name.get_ref().clone(),
            links: hops.collect::<Checked<_>>()?,
            nodes: visited,
            weight: u32::from(file.weight),
            one_way: file.one_way,
            destinations: match &file.destinations {
                Some(pattern) => Some(matching(source, pattern, "node", nodes)?),
                None => None,
            },
        });
    }
    Ok(paths)
}

/// Returns the indices of the nodes that `via` names, after a check that none occurs twice.
fn visited(source: &Source<'_>, file: &PathFile, nodes: &[String]) -> Checked<Vec<usize>> {
    let mut visited = Vec::new();
    for name in file.via.get_ref() {
        let node = node(source, name, nodes)?;
        if visited.contains(&node) {
            let (path, node) = (file.name.get_ref(), &nodes[node]);
            return Err(
                source.at(name, format!("path `{path}` contains the node `{node}` twice: remove one of the two"))
            );
        }
        visited.push(node);
    }
    if visited.len() < 2 {
        return Err(source.at(&file.via, "a path needs at least two nodes"));
    }
    Ok(visited)
}

/// Returns the index of the first link that joins the two nodes of a hop.
fn hop_link(
    source: &Source<'_>,
    hop: &[usize],
    place: &Spanned<String>,
    nodes: &[String],
    links: &[Link],
) -> Checked<usize> {
    let (from, to) = (hop[0], hop[1]);
    let joins = |link: &Link| link.ends == [from, to] || link.ends == [to, from];
    links.iter().position(joins).ok_or_else(|| {
        let beside = links.iter().filter(|link| link.ends.contains(&from)).flat_map(|link| link.ends);
        let mut neighbours: Vec<&str> = beside.filter(|n| *n != from).map(|n| nodes[n].as_str()).collect();
        neighbours.dedup();
        neighbours.truncate(8);
        let list = if neighbours.is_empty() { "nowhere".to_owned() } else { format!("to {}", neighbours.join(", ")) };
        source.at(
            place,
            format!(
                "there is no link from node `{}` to node `{}`: the links of `{0}` lead {list}",
                nodes[from], nodes[to]
            ),
        )
    })
}
