//! Load reports: the format, the measurement, the pacing, and the reception.
#![allow(missing_docs)]

use proptest::prelude::*;
use weft_flows::load::{
    HeardLoads, LOAD_CLASSES, LOAD_INTERVAL, LOAD_REPORT_MAX, LoadMeter, LoadPacer, LoadReport, PortReading,
};
use weft_units::{Duration, Instant, PeerId, Rate, Rng};
use weft_wire::WireError;
use weft_wire::er_sig::Rate16;

fn rate16() -> impl Strategy<Value = Rate16> {
    (0..u16::MAX).prop_map(Rate16)
}

prop_compose! {
    fn report()(
        sequence: u8, port: u16, rate in rate16(), flows in 0u32..1 << 24, delay: u16,
        headroom in prop::collection::vec(rate16(), 0..=LOAD_CLASSES),
    ) -> LoadReport {
        let mut all = [Rate16::ZERO; LOAD_CLASSES];
        all[..headroom.len()].copy_from_slice(&headroom);
        LoadReport {
            sequence, port, rate, flows, classes: headroom.len() as u8, headroom: all,
            queue_delay: Duration::from_micros(10) * u32::from(delay),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(report in report(), more in 0usize..4) {
        let mut out = [0xaa; LOAD_REPORT_MAX + 4];
        let length = report.write(&mut out).expect("there is room");
        prop_assert!(length <= 32);
        prop_assert_eq!(LoadReport::parse(&out[..length]), Ok(report));
        prop_assert!((0..length).all(|short| LoadReport::parse(&out[..short]) == Err(WireError::Truncated)));
        prop_assert!((0..length).all(|short| report.write(&mut out[..short]) == Err(WireError::NoRoom)));
        if more > 0 {
            prop_assert_eq!(LoadReport::parse(&out[..length + more]), Err(WireError::TooLong));
        }
    }

    /// The decoder either refuses the bytes, or encoding its result gives the same bytes.
    #[test]
    fn any_bytes_are_refused_or_canonical(mut bytes in prop::collection::vec(any::<u8>(), 0..40), fit: bool) {
        if fit && !bytes.is_empty() {
            let classes = usize::from(bytes[0]) % 10;
            bytes[0] = 0x10 | classes as u8;
            bytes.resize(11 + 2 * classes, 0x5a);
        }
        if let Ok(report) = LoadReport::parse(&bytes) {
            let mut out = [0; LOAD_REPORT_MAX];
            let length = report.write(&mut out).expect("there is room");
            prop_assert_eq!(&out[..length], &bytes[..]);
        }
    }

    /// Over any time, the reports take at most a thousandth of the link and one packet.
    ///
    /// A link of random rate, which changes, and a load that walks at random.
    #[test]
    fn reports_never_take_more_than_a_thousandth_of_a_link(seed: u64, bits in 12u32..36, wire_bytes in 27u64..150) {
        let (mut rng, link) = (Rng::new(seed), Rate::from_bps((1u64 << bits) + Rng::new(!seed).below(1 << bits)));
        let (mut pacer, mut now, mut sent) = (LoadPacer::default(), Instant::from_millis(7), Vec::new());
        let mut report = LoadReport { classes: 1, ..LoadReport::default() };
        for _ in 0..1_000 {
            now += LOAD_INTERVAL;
            report.flows = rng.below(100_000) as u32;
            report.rate = Rate16::floor(link.scaled(rng.unit()));
            if let Some(told) = pacer.offer(now, &report, link, link, wire_bytes) {
                prop_assert_eq!(LoadReport { sequence: 0, ..told }, report);
                prop_assert_eq!(told.sequence, (sent.len() as u8).wrapping_add(1));
                sent.push(now);
            }
        }
        for (first, from) in sent.iter().enumerate() {
            for (last, to) in sent.iter().enumerate().skip(first) {
                let bits = ((last - first) as u64 * wire_bytes * 8) as f64;
                prop_assert!(bits <= link.bps() as f64 / 1_000.0 * to.since(*from).as_secs_f64());
            }
        }
        // It also uses the share. Offers come on a grid of 20 ms, which can halve the number of reports, and a random
        // load sometimes changes too little.
        let share = link.bps() as f64 / 1_000.0;
        let possible = 20.0 / (wire_bytes as f64 * 8.0 / share).max(LOAD_INTERVAL.as_secs_f64());
        prop_assert!(sent.len() as f64 >= (possible / 4.0).floor(), "{} of {possible}", sent.len());
    }
}

#[test]
fn the_golden_vector_stays() {
    let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
    headroom[0] = Rate16::floor(Rate::from_bps(82_000));
    headroom[1] = Rate16::floor(Rate::from_mbps(32));
    let report = LoadReport {
        sequence: 7,
        port: 0x0102,
        rate: Rate16::floor(Rate::from_mbps(100)),
        flows: 1_000_000,
        queue_delay: Duration::from_micros(4_321),
        classes: 2,
        headroom,
    };
    let golden = [0x12, 7, 1, 2, 0x84, 0x35, 0x0f, 0x42, 0x40, 0x01, 0xb1, 0x32, 0x40, 0x77, 0xa0];
    let mut out = [0; LOAD_REPORT_MAX];
    assert_eq!(report.write(&mut out), Ok(golden.len()));
    assert_eq!(out[..golden.len()], golden);
    let read = LoadReport { queue_delay: Duration::from_micros(4_330), ..report };
    assert_eq!(LoadReport::parse(&golden), Ok(read), "the delay is rounded up");
}

#[test]
fn bad_fields_are_refused() {
    let good = [0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x32, 0x40];
    assert!(LoadReport::parse(&good).is_ok());
    let with = |at: usize, bytes: [u8; 2]| {
        let mut bad = good;
        bad[at..at + 2].copy_from_slice(&bytes);
        LoadReport::parse(&bad)
    };
    assert_eq!(with(0, [0x21, 0]), Err(WireError::Version));
    assert_eq!(with(0, [0x19, 0]), Err(WireError::Malformed), "nine classes");
    assert_eq!(with(4, [0xff, 0xff]), Err(WireError::Malformed), "an unlimited rate");
    assert_eq!(with(11, [0xff, 0xff]), Err(WireError::Malformed), "an unlimited headroom");
}

#[test]
fn a_port_is_measured_each_20_ms_and_its_rate_follows() {
    let (mut meter, mut now, mut bytes) = (LoadMeter::new(3), Instant::from_millis(500), 0);
    let mut last = None;
    let rate = Rate::from_mbps(80);
    for _ in 0..4_000 {
        let reading =
            PortReading { sent_bytes: bytes, flows: 5, queue_delay: Duration::from_millis(2), headroom: &[rate; 9] };
        let due = meter.next_timeout().is_some_and(|at| at <= now);
        let sample = meter.sample(now, &reading);
        assert_eq!(sample.is_some(), due);
        last = sample.or(last);
        (now, bytes) = (now + Duration::from_micros(100), bytes + 1_000);
    }
    let report = last.expect("20 measurements");
    let measured = report.rate.rate().expect("finite").bps();
    assert!((79_500_000..=80_000_000).contains(&measured), "{measured}");
    assert_eq!((report.port, report.flows, report.classes), (3, 5, 8), "the ninth class is left out");
    assert!(report.headroom.iter().all(|headroom| *headroom == Rate16::floor(rate)));
}

#[test]
fn an_unchanged_load_is_reported_once_a_second_and_a_change_at_once() {
    let (link, mut pacer) = (Rate::from_mbps(1_000), LoadPacer::default());
    let steady =
        LoadReport { rate: Rate16::floor(Rate::from_mbps(500)), flows: 100, classes: 1, ..LoadReport::default() };
    let mut offer = |ms, report: LoadReport| pacer.offer(Instant::from_millis(ms), &report, link, link, 87).is_some();
    let told = (0..500).filter(|n| offer(n * 20, steady)).count();
    assert_eq!(told, 10);
    let small = LoadReport { rate: Rate16::floor(Rate::from_mbps(550)), flows: 110, ..steady };
    assert!(!offer(9_020, small));
    assert!(offer(9_040, LoadReport { queue_delay: Duration::from_millis(6), ..steady }));
    assert!(offer(9_060, steady), "the way back is a change too");
    assert!(offer(9_080, LoadReport { rate: Rate16::floor(Rate::from_mbps(570)), ..steady }));
    assert!(offer(9_100, LoadReport { headroom: [Rate16::floor(Rate::from_mbps(70)); LOAD_CLASSES], ..steady }));
    assert!(LoadPacer::default().offer(Instant::ZERO, &steady, link, Rate::ZERO, 87).is_none());
}

#[test]
fn heard_loads_are_newest_bounded_and_forgotten() {
    let mut heard = HeardLoads::new(2);
    let report = |port, sequence| LoadReport { port, sequence, ..LoadReport::default() };
    let at = Instant::from_millis;
    assert!(heard.insert(at(0), PeerId(1), report(1, 250)));
    assert!(!heard.insert(at(1), PeerId(1), report(1, 250)), "a duplicate");
    assert!(heard.insert(at(1_000), PeerId(1), report(1, 3)), "the sequence wraps");
    assert!(!heard.insert(at(1_001), PeerId(1), report(1, 255)), "an overtaken report");
    assert_eq!(heard.get(at(1_002), PeerId(1), 1).map(|report| report.sequence), Some(3));
    assert!(heard.insert(at(1_010), PeerId(2), report(1, 1)));
    assert!(!heard.insert(at(1_020), PeerId(3), report(1, 1)), "the set is full");
    assert!(heard.get(at(5_000), PeerId(1), 1).is_some());
    assert!(heard.get(at(5_001), PeerId(1), 1).is_none(), "four intervals without a report");
    assert!(heard.insert(at(5_001), PeerId(1), report(1, 1)), "a neighbour that began again is heard");
    assert!(heard.insert(at(6_000), PeerId(3), report(1, 1)), "an old report makes room");
    heard.remove_peer(PeerId(3));
    assert!(heard.get(at(6_000), PeerId(3), 1).is_none());
}
