//! Reports on slow paths: they leave with the data of their direction, and cost few bytes.

use crate::net::{Direction, World, direction, draws};
use weft_engine::Policy;
use weft_units::{Duration, Rate, Rng};
use weft_wire::hop::PacketType;

const DOWNLOAD: u16 = 5_000;
const ANSWERS: u16 = 6_000;

/// Number of datagrams of each kind that arrived at a node.
#[derive(Default, Debug)]
struct Arrived {
    data: u64,
    with_report: u64,
    control: u64,
}

/// Sends a download from node 1 that fills the link, and answers each second packet with a short one.
///
/// Returns the datagrams that arrived at node 0 and at node 1 in the last `time`.
fn download(link: Direction, time: Duration) -> [Arrived; 2] {
    let mut world = World::new(&[link], &Policy::default());
    let (mut number, mut answered) = (0, 0);
    let mut run = |world: &mut World, time: Duration| {
        let end = world.now + time;
        while world.now < end {
            while world.nodes[1].snapshot(world.now).peers[0].queue_bytes < 10_000 {
                world.send(1, DOWNLOAD, number, 1_200);
                number += 1;
            }
            world.run_for(Duration::from_millis(1));
            for (_, packet) in std::mem::take(&mut world.delivered[0]) {
                assert_eq!(packet.len(), 10 + 28 + 1_200, "a packet arrives as it was sent");
                answered += 1;
                if answered % 2 == 0 {
                    world.send(0, ANSWERS, answered, 40);
                }
            }
            world.delivered[1].clear();
        }
    };
    run(&mut world, Duration::from_secs(5));
    world.seen = Some(Vec::new());
    run(&mut world, time);
    let mut arrived = [Arrived::default(), Arrived::default()];
    for seen in world.seen.iter().flatten() {
        let of = &mut arrived[seen.to];
        match PacketType::of(&seen.bytes) {
            Ok(PacketType::Data) => of.data += 1,
            Ok(PacketType::DataWithReport) => of.with_report += 1,
            _ => of.control += 1,
        }
    }
    arrived
}

/// Checks that a download over a slow link shares it with few control datagrams.
///
/// When each report had a datagram of its own, there was one for each two packets of the download.
#[test]
fn reports_leave_with_the_download_that_they_would_slow_down() {
    let mut rng = Rng::new(1);
    for draw in 0..draws(60) {
        let mut link = direction(1, 1 + rng.below(80), 0.0);
        link.rate = Rate::from_bps(300_000 + rng.below(1_700_000));
        link.queue = Duration::from_millis(300);
        let [down, up] = download(link, Duration::from_secs(10));
        let packets = down.data + down.with_report;
        assert!(packets * 1_260 * 8 > link.rate.bps() * 8, "draw {draw}, {:?}: {down:?}", link.rate);
        assert!(down.control * 3 < packets, "draw {draw}, {:?}: {down:?}", link.rate);
        assert!(up.with_report * 5 > up.data, "draw {draw}, {:?}: {up:?}", link.rate);
    }
}

/// Checks that a fast path has no more reports than before: about one every 7 ms, with data or alone.
#[test]
fn a_fast_path_has_as_few_reports_as_before() {
    let mut rng = Rng::new(2);
    for draw in 0..draws(8) {
        let link = direction(20 + rng.below(60), 1 + rng.below(40), 0.0);
        let arrived = download(link, Duration::from_secs(2));
        for of in &arrived {
            assert!(of.control + of.with_report < 900, "draw {draw}, {:?}: {arrived:?}", link.rate);
        }
    }
}
