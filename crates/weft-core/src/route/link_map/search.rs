//! Finds routes over relays to a member: the best one, and others that share no relay and no link with it.
//!
//! A search consists of many queries for one shortest path. In a large map the search takes longer than a node's other
//! work can wait. [`RouteSearch`] therefore stores the results and can pause before any query. To continue, it starts
//! from the beginning, and uses the stored results of its earlier queries. All other steps of a search are cheap.

use super::flow::disjoint_paths;
use super::graph::MemberGraph;
use super::routes::{Avoided, FoundRoute, MAX_HOPS, link_of};
use alloc::sync::Arc;
use alloc::vec::Vec;
use weft_units::Rate;
use weft_wire::relay::Label;

/// A route whose delay is at most this multiple of the least delay may be chosen even if its rate is low.
///
/// Chosen: a quarter more delay is hardly felt.
const NEAR: f64 = 1.25;
/// Number of rate classes in an octave (a doubling of the rate). Each class begins at 1.26 times the one before.
const CLASSES_IN_OCTAVE: usize = 3;
/// Maximum number of rate classes that a search examines, so that many different link rates do not prolong it.
///
/// *Tuned* on random maps: at one class per octave, twelve classes reach from 10 kbit/s to 40 Mbit/s, or from 10 Mbit/s
/// to 40 Gbit/s.
const MOST_CLASSES: usize = 12;
/// A path: the indices of its members in the graph, from the source to the target.
type Path = Vec<usize>;

/// Error of a search that must pause, because it has examined the number of links that the caller allowed.
struct Paused;

/// A search for routes that can pause. It uses the link map as it was when the search began.
#[derive(Debug)]
pub struct RouteSearch {
    graph: Arc<MemberGraph>,
    ends: (Label, Label),
    most: usize,
    doubted: Vec<(Label, Label)>,
    answers: Vec<Vec<Path>>,
}

impl RouteSearch {
    /// Begins a search for up to `most` routes between two members. See [`MemberGraph::routes`] for `doubted`.
    pub fn new(
        graph: Arc<MemberGraph>,
        ends: (Label, Label),
        most: usize,
        doubted: Vec<(Label, Label)>,
    ) -> RouteSearch {
        RouteSearch { graph, ends, most, doubted, answers: Vec::new() }
    }

    /// Continues the search while `links` is positive, and subtracts the number of links examined from `links`.
    ///
    /// Returns the routes when the search has ended, and `None` before. The last query may make `links` negative. A
    /// query for one path examines each member's links at most once for each hop. A query for several disjoint paths
    /// examines them at most twice for each path.
    pub fn advance(&mut self, links: &mut i64) -> Option<Vec<FoundRoute>> {
        let mut search = Search { graph: &self.graph, answers: &mut self.answers, asked: 0, links };
        search.routes(self.ends, self.most, &self.doubted).ok()
    }
}

impl MemberGraph {
    /// Returns up to `most` routes over relays from one member to another, the best first.
    ///
    /// They share no relay and no link if such routes exist. Otherwise the second one shares as little as possible with
    /// the first. The cost of a link between a `doubted` pair of members is multiplied, so that it is avoided if
    /// possible.
    pub fn routes(&self, from: Label, to: Label, most: usize, doubted: &[(Label, Label)]) -> Vec<FoundRoute> {
        let (mut answers, mut links) = (Vec::new(), i64::MAX);
        let mut search = Search { graph: self, answers: &mut answers, asked: 0, links: &mut links };
        search.routes((from, to), most, doubted).unwrap_or_default()
    }
}

/// One call of a search, from its beginning up to the next pause or to its end.
struct Search<'a> {
    graph: &'a MemberGraph,
    answers: &'a mut Vec<Vec<Path>>,
    /// Number of queries in this call so far. The first ones are answered from `answers`.
    asked: usize,
    /// Number of links that the search may still examine. It is negative if the last query examined more.
    links: &'a mut i64,
}

impl Search<'_> {
    /// Returns the stored result of the next query. If none is stored, runs `find` and stores its result.
    ///
    /// `find` adds the number of links that it examines to its second argument. Returns [`Paused`] if no more may be
    /// examined.
    fn ask(&mut self, find: impl FnOnce(&MemberGraph, &mut usize) -> Vec<Path>) -> Result<Vec<Path>, Paused> {
        self.asked += 1;
        if let Some(known) = self.answers.get(self.asked - 1) {
            return Ok(known.clone());
        }
        if *self.links <= 0 {
            return Err(Paused);
        }
        let mut looked = 0;
        let found = find(self.graph, &mut looked);
        *self.links = self.links.saturating_sub_unsigned(looked as u64);
        self.answers.push(found.clone());
        Ok(found)
    }

    fn shortest(&mut self, ends: (usize, usize), avoided: &Avoided, least: Rate) -> Result<Option<Path>, Paused> {
        let found = self.ask(|graph, looked| graph.shortest(ends, avoided, least, looked).into_iter().collect())?;
        Ok(found.into_iter().next())
    }

    fn routes(
        &mut self,
        (from, to): (Label, Label),
        most: usize,
        doubted: &[(Label, Label)],
    ) -> Result<Vec<FoundRoute>, Paused> {
        let graph = self.graph;
        let (Some(source), Some(target)) = (graph.place(from), graph.place(to)) else { return Ok(Vec::new()) };
        let mut avoided = Avoided::default();
        for (one, other) in doubted {
            if let (Some(one), Some(other)) = (graph.place(*one), graph.place(*other)) {
                avoided.doubt(&[one, other]);
            }
        }
        let mut paths = self.apart((source, target), most, &avoided)?;
        if paths.len() < most.min(2)
            && let Some(first) = paths.first()
        {
            let second = self.another((source, target), first, &avoided)?;
            paths.extend(second);
        }
        Ok(paths.iter().filter_map(|path| graph.measured(path)).collect())
    }

    /// Returns up to `most` paths that share no relay and no link, each the cheapest that the earlier ones leave.
    ///
    /// If the cheapest path prevents others, the result is instead the larger set of paths with the least total cost.
    fn apart(&mut self, ends: (usize, usize), most: usize, avoided: &Avoided) -> Result<Vec<Path>, Paused> {
        let (mut paths, mut left): (Vec<Path>, _) = (Vec::new(), avoided.clone());
        while paths.len() < most
            && let Some(path) = self.cheapest(ends, &left)?
        {
            left.nodes.extend(&path[1..path.len() - 1]);
            paths.push(path);
        }
        if paths.is_empty() || paths.len() == most {
            return Ok(paths);
        }
        let mut more = self.ask(|graph, looked| disjoint_paths(graph, ends, most, looked))?;
        let are_short = more.iter().all(|path| path.len() <= MAX_HOPS + 1);
        if more.len() <= paths.len() || !are_short {
            return Ok(paths);
        }
        more.sort_by_key(|path| self.graph.penalised(path, avoided));
        Ok(more)
    }

    /// Returns the path that shares as little as possible with `first`, or `None` if there is no other path.
    fn another(&mut self, ends: (usize, usize), first: &[usize], avoided: &Avoided) -> Result<Option<Path>, Paused> {
        let mut avoided = avoided.clone();
        avoided.doubt(first);
        let mut best: Option<(u64, Path)> = None;
        for hop in first.windows(2) {
            avoided.banned = Some(link_of(hop[0], hop[1]));
            let path = self.cheapest(ends, &avoided)?;
            let found = path.map(|path| (self.graph.penalised(&path, &avoided), path));
            best = [best, found].into_iter().flatten().min();
        }
        Ok(best.map(|(_, path)| path))
    }

    /// Returns the cheapest path over at least one relay.
    ///
    /// It has nearly the least delay or nearly the greatest rate of all paths. A path that has neither is ignored,
    /// even if it is cheaper.
    fn cheapest(&mut self, ends: (usize, usize), avoided: &Avoided) -> Result<Option<Path>, Paused> {
        let graph = self.graph;
        let classes = &graph.classes;
        let Some(lowest) = classes.first() else { return Ok(None) };
        let Some(quickest) = self.shortest(ends, avoided, *lowest)? else { return Ok(None) };
        let (mut open, mut closed) = (1, classes.len());
        while open < closed {
            let middle = open.midpoint(closed);
            match self.shortest(ends, avoided, classes[middle])? {
                Some(_) => open = middle + 1,
                None => closed = middle,
            }
        }
        let open = &classes[..open];
        let widest = open[open.len() - 1];
        let least_delay = graph.delay_us(&quickest, avoided) as f64;
        // A rate class spans a third of a doubling of the rate. To search at one class in each doubling is enough.
        let step = CLASSES_IN_OCTAVE.max(open.len().div_ceil(MOST_CLASSES));
        let mut found = Vec::new();
        for least in open.iter().rev().step_by(step) {
            found.extend(self.shortest(ends, avoided, *least)?);
        }
        found.push(quickest);
        found.retain(|path| {
            graph.delay_us(path, avoided) as f64 <= NEAR * least_delay || graph.narrowest(path) >= widest
        });
        Ok(found.into_iter().min_by_key(|path| graph.penalised(path, avoided)))
    }
}
