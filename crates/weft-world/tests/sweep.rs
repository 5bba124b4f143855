//! Checks that a sweep run in parts and joined equals the sweep run in one piece.
//!
//! The two must be equal byte for byte, on any number of threads.
#![allow(missing_docs)]

use weft_report::{AboutSweep, Shard, SweepFile};
use weft_scenario::Sweep;
use weft_world::pair::run_sweep;

const RECIPE: &str = r#"
name = "short"
seeds = [5, 13, 22]
links = [2, 2]
rate = ["1 Mbit/s", "5 Mbit/s"]
delay = ["1 ms", "30 ms"]
loss = ["0 %", "1 %"]
duration = "2 s"
warmup = "1 s"
least = { of-best-link-through-weft = 0.01, of-best-link = 0.01 }
"#;

fn part(shard: Shard, threads: usize) -> SweepFile {
    let sweep = Sweep::parse(RECIPE, "short.toml").unwrap();
    let about = AboutSweep { sweep: sweep.name.clone(), world: "sim".into(), recipe: RECIPE.into(), mixes: 3 };
    let mut file = SweepFile::new(about, shard);
    for (position, mix) in run_sweep(&sweep, threads, |position| shard.takes(position), &|_, _| ()).unwrap() {
        file.add(position, &mix);
    }
    file
}

fn bytes(file: &SweepFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn parts_joined_are_the_whole() {
    let whole = part(Shard::WHOLE, 1);
    assert!(whole.rows().iter().all(|row| row.goodput_bps > 0.0) && whole.rows().len() >= 18, "{:?}", whole.rows());
    let parts = ["1/2", "0/2"].map(|shard| part(shard.parse().unwrap(), 2));
    let joined = SweepFile::merge(parts.into()).unwrap();
    assert_eq!(bytes(&joined), bytes(&whole));
}
