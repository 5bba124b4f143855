//! The rows of the checklist, one module for each subject.

mod access;
mod asymmetry;
mod backbone;
mod bottlenecks;
mod bounds;
mod calls;
mod edges;
mod explicit;
mod failover;
mod fleet;
mod flow_state;
mod hashing;
mod laws;
mod overlay;
mod ports;
mod prototype;
mod receivers;
mod services;
mod signalled;
mod spraying;
mod threshold;
mod tunnel;
mod weights;
mod windows;

use super::row::Row;

/// Returns all rows in the checklist's order.
pub(super) fn all() -> Vec<Row> {
    let mut rows = vec![threshold::A1];
    rows.extend(spraying::ROWS);
    rows.extend(receivers::ROWS);
    rows.push(hashing::A7);
    rows.push(explicit::A8);
    rows.extend(backbone::ROWS);
    rows.push(asymmetry::ASYMMETRIC);
    rows.extend(overlay::ROWS);
    rows.extend(signalled::ROWS);
    rows.push(failover::B8);
    rows.push(ports::B9);
    rows.push(calls::B10);
    rows.push(fleet::B12);
    rows.extend(weights::ROWS);
    rows.extend(access::ROWS);
    rows.extend(tunnel::ROWS);
    rows.extend(windows::ROWS);
    rows.extend(prototype::ROWS);
    rows.extend(bottlenecks::ROWS);
    rows.extend(edges::ROWS);
    rows.extend(services::ROWS);
    rows.extend(bounds::ROWS);
    rows.push(laws::E_LAWS);
    rows.extend(flow_state::ROWS);
    rows.sort_by_key(|row| place(row.id));
    rows
}

/// True if a row is not in the checklist. Its name is then not one letter and a number.
pub(super) fn is_own(id: &str) -> bool {
    let number = id.strip_prefix(|c: char| ('A'..='E').contains(&c));
    number.is_none_or(|number| number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the key by which rows are sorted: the letter of the paper, and the number of the row.
///
/// Rows without a number are after all other rows of their paper.
fn place(id: &str) -> (char, u32) {
    let letter = if id == "asymmetric" { 'A' } else { id.chars().next().unwrap_or('Z') };
    let number = id.trim_start_matches(|c: char| !c.is_ascii_digit()).parse();
    (letter, number.unwrap_or(u32::MAX))
}
