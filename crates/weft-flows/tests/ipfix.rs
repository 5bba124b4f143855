//! Messages carry every record unchanged, and the sums stay exact whatever the collector does.
#![allow(missing_docs)]

mod collector;

use collector::Collector;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::net::IpAddr;
use weft_flows::ClassId;
use weft_flows::class::Classes;
use weft_flows::ipfix::{
    CLASS, CLASS_NAME, Dialect, EndReason, ExportCounters, ExportRecord, ExportVerdict, Exporter, ExporterConfig, HOLD,
    MESSAGE_BYTES_MIN, PROBE_MAX, RecordDirection,
};
use weft_units::{Duration, Instant, Rate, Rng, VpnId};
use weft_wire::ip::FlowKey;

fn record(rng: &mut Rng) -> ExportRecord {
    let is_ipv6 = rng.chance(0.3);
    let address = |rng: &mut Rng| -> IpAddr {
        let bits = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        if is_ipv6 { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) }
    };
    let (src, dst) = (address(rng), address(rng));
    let flow_label = if is_ipv6 { rng.below(1 << 20) as u32 } else { 0 };
    let (src_port, dst_port) = (rng.next_u64() as u16, rng.next_u64() as u16);
    let reasons = [EndReason::Idle, EndReason::Active, EndReason::Ended, EndReason::Forced, EndReason::LackOfResources];
    let verdicts = [
        ExportVerdict::NothingAsked,
        ExportVerdict::Granted,
        ExportVerdict::Reduced,
        ExportVerdict::Preempted,
        ExportVerdict::Refused,
    ];
    ExportRecord {
        key: FlowKey { src, dst, protocol: rng.next_u64() as u8, src_port, dst_port, flow_label },
        dscp: rng.below(64) as u8,
        vpn: VpnId(rng.next_u64() as u32),
        ingress_interface: rng.next_u64() as u32,
        egress_interface: rng.next_u64() as u32,
        direction: if rng.chance(0.5) { RecordDirection::Ingress } else { RecordDirection::Egress },
        end_reason: reasons[rng.below(5) as usize],
        start_ms: rng.next_u64(),
        end_ms: rng.next_u64(),
        total_bytes: rng.next_u64(),
        total_packets: rng.next_u64(),
        bytes: rng.below(1 << 40),
        packets: rng.below(1 << 30),
        asked: Rate::from_bps(rng.next_u64()),
        granted: Rate::from_bps(rng.next_u64()),
        achieved: Rate::from_bps(rng.next_u64()),
        class: ClassId(rng.next_u64() as u16),
        precedence: rng.below(16) as u8,
        is_on_alternate: rng.chance(0.5),
        verdict: verdicts[rng.below(5) as usize],
        path: rng.next_u64() as u32,
    }
}

/// Counts of records: bytes, packets, records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums(u64, u64, u64);

impl Sums {
    fn add(&mut self, record: &ExportRecord) {
        (self.0, self.1, self.2) = (self.0 + record.bytes, self.1 + record.packets, self.2 + 1);
    }

    fn plus(self, (bytes, packets, records): (u64, u64, u64)) -> Sums {
        Sums(self.0 + bytes, self.1 + packets, self.2 + records)
    }
}

/// A message and its number.
struct Sent {
    bytes: Vec<u8>,
    number: u64,
}

/// An exporter, and a collector that ends and restarts.
struct World {
    rng: Rng,
    now: Instant,
    exporter: Exporter,
    collector: Collector,
    /// False while the collector's program does not run.
    is_up: bool,
    pushed: Sums,
    buffer: Vec<u8>,
    /// Refusals that are in flight to the exporter: arrival and sequence number.
    refusals: VecDeque<(Instant, u32)>,
    /// Time of the last message.
    last_sent: Instant,
    /// Messages in the stream that were not received yet.
    stream: VecDeque<Sent>,
}

impl World {
    fn new(seed: u64, config: ExporterConfig) -> World {
        let exporter = Exporter::new(Instant::ZERO, config);
        World {
            rng: Rng::new(seed),
            now: Instant::ZERO,
            exporter,
            collector: Collector::default(),
            is_up: true,
            pushed: Sums::default(),
            buffer: vec![0; config.message_bytes],
            refusals: VecDeque::new(),
            last_sent: Instant::ZERO,
            stream: VecDeque::new(),
        }
    }

    fn push(&mut self, count: u64) {
        for _ in 0..count {
            let record = record(&mut self.rng);
            self.pushed.add(&record);
            self.exporter.push(record);
        }
    }

    fn poll(&mut self) -> Option<Sent> {
        let message = self.exporter.poll_message(self.now, 1, &mut self.buffer)?;
        Some(Sent { bytes: self.buffer[..message.len].to_vec(), number: message.number })
    }

    /// Sends the ready messages over UDP. A collector that is down refuses each message after `rtt`.
    fn send_datagrams(&mut self, rtt: Duration) {
        while self.refusals.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, sequence) = self.refusals.pop_front().unwrap();
            self.exporter.on_refused(self.now, Some(sequence));
        }
        while let Some(sent) = self.poll() {
            self.last_sent = self.now;
            if self.is_up {
                self.collector.receive(&sent.bytes);
            } else {
                self.refusals.push_back((self.now + rtt, collector::sequence_of(&sent.bytes)));
            }
        }
    }

    /// A collector that starts again knows no template and expects no sequence number.
    fn restart_collector(&mut self) {
        self.collector.restart();
        self.is_up = true;
    }

    /// Returns true if the collector lacks a record, or the counts of records that are not sent.
    fn is_owed(&self) -> bool {
        let ExportCounters { pending_records, retained_records, not_sent, .. } = self.exporter.counters();
        pending_records + retained_records > 0
            || self.collector.not_sent() != (not_sent.bytes, not_sent.packets, not_sent.records)
    }

    fn received(&self) -> Sums {
        Sums::default().plus(self.collector.sums()).plus(self.collector.not_sent())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_arrives_unchanged(
        seed: u64, count in 0usize..300, message_bytes in MESSAGE_BYTES_MIN..9_000, is_ipfix: bool
    ) {
        let dialect = if is_ipfix { Dialect::Ipfix } else { Dialect::NetflowV9 };
        let mut world = World::new(seed, ExporterConfig { dialect, message_bytes, ..ExporterConfig::default() });
        let records: Vec<_> = (0..count).map(|_| record(&mut world.rng)).collect();
        for record in &records {
            prop_assert!(world.exporter.push(*record));
        }
        while let Some(sent) = world.poll() {
            prop_assert!(sent.bytes.len() <= message_bytes);
            world.collector.receive(&sent.bytes);
        }
        prop_assert_eq!(world.collector.flows().count(), records.len());
        for (decoded, record) in world.collector.flows().zip(&records) {
            decoded.assert_is(record, is_ipfix);
        }
    }

    /// The collector is away for random times. Its machine refuses datagrams after a random round trip.
    #[test]
    fn sums_are_exact_over_datagrams(seed: u64, rtt_ms in 0u64..240, queue_records in 1usize..400, is_ipfix: bool) {
        let dialect = if is_ipfix { Dialect::Ipfix } else { Dialect::NetflowV9 };
        let mut world = World::new(seed, ExporterConfig { dialect, queue_records, ..ExporterConfig::default() });
        let rtt = Duration::from_millis(rtt_ms);
        for _ in 0..300 {
            let burst = world.rng.below(40);
            world.push(burst);
            world.send_datagrams(rtt);
            let change = world.rng.chance(0.05);
            match world.is_up {
                true if change => world.is_up = false,
                // The exporter cannot detect a faster restart of the collector.
                false if change && world.refusals.is_empty() && world.now.since(world.last_sent) >= HOLD => {
                    world.restart_collector();
                }
                _ => {}
            }
            world.now += Duration::from_millis(world.rng.below(200));
        }
        // Refusals arrive, and the collector returns for good.
        world.now += rtt;
        world.send_datagrams(rtt);
        while !world.refusals.is_empty() {
            world.now += rtt.max(Duration::from_millis(1));
            world.send_datagrams(rtt);
        }
        if !world.is_up {
            // As above, after a pause that the exporter can detect.
            world.now = world.now.max(world.last_sent + HOLD);
            world.restart_collector();
        }
        let mut turns = 0;
        while world.is_owed() {
            world.now = world.now.max(world.exporter.next_timeout());
            world.send_datagrams(rtt);
            turns += 1;
            prop_assert!(turns < 100);
        }
        prop_assert_eq!(world.received(), world.pushed);
        prop_assert_eq!(world.exporter.counters().sent_records, world.collector.sums().2);
    }

    /// The stream ends at random times; messages behind the last acknowledged one are lost with it.
    #[test]
    fn sums_are_exact_over_streams(seed: u64, queue_records in 1usize..400) {
        let config = ExporterConfig { is_stream: true, queue_records, ..ExporterConfig::default() };
        let mut world = World::new(seed, config);
        prop_assert!(world.poll().is_none(), "not connected");
        let mut is_connected = false;
        for turn in 0..400 {
            let burst = world.rng.below(30);
            world.push(burst);
            if is_connected && world.rng.chance(0.1) && turn < 399 {
                world.stream.clear();
                world.exporter.on_closed();
                is_connected = false;
            } else if !is_connected && (world.rng.chance(0.3) || turn == 399) {
                world.restart_collector();
                world.exporter.on_connected(world.now);
                is_connected = true;
            }
            while let Some(sent) = world.poll() {
                world.stream.push_back(sent);
            }
            let arriving = if turn == 399 { usize::MAX } else { world.rng.below(4) as usize };
            for sent in world.stream.drain(..arriving.min(world.stream.len())) {
                world.collector.receive(&sent.bytes);
                world.exporter.on_acknowledged(sent.number);
            }
        }
        prop_assert_eq!(world.received(), world.pushed);
        prop_assert_eq!(world.exporter.counters().retained_records, 0);
    }
}

/// Polls once and returns the number of templates in the message.
fn templates(world: &mut World) -> Option<usize> {
    let before = world.collector.template_records;
    let sent = world.poll()?;
    world.collector.receive(&sent.bytes);
    Some(world.collector.template_records - before)
}

#[test]
fn templates_are_repeated_over_datagrams_only() {
    let mut world = World::new(1, ExporterConfig::default());
    let interval = ExporterConfig::default().template_interval;
    let (mut at, gap) = (Vec::new(), HOLD - Duration::from_millis(1));
    while world.now < Instant::ZERO + interval * 3 {
        world.push(1);
        match templates(&mut world) {
            Some(4) => at.push(world.now),
            other => assert_eq!(other, Some(0)),
        }
        assert_eq!(templates(&mut world), None);
        world.now += gap;
    }
    assert!(at.len() == 3 && at.windows(2).all(|pair| pair[1].since(pair[0]) < interval + gap), "{at:?}");
    let mut world = World::new(1, ExporterConfig::default());
    world.push(1);
    assert_eq!(templates(&mut world), Some(4));
    world.now += HOLD;
    assert_eq!(templates(&mut world), None);
    world.push(1);
    assert_eq!(templates(&mut world), Some(4), "after a pause");
    let mut world = World::new(1, ExporterConfig { is_stream: true, ..ExporterConfig::default() });
    world.exporter.on_connected(world.now);
    assert_eq!(templates(&mut world), Some(4));
    world.now += interval * 100;
    assert_eq!(templates(&mut world), None);
    assert_eq!(world.exporter.next_timeout(), Instant::FAR_FUTURE);
}

#[test]
fn classes_are_named_also_when_their_names_fill_many_messages() {
    let mut classes = Classes::built_in();
    for number in classes.names().count()..256 {
        classes.set(&format!("{number}-{}", "é".repeat(number)), classes.default_treatment()).unwrap();
    }
    let mut world = World::new(1, ExporterConfig { message_bytes: MESSAGE_BYTES_MIN, ..ExporterConfig::default() });
    world.exporter.set_class_names(classes.names());
    world.push(3);
    while let Some(sent) = world.poll() {
        assert!(sent.bytes.len() <= MESSAGE_BYTES_MIN);
        world.collector.receive(&sent.bytes);
    }
    let names: Vec<_> = world
        .collector
        .records
        .iter()
        .filter_map(|record| Some((record.own(CLASS), record.text(CLASS_NAME)?)))
        .collect();
    assert_eq!(names.len(), 256);
    for ((number, name), (id, class)) in names.iter().zip(classes.iter()) {
        assert_eq!(*number, u64::from(id.0));
        assert!(class.name.starts_with(name.as_str()) && name.len() >= class.name.len().min(253), "{name}");
    }
    assert_eq!(world.collector.sums().2, 3);
}

/// Golden bytes of the headers and of the first template's start.
#[test]
fn headers_are_those_of_the_rfcs() {
    let start = |dialect| {
        let mut world = World::new(1, ExporterConfig { dialect, domain: 7, ..ExporterConfig::default() });
        world.now += Duration::from_millis(300);
        let mut buffer = vec![0; 2_000];
        let message = world.exporter.poll_message(world.now, 0x6543_2101, &mut buffer).unwrap();
        buffer.truncate(message.len);
        buffer
    };
    let ipfix = start(Dialect::Ipfix);
    assert_eq!(ipfix.len(), 16 + 4 + 136 + 140 + 4 + 30 + 22);
    let header = [0, 10, 1, 96, 0x65, 0x43, 0x21, 1, 0, 0, 0, 0, 0, 0, 0, 7];
    assert_eq!(&ipfix[..16], &header);
    // Set 2 of 280 bytes; template 256 of 25 fields: sourceIPv4Address, destinationIPv4Address, protocolIdentifier.
    assert_eq!(&ipfix[16..36], &[0, 2, 1, 24, 1, 0, 0, 25, 0, 8, 0, 4, 0, 12, 0, 4, 0, 4, 0, 1]);
    let netflow = start(Dialect::NetflowV9);
    let header = [0, 9, 0, 3, 0, 0, 1, 44, 0x65, 0x43, 0x21, 1, 0, 0, 0, 0, 0, 0, 0, 7];
    assert_eq!(&netflow[..20], &header);
    assert_eq!(&netflow[20..32], &[0, 0, 0, 152, 1, 0, 0, 17, 0, 8, 0, 4]);
}

#[test]
fn a_collector_that_is_not_there_gets_probes_only() {
    let mut world = World::new(1, ExporterConfig { queue_records: 1_000, ..ExporterConfig::default() });
    world.is_up = false;
    let (mut probes, mut last, mut longest) = (0, world.now, Duration::ZERO);
    while world.now < Instant::from_millis(120_000) {
        world.push(10);
        let before = world.exporter.counters().messages;
        world.send_datagrams(Duration::ZERO);
        if world.exporter.counters().messages > before {
            (probes, longest, last) = (probes + 1, longest.max(world.now.since(last)), world.now);
        }
        world.now += Duration::from_millis(10);
    }
    assert!((10..40).contains(&probes) && longest <= PROBE_MAX + Duration::from_millis(20), "{probes} {longest:?}");
    let counters = world.exporter.counters();
    assert!(!world.exporter.is_reachable());
    assert_eq!((counters.pending_records, counters.sent_records, world.exporter.room()), (1_000, 0, 0));
    assert_eq!(counters.not_sent.records, world.pushed.2 - 1_000);
    world.restart_collector();
    for _ in 0..2_000 {
        world.now += Duration::from_millis(10);
        world.send_datagrams(Duration::ZERO);
    }
    assert_eq!(world.received(), world.pushed);
}

/// A caller that knows of a refusal, but not of which message, gets the last one back.
#[test]
fn a_refusal_without_a_number_concerns_the_last_message() {
    let mut world = World::new(1, ExporterConfig::default());
    world.push(1);
    let sent = world.poll().unwrap();
    world.collector.receive(&sent.bytes);
    world.push(1);
    world.poll().unwrap();
    world.exporter.on_refused(world.now, None);
    assert_eq!((world.exporter.counters().pending_records, world.exporter.counters().retained_records), (1, 1));
    for _ in 0..100 {
        world.now += Duration::from_millis(10);
        world.send_datagrams(Duration::ZERO);
    }
    assert_eq!(world.received(), world.pushed);
}

#[test]
fn short_buffers_get_no_message() {
    let mut world = World::new(1, ExporterConfig { message_bytes: 0, ..ExporterConfig::default() });
    world.push(1);
    let mut buffer = [0; MESSAGE_BYTES_MIN];
    for len in [0, 15, 16, MESSAGE_BYTES_MIN - 1] {
        assert_eq!(world.exporter.poll_message(world.now, 1, &mut buffer[..len]), None);
    }
    assert!(world.exporter.poll_message(world.now, 1, &mut buffer).is_some());
}
