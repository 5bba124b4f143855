//! Load reports: the format, the measurement, the pacing, and the reception.
#![allow(missing_docs)]

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_flows::ClassId;
use weft_flows::load::{
    HeardLoads, LOAD_CLASSES, LOAD_INTERVAL, LOAD_LIFETIME, LOAD_PREFIXES, LOAD_REPORT_MAX, LOAD_SENDER_MEMORY,
    LoadMeter, LoadPacer, LoadReport, PortReading, TransitLoad,
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

    /// Over any time, the reports to a receiver take at most a thousandth of the link and one packet.
    ///
    /// A link of random rate, ports whose load walks at random, and packets toward some of their prefixes.
    #[test]
    fn reports_never_take_more_than_a_thousandth_of_a_link(seed: u64, bits in 12u32..36, wire_bytes in 27u64..150) {
        let (mut rng, link) = (Rng::new(seed), Rate::from_bps((1u64 << bits) + Rng::new(!seed).below(1 << bits)));
        let (mut pacer, mut now, mut sent) = (LoadPacer::default(), Instant::from_millis(7), Vec::new());
        let ports = 1 + rng.below(20);
        let mut reports = vec![LoadReport { classes: 1, ..LoadReport::default() }; ports as usize];
        let mut sequences = BTreeMap::new();
        let mut used = BTreeMap::new();
        for _ in 0..1_000 {
            now += Duration::from_micros(1 + rng.below(40_000));
            let port = rng.below(ports) as usize;
            reports[port].flows = rng.below(100_000) as u32;
            reports[port].rate = Rate16::floor(link.scaled(rng.unit()));
            if rng.chance(0.9) {
                pacer.on_packet(now, port);
                used.insert(port, now);
            }
            if let Some((port, told)) = pacer.next(now, (link, wire_bytes), |port| Some((reports[*port], link))) {
                prop_assert_eq!(LoadReport { sequence: 0, ..told }, reports[port]);
                let sequence = sequences.entry(port).or_insert(0u8);
                *sequence = sequence.wrapping_add(1);
                prop_assert!(told.sequence == *sequence || ports > LOAD_PREFIXES as u64);
                prop_assert!(now.since(used[&port]) <= LOAD_SENDER_MEMORY);
                sent.push(now);
            }
        }
        for (first, from) in sent.iter().enumerate() {
            for (last, to) in sent.iter().enumerate().skip(first) {
                let bits = ((last - first) as u64 * wire_bytes * 8) as f64;
                let time = to.since(*from);
                prop_assert!(bits <= link.bps() as f64 / 1_000.0 * time.as_secs_f64());
                prop_assert!(LOAD_INTERVAL * (last - first) as u32 <= time);
            }
        }
        // It also uses the share. Offers come at random, and a random load sometimes changes too little.
        let share = link.bps() as f64 / 1_000.0;
        let possible = 20.0 / (wire_bytes as f64 * 8.0 / share).max(LOAD_INTERVAL.as_secs_f64());
        prop_assert!(sent.len() as f64 >= (possible / 6.0).floor(), "{} of {possible}", sent.len());
    }

    /// Reports that arrive late, twice or never change the judgement of no other peer, and expire.
    #[test]
    fn a_report_counts_for_its_peer_alone_and_for_four_seconds(seed: u64) {
        let (mut rng, mut heard) = (Rng::new(seed), HeardLoads::default());
        let mut now = Instant::from_millis(1);
        let mut newest: BTreeMap<(u16, u8), (Instant, u8)> = BTreeMap::new();
        for _ in 0..300 {
            now += Duration::from_millis(rng.below(1_500));
            let (peer, network) = (rng.below(3) as u16, rng.below(4) as u8);
            let load = toward(network, full(rng.below(256) as u8, rng.chance(0.5)));
            let known = newest.get(&(peer, network)).filter(|(at, _)| now.since(*at) < LOAD_LIFETIME);
            let is_new = known.is_none_or(|(_, sequence)| load.report.sequence.wrapping_sub(*sequence) as i8 > 0);
            prop_assert_eq!(heard.insert(now, PeerId(peer), load), is_new);
            if is_new {
                newest.insert((peer, network), (now, load.report.sequence));
            }
            for peer in 0..4 {
                for network in 0..5 {
                    let fresh = newest.get(&(peer, network)).is_some_and(|(at, _)| now.since(*at) < LOAD_LIFETIME);
                    let says_full = heard.is_full(now, PeerId(peer), host(network), BULK);
                    prop_assert!(fresh || !says_full);
                }
            }
        }
    }

    /// A full port stays full between the two limits, and so does a free one.
    #[test]
    fn the_judgement_has_a_hysteresis(headrooms in prop::collection::vec(0u64..400, 1..80)) {
        let (mut heard, mut is_full) = (HeardLoads::default(), false);
        for (at, headroom) in headrooms.iter().enumerate() {
            let now = Instant::from_millis(20 * (1 + at as u64));
            let mut report = full(at as u8 + 1, true);
            (report.rate, report.headroom[0]) =
                (Rate16::floor(Rate::from_mbps(1_000 - headroom)), Rate16::floor(Rate::from_mbps(*headroom)));
            prop_assert!(heard.insert(now, PeerId(1), toward(0, report)));
            // The report rounds rates by less than 1/2048, so the two limits themselves are not judged.
            is_full = match headroom {
                0..=61 => true,
                126.. => false,
                64..=123 => is_full,
                _ => heard.is_full(now, PeerId(1), host(0), BULK),
            };
            prop_assert_eq!(heard.is_full(now, PeerId(1), host(0), BULK), is_full);
        }
    }
}

const BULK: (ClassId, Rate) = (ClassId(0), Rate::ZERO);

fn host(network: u8) -> IpAddr {
    IpAddr::from([10, network, 0, 7])
}

fn toward(network: u8, report: LoadReport) -> TransitLoad {
    TransitLoad { network: IpAddr::from([10, network, 0, 0]), length: 16, report }
}

/// Returns the report of a port that is full, or carries a tenth of its target rate.
fn full(sequence: u8, is_full: bool) -> LoadReport {
    let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
    headroom[0] = Rate16::floor(Rate::from_mbps(if is_full { 0 } else { 90 }));
    let rate = Rate16::floor(Rate::from_mbps(if is_full { 100 } else { 10 }));
    LoadReport { sequence, rate, classes: 1, headroom, ..LoadReport::default() }
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
fn the_rate_follows_and_each_class_has_its_headroom() {
    let (mut meter, mut rng) = (LoadMeter::new(3), Rng::new(4));
    let (known, guaranteed_left) = (Rate::from_mbps(100), Rate::from_mbps(7));
    let queue_delay = Duration::from_millis(2);
    for _ in 0..200 {
        let (arrived, guaranteed_classes) = (Rate::from_mbps(rng.below(150)), rng.below(256) as u8);
        let target = rng.chance(0.8).then_some(known);
        let reading =
            PortReading { arrived, target, guaranteed_left, flows: 5, queue_delay, classes: 9, guaranteed_classes };
        let report = (0..20).map(|_| meter.sample(&reading)).last().expect("20 reports");
        let rate = report.rate.rate().expect("finite").bps();
        assert!(rate.abs_diff(arrived.bps()) <= arrived.bps() / 100 + 1_000_000, "{rate} for {arrived}");
        assert_eq!((report.port, report.flows, report.classes), (3, 5, 8), "the ninth class is left out");
        for (class, headroom) in report.headroom.iter().enumerate() {
            let headroom = headroom.rate().expect("finite").bps();
            match guaranteed_classes >> class & 1 {
                // Receivers judge the port by the headroom of class 0.
                1 if class > 0 => assert!(headroom.abs_diff(7_000_000) < 7_000),
                _ => {
                    let left = target.map_or(rate, |_| 100_000_000u64.saturating_sub(rate));
                    assert!(headroom.abs_diff(left) < 200_000, "{headroom} of {left}");
                }
            }
        }
    }
}

#[test]
fn only_a_full_port_is_reported_again_without_a_change() {
    let link = Rate::from_mbps(1_000);
    for (report, times) in [(full(0, true), 10), (full(0, false), 1)] {
        let mut pacer = LoadPacer::default();
        let mut offer = |ms| {
            let now = Instant::from_millis(ms);
            pacer.on_packet(now, ());
            pacer.next(now, (link, 87), |()| Some((report, Rate::from_mbps(100)))).is_some()
        };
        assert_eq!((0..500).filter(|n| offer(n * 20)).count(), times);
    }
}

#[test]
fn a_change_is_reported_at_once_and_nothing_without_packets() {
    let (link, mut pacer) = (Rate::from_mbps(1_000), LoadPacer::default());
    let steady = LoadReport { flows: 100, ..full(0, false) };
    let at = Instant::from_millis;
    let offer = |pacer: &mut LoadPacer<()>, ms, report: LoadReport| {
        pacer.next(at(ms), (link, 87), |()| Some((report, Rate::from_mbps(100)))).is_some()
    };
    assert!(!offer(&mut pacer, 0, steady), "the receiver sends nothing");
    pacer.on_packet(at(10), ());
    assert!(pacer.is_watched(at(10)) && offer(&mut pacer, 20, steady));
    let rate = |mbps| Rate16::floor(Rate::from_mbps(mbps));
    assert!(!offer(&mut pacer, 40, LoadReport { rate: rate(14), flows: 110, ..steady }), "a small change");
    assert!(offer(&mut pacer, 60, LoadReport { queue_delay: Duration::from_millis(6), ..steady }));
    assert!(!offer(&mut pacer, 79, steady), "less than 20 ms later");
    assert!(offer(&mut pacer, 80, steady), "the way back is a change too");
    assert!(offer(&mut pacer, 100, LoadReport { rate: rate(17), ..steady }));
    assert!(offer(&mut pacer, 120, full(0, true)));
    assert!(pacer.is_watched(at(9_000)), "a full port may become free");
    assert!(offer(&mut pacer, 10_010, steady) && !pacer.is_watched(at(10_010)));
    assert!(!offer(&mut pacer, 10_031, full(0, true)), "the receiver sent nothing for ten seconds");
    pacer.on_packet(at(10_040), ());
    assert!(pacer.next(at(10_050), (Rate::ZERO, 87), |()| Some((full(0, true), link))).is_none(), "no link");
}

#[test]
fn heard_loads_are_newest_and_bounded_for_each_peer() {
    let (mut heard, at) = (HeardLoads::default(), Instant::from_millis);
    assert!(heard.insert(at(0), PeerId(1), toward(1, full(250, true))));
    assert!(!heard.insert(at(1), PeerId(1), toward(1, full(250, false))), "a duplicate");
    assert!(heard.insert(at(1_000), PeerId(1), toward(1, full(3, true))), "the sequence wraps");
    assert!(!heard.insert(at(1_001), PeerId(1), toward(1, full(255, false))), "an overtaken report");
    assert!(heard.is_full(at(4_999), PeerId(1), host(1), BULK));
    assert!(!heard.is_full(at(4_999), PeerId(2), host(1), BULK), "another peer");
    assert!(!heard.is_full(at(5_000), PeerId(1), host(1), BULK), "four seconds without a report");
    assert!(heard.insert(at(5_001), PeerId(1), toward(1, full(1, true))), "a peer that began again is heard");
    let more = (2..40).filter(|network| heard.insert(at(5_002), PeerId(1), toward(*network, full(1, true)))).count();
    assert_eq!(more, LOAD_PREFIXES - 1);
    assert!(heard.insert(at(5_003), PeerId(2), toward(1, full(1, true))), "one peer takes no place of another");
    let whole = TransitLoad { network: IpAddr::from([10, 0, 0, 0]), length: 8, report: full(1, false) };
    assert!(heard.insert(at(5_004), PeerId(2), whole));
    assert!(heard.is_full(at(5_005), PeerId(2), host(1), BULK), "the longest prefix counts");
    assert_eq!(heard.iter(at(5_005)).count(), LOAD_PREFIXES + 2);
    heard.remove_peer(PeerId(1));
    assert!(!heard.is_full(at(5_005), PeerId(1), host(1), BULK));
}

#[test]
fn a_flow_with_a_guarantee_looks_at_the_headroom_of_its_class() {
    let mut heard = HeardLoads::default();
    let mut report = LoadReport { classes: 2, ..full(1, true) };
    report.headroom[1] = Rate16::floor(Rate::from_mbps(1));
    assert!(heard.insert(Instant::ZERO, PeerId(1), toward(1, report)));
    let asks = |kbps: u64| heard.is_full(Instant::ZERO, PeerId(1), host(1), (ClassId(1), Rate::from_bps(kbps * 1_000)));
    assert_eq!([82, 990, 1_100].map(asks), [false, false, true]);
    let unknown = heard.is_full(Instant::ZERO, PeerId(1), host(1), (ClassId(7), Rate::from_bps(82_000)));
    assert!(unknown, "a class without headroom in the report is judged by the port");
}
