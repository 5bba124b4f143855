//! Nodes must learn each other's link names, over lossy links and after restarts of either node.

use crate::net::{World, direction};
use std::time::Duration;
use weft_engine::Policy;
use weft_units::Rng;

/// Returns for each path of `node` the local link name, the remote link name as received, and the remote node's
/// actual name for it.
fn names(world: &World, node: usize) -> Vec<(String, Option<String>, Option<String>)> {
    let paths = |node: usize| world.nodes[node].snapshot(world.now).peers[0].paths.clone();
    let theirs = paths(1 - node);
    let of = |path: &weft_engine::PathSnapshot| {
        theirs.iter().find(|other| other.id == path.id).map(|other| other.link_name.clone())
    };
    paths(node).iter().map(|path| (path.link_name.clone(), path.remote_link.clone(), of(path))).collect()
}

fn assert_told(world: &World, why: &str) {
    for node in 0..2 {
        // A path that never reached the other end has no name there.
        let names: Vec<_> = names(world, node).into_iter().filter(|(_, _, there)| there.is_some()).collect();
        assert!(names.len() >= 2, "{why}: {names:?}");
        for (here, told, there) in &names {
            assert!(told.is_some() && told == there, "{why}: node {node}, {here}: told {told:?}, it is {there:?}");
        }
    }
}

#[test]
fn link_names_arrive_despite_losses_and_restarts() {
    for seed in 0..8 {
        let mut draw = Rng::new(seed);
        let loss = draw.below(40) as f64 / 100.0;
        let mut world = World::new(&[direction(20, 10, loss), direction(10, 30, loss)], &Policy::default());
        world.run_for(Duration::from_secs(6));
        assert_told(&world, &format!("loss {loss}"));
        let who = draw.below(2) as usize;
        world.restart(who, &Policy::default(), 1 << 60);
        for number in 0..600 {
            world.send(0, 4_000, number, 200);
            world.run_for(Duration::from_millis(20));
        }
        assert_told(&world, &format!("loss {loss}, restart of {who}"));
    }
}
