//! The rows, by subject.

mod access;
mod asymmetry;
mod backbone;
mod explicit;
mod hashing;
mod receivers;
mod spraying;
mod threshold;
mod weights;

use super::row::Row;

/// All rows in the checklist's order.
pub(super) fn all() -> Vec<Row> {
    let mut rows = vec![threshold::A1];
    rows.extend(spraying::ROWS);
    rows.extend(receivers::ROWS);
    rows.push(hashing::A7);
    rows.push(explicit::A8);
    rows.extend(backbone::ROWS);
    rows.push(asymmetry::ASYMMETRIC);
    rows.extend(weights::ROWS);
    rows.extend(access::ROWS);
    rows
}
