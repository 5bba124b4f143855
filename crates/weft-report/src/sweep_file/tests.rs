//! Tests of sweep files: reading and writing keeps every byte, and a merge refuses wrong sets of parts.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_scenario::{RunResult, VariantResult, VariantRun};

static NEXT: AtomicU32 = AtomicU32::new(0);

fn about(mixes: u32) -> AboutSweep {
    AboutSweep { sweep: "s".into(), world: "sim".into(), recipe: "name = \"s\"\n".into(), mixes }
}

fn mix(position: u32) -> MixResult {
    let run = |n: u32| VariantRun {
        goodput_bps: f64::from(position * 1000 + n) / 3.0,
        efficiency: 0.9,
        ..VariantRun::default()
    };
    let variant = |name: &str| VariantResult::from_runs(name, None, (0..2).map(run).collect());
    MixResult {
        seed: u64::MAX - u64::from(position),
        links: vec!["10.0 Mbit/s delay 5 ms loss 0.00 %".into(), "3.0 Mbit/s delay 80 ms loss 1.50 %".into()],
        bonded_bps: Some(1.0),
        best_link_through_weft_bps: Some(1.0),
        best_link_bps: None,
        of_best_link_through_weft: Some(1.0 + f64::from(position) / 10.0),
        of_best_link: (!position.is_multiple_of(2)).then_some(1.5),
        drawn: None,
        pass: position != 3,
        run: RunResult {
            schema: SCHEMA,
            scenario: "s".into(),
            world: "sim".into(),
            seed: 1,
            duration_s: 1.0,
            warmup_s: 0.0,
            repeats: 2,
            bound_bps: 1.0,
            variants: ["link:a", "weft"].map(variant).to_vec(),
            skipped: Vec::new(),
        },
    }
}

fn part(mixes: u32, shard: &str) -> SweepFile {
    let shard: Shard = shard.parse().unwrap();
    let mut part = SweepFile::new(about(mixes), shard);
    (0..mixes).filter(|position| shard.takes(*position)).for_each(|position| part.add(position, &mix(position)));
    part
}

fn bytes(file: &SweepFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.write(&mut bytes).unwrap();
    bytes
}

/// Writes a part to a real file and reads it back.
fn reread(file: &SweepFile) -> SweepFile {
    let name = format!("weft-sweep-{}-{}.parquet", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    file.save(&path).unwrap();
    let read = SweepFile::read(&path);
    fs::remove_file(&path).unwrap();
    read.unwrap()
}

#[test]
fn results_come_back() {
    let whole = part(7, "0/1");
    assert_eq!(whole.rows().len(), 7 * 2 * 2);
    assert_eq!(reread(&whole), whole);
    let empty = part(0, "0/1");
    assert_eq!(reread(&empty), empty);
}

#[test]
fn parts_joined_are_the_whole_byte_for_byte() {
    let whole = bytes(&part(7, "0/1"));
    for count in [1, 2, 3, 9] {
        let mut parts: Vec<SweepFile> = (0..count).map(|n| reread(&part(7, &format!("{n}/{count}")))).collect();
        parts.reverse();
        let merged = SweepFile::merge(parts).unwrap();
        assert!(bytes(&merged) == whole, "{count} parts");
        assert_eq!(merged.summary(), part(7, "0/1").summary());
    }
}

#[test]
fn parts_that_do_not_make_one_sweep_are_not_joined() {
    let why = |parts: Vec<SweepFile>| SweepFile::merge(parts).unwrap_err().to_string();
    assert_eq!(why(vec![part(7, "0/3"), part(7, "2/3")]), "missing parts of the sweep: 1/3; give their files too");
    assert_eq!(
        why(vec![part(7, "0/2"), part(7, "1/2"), part(7, "1/2")]),
        "two files are part 1/2 of the sweep: leave one out"
    );
    assert!(why(vec![part(7, "0/1"), part(7, "1/2")]).starts_with("part 1/2 does not fit the other parts"));
    assert!(why(vec![part(7, "0/2"), part(8, "1/2")]).starts_with("the files are parts of different sweeps"));
    let mut wrong = part(7, "0/2");
    wrong.add(1, &mix(1));
    assert!(why(vec![wrong, part(7, "1/2")]).starts_with("part 0/2 does not fit the other parts"));
    assert_eq!(why(Vec::new()), "missing parts of the sweep: all; give their files too");
}

#[test]
fn a_mix_that_failed_or_has_no_results_is_no_pass() {
    let summary = part(5, "0/1").summary();
    assert_eq!((summary.mixes, summary.passed, summary.pass), (5, 4, false));
    assert_eq!(summary.failed_seeds, [u64::MAX - 3]);
    assert_eq!(summary.of_best_link_through_weft, Some(Spread { least: 1.0, median: 1.2 }));
    assert_eq!(
        summary.variants.iter().map(|v| (v.name.as_str(), v.runs)).collect::<Vec<_>>(),
        [("link:a", 10), ("weft", 10)]
    );
    let mut one_missing = SweepFile::new(about(3), Shard::WHOLE);
    (0..2).for_each(|position| one_missing.add(position, &mix(position)));
    assert!(!one_missing.summary().pass);
}

#[test]
fn other_files_are_refused() {
    let path = std::env::temp_dir().join(format!("weft-sweep-{}-other", std::process::id()));
    let read = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        SweepFile::read(&path).unwrap_err()
    };
    let whole = bytes(&part(3, "0/1"));
    assert!(matches!(read(b"name = \"s\""), SweepFileError::Parquet(_)));
    assert!(matches!(read(&whole[..whole.len() / 2]), SweepFileError::Parquet(_)));
    let mut other = Vec::new();
    columns::write(&mut other, &[("weft.schema", "9".into())], &[]).unwrap();
    assert!(matches!(read(&other), SweepFileError::NotASweep(_)));
    fs::remove_file(&path).unwrap();
    assert!(matches!(SweepFile::read(&path), Err(SweepFileError::Io(_))));
}
