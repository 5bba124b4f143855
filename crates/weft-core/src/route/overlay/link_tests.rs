use super::*;
use alloc::vec::Vec;
use weft_units::Rng;

const PACE: ProbePace = ProbePace { calm: Duration::from_millis(100), in_doubt: Duration::from_millis(20) };

/// A link in virtual time. Each probe returns as an echo after a delay, or is lost.
struct LinkWorld {
    link: NeighbourLink,
    now: Instant,
    rng: Rng,
    under_way: Vec<(Instant, u32)>,
    round_trip: Duration,
    jitter: Duration,
    loss: f64,
}

impl LinkWorld {
    fn new(round_trip_ms: u64) -> LinkWorld {
        LinkWorld {
            link: NeighbourLink::default(),
            now: Instant::from_millis(1),
            rng: Rng::new(7),
            under_way: Vec::new(),
            round_trip: Duration::from_millis(round_trip_ms),
            jitter: Duration::ZERO,
            loss: 0.0,
        }
    }

    /// Runs until `wanted` holds, or for `longest`. Returns the time until it held, or `None` if it never did.
    fn run(&mut self, longest: Duration, mut wanted: impl FnMut(&NeighbourLink) -> bool) -> Option<Duration> {
        let start = self.now;
        while self.now - start <= longest {
            if wanted(&self.link) {
                return Some(self.now - start);
            }
            let echo = self.under_way.iter().map(|(at, _)| *at).min().unwrap_or(Instant::FAR_FUTURE);
            self.now = self.link.due(PACE).min(echo).max(self.now);
            self.link.settle(self.now);
            let now = self.now;
            for (_, seq) in self.under_way.extract_if(.., |(at, _)| *at <= now) {
                self.link.on_echo(now, seq);
            }
            if let Some(seq) = self.link.poll_probe(now, PACE)
                && !self.rng.chance(self.loss)
            {
                let late = self.jitter.mul_f64(self.rng.unit());
                self.under_way.push((now + self.round_trip + late, seq));
            }
        }
        None
    }

    fn quality(&mut self, quality: Quality) -> Option<Duration> {
        self.run(Duration::from_secs(120), |link| link.quality() == quality)
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_silent_link_is_suspect_after_two_and_down_after_six() {
    let mut world = LinkWorld::new(30);
    world.run(Duration::from_secs(60), |_| false);
    world.loss = 1.0;
    let suspect = world.quality(Quality::Suspect).unwrap();
    // The first lost probe leaves after up to 100 ms. Its echo is overdue after 30 ms and the slack. The second probe
    // follows 20 ms later.
    assert!(suspect <= ms(100 + 20 + 50) && suspect >= ms(40), "{suspect:?}");
    let down = suspect + world.quality(Quality::Down).unwrap();
    assert!(down <= ms(100 + 5 * 20 + 60) && down > suspect, "{down:?}");
}

#[test]
fn twenty_percent_each_way_and_jitter_never_end_it_but_silence_does() {
    let mut world = LinkWorld::new(40);
    (world.loss, world.jitter) = (0.36, ms(100));
    let day = Duration::from_secs(86_400);
    assert_eq!(world.run(day, |link| link.quality() == Quality::Down), None);
    world.loss = 1.0;
    let down = world.quality(Quality::Down).unwrap();
    assert!(down < ms(1_500), "{down:?}");
}

#[test]
fn a_brownout_is_seen_and_forgotten_with_hysteresis() {
    let mut world = LinkWorld::new(30);
    world.run(Duration::from_secs(60), |_| false);
    world.loss = 0.15;
    let seen = world.quality(Quality::Degraded).unwrap();
    assert!(seen < ms(2_000), "{seen:?}");
    let mut falls = 0;
    let mut was_degraded = true;
    world.run(Duration::from_secs(3_600), |link| {
        let is_degraded = link.is_degraded;
        falls += u32::from(is_degraded && !was_degraded);
        was_degraded = is_degraded;
        false
    });
    assert!(falls <= 2, "{falls} times within an hour");
    world.loss = 0.0;
    let back = world.quality(Quality::Good).unwrap();
    assert!(back > ms(1_000) && back < ms(20_000), "{back:?}");
}

#[test]
fn a_link_that_flaps_stays_away_longer_each_time() {
    let mut world = LinkWorld::new(30);
    let mut before = Duration::ZERO;
    for n in 0..5 {
        world.loss = 0.0;
        let back = world.quality(Quality::Good).unwrap();
        assert!(n < 3 || back > before + before / 2, "{before:?}, {back:?}");
        before = back;
        world.link.mark_down(world.now);
        assert_eq!(world.link.quality(), Quality::Down, "told by the layer below");
        let usable = world.run(Duration::from_secs(120), |link| link.quality() < Quality::Suspect).unwrap();
        assert!(usable < ms(2_000), "{usable:?}");
    }
    world.run(FLAP_MEMORY * 5, |_| false);
    world.link.mark_down(world.now);
    assert!(world.quality(Quality::Good).unwrap() < before / 2, "long ago");
}

#[test]
fn a_route_that_gets_longer_is_no_loss() {
    let mut world = LinkWorld::new(20);
    world.run(Duration::from_secs(30), |_| false);
    world.round_trip = ms(100);
    assert_eq!(world.run(Duration::from_secs(60), |link| link.quality() == Quality::Down), None);
    assert!(world.link.latency() > ms(80) && world.link.quality() == Quality::Good);
    world.round_trip = ms(600);
    world.quality(Quality::Down).expect("nothing came for half a second");
    let back = world.quality(Quality::Good).unwrap();
    assert!(back < ms(2_000), "{back:?}");
    assert_eq!(world.run(Duration::from_secs(60), |link| link.quality() != Quality::Good), None);
    assert!(world.link.latency() > ms(400));
}

#[test]
fn echoes_of_nothing_change_nothing() {
    let mut link = NeighbourLink::default();
    link.on_echo(Instant::ZERO, 1);
    link.on_echo(Instant::ZERO, 0);
    assert!(!link.is_measured());
    let seq = link.poll_probe(Instant::ZERO, PACE).unwrap();
    link.on_echo(Instant::from_millis(9), seq);
    link.on_echo(Instant::from_millis(400), seq);
    assert_eq!(link.latency(), ms(9), "the same echo again");
}
