pub use weft_wire::loop_data::{Counting, IntervalCount, LoopReport, Marker};

/// True if `a` is after `b` in serial-number arithmetic (RFC 1982).
pub(super) fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
