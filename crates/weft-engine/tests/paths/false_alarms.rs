//! A lossy path with jitter that works must never go down.
//!
//! A path that becomes worse must be demoted soon, and must recover for good.

use crate::net::{World, direction, draws};
use weft_engine::{Event, PathState, Policy};
use weft_units::{Duration, Instant, Rng};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Checks that 20 % loss and 50 ms of jitter in each direction are not taken for an outage.
///
/// The nodes run for `WEFT_HOURS`, or for an hour, or a quarter of it.
#[test]
fn a_fifth_lost_and_jitter_of_fifty_milliseconds_are_no_outage() {
    let hours: Option<u64> = option_env!("WEFT_HOURS").and_then(|hours| hours.parse().ok());
    let long = Duration::from_secs(hours.map_or_else(|| draws(3_600), |hours| hours * 3_600));
    for every in [ms(20), ms(1_000), Duration::from_secs(60)] {
        let mut world = World::new(&[direction(10, 20, 0.2), direction(5, 30, 0.2)], &Policy::default());
        let mut rng = Rng::new(3);
        world.meddler = Some(Box::new(move |_, _| vec![ms(50).mul_f64(rng.unit())]));
        world.run_for(Duration::from_secs(10));
        let end = world.now + long;
        let mut number = 0;
        while world.now < end {
            world.send(0, 4_000, number, 200);
            world.send(1, 4_000, number, 200);
            number += 1;
            world.run_for(every);
            world.delivered.iter_mut().for_each(|out| out.clear());
            let down = |event: &&(usize, Instant, Event)| {
                matches!(event.2, Event::Lost { .. } | Event::Path { state: PathState::Down, .. })
            };
            let alarm = world.events.iter().find(down);
            assert!(alarm.is_none(), "a packet every {every:?}: {alarm:?}");
            world.events.clear();
        }
    }
}

/// Returns the state changes of a link's paths at node 0 since the last call.
fn states(world: &mut World, link: &str) -> Vec<(Instant, PathState)> {
    let snapshot = world.nodes[0].snapshot(world.now);
    let ids: Vec<_> = snapshot.peers[0].paths.iter().filter(|p| p.link_name == link).map(|p| p.id).collect();
    let of_path = |(node, at, event): (usize, Instant, Event)| match event {
        Event::Path { path, state, .. } if node == 0 && ids.contains(&path) => Some((at, state)),
        _ => None,
    };
    std::mem::take(&mut world.events).into_iter().filter_map(of_path).collect()
}

/// Checks a brownout: 15 % loss starts suddenly, lasts for an hour, or a quarter of it, and ends.
#[test]
fn a_brownout_is_seen_within_a_second_and_does_not_flap() {
    let mut world = World::new(&[direction(10, 20, 0.0), direction(10, 25, 0.0)], &Policy::default());
    let mut number = 0;
    let mut run = |world: &mut World, time: Duration| {
        let end = world.now + time;
        while world.now < end {
            for _ in 0..4 {
                world.send(0, 4_000, number, 1_000);
                number += 1;
            }
            world.run_for(ms(10));
            world.delivered.iter_mut().for_each(|out| out.clear());
        }
    };
    run(&mut world, Duration::from_secs(10));
    let begins = world.now;
    (0..2).for_each(|from| world.set(0, from, |link| link.loss = 0.15));
    run(&mut world, Duration::from_secs(1));
    let seen = states(&mut world, "link0");
    assert!(seen.iter().any(|(_, state)| *state == PathState::Degraded), "{seen:?} since {begins:?}");
    run(&mut world, Duration::from_secs(draws(3_600)));
    let flaps = states(&mut world, "link0");
    assert!(flaps.len() <= 4, "{} changes in an hour, the first {:?}", flaps.len(), &flaps[..4]);
    (0..2).for_each(|from| world.set(0, from, |link| link.loss = 0.0));
    run(&mut world, Duration::from_secs(60));
    assert_eq!(states(&mut world, "link0").last().map(|(_, state)| *state), Some(PathState::Good));
}
