//! The egress edge: joins units from a possibly malicious peer to runs.
//!
//! The input is a sequence of kind, length and bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::inner::UnitKind;
use weft_wire::ip::IpView;
use weft_wire::super_packet::Run;

struct Joining {
    run: Run,
    first: Vec<u8>,
    payload_len: usize,
}

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let mut current: Option<Joining> = None;
    while let Some((&[what, len], after)) = rest.split_first_chunk::<2>() {
        let (unit, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        match what & 3 {
            0 => whole(&mut current, UnitKind::Packet, unit),
            1 => whole(&mut current, UnitKind::PartialPacket, unit),
            2 => whole(&mut current, UnitKind::HeadSlice, unit),
            _ => tail(&mut current, what & 4 != 0, what >> 3, unit.len()),
        }
        if let Some(joining) = &current {
            check(&joining.run, &joining.first, joining.payload_len);
        }
    }
});

fn whole(current: &mut Option<Joining>, kind: UnitKind, unit: &[u8]) {
    if let Some(joining) = current
        && joining.run.join(&joining.first, kind, unit)
    {
        joining.payload_len += unit.len() - joining.run.header_len();
    } else if let Ok(run) = Run::begin(kind, unit) {
        *current = Some(Joining { run, first: unit.to_vec(), payload_len: unit.len() - run.header_len() });
    }
}

fn tail(current: &mut Option<Joining>, is_last: bool, index: u8, len: usize) {
    let Some(Joining { run, first, payload_len }) = current else { return };
    if let Ok(alone) = Run::begin_with_tail(first, index, len, is_last) {
        check(&alone, first, len);
    }
    let before = *run;
    if run.push_tail(len, is_last).is_ok() {
        *payload_len += len;
    } else {
        assert_eq!(*run, before);
    }
}

/// The packet that a run writes has the right total length.
fn check(run: &Run, first: &[u8], payload_len: usize) {
    let mut out = [0; Run::MAX_EMITTED_LEN];
    let len = run.emit(first, &mut out).unwrap();
    let mut written = out[10..len].to_vec();
    if run.header_len() == 0 {
        written.extend(first);
    } else {
        written.resize(written.len() + payload_len, 0);
    }
    assert_eq!(IpView::parse(&written).unwrap().total_len, written.len());
    assert!(run.segments() >= 1);
}
