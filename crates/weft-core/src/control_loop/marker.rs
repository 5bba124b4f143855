pub use weft_wire::loop_data::{Marker, Report};

/// Whether `a` comes after `b` among numbers that wrap (RFC 1982).
pub(super) fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
