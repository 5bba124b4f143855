//! Traffic of weft itself while hosts send little or nothing. Each host packet allows a limited amount of it.

use crate::net::{World, direction, draws};
use std::cell::Cell;
use std::rc::Rc;
use weft_engine::Policy;
use weft_units::{Duration, Rng};

const MONTH_S: f64 = 86_400.0 * 30.0;
/// Maximum traffic of an idle link, in MB a month.
const IDLE_MB: f64 = 60.0;
/// IP bytes of a probe from each end, with answers, reports and the copies of reports on the fastest link.
const PROBES: u64 = 400;
const PORT: u16 = 7_000;
/// Type of an initiation, in the low half of its first byte.
const INITIATION: u8 = 1;
/// IP and UDP header bytes of the hosts' packets.
const HEADERS: u64 = 28;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Two nodes, with links that have been up for a while.
struct Line {
    world: World,
    links: usize,
}

impl Line {
    fn new(links: usize, rng: &mut Rng) -> Line {
        let ways: Vec<_> = (0..links).map(|_| direction(2 + rng.below(100), 1 + rng.below(60), 0.0)).collect();
        let mut world = World::new(&ways, &Policy::default());
        world.run_for(Duration::from_secs(60));
        Line { world, links }
    }

    /// Returns the IP bytes sent so far on each link in both directions.
    fn sent(&self) -> Vec<u64> {
        (0..self.links).map(|link| self.world.sent_bytes(link, 0) + self.world.sent_bytes(link, 1)).collect()
    }

    /// Sends a packet of `payload` bytes in each interval of `every` for `time`, from one or both ends.
    ///
    /// Returns the IP bytes on each link.
    fn talk(&mut self, time: Duration, every: Duration, payload: usize, both: bool) -> Vec<u64> {
        let (before, end, mut number) = (self.sent(), self.world.now + time, 0);
        while self.world.now < end {
            for from in 0..=usize::from(both) {
                self.world.send(from, PORT, number, payload);
                self.world.run_for(every / if both { 2 } else { 1 });
            }
            number += 1;
        }
        self.sent().iter().zip(before).map(|(after, before)| after - before).collect()
    }
}

#[test]
fn idle_links_cost_less_than_sixty_megabytes_a_month_each() {
    let mut rng = Rng::new(1);
    for links in 1..=4 {
        let mut line = Line::new(links, &mut rng);
        let (before, time) = (line.sent(), Duration::from_secs(3_600));
        line.world.run_for(time);
        let bytes = line.sent().iter().sum::<u64>() - before.iter().sum::<u64>();
        let month_mb = bytes as f64 / time.as_secs_f64() * MONTH_S / 1e6 / links as f64;
        println!("{links} idle links: {month_mb:.0} MB a month each");
        assert!(month_mb < IDLE_MB, "{month_mb} MB a month on each of {links} links");
    }
}

/// Returns the datagrams per second from each end of a link without packets, while its paths are watched.
fn idle_rates(world: &mut World) -> [f64; 2] {
    world.run_for(Duration::from_secs(8));
    let before = [0, 1].map(|end| world.sent(0, end));
    world.run_for(Duration::from_secs(20));
    [0, 1].map(|end| (world.sent(0, end) - before[end]) as f64 / 20.0)
}

/// Checks that the answer to a probe is one datagram, which carries the report.
#[test]
fn each_end_of_an_idle_link_sends_one_probe_and_one_answer_a_second() {
    let mut rng = Rng::new(4);
    for _ in 0..20 {
        let link = direction(2 + rng.below(100), 1 + rng.below(60), 0.0);
        let rates = idle_rates(&mut World::new(&[link], &Policy::default()));
        assert!(rates.iter().all(|rate| *rate <= 2.2), "{rates:?} datagrams/s");
    }
}

/// Checks that a node whose answers are late, because it is busy, is not asked more often for that.
#[test]
fn a_busy_node_is_asked_no_more_often_than_another() {
    let mut rng = Rng::new(5);
    for _ in 0..20 {
        let link = direction(100, 1 + rng.below(20), 0.0);
        let mut world = World::new(&[link], &Policy::default());
        let (longest_ms, mut draws) = (20 + rng.below(180), Rng::new(rng.next_u64()));
        world.meddler = Some(Box::new(move |from, _| vec![ms(draws.below(longest_ms) * from as u64)]));
        let rates = idle_rates(&mut world);
        assert!(rates.iter().all(|rate| *rate <= 2.5), "{rates:?} datagrams/s with turns of {longest_ms} ms");
    }
}

/// Checks that a node which answers after seconds, and not always, is not asked and called ever more often for that.
///
/// A machine with too much work is such a node. Questions from all its peers would keep it so.
#[test]
fn an_overloaded_node_gets_few_questions_and_few_calls() {
    let mut rng = Rng::new(6);
    let (mut most_asked, mut most_called) = (0.0f64, 0.0f64);
    for _ in 0..draws(60) {
        let link = direction(100, 1 + rng.below(20), 0.0);
        let mut world = World::new(&[link], &Policy::default());
        world.run_for(Duration::from_secs(10));
        let (longest_ms, lost, mut draws) = (200 + rng.below(4_000), 0.5 * rng.unit(), Rng::new(rng.next_u64()));
        let calls = Rc::new(Cell::new(0));
        let counted = calls.clone();
        world.meddler = Some(Box::new(move |from, datagram| {
            counted.set(counted.get() + u32::from(from == 0 && datagram[0] & 0x0f == INITIATION));
            if from == 0 && draws.chance(lost) { Vec::new() } else { vec![ms(draws.below(longest_ms) * from as u64)] }
        }));
        let before = world.sent(0, 0);
        world.run_for(Duration::from_secs(100));
        let (asked, called) = ((world.sent(0, 0) - before) as f64 / 100.0, f64::from(calls.get()) / 100.0);
        println!("answers after up to {longest_ms} ms, {lost:.2} lost: {asked:.2} datagrams/s, {called:.2} calls/s");
        (most_asked, most_called) = (most_asked.max(asked), most_called.max(called));
    }
    println!("at most {most_asked} and {most_called}");
    assert!(most_asked <= 4.0 && most_called <= 0.02, "{most_asked} datagrams/s, {most_called} calls/s");
}

/// Checks that the overhead in addition to a flow of any rate, over all links, is proportional to the flow plus the
/// cost of idle paths.
#[test]
fn a_flow_pays_for_what_is_sent_beside_it() {
    let mut rng = Rng::new(2);
    for _ in 0..40 {
        let links = 1 + rng.below(3) as usize;
        let every = ms(10 << rng.below(12));
        let (payload, both) = (20 + rng.below(1_000) as usize, rng.chance(0.5));
        let packets = 40 + rng.below(200);
        let mut line = Line::new(links, &mut rng);
        let time = every * packets as u32;
        let sent: u64 = line.talk(time, every, payload, both).iter().sum();
        let packets = packets * if both { 2 } else { 1 };
        // Bytes for each packet: its headers, a report, and a probe from each end on each link.
        let each = payload as u64 + HEADERS + 150 + 75 + links as u64 * PROBES;
        let idle = (line.links as f64 * IDLE_MB * 1e6 / MONTH_S * time.as_secs_f64()) as u64;
        // Earlier packets may have paid for probing.
        let bound = packets * each + idle + links as u64 * 30 * PROBES;
        assert!(
            sent <= bound,
            "{sent} of {bound} bytes: {packets} of {payload} bytes every {every:?}, {links} links, both {both}"
        );
    }
}

/// Prints the table of `docs/use/data-use.md`: MB a month on each of three links.
#[test]
fn a_steady_flow_over_three_links_costs_less_than_three_times_itself() {
    let rows = [
        ("a packet of 92 bytes each 10 s", ms(10_000), 64, false),
        ("a ping each second", ms(1_000), 56, true),
        ("a ping of 13 kbit/s", ms(65), 64, true),
        ("a call of 80 kbit/s each way", ms(20), 172, true),
    ];
    for (what, every, payload, both) in rows {
        let mut line = Line {
            world: World::new(
                &[direction(50, 10, 0.0), direction(20, 25, 0.0), direction(10, 40, 0.0)],
                &Policy::default(),
            ),
            links: 3,
        };
        let time = Duration::from_secs(600);
        line.talk(Duration::from_secs(60), every, payload, both);
        let sent = line.talk(time, every, payload, both);
        let own = (payload as u64 + HEADERS) * (time.as_nanos() / every.as_nanos()) as u64 * if both { 2 } else { 1 };
        let months = |bytes: u64| bytes as f64 / time.as_secs_f64() * MONTH_S / 1e6;
        let idle: u64 = 3 * (IDLE_MB * 1e6 / MONTH_S * time.as_secs_f64()) as u64;
        println!(
            "{what}: {:.0} MB of its own, {:.0?} on the links",
            months(own),
            sent.iter().map(|of| months(*of)).collect::<Vec<_>>()
        );
        let probes = if every > ms(1_000) { 0 } else { time.as_secs() * 3 * PROBES };
        assert!(sent.iter().sum::<u64>() < own * 3 + probes + idle, "{what}: {sent:?} bytes for {own}");
    }
}
