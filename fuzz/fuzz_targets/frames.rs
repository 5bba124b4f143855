//! Control payloads: every parsed frame can be written, and parsing it again yields the same frame. The same holds for a
//! report before a unit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::data_report;
use weft_wire::frame::{Frame, FrameWriter, Frames};

fuzz_target!(|plaintext: &[u8]| {
    let frames: Vec<Frame> = Frames::new(plaintext).map_while(Result::ok).collect();
    // The writer uses the shortest varint, so the output is not longer than the input, except for a report's count.
    let mut out = vec![0; plaintext.len() + frames.len()];
    let mut writer = FrameWriter::new(&mut out);
    for frame in &frames {
        writer.write(frame).unwrap();
    }
    let len = writer.len();
    let mut again = Frames::new(&out[..len]);
    for frame in &frames {
        match (frame, again.next()) {
            (Frame::Report(was), Some(Ok(Frame::Report(is)))) => {
                assert_eq!(was.arrivals, is.arrivals);
                assert!(was.ranges().eq(is.ranges()));
                assert_eq!(was.ranges().next().map(|range| *range.end()), Some(was.largest()));
                assert!(was.ranges().zip(was.ranges().skip(1)).all(|(above, below)| below.end() + 1 < *above.start()));
            }
            (was, is) => assert_eq!(Some(Ok(*was)), is),
        }
    }
    assert!(again.next().is_none());
    frames.iter().for_each(delays);
    before_a_unit(plaintext);
});

/// A report before a unit, and the unit, can be written again.
fn before_a_unit(plaintext: &[u8]) {
    let Ok((report, unit)) = data_report::parse(plaintext) else { return };
    let mut out = vec![0; plaintext.len()];
    data_report::emit(report, &mut out).expect("it fits").copy_from_slice(unit);
    assert_eq!(out, plaintext);
}

/// The delays of a train can be written again.
fn delays(frame: &Frame) {
    let Frame::Chirped(chirped) = frame else { return };
    let delays: Vec<Option<u32>> = chirped.delays_us().collect();
    let mut out = [0; 2048];
    let mut writer = FrameWriter::new(&mut out);
    writer.write_chirped(chirped.path, chirped.train, &delays).expect("a datagram has room for it");
    let len = writer.len();
    let Some(Ok(Frame::Chirped(again))) = Frames::new(&out[..len]).next() else { panic!("no train") };
    assert!(again.delays_us().eq(delays));
}
