//! Benchmark of very many VPNs in one process.
//!
//! It measures cost per packet, cost of loops, memory per VPN, and start time.
//!
//!     cargo run --release -p weft --example vpn_scale [-- PART …]
//!
//! Two engines are joined in memory (`pair`), without kernel devices. Packets of 1500 bytes enter one by one, as from a
//! TUN device without offloads, and leave at the other node. Parts: `number`, `loops`, `rate`, `memory`, `start`;
//! without an argument all of them. Each output line is a name, a value, its unit and its upper bound, separated by
//! tabs.

mod cost;
mod meter;
mod pair;
mod start_up;
mod table;

use std::error::Error;
use table::Table;

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let known = ["number", "loops", "rate", "memory", "start"];
    if let Some(unknown) = wanted.iter().find(|part| !known.contains(&part.as_str())) {
        return Err(format!("there is no part `{unknown}`: there are {}", known.join(", ")).into());
    }
    let is_wanted = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    let mut table = Table;
    if is_wanted("number") {
        cost::by_number(&mut table);
    }
    if is_wanted("loops") {
        cost::of_loops(&mut table);
    }
    if is_wanted("rate") {
        cost::by_rate(&mut table);
    }
    if is_wanted("memory") {
        cost::memory(&mut table);
    }
    if is_wanted("start") {
        start_up::measure(&mut table)?;
    }
    Ok(())
}
