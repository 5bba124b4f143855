//! The rate control of the BPF program and that of weft-core agree for every sequence of events.

use libbpf_rs::{MapType, ObjectBuilder, ProgramInput, ProgramMut};
use proptest::prelude::*;
use std::cell::RefCell;
use weft_core::explicit_rate::tcp_er::{Mode, TcpErSender};
use weft_tcp_er::congestion::{Congestion, OBJECT};

const LAW_BYTES: usize = 96;
const STEP_BYTES: usize = 152;

#[derive(Clone, Copy, Debug)]
enum Event {
    Grant { at: Time, bytes_per_s: u64 },
    Ack { at: Time, delivered: u32, lost: u32, srtt_us: u64 },
}

/// Time of an event: an interval after the previous one, or an arbitrary time.
#[derive(Clone, Copy, Debug)]
enum Time {
    After(u64),
    At(u64),
}

/// The sender's values that result from a step.
#[derive(PartialEq, Debug)]
struct Answer {
    pacing_rate: u64,
    window: u32,
    is_granted: bool,
}

/// Runs `struct step` of `bpf/weft_er.bpf.c` in the kernel.
struct Kernel<'a> {
    program: &'a ProgramMut<'a>,
    law: [u8; LAW_BYTES],
}

impl Kernel<'_> {
    fn step(&mut self, wide: [u64; 3], narrow: [u32; 4]) -> Answer {
        let mut step = [0u8; STEP_BYTES];
        step[..LAW_BYTES].copy_from_slice(&self.law);
        let fields = wide.iter().flat_map(|v| v.to_ne_bytes()).chain(narrow.iter().flat_map(|v| v.to_ne_bytes()));
        step[LAW_BYTES..].iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        let input = ProgramInput { context_in: Some(&mut step), ..ProgramInput::default() };
        assert_eq!(self.program.test_run(input).unwrap().return_value, 0);
        self.law.copy_from_slice(&step[..LAW_BYTES]);
        let narrow = |at: usize| u32::from_ne_bytes(step[at..at + 4].try_into().unwrap());
        Answer {
            pacing_rate: u64::from_ne_bytes(step[136..144].try_into().unwrap()),
            window: narrow(144),
            is_granted: narrow(148) == 0,
        }
    }
}

fn ours(law: &TcpErSender) -> Answer {
    Answer { pacing_rate: law.pacing_rate(), window: law.window(), is_granted: law.mode() == Mode::Granted }
}

fn times() -> impl Strategy<Value = Time> {
    prop_oneof![20 => (0..200_000u64).prop_map(Time::After), 1 => any::<u64>().prop_map(Time::At)]
}

fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![10 => 0..100u32, 3 => 0..100_000u32, 1 => any::<u32>()]
}

fn losses() -> impl Strategy<Value = u32> {
    prop_oneof![100 => 0..4u32, 5 => 0..100_000u32, 1 => any::<u32>()]
}

fn events() -> impl Strategy<Value = Event> {
    let rates = prop_oneof![1 => Just(0), 8 => 1_000..1_000_000_000u64, 1 => any::<u64>()];
    let round_trips = prop_oneof![10 => 0..500_000u64, 1 => any::<u64>()];
    prop_oneof![
        1 => (times(), rates).prop_map(|(at, bytes_per_s)| Event::Grant { at, bytes_per_s }),
        4 => (times(), numbers(), losses(), round_trips)
            .prop_map(|(at, delivered, lost, srtt_us)| Event::Ack { at, delivered, lost, srtt_us }),
    ]
}

/// Runs both implementations over the same events. Returns the results of both after each event.
fn run(program: &ProgramMut<'_>, segment_bytes: u32, events: &[Event]) -> Vec<(Answer, Answer)> {
    let mut kernel = Kernel { program, law: [0; LAW_BYTES] };
    let mut law = TcpErSender::new(segment_bytes);
    let mut answers = vec![(kernel.step([0; 3], [0, segment_bytes, 0, 0]), ours(&law))];
    let mut now = 0u64;
    for event in events {
        let (Event::Grant { at, .. } | Event::Ack { at, .. }) = event;
        now = match at {
            Time::After(us) => now.saturating_add(*us),
            Time::At(us) => *us,
        };
        let theirs = match *event {
            Event::Grant { bytes_per_s, .. } => {
                law.on_grant(now, bytes_per_s);
                kernel.step([now, bytes_per_s, 0], [1, 0, 0, 0])
            }
            Event::Ack { delivered, lost, srtt_us, .. } => {
                law.on_ack(now, delivered, lost, srtt_us);
                kernel.step([now, 0, srtt_us], [2, 0, delivered, lost])
            }
        };
        answers.push((theirs, ours(&law)));
    }
    answers
}

#[test]
fn the_kernels_law_is_weft_cores() {
    if let Err(why) = Congestion::load() {
        return eprintln!("skipped: {why}");
    }
    let mut object = ObjectBuilder::default().open_memory(OBJECT).unwrap();
    for mut map in object.maps_mut() {
        let is_grants = map.map_type() != MapType::StructOps;
        map.set_autocreate(is_grants).unwrap();
    }
    for mut program in object.progs_mut() {
        let is_step = program.name() == "weft_er_step";
        program.set_autoload(is_step);
    }
    let object = object.load().unwrap();
    let program = RefCell::new(object.progs_mut().find(|program| program.name() == "weft_er_step").unwrap());
    let (mut granted, mut by_aimd) = (0, 0);
    let cases = (prop_oneof![Just(1_500u32), any::<u32>()], prop::collection::vec(events(), 1..200));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    });
    let counts = RefCell::new((&mut granted, &mut by_aimd));
    runner
        .run(&cases, |(segment_bytes, events)| {
            for (theirs, ours) in run(&program.borrow(), segment_bytes, &events) {
                prop_assert_eq!(&theirs, &ours);
                let mut counts = counts.borrow_mut();
                if ours.is_granted { *counts.0 += 1 } else { *counts.1 += 1 }
            }
            Ok(())
        })
        .unwrap();
    assert!(granted > 1_000 && by_aimd > 1_000, "both ways of going were compared: {granted} {by_aimd}");
}
